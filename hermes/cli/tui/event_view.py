"""Show a session's events as lines: finished ones go into the scrollback, the rest moves above the input.

Events wait in one queue and are taken in slices of a few milliseconds, so that a burst of them keeps no key waiting.
The running calls, the text that streams in and its reasoning are each kept by a class of their own.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from hermes.cli.event_texts import PICTURE_TOOLS, RefusalFilter, describe_event
from hermes.cli.tui.call_view import PLAN_TOOL, CallView
from hermes.cli.tui.plan_view import PlanView
from hermes.cli.tui.sub_agent_view import REDRAW_SECONDS as SUB_AGENT_SECONDS
from hermes.cli.tui.sub_agent_view import SubAgentView
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.config.display import ToolProgress
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    MessageAppended,
    Queued,
    Refused,
    RequestEnded,
    RequestStarted,
    Retrying,
    SubAgentChanged,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    WorkEnded,
    WorkStarted,
)
from hermes.core.messages import ToolStatus
from hermes.core.outcomes import ExitReason
from hermes.core.stream import CallStarted, ReasoningDelta, TextDelta
from hermes.i18n.formats import format_duration, format_time
from hermes.i18n.messages import N_, localize, tr
from hermes.markup.cells import measure_width
from hermes.util.text import strip_control_characters, to_one_line

MAX_REASONING = 100_000
"""Characters of reasoning that are kept to be shown on demand."""
SLICE_SECONDS = 0.008
"""Seconds of work after which the event loop gets control back."""
REDRAW_SECONDS = 0.15
"""Seconds between two drawings while text streams in; the first piece of an answer is shown at once."""
MAX_JOINED_LENGTH = 1_500
"""Characters of text that are handed over at once."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MIN_ACTIVITY = 20
"""Cells that what goes on keeps beside a hint."""
_MAX_WAITING_SHOWN = 3
_MAX_SHOWN_FORMS = 50


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


