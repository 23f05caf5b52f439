"""Show calls: a line each with what it does, changes as diffs, and the last lines of what a command has said.

What is in the scrollback cannot unfold there: `format_results` gives the newest result in full, to be shown below.
"""

import asyncio
import json
import re
from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from hermes.cli.event_texts import EDIT_TOOLS, count_preview_lines, has_diff
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.commands.texts.event_descriptions import describe_call
from hermes.config.display import ToolProgress
from hermes.core.events import ToolEnded, ToolStarted
from hermes.core.messages import Message, ToolResultPart, ToolStatus
from hermes.i18n.messages import tr, tr_plural
from hermes.markup.cells import sanitize_line
from hermes.util.text import strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.cli.render.diff import DiffLine

_COMMAND_TOOLS = ("terminal", "process")
_READ_TOOLS = ("read_file", "search_files", "web_search", "web_extract", "session_search", "skill_view")
PLAN_TOOL = "todo"
MAX_RESULTS = 20
"""Results that are kept to be unfolded."""
MAX_UNFOLDED_LINES = 2_000
"""Lines of a result that are shown when it is unfolded: the first and the last of them."""
_MAX_KEPT_LENGTH = 400_000
"""Characters of a result that are kept to be unfolded."""
_MAX_UNGROUPED = 3
_DIFF_LINES = 24
_NEW_FILE_LINES = 8
_OUTPUT_LINES, _FAILED_OUTPUT_LINES = 3, 5
"""The last lines that are shown of what a command has said."""
_EXIT_NOTE = re.compile(r"\[(?:exit code|ended by signal) \d+[^\]]*\]")
"""The note that a terminal call adds to the output of its command."""
_FENCE = re.compile(r"</?untrusted\b[^>]*>")
_CREATED = re.compile(r"(?:Created|Replaced) .+? lines\.(?: (?P<notes>.*))?")
_CHANGED = re.compile(r"(?:Changed|Created|Deleted) (?P<path>.+?)(?:, \d+ lines)?\.(?: (?P<notes>.*))?")


class RunningCall(Struct):
    """A running call; `since` is on the loop's clock."""

    name: str
    words: str
    since: float
    content: str = ""
    """The whole text of a file that it writes."""


class CallResult(Struct):
    """A call that has ended, as it can be unfolded."""

    ended: ToolEnded
    words: str
    text: str = ""
    """The whole result, as soon as it is known."""


class TurnSummary(Struct):
    """Counts what the calls of a turn did."""

    kinds: Counter[str] = field(default_factory=Counter)
    changed: list[str] = field(default_factory=list)
    failed: int = 0

    def add_call(self, ended: ToolEnded, words: str) -> None:
        """Count a call that has ended."""
        if ended.status is ToolStatus.REFUSED:
            return
        if ended.status is not ToolStatus.OK or ended.failed:
            self.failed += 1
        if ended.name in EDIT_TOOLS:
            self.changed.append(words.partition(" ")[2] or words)
        self.kinds[ended.name] += 1

    def format_summary(self) -> str:
        """Return a line on what was done; empty when nothing was."""
        runs = sum(self.kinds[one] for one in _COMMAND_TOOLS)
        reads = sum(self.kinds[one] for one in _READ_TOOLS)
        files = list(dict.fromkeys(self.changed))
        others = sum(self.kinds.values()) - runs - reads - sum(self.kinds[one] for one in EDIT_TOOLS)
        parts = []
        if files:
            names = ", ".join(to_one_line(one, 40) for one in files[:3]) + (", …" if len(files) > 3 else "")
            parts.append(
                tr_plural("{n} file changed ({names})", "{n} files changed ({names})", len(files), names=names)
            )
        if runs:
            parts.append(tr_plural("{n} command run", "{n} commands run", runs))
        if reads:
            parts.append(tr_plural("{n} look at things", "{n} looks at things", reads))
        if others:
            parts.append(tr_plural("{n} other call", "{n} other calls", others))
        if self.failed:
            parts.append(tr_plural("{n} of them did not succeed", "{n} of them did not succeed", self.failed))
        return tr(", ").join(parts)


