"""Show a session's events as lines: finished ones go into the scrollback, the rest moves above the input.

Events wait in one queue and are taken in slices of a few milliseconds, so that a burst of them keeps no key waiting.
The running calls, the text that streams in and its reasoning are each kept by a class of their own.
"""

import asyncio
import re
from collections import Counter, deque
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from hermes.cli.event_texts import EDIT_TOOLS, count_preview_lines, describe_event, has_diff
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.commands.event_descriptions import describe_call
from hermes.config.display import ToolProgress
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Queued,
    Refused,
    RequestEnded,
    RequestStarted,
    Retrying,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from hermes.core.messages import ToolStatus
from hermes.core.outcomes import ExitReason
from hermes.core.stream import CallStarted, ReasoningDelta, TextDelta
from hermes.i18n.formats import format_duration, format_time
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.util.text import strip_control_characters, to_one_line

_COMMAND_TOOLS = ("terminal", "process")


_READ_TOOLS = ("read_file", "search_files", "web_search", "web_extract", "session_search", "skill_view")
MAX_RESULTS = 50
"""Results whose beginnings are kept to be unfolded."""
MAX_UNFOLDED = 5
"""Results that are shown again at once."""
_MAX_UNGROUPED = 3
_DIFF_LINES = 24
_EXIT_NOTE = re.compile(r"\[exit code \d+[^\]]*\]")
"""The note that a terminal call adds to the output of its command."""
MAX_REASONING = 100_000
"""Characters of reasoning that are kept to be shown on demand."""
SLICE_SECONDS = 0.008
"""Seconds of work after which the event loop gets control back."""
REDRAW_SECONDS = 0.15
"""Seconds between two drawings while text streams in; the first piece of an answer is shown at once."""
MAX_JOINED_LENGTH = 1_500
"""Characters of text that are handed over at once."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MAX_WAITING_SHOWN = 3


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
        if has_diff(event):
            return [
                *self.flush_folded(),
                terminal_style.format_call(words, event.seconds),
                *terminal_style.render_diff(lines, _DIFF_LINES),
            ]
        most = count_preview_lines(progress)
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


class AnswerText:
    """Turns streamed text into finished lines. `feed_answer` and `feed_reasoning` return lines as soon as
    nothing can change in them any more.
    """

    def __init__(self, terminal_style: TerminalStyle) -> None:
        self._terminal_style = terminal_style
        self._text = terminal_style.open_stream()
        self._thoughts = terminal_style.open_stream(style="reasoning")
        self._speaking = False
        self._thinking = 0
        self._reasoning: list[str] = []

    @property
    def speaking(self) -> bool:
        """Whether an answer is under way."""
        return self._speaking

    def feed_answer(self, text: str) -> list[str]:
        """Add to the answer and return its finished lines."""
        lines = [] if self._speaking else self.end_reasoning()
        self._speaking = True
        return [*lines, *self._text.feed(text)]

    def feed_reasoning(self, text: str) -> list[str]:
        """Add to the reasoning; it is shown now only where the person wants that."""
        if not self._thinking:
            self._reasoning.clear()
        if self._thinking < MAX_REASONING:
            self._reasoning.append(text)
        self._thinking += len(text)
        return self._thoughts.feed(text) if self._terminal_style.display.show_reasoning else []

    def end_answer(self) -> list[str]:
        """End the answer, or break it off, and return its last lines."""
        if not self._speaking:
            return []
        self._speaking = False
        return self._text.close()

    def end_reasoning(self) -> list[str]:
        """End the reasoning and return its last lines."""
        if not self._thinking:
            return []
        self._thinking = 0
        return self._thoughts.close()

    def render_tail(self, room: int) -> list[str]:
        """Render what is unfinished, in at most `room` lines."""
        if self._speaking:
            return self._text.tail(room)
        return self._thoughts.tail(room) if self._thinking and self._terminal_style.display.show_reasoning else []

    def format_reasoning(self) -> list[str]:
        """Return the last reasoning as lines; empty when there was none."""
        stream = self._terminal_style.open_stream(style="reasoning")
        return [*stream.feed("".join(self._reasoning)), *stream.close()]


class EventView:
    """Shows one chat's events. `commit` takes finished lines, `changed` is called when what moves has changed."""

    def __init__(
        self, terminal_style: TerminalStyle, commit: Callable[[Sequence[str]], None], changed: Callable[[], None]
    ) -> None:
        self._terminal_style = terminal_style
        self._commit = commit
        self._changed = changed
        self._events: deque[Event] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._drawn = 0.0
        self._flowing = False
        """Whether what was shown last was more of an answer."""
        self._lines: list[str] = []
        self.answer = AnswerText(terminal_style)
        self.calls = CallView(terminal_style)
        self._call_shown_last = False
        """Whether a call was shown last, from which an answer is set apart by an empty line."""
        self._retry_reason = ""
        """The reason of new tries that was told already; later ones only count on the line of activity."""
        self._phase = ""
        self._since = 0.0
        self._began = 0.0
        self.queued: list[str] = []
        """Messages that wait, oldest first."""
        self._joining: list[str] = []
        """Those of them that become part of the running turn."""
        self.turn_over = False
        """Whether the end of the last turn was shown, and nothing was said since."""
        self.listeners: list[Callable[[Event], None]] = []
        """Other callbacks for each event, called when it is shown."""

    def __call__(self, event: Event) -> None:
        """Take an event; it is shown soon."""
        self._events.append(event)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            pause = REDRAW_SECONDS if self._flowing else REDRAW_SECONDS / 5
            self._timer = loop.call_at(max(loop.time(), self._drawn + pause), self._process_events)

    def flush(self) -> None:
        """Show everything that waits, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._events:
            self._process_event()
        self._commit_pending()

    @property
    def busy(self) -> bool:
        """Whether something goes on that moves."""
        return bool(self._phase or self.calls.running)

    def tell_lines(self, lines: Sequence[str]) -> None:
        """Put lines of Hermes' own behind everything that was shown before."""
        self.flush()
        self._lines += [*self.answer.end_answer(), *lines]
        self._commit_pending()

    def show_shell_event(self, event: Event) -> None:
        """Handle an event of a shell command of the person's own: only that it runs is shown."""
        if isinstance(event, ToolStarted):
            self.calls.start_call(event)
        elif isinstance(event, ToolEnded):
            self.calls.running.pop(event.call_id, None)
        elif isinstance(event, Refused):
            self(event)
        self._changed()

    def show_joined(self, text: str) -> None:
        """Show a waiting message that has become part of the running turn."""
        _remove_waiting(text, self.queued, self._joining)
        self._lines += [*self.answer.end_answer(), *self.calls.flush_folded(), *self._format_message(text)]

    def render_live(self, room: int) -> list[str]:
        """Render what moves in at most `room` lines: the unfinished text, running calls, what is waited for."""
        now = asyncio.get_running_loop().time()
        running = [*self.calls.running.values()][-max(room // 2, 1) :]
        below = [self._render_activity(one.words, now - one.since, now) for one in running]
        if not running and self._phase:
            below.append(self._render_activity(localize(self._phase), now - self._since, now))
        below += self._render_waiting()
        return [*self.answer.render_tail(max(room - len(below), 1)), *below][-room:]

    def _render_waiting(self) -> list[str]:
        terminal_style, shown = self._terminal_style, self.queued[:_MAX_WAITING_SHOWN]
        lines = []
        for one in shown:
            words = to_one_line(strip_control_characters(one), terminal_style.width - 18)
            joins = one in self._joining
            lines.append(tr("joins soon: {words}", words=words) if joins else tr("waits: {words}", words=words))
        if len(self.queued) > _MAX_WAITING_SHOWN:
            lines.append(tr("and {n} more", n=len(self.queued) - _MAX_WAITING_SHOWN))
        return [terminal_style.paint("queued", f"  {line}") for line in lines]

    def _render_activity(self, words: str, seconds: float, now: float) -> str:
        terminal_style = self._terminal_style
        mark = SPINNER[int(now * 8) % len(SPINNER)] if terminal_style.unicode else "*"
        elapsed = f" · {format_duration(seconds)}" if seconds >= 1 else ""
        return terminal_style.paint(
            "working", terminal_style.cut_text(f"{mark} {words}", terminal_style.width - 16) + elapsed
        )

    # The queue.

    def _process_events(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        until = loop.time() + SLICE_SECONDS
        while self._events and loop.time() < until:
            self._process_event()
        self._drawn = loop.time()
        if self._events:
            self._timer = loop.call_later(0.002, self._process_events)
        self._commit_pending()

    def _process_event(self) -> None:
        event = self._events.popleft()
        if isinstance(event, TextDelta):
            self._flowing = self.answer.speaking
            self._show_answer(self._collect_text(event))
            return
        self._flowing = False
        self._show_event(event)
        for hear in self.listeners:
            hear(event)

    def _collect_text(self, event: TextDelta) -> str:
        """Return the text of a delta, and of those that follow it at once."""
        pieces, size = [event.text], len(event.text)
        while self._events and size < MAX_JOINED_LENGTH and isinstance(more := self._events[0], TextDelta):
            self._events.popleft()
            pieces.append(more.text)
            size += len(more.text)
        return "".join(pieces)

    def _commit_pending(self) -> None:
        if self._lines:
            lines, self._lines = self._lines, []
            self._commit(lines)
        self._changed()

    # Events.

    def _show_answer(self, text: str) -> None:
        if not self.answer.speaking:
            self._lines += self.calls.flush_folded()
            self._phase = ""
            if self._call_shown_last:
                self._lines.append("")
                self._call_shown_last = False
        self._lines += self.answer.feed_answer(text)

    def _show_event(self, event: Event) -> None:
        match event:
            case ReasoningDelta():
                self._lines += self.answer.feed_reasoning(event.text)
                self._set_phase(N_("thinking"))
            case CallStarted():
                self._set_phase(N_("preparing a call"))
            case ToolStarted() | ToolEnded():
                self._show_call(event)
            case RequestStarted():
                self._retry_reason = ""
                self._set_phase(N_("waiting for the model"))
            case RequestEnded():
                self._lines += self.answer.end_reasoning()
            case Queued():
                self.queued.append(event.text)
                self._joining += [event.text] if event.joins else []
            case TurnStarted() | TurnResumed():
                self._begin_turn(event)
            case TurnEnded():
                self._end_turn(event)
            case _:
                self._show_remark(event)

    def _show_call(self, event: ToolStarted | ToolEnded) -> None:
        self._lines += [*self.answer.end_answer(), *self.answer.end_reasoning()]
        self._phase = ""
        if isinstance(event, ToolStarted):
            self.calls.start_call(event)
            return
        self._lines += self.calls.end_call(event)
        self._call_shown_last = True
        if not self.calls.running:
            self._set_phase(N_("waiting for the model"))

    def _begin_turn(self, event: TurnStarted | TurnResumed) -> None:
        self.calls.begin_turn()
        self._call_shown_last = False
        self._began = asyncio.get_running_loop().time()
        self.turn_over = False
        _remove_waiting(event.text, self.queued, self._joining)
        if isinstance(event, TurnStarted):
            self._lines += self._format_message(event.text)
        else:
            self._show_remark(event)
        self._set_phase(N_("waiting for the model"))

    def _format_message(self, text: str) -> list[str]:
        """Format the person's own words, as they were sent."""
        terminal_style = self._terminal_style
        stamp = f"{format_time(terminal_style.now())} " if terminal_style.display.timestamps else ""
        first, *rest = strip_control_characters(text).split("\n")
        lines = terminal_style.wrap_paragraphs(
            "person", f"{terminal_style.get_mark('person')} {stamp}{first}", indent=2
        )
        for line in rest:
            lines += terminal_style.wrap_paragraphs("person", f"  {line}", indent=2)
        return ["", *lines, ""]

    def _end_turn(self, event: TurnEnded) -> None:
        self._lines += [*self.answer.end_answer(), *self.calls.flush_folded(), *self.answer.end_reasoning()]
        self._phase = ""
        seconds = asyncio.get_running_loop().time() - self._began
        if event.reason is ExitReason.INTERRUPTED:
            done = self.calls.turn_summary.format_summary() or tr("nothing was changed")
            self._show_warning("warning", tr("Stopped after {time}: {done}.", time=format_duration(seconds), done=done))
        else:
            self._show_remark(event)
        self.calls.begin_turn()
        self._joining.clear()  # what could not join waits for a turn of its own
        self.turn_over = not self.queued
        self._lines.append("")

    def _set_phase(self, phase: str) -> None:
        if phase != self._phase:
            self._phase, self._since = phase, asyncio.get_running_loop().time()

    # What else there is to say.

    def _show_remark(self, event: Event) -> None:
        again = isinstance(event, Retrying) and event.attempt > 1 and event.message == self._retry_reason
        if not again and (remark := describe_event(event)) is not None:
            self._show_warning(*remark)
        match event:
            case ApprovalAsked():
                self._set_phase(N_("waiting for your answer"))
            case ApprovalAnswered():
                self._set_phase(N_("preparing a call"))
            case Retrying():
                self._retry_reason = event.message
                self._set_phase(N_("waiting to try again (attempt {n})", n=event.attempt))
            case _:
                pass

    def _show_warning(self, style: str, text: str) -> None:
        self._lines += [*self.answer.end_answer(), *self.calls.flush_folded()]
        mark = self._terminal_style.get_mark("notice" if style == "notice" else "warning")
        self._lines += self._terminal_style.wrap_paragraphs(style, f"{mark} {' '.join(text.split())}", indent=2)


def _remove_waiting(text: str, *waiting: list[str]) -> None:
    """Remove a message from those that wait; a turn may begin with several at once, each on lines of its own."""
    for messages in waiting:
        rest = text
        while part := max((one for one in messages if f"{rest}\n".startswith(f"{one}\n")), key=len, default=""):
            messages.remove(part)
            rest = rest[len(part) + 1 :]
