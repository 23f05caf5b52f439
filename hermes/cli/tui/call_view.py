"""Show the calls of a turn: the running ones, and a line or a few for each that has ended.

Summarize what one turn has done so far.
"""

import asyncio
import re
from collections import Counter, deque
from collections.abc import Sequence

from msgspec import Struct, field

from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.commands.event_descriptions import describe_call
from hermes.config.display import ToolProgress
from hermes.core.events import ToolEnded, ToolStarted
from hermes.core.parts import ToolStatus
from hermes.i18n.messages import tr, tr_plural
from hermes.util.text import strip_control_characters, to_one_line

EDIT_TOOLS = ("patch", "write_file")


_COMMAND_TOOLS = ("terminal", "process", "execute_code")


_READ_TOOLS = ("read_file", "search_files", "web_search", "web_extract", "session_search", "skill_view")


class RunningCall(Struct):
    """A running call; `since` is on the loop's clock."""

    name: str
    words: str
    since: float


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


MAX_RESULTS = 50
"""Results whose beginnings are kept to be unfolded."""
MAX_UNFOLDED = 5
"""Results that are shown again at once."""
_MAX_UNGROUPED = 3
_PREVIEW_LINES = {ToolProgress.SHORT: 0, ToolProgress.ALL: 1, ToolProgress.VERBOSE: 12}
_DIFF_LINES = 24
_EXIT_NOTE = re.compile(r"\[exit code \d+[^\]]*\]")
"""The note that a terminal call adds to the output of its command."""


class CallView:
    """Formats calls, in as much detail as the person wants."""

    def __init__(self, terminal_style: TerminalStyle) -> None:
        self._terminal_style = terminal_style
        self._folded: list[tuple[str, float]] = []
        self._folding = ""
        self.running: dict[str, RunningCall] = {}
        self.turn_summary = TurnSummary()
        """What the turn has done so far."""
        self.results: deque[ToolEnded] = deque(maxlen=MAX_RESULTS)

    def begin_turn(self) -> None:
        """Begin a new turn."""
        self.turn_summary = TurnSummary()
        """What the turn has done so far."""
        self.running.clear()

    def start_call(self, event: ToolStarted) -> None:
        """Note that a call is running."""
        words = describe_call(event, max(self._terminal_style.width - 16, 20))
        self.running[event.call_id] = RunningCall(event.name, words, asyncio.get_running_loop().time())

    def end_call(self, event: ToolEnded) -> list[str]:
        """Return the lines of a call that has ended. A refusal is shown by a line of its own."""
        running = self.running.pop(event.call_id, None)
        words = running.words if running is not None else to_one_line(strip_control_characters(event.name))
        self.turn_summary.add_call(event, words)
        self.results.append(event)
        if event.status is ToolStatus.REFUSED or self._terminal_style.display.tool_progress is ToolProgress.OFF:
            return []
        return self._format_call(event, words)

    def flush_folded(self) -> list[str]:
        """Return the calls of one kind that were held back: each on a line, or all of them on one."""
        folded, self._folded, name, self._folding = self._folded, [], self._folding, ""
        if len(folded) <= _MAX_UNGROUPED:
            return [self._terminal_style.format_call(words, seconds) for words, seconds in folded]
        last = folded[-1][0]
        words = tr("{name}, {n} times, the last: {last}", name=name, n=len(folded), last=last)
        return [self._terminal_style.format_call(words, sum(seconds for _, seconds in folded))]

    def format_results(self) -> list[str]:
        """Return the results of the last calls, as far as they are kept; empty when there are none."""
        lines: list[str] = []
        for one in [*self.results][-MAX_UNFOLDED:]:
            lines.append(
                self._terminal_style.format_call(
                    strip_control_characters(one.name),
                    one.seconds,
                    failed=one.failed or one.status is not ToolStatus.OK,
                )
            )
            for raw in strip_control_characters(one.preview).splitlines():
                lines += self._terminal_style.wrap_paragraphs("result", f"  {raw}", indent=2)
        return lines

    def _format_call(self, event: ToolEnded, words: str) -> list[str]:
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
        if event.name in EDIT_TOOLS and any(line.startswith("@@") for line in lines):
            return [
                *self.flush_folded(),
                terminal_style.format_call(words, event.seconds),
                *terminal_style.render_diff(lines, _DIFF_LINES),
            ]
        most = _PREVIEW_LINES[progress]
        if progress is ToolProgress.SHORT and not event.failed:
            return self._fold_call(event.name, words, event.seconds)
        return self._format_preview(event, words, lines, most)

    def _format_preview(self, event: ToolEnded, words: str, lines: Sequence[str], most: int) -> list[str]:
        """Format a call with how it failed, if it did, and the first lines of its result."""
        terminal_style = self._terminal_style
        code = (
            [terminal_style.paint("failed", f"  {_format_exit_code(event.code)}")]
            if event.failed and event.code
            else []
        )
        head = [*self.flush_folded(), terminal_style.format_call(words, event.seconds, failed=event.failed), *code]
        more = any(line.strip() and not _EXIT_NOTE.fullmatch(line) for line in lines[most:])
        tail = tr("more: Ctrl-O") if more and most else ""
        return [*head, *(terminal_style.paint("result", f"  {line}") for line in self._cut_lines(lines[:most], tail))]

    def _cut_lines(self, lines: Sequence[str], tail: str) -> list[str]:
        """Cut the lines to the screen's width; the last one says that there are more."""
        terminal_style = self._terminal_style
        cut = [terminal_style.cut_text(line, terminal_style.width - 2) for line in lines]
        if tail and cut:
            cut[-1] = terminal_style.cut_text(
                f"{terminal_style.cut_text(lines[-1], max(terminal_style.width - 24, 8))}  ({tail})",
                terminal_style.width - 2,
            )
        return cut

    def _fold_call(self, name: str, words: str, seconds: float) -> list[str]:
        before = self.flush_folded() if name != self._folding else []
        self._folding = name
        self._folded.append((words, seconds))
        return before


def _format_exit_code(code: int) -> str:
    return tr("exit code {code}", code=code) if code > 0 else tr("ended by signal {number}", number=-code)