class CallView:
    """Formats calls, in as much detail as the person wants."""

    def __init__(self, terminal_style: TerminalStyle) -> None:
        self._terminal_style = terminal_style
        self._folded: list[tuple[str, float]] = []
        self._folding = ""
        self.running: dict[str, RunningCall] = {}
        self.turn_summary = TurnSummary()
        """What the turn has done so far."""
        self.results: deque[CallResult] = deque(maxlen=MAX_RESULTS)
        self.edited: list[str] = []
        """The files that this session's tools have changed, oldest first."""
        self.unfold_key = "Ctrl-O"
        self._unfolded = 0
        """How many of the last results were unfolded since the last call."""

    def begin_turn(self) -> None:
        """Begin a new turn."""
        self.turn_summary = TurnSummary()
        self.running.clear()

    def is_command_running(self) -> bool:
        """Return whether a call waits for a command."""
        return any(one.name == "terminal" for one in self.running.values())

    def start_call(self, event: ToolStarted) -> None:
        """Note that a call is running."""
        width = max(self._terminal_style.width - 16, 20)
        words = describe_call(event, width)
        if event.name == "terminal" and event.summary:
            words = f"$ {to_one_line(strip_control_characters(event.summary), width - 2)}"
        content = _read_content(event.arguments) if event.name == "write_file" else ""
        now = asyncio.get_running_loop().time()
        self.running[event.call_id] = RunningCall(event.name, words, now, content)

    def end_call(self, event: ToolEnded) -> list[str]:
        """Return the lines of a call that has ended. A refusal is shown by a line of its own."""
        running = self.running.pop(event.call_id, None)
        words = running.words if running is not None else to_one_line(strip_control_characters(event.name))
        self.turn_summary.add_call(event, words)
        if event.name in EDIT_TOOLS and event.status is ToolStatus.OK:
            self.edited.append(words.partition(" ")[2] or words)
        if event.status is ToolStatus.REFUSED:
            return []
        self.results.append(CallResult(event, words))
        self._unfolded = 0
        if self._terminal_style.display.tool_progress is ToolProgress.OFF:
            return []
        return self._format_call(event, words, running.content if running is not None else "")

    def keep_results(self, message: Message) -> None:
        """Keep the whole of the results in a message, to be unfolded."""
        for part in message.parts:
            if not isinstance(part, ToolResultPart):
                continue
            found = next((one for one in reversed(self.results) if one.ended.call_id == part.call_id), None)
            if found is not None:
                found.text = _FENCE.sub("", part.text[:_MAX_KEPT_LENGTH]).strip("\n")

    def flush_folded(self) -> list[str]:
        """Return the calls of one kind that were held back: each on a line, or all of them on one."""
        folded, self._folded, name, self._folding = self._folded, [], self._folding, ""
        if len(folded) <= _MAX_UNGROUPED:
            return [self._terminal_style.format_call(words, seconds) for words, seconds in folded]
        last = folded[-1][0]
        words = tr("{name}, {n} times, the last: {last}", name=name, n=len(folded), last=last)
        return [self._terminal_style.format_call(words, sum(seconds for _, seconds in folded))]

    def format_results(self) -> list[str]:
        """Return the newest result in full, below its call, and the next time the one before it; empty when there is
        none.
        """
        if not self.results:
            return []
        newest = self.results[-1 - self._unfolded % len(self.results)]
        self._unfolded += 1
        ended, terminal_style = newest.ended, self._terminal_style
        failed = ended.failed or ended.status is not ToolStatus.OK
        text = strip_control_characters(newest.text or ended.preview)
        lines = text.splitlines()
        found = ["", terminal_style.format_call(newest.words, ended.seconds, failed=failed)]
        if len(lines) > MAX_UNFOLDED_LINES:
            half, rest = MAX_UNFOLDED_LINES // 2, len(lines) - MAX_UNFOLDED_LINES
            between = tr_plural("… {n} more line …", "… {n} more lines …", rest)
            lines = [*lines[:half], between, *lines[-half:]]
        if has_diff(ended):
            found += self._format_diff(lines, newest.words, len(lines))
        else:
            for raw in lines:
                found += terminal_style.wrap_paragraphs("result", f"  {raw}", indent=2)
        return [*found, ""]

    def _format_call(self, event: ToolEnded, words: str, content: str) -> list[str]:
        terminal_style, progress = self._terminal_style, self._terminal_style.display.tool_progress
        lines = strip_control_characters(event.preview).splitlines()
        if event.status is not ToolStatus.OK:
            said = to_one_line(" ".join(lines), terminal_style.width - 8)
            what = f"  {tr(event.status.value)}{tr(': ') if said else ''}{said}"
            return [
                *self.flush_folded(),
                terminal_style.format_call(words, event.seconds, failed=True),
                terminal_style.paint("failed", what),
            ]
        if has_diff(event):
            return [*self.flush_folded(), *self._format_edit(event, lines, words)]
        if content and lines and _CREATED.fullmatch(lines[0]) and progress is not ToolProgress.SHORT:
            return [*self.flush_folded(), *self._format_new_file(event, lines, words, content)]
        if progress is ToolProgress.SHORT and not event.failed:
            return self._fold_call(event.name, words, event.seconds)
        return [*self.flush_folded(), *self._format_output(event, words, lines)]

    def _format_edit(self, event: ToolEnded, lines: Sequence[str], words: str) -> list[str]:
        """Format a change of files: how many lines were added and removed, and the diff."""
        from hermes.cli.render.diff import count_changes, format_counts, parse_diff

        terminal_style = self._terminal_style
        counts = format_counts(terminal_style.theme, *count_changes(parse_diff(lines)))
        head = terminal_style.format_call(words, event.seconds, note=counts)
        return [head, *self._format_diff(lines, words, _DIFF_LINES)]

    def _format_diff(self, lines: Sequence[str], words: str, most: int) -> list[str]:
        """Format the diffs of a call; the line that names a file is left out where there is only one."""
        from hermes.cli.render.diff import DiffLine, parse_diff

        named = [line for line in lines if _CHANGED.fullmatch(line)]
        kept = [line for line in lines if len(named) > 1 or not _CHANGED.fullmatch(line)]
        notes = [match["notes"] for line in named if (match := _CHANGED.fullmatch(line)) and match["notes"]]
        diff = parse_diff(kept) if len(named) <= 1 else _parse_files(kept)
        if len(named) == 1:
            diff = [*(DiffLine("", note) for note in notes), *diff]
        return self._terminal_style.render_diff(diff, most, words)

    def _format_new_file(self, event: ToolEnded, lines: Sequence[str], words: str, content: str) -> list[str]:
        """Format the first lines of a file that was written as a whole."""
        from hermes.cli.render.diff import DiffLine, format_counts

        terminal_style = self._terminal_style
        text = strip_control_characters(content).split("\n")
        text = text[:-1] if text and not text[-1] else text
        note = format_counts(terminal_style.theme, len(text), 0)
        shown = [DiffLine("+", sanitize_line(line).rstrip(), number) for number, line in enumerate(text, 1)]
        created = _CREATED.fullmatch(lines[0])
        notes = created["notes"] if created is not None else ""
        return [
            terminal_style.format_call(words, event.seconds, note=note),
            *([terminal_style.paint("result", f"  {notes}")] if notes else []),
            *terminal_style.render_diff(shown, _NEW_FILE_LINES, words),
        ]

    def _format_output(self, event: ToolEnded, words: str, lines: Sequence[str]) -> list[str]:
        """Format a call with how it failed, if it did, and the last lines of its result, or how many there are."""
        terminal_style, progress = self._terminal_style, self._terminal_style.display.tool_progress
        most = count_preview_lines(progress, _FAILED_OUTPUT_LINES if event.failed else _OUTPUT_LINES)
        last, count = _find_last_lines(event, lines)
        note = terminal_style.theme.paint("failed", _format_exit_code(event.code) if event.failed else "")
        if event.name in _READ_TOOLS and progress is ToolProgress.ALL and not event.failed:
            note, most = terminal_style.theme.paint("tool.time", tr_plural("{n} line", "{n} lines", count)), 0
        head = terminal_style.format_call(words, event.seconds, failed=event.failed, note=note)
        shown = last[-most:] if most else []
        found = [self._format_more(count - len(shown))] if shown and (len(last) > most or event.tail) else []
        found += [terminal_style.cut_text(line, terminal_style.line_width - 2) for line in shown]
        return [head, *(terminal_style.paint("result", f"  {line}") for line in found)]

    def _format_more(self, count: int) -> str:
        mark = "…" if self._terminal_style.unicode else "..."
        return f"{mark} {tr_plural('+{n} line', '+{n} lines', count)} ({self.unfold_key})"

    def _fold_call(self, name: str, words: str, seconds: float) -> list[str]:
        before = self.flush_folded() if name != self._folding else []
        self._folding = name
        self._folded.append((words, seconds))
        return before


