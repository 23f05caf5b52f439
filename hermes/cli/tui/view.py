"""A conversation's events as lines: those that are done go into the scrollback, the rest moves above the input.

Events wait in one queue and are taken in slices of a few milliseconds, so that a burst of them keeps no key waiting.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from hermes.cli.tui.answer_text import Speech
from hermes.cli.tui.style import Look
from hermes.cli.tui.turn_state import Work
from hermes.commands.views.usage import format_epoch_notice
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    EpochBegan,
    Event,
    FellBack,
    Level,
    Notice,
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
from hermes.core.outcomes import ExitReason
from hermes.core.stream import CallStarted, ReasoningDelta, TextDelta
from hermes.i18n.formats import moment, span
from hermes.i18n.messages import phrase, say, translated
from hermes.util.text import inert, one_line, sentence

SLICE = 0.008
"""Seconds of work after which the loop is let go on."""
PAUSE = 0.15
"""Seconds between two drawings while text streams in; the first piece of an answer is shown at once."""
JOINED = 1_500
"""Characters of text that are handed over at once."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SHOWN_WAITING = 3
_STYLES = {Level.INFO: "notice", Level.WARNING: "warning", Level.ERROR: "error"}


class View:
    """The subscriber of one chat. `commit` takes finished lines, `changed` is called when what moves has changed."""

    def __init__(self, look: Look, commit: Callable[[Sequence[str]], None], changed: Callable[[], None]) -> None:
        self._look = look
        self._commit = commit
        self._changed = changed
        self._events: deque[Event] = deque()
        self._pumping: asyncio.TimerHandle | None = None
        self._drawn = 0.0
        self._flowing = False
        """Whether what was shown last was more of an answer."""
        self._lines: list[str] = []
        self._speech = Speech(look)
        self._work = Work(look)
        self._worked = False
        """Whether what was shown last is work, from which an answer stands apart."""
        self._phase = ""
        self._since = 0.0
        self._began = 0.0
        self.queued: list[str] = []
        """Messages that wait, oldest first."""
        self._joining: list[str] = []
        """Those of them that become part of the running turn."""
        self.over = False
        """Whether the end of the last turn was shown, and nothing was said since."""
        self.heard: list[Callable[[Event], None]] = []
        """Who else looks at each event, when it is shown."""

    def __call__(self, event: Event) -> None:
        """Take an event; it is shown soon."""
        self._events.append(event)
        if self._pumping is None:
            loop = asyncio.get_running_loop()
            pause = PAUSE if self._flowing else PAUSE / 5
            self._pumping = loop.call_at(max(loop.time(), self._drawn + pause), self._pump)

    def flush(self) -> None:
        """Show everything that waits, now."""
        if self._pumping is not None:
            self._pumping.cancel()
            self._pumping = None
        while self._events:
            self._take()
        self._settle()

    @property
    def busy(self) -> bool:
        """Whether something goes on that moves."""
        return bool(self._phase or self._work.running)

    def tell(self, lines: Sequence[str]) -> None:
        """Put lines of the program's own behind everything that was shown before."""
        self.flush()
        self._lines += [*self._speech.end(), *lines]
        self._settle()

    def own(self, event: Event) -> None:
        """An event of a command of the person's own: only that it runs is shown."""
        if isinstance(event, ToolStarted):
            self._work.start(event)
        elif isinstance(event, ToolEnded):
            self._work.running.pop(event.call_id, None)
        elif isinstance(event, Refused):
            self(event)
        self._changed()

    def joined(self, text: str) -> None:
        """Words of the person's that waited have become part of the running turn."""
        _take_out(text, self.queued, self._joining)
        self._lines += [*self._speech.end(), *self._work.unfold(), *self._said(text)]

    def unfolded(self) -> list[str]:
        """The results of the last calls; empty when there are none."""
        return self._work.again()

    def reasoning(self) -> list[str]:
        """The model's last reasoning; empty when there was none."""
        return self._speech.reasoning()

    def live(self, room: int) -> list[str]:
        """What moves, in at most `room` lines: the unfinished text, calls under way, what is waited for."""
        now = asyncio.get_running_loop().time()
        running = [*self._work.running.values()][-max(room // 2, 1) :]
        below = [self._moving(one.words, now - one.since, now) for one in running]
        if not running and self._phase:
            below.append(self._moving(say(self._phase), now - self._since, now))
        below += self._waiting()
        return [*self._speech.tail(max(room - len(below), 1)), *below][-room:]

    def _waiting(self) -> list[str]:
        look, shown = self._look, self.queued[:_SHOWN_WAITING]
        lines = []
        for one in shown:
            words = one_line(inert(one), look.width - 18)
            joins = one in self._joining
            lines.append(say("joins soon: {words}", words=words) if joins else say("waits: {words}", words=words))
        if len(self.queued) > _SHOWN_WAITING:
            lines.append(say("and {n} more", n=len(self.queued) - _SHOWN_WAITING))
        return [look.paint("queued", f"  {line}") for line in lines]

    def _moving(self, words: str, seconds: float, now: float) -> str:
        look = self._look
        mark = SPINNER[int(now * 8) % len(SPINNER)] if look.unicode else "*"
        elapsed = f" · {span(seconds)}" if seconds >= 1 else ""
        return look.paint("working", look.cut(f"{mark} {words}", look.width - 16) + elapsed)

    # The queue.

    def _pump(self) -> None:
        self._pumping = None
        loop = asyncio.get_running_loop()
        until = loop.time() + SLICE
        while self._events and loop.time() < until:
            self._take()
        self._drawn = loop.time()
        if self._events:
            self._pumping = loop.call_later(0.002, self._pump)
        self._settle()

    def _take(self) -> None:
        event = self._events.popleft()
        if isinstance(event, TextDelta):
            self._flowing = self._speech.speaking
            self._say(self._with_more(event))
            return
        self._flowing = False
        self._show(event)
        for hear in self.heard:
            hear(event)

    def _with_more(self, event: TextDelta) -> str:
        """The text of a delta, and of those that follow it at once."""
        pieces, size = [event.text], len(event.text)
        while self._events and size < JOINED and isinstance(more := self._events[0], TextDelta):
            self._events.popleft()
            pieces.append(more.text)
            size += len(more.text)
        return "".join(pieces)

    def _settle(self) -> None:
        if self._lines:
            lines, self._lines = self._lines, []
            self._commit(lines)
        self._changed()

    # Events.

    def _say(self, text: str) -> None:
        if not self._speech.speaking:
            self._lines += self._work.unfold()
            self._phase = ""
            if self._worked:
                self._lines.append("")
                self._worked = False
        self._lines += self._speech.feed(text)

    def _show(self, event: Event) -> None:
        match event:
            case ReasoningDelta():
                self._lines += self._speech.think(event.text)
                self._wait_for(phrase("thinking"))
            case CallStarted():
                self._wait_for(phrase("preparing a call"))
            case ToolStarted() | ToolEnded():
                self._call(event)
            case RequestStarted():
                self._wait_for(phrase("waiting for the model"))
            case RequestEnded():
                self._lines += self._speech.end_thought()
            case Queued():
                self.queued.append(event.text)
                self._joining += [event.text] if event.joins else []
            case TurnStarted() | TurnResumed():
                self._begin(event)
            case TurnEnded():
                self._end(event)
            case _:
                self._remark(event)

    def _call(self, event: ToolStarted | ToolEnded) -> None:
        self._lines += [*self._speech.end(), *self._speech.end_thought()]
        self._phase = ""
        if isinstance(event, ToolStarted):
            self._work.start(event)
            return
        self._lines += self._work.end(event)
        self._worked = True
        if not self._work.running:
            self._wait_for(phrase("waiting for the model"))

    def _begin(self, event: TurnStarted | TurnResumed) -> None:
        self._work.begin()
        self._worked = False
        self._began = asyncio.get_running_loop().time()
        self.over = False
        _take_out(event.text, self.queued, self._joining)
        if isinstance(event, TurnResumed):
            words = one_line(inert(event.text), self._look.width - 20)
            self._warn(say("Going on with the turn that was cut off: {words}", words=words))
        else:
            self._lines += self._said(event.text)
        self._wait_for(phrase("waiting for the model"))

    def _said(self, text: str) -> list[str]:
        """The person's own words, as they went in."""
        look = self._look
        stamp = f"{moment(look.now())} " if look.display.timestamps else ""
        first, *rest = inert(text).split("\n")
        lines = look.wrapped("person", f"{look.mark('person')} {stamp}{first}", indent=2)
        for line in rest:
            lines += look.wrapped("person", f"  {line}", indent=2)
        return ["", *lines, ""]

    def _end(self, event: TurnEnded) -> None:
        self._lines += [*self._speech.end(), *self._work.unfold(), *self._speech.end_thought()]
        self._phase = ""
        seconds = asyncio.get_running_loop().time() - self._began
        if event.reason is ExitReason.INTERRUPTED:
            done = self._work.deeds.summary() or say("nothing was changed")
            self._warn(say("Stopped after {time}: {done}.", time=span(seconds), done=done))
        elif event.error:
            self._warn(translated(inert(event.error)), "error")
        self._work.begin()
        self._joining.clear()  # what could not join waits for a turn of its own
        self.over = not self.queued
        self._lines.append("")

    def _wait_for(self, phase: str) -> None:
        if phase != self._phase:
            self._phase, self._since = phase, asyncio.get_running_loop().time()

    # What else there is to say.

    def _remark(self, event: Event) -> None:
        match event:
            case ApprovalAsked():
                self._wait_for(phrase("waiting for your answer"))
            case ApprovalAnswered():
                self._wait_for(phrase("preparing a call"))
            case Refused():
                subject = one_line(inert(event.subject), self._look.width - 12)
                self._warn(
                    say("refused: {subject} ({reason})", subject=subject, reason=translated(inert(event.reason)))
                )
            case FellBack():
                why = translated(sentence(inert(event.reason)))
                model = f"{inert(event.model)} ({inert(event.provider)})"
                self._warn(say("{why} Going on with {model}.", why=why, model=model))
            case Retrying():
                self._warn(_retrying(event))
                self._wait_for(phrase("waiting to try again"))
            case Notice():
                self._warn(translated(inert(event.text)), _STYLES[event.level])
            case EpochBegan() if event.number > 1:
                if said := format_epoch_notice(event.reason, event.bytes):
                    self._warn(said, "notice")
            case _:
                pass

    def _warn(self, text: str, style: str = "warning") -> None:
        self._lines += [*self._speech.end(), *self._work.unfold()]
        mark = self._look.mark("notice" if style == "notice" else "warning")
        self._lines += self._look.wrapped(style, f"{mark} {' '.join(text.split())}", indent=2)


def _take_out(text: str, *waiting: list[str]) -> None:
    for one in waiting:
        if text in one:
            one.remove(text)


def _retrying(event: Retrying) -> str:
    why = translated(sentence(inert(event.message)))
    if not event.delay:
        return why
    return say("{why} Trying again in {time} (attempt {n}).", why=why, time=span(event.delay), n=event.attempt)