class MessageForms:
    """Messages whose pastes and pictures are shown as marks: their texts, and the lines that were typed."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    def remember(self, text: str, line: str) -> None:
        """Show the message of this text as this line."""
        if text != line:
            self._lines[text] = line
            while len(self._lines) > _MAX_SHOWN_FORMS:
                del self._lines[next(iter(self._lines))]

    def find(self, text: str) -> str:
        """Return a message as it was typed; a turn may begin with several of them."""
        if text in self._lines:
            return self._lines[text]
        for whole in sorted(filter(None, self._lines), key=len, reverse=True):
            if f"\n{whole}\n" in f"\n{text}\n":
                text = text.replace(whole, self._lines[whole])
        return text


def _draw_picture(event: ToolEnded, environ: Mapping[str, str], width: int) -> list[str]:
    """Return what draws a picture that was made, where the terminal shows pictures."""
    if event.name not in PICTURE_TOOLS or event.status is not ToolStatus.OK:
        return []
    from hermes.cli.render.inline_pictures import draw_result

    drawn = draw_result(event.preview, environ, width, "\r\n")
    return [drawn] if drawn else []


class EventView:
    """Shows one chat's events. `commit` takes finished lines, `changed` is called when what moves has changed."""

    def __init__(
        self,
        terminal_style: TerminalStyle,
        commit: Callable[[Sequence[str]], None],
        changed: Callable[[], None],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = environ or {}
        self._terminal_style = terminal_style
        self._commit = commit
        self._changed = changed
        self._events: deque[Event] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._drawn = 0.0
        self._flowing = False
        """Whether what was shown last was more of an answer."""
        self._lines: list[str] = []
        self.stop_key = ""
        """The key that stops a turn, as a person reads it."""
        self.background_key = ""
        self.answer = AnswerText(terminal_style)
        self.calls = CallView(terminal_style)
        self.plan = PlanView(terminal_style)
        self.sub_agents = SubAgentView(terminal_style)
        self._ended_sub_agents: list[str] = []
        """Lines about sub-agents that have ended while an answer came: they break no answer off."""
        self.forms = MessageForms()
        self._refusals = RefusalFilter()
        self._call_shown_last = False
        """Whether a call was shown last, from which an answer is set apart by an empty line."""
        self._answer_shown_last = False
        """Whether an answer was shown last, from which a call is set apart by an empty line."""
        self._last_line = ""
        """The line that stands last in the scrollback."""
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
        loop = asyncio.get_running_loop()
        pause = REDRAW_SECONDS if self._flowing else REDRAW_SECONDS / 5
        if isinstance(event, SubAgentChanged):
            pause = SUB_AGENT_SECONDS
        at = max(loop.time(), self._drawn + pause)
        if self._timer is not None and at < self._timer.when():
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(at, self._process_events)

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

    def tell_lines(self, lines: Sequence[str], *, apart: bool = False) -> None:
        """Put lines of Hermes' own behind everything that was shown before. With `apart` an empty first one is left
        out where one stands there.
        """
        self.flush()
        self._lines += self.answer.end_answer()
        last = self._lines[-1] if self._lines else self._last_line
        self._lines += lines[1:] if apart and lines[:1] == [""] and not last else lines
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
        shown = [(one.words, one.since) for one in running]
        if not shown and self._phase:
            shown.append((localize(self._phase), self._since))
        hint = "" if self.answer.speaking else self._format_hint()
        below = [
            self._render_activity(words, now - since, now, hint if at == len(shown) - 1 else "")
            for at, (words, since) in enumerate(shown)
        ]
        below += self.sub_agents.render_live(min(room - len(below), max(room // 2, 1)))
        below += self._render_waiting()
        if self.busy and len(below) < room:
            below = [*self.plan.render_live(room // 2 if self.answer.speaking else room - len(below)), *below]
        return [*self.answer.render_tail(max(room - len(below), 1)), *below][-room:]

    def _render_waiting(self) -> list[str]:
        terminal_style, shown = self._terminal_style, self.queued[:_MAX_WAITING_SHOWN]
        lines = []
        for one in shown:
            words = to_one_line(strip_control_characters(self.forms.find(one)), terminal_style.width - 24)
            joins = one in self._joining
            lines.append(tr("joins soon: {words}", words=words) if joins else tr("queued: {words}", words=words))
        if len(self.queued) > _MAX_WAITING_SHOWN:
            lines.append(tr("and {n} more", n=len(self.queued) - _MAX_WAITING_SHOWN))
        mark = "↳" if terminal_style.unicode else "->"
        return [terminal_style.paint("queued", f"{mark} {line}") for line in lines]

    def _format_hint(self) -> str:
        """Format which keys change what goes on."""
        parts = [tr("{key} stops", key=self.stop_key)] if self.stop_key else []
        if self.background_key and self.calls.is_command_running():
            parts.append(tr("{key} sends it into the background", key=self.background_key))
        return "".join(f" · {part}" for part in parts)

    def _render_activity(self, words: str, seconds: float, now: float, hint: str = "") -> str:
        """Render a line of activity; its words are cut before the hint is, but on a narrow terminal."""
        terminal_style = self._terminal_style
        mark = SPINNER[int(now * 8) % len(SPINNER)] if terminal_style.unicode else "*"
        elapsed = f" · {format_duration(seconds)}" if seconds >= 1 else ""
        room = terminal_style.width - 16 - measure_width(hint)
        hint, room = (hint, room) if room >= _MIN_ACTIVITY else ("", room + measure_width(hint))
        line = terminal_style.paint("working", terminal_style.cut_text(f"{mark} {words}", room) + elapsed)
        return line + terminal_style.paint("notice", hint) if hint else line

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
        self._refusals.note_event(event)
        if isinstance(event, MessageAppended):
            self.calls.keep_results(event.message)
        if isinstance(event, SubAgentChanged):
            self._ended_sub_agents += self.sub_agents.apply_change(event)
        elif not self.sub_agents.is_own_question(event):
            self._show_event(event)
        if self._ended_sub_agents and not self.answer.speaking:
            self._lines += [*self.calls.flush_folded(), *self._ended_sub_agents]
            self._ended_sub_agents.clear()
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
            self._last_line = lines[-1]
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
        self._answer_shown_last = self._answer_shown_last or self.answer.speaking
        self._lines += [*self.answer.end_answer(), *self.answer.end_reasoning()]
        self._phase = ""
        if isinstance(event, ToolStarted):
            self.calls.start_call(event)
            return
        lines = self.calls.end_call(event)
        if event.name == PLAN_TOOL and event.status is ToolStatus.OK:
            lines = self._show_plan(event)
        lines += _draw_picture(event, self._environ, self._terminal_style.width)
        if lines and self._answer_shown_last:
            self._lines.append("")
            self._answer_shown_last = False
        self._lines += lines
        self._call_shown_last = self._call_shown_last or bool(lines)
        if not self.calls.running:
            self._set_phase(N_("waiting for the model"))

    def _show_plan(self, event: ToolEnded) -> list[str]:
        self.plan.apply_result(event.preview)
        if self._terminal_style.display.tool_progress is ToolProgress.OFF:
            return []
        return [*self.calls.flush_folded(), *self.plan.format_change()]

    def _begin_turn(self, event: TurnStarted | TurnResumed) -> None:
        self.calls.begin_turn()
        self._call_shown_last = self._answer_shown_last = False
        self._began = asyncio.get_running_loop().time()
        self.turn_over = False
        _remove_waiting(event.text, self.queued, self._joining)
        if isinstance(event, TurnStarted):  # without words nobody has said it: reports have come in
            self._lines += self._format_message(event.text) if event.text.strip() else [""]
        else:
            self._show_remark(event)
        self._set_phase(N_("waiting for the model"))

    def _format_message(self, text: str) -> list[str]:
        """Format the person's own words, as they were sent."""
        terminal_style = self._terminal_style
        stamp = f"{format_time(terminal_style.now())} " if terminal_style.display.timestamps else ""
        first, *rest = strip_control_characters(self.forms.find(text)).split("\n")
        width = terminal_style.prose_width
        lines = terminal_style.wrap_paragraphs(
            "person", f"{terminal_style.get_mark('person')} {stamp}{first}", indent=2, width=width
        )
        for line in rest:
            lines += terminal_style.wrap_paragraphs("person", f"  {line}", indent=2, width=width)
        return ["", *lines, ""]

    def _end_turn(self, event: TurnEnded) -> None:
        self._lines += [*self.answer.end_answer(), *self.calls.flush_folded(), *self.answer.end_reasoning()]
        if plan := self.plan.format_end():
            self._lines += ["", *plan]
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
        if not again and not self._refusals.is_known(event) and (remark := describe_event(event)) is not None:
            self._show_warning(*remark)
        match event:
            case ApprovalAsked():
                self._answer_shown_last = False
                self._set_phase("")  # the question says it
            case WorkStarted() | WorkEnded():
                self._set_phase(event.doing if isinstance(event, WorkStarted) else "")
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
        self._lines += self._terminal_style.wrap_paragraphs(
            style, f"{mark} {' '.join(text.split())}", indent=2, width=self._terminal_style.prose_width
        )


def forget_waiting(view: EventView, text: str) -> None:
    """Show a message as waiting no longer."""
    if text in view.queued:
        del view.queued[len(view.queued) - 1 - view.queued[::-1].index(text)]


def _remove_waiting(text: str, *waiting: list[str]) -> None:
    """Remove a message from those that wait; a turn may begin with several at once, each on lines of its own."""
    for messages in waiting:
        rest = text
        while part := max((one for one in messages if f"{rest}\n".startswith(f"{one}\n")), key=len, default=""):
            messages.remove(part)
            rest = rest[len(part) + 1 :]