def _read_content(arguments: str) -> str:
    """Return the text that a call writes into a file; empty where it cannot be read."""
    try:
        given = json.loads(arguments)
    except ValueError:
        return ""
    content = given.get("content") if isinstance(given, dict) else None
    return content if isinstance(content, str) else ""


def _parse_files(lines: Sequence[str]) -> "list[DiffLine]":
    """Parse the diffs of several files, each below its name."""
    from hermes.cli.render.diff import DiffLine, parse_diff

    found: list[DiffLine] = []
    part: list[str] = []
    for line in [*lines, ""]:
        if _CHANGED.fullmatch(line):
            found += parse_diff(part)
            found.append(DiffLine("", line))
            part = []
        else:
            part.append(line)
    return [*found, *parse_diff(part[:-1])]


def _find_last_lines(event: ToolEnded, lines: Sequence[str]) -> tuple[list[str], int]:
    """Return the last lines of a result that say something, as far as they are known, and how many it has in all."""
    known = strip_control_characters(event.tail).splitlines() or list(lines)
    last = [line for line in known if not _EXIT_NOTE.fullmatch(line)]
    while last and not last[-1].strip():
        last.pop()
    count = max((event.lines or len(known)) - (len(known) - len(last)), len(last))
    return [line for line in last if line.strip()], count


def _format_exit_code(code: int) -> str:
    if not code:
        return ""
    return tr("exit code {code}", code=code) if code > 0 else tr("ended by signal {number}", number=-code)
