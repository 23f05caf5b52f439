"""A conversation's events as lines: those that are done go into the scrollback, the rest moves above the input.

Events wait in one queue and are taken in slices of a few milliseconds, so that a burst of them keeps no key waiting.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from hermes.cli.tui.look import Look
from hermes.cli.tui.progress import CHANGING, Deeds, Running, told
from hermes.config.display import ToolProgress
from hermes.core.events import (
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
from hermes.core.parts import ToolStatus
from hermes.core.stream import CallStarted, ReasoningDelta, TextDelta
from hermes.util.local import moment, span
from hermes.util.say import phrase, say
from hermes.util.text import inert, one_line, sentence

SLICE = 0.008
"""Seconds of work after which the loop is let go on."""
PAUSE = 0.04
"""Seconds between two drawings while text streams in."""
JOINED = 1_500
"""Characters of text that are handed over at once."""
MOST_REASONING = 100_000
"""Characters of reasoning that are kept to be shown on demand."""
KEPT_RESULTS = 50
"""Results whose beginnings are kept to be unfolded."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FOLDED = 3
_PREVIEW_LINES = {ToolProgress.SHORT: 0, ToolProgress.ALL: 1, ToolProgress.VERBOSE: 12}
_DIFF_LINES = 24


class View:
    """The subscriber of one chat. `commit` takes finished lines, `changed` is called when what moves has changed."""

    def __init__(self, look: Look, commit: Callable[[Sequence[str]], None], changed: Callable[[], None]) -> None:
        self.look = look
        self._commit = commit
        self._changed = changed
        self._events: deque[Event] = deque()
        self._pumping: asyncio.TimerHandle | None = None
        self._drawn = 0.0
        self._lines: list[str] = []
        self._text = look.stream()
        self._speaking = False
        self._reasoning: list[str] = []
        self._reasoned = 0
        self._thoughts = look.stream(style="reasoning")
        self._running: dict[str, Running] = {}
        self._folded: list[tuple[str, float]] = []
        self._folding = ""
        self._deeds = Deeds()
        self._phase = ""
        self._since = 0.0
        self._began = 0.0
        self.results: deque[ToolEnded] = deque(maxlen=KEPT_RESULTS)
        self.queued: list[str] = []
        """Messages that wait, oldest first."""
        self.heard: list[Callable[[Event], None]] = []
        """Who else looks at each event, when it is shown."""

    def __call__(self, event: Event) -> None:
        """Take an event; it is shown soon."""
        self._events.append(event)
        if self._pumping is None:
            loop = asyncio.get_running_loop()
            self._pumping = loop.call_at(max(loop.time(), self._drawn + PAUSE), self._pump)

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
        return bool(self._phase or self._running)

    def tell(self, lines: Sequence[str]) -> None:
        """Put lines of the program's own behind everything that was shown before."""
        self.flush()
        self._close_text()
        self._lines += lines
        self._settle()

    def live(self, room: int) -> list[str]:
        """What moves, in at most `room` lines: the unfinished text, calls under way, what is waited for."""
        now = asyncio.get_running_loop().time()
        below = [self._moving(one.words, now - one.since, now) for one in self._running.values()]
        if len(below) > max(room // 2, 1):
            hidden = len(below) - max(room // 2, 1)
            below = below[hidden:]
        if not self._running and self._phase:
            below.append(self._moving(say(self._phase), now - self._since, now))
        below += self._waiting()
        stream = self._thoughts if self.look.display.show_reasoning and not self._speaking else self._text
        return [*stream.tail(max(room - len(below), 1)), *below][-room:]

    def _waiting(self) -> list[str]:
        lines = [
            self.look.paint("queued", f"  {say('waits: {words}', words=one_line(inert(one), self.look.width - 12))}")
            for one in self.queued[:3]
        ]
        if len(self.queued) > 3:
            lines.append(self.look.paint("queued", "  " + say("and {n} more", n=len(self.queued) - 3)))
        return lines

    def _moving(self, words: str, seconds: float, now: float) -> str:
        mark = SPINNER[int(now * 8) % len(SPINNER)] if self.look.unicode else "*"
        elapsed = f" · {span(seconds)}" if seconds >= 1 else ""
        return self.look.paint("working", f"{mark} {one_line(words, self.look.width - 16)}{elapsed}")

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
            pieces, size = [event.text], len(event.text)
            while self._events and size < JOINED and isinstance(self._events[0], TextDelta):
                more = self._events.popleft()
                assert isinstance(more, TextDelta)
                pieces.append(more.text)
                size += len(more.text)
            self._say("".join(pieces))
            return
        self._show(event)
        for hear in self.heard:
            hear(event)

    def _settle(self) -> None:
        if self._lines:
            lines, self._lines = self._lines, []
            self._commit(lines)
        self._changed()

    # Events.

    def _show(self, event: Event) -> None:
        match event:
            case ReasoningDelta():
                self._think(event.text)
            case CallStarted():
                self._wait_for(phrase("preparing a call"))
            case ToolStarted() | ToolEnded():
                self._work(event)
            case RequestStarted():
                self._end_thought()
                self._wait_for(phrase("waiting for the model"))
            case RequestEnded():
                self._end_thought()
            case TurnStarted() | TurnResumed() | TurnEnded() | Queued():
                self._turn(event)
            case Refused() | FellBack() | Retrying() | Notice() | EpochBegan():
                self._remark(event)
            case _:
                pass

    def _turn(self, event: TurnStarted | TurnResumed | TurnEnded | Queued) -> None:
        match event:
            case Queued():
                self.queued.append(event.text)
            case TurnStarted() | TurnResumed():
                self._begin(event)
            case TurnEnded():
                self._end(event)

    def _begin(self, event: TurnStarted | TurnResumed) -> None:
        loop = asyncio.get_running_loop()
        self._deeds, self._began = Deeds(), loop.time()
        if event.text in self.queued:
            self.queued.remove(event.text)
        if isinstance(event, TurnResumed):
            words = one_line(inert(event.text), self.look.width - 20)
            self._warn(say("Going on with the turn that was cut off: {words}", words=words))
        else:
            self._said(event.text)
        self._wait_for(phrase("waiting for the model"))

    def _said(self, text: str) -> None:
        """The person's own words, as they went in."""
        stamp = f"{moment(self.look.now())} " if self.look.display.timestamps else ""
        first, *rest = inert(text).split("\n")
        self._lines.append("")
        self._lines += self.look.wrapped("person", f"{self.look.mark('person')} {stamp}{first}", indent=2)
        for line in rest:
            self._lines += self.look.wrapped("person", f"  {line}", indent=2)
        self._lines.append("")

    def _end(self, event: TurnEnded) -> None:
        self._close_text()
        self._unfold()
        self._end_thought()
        self._phase = ""
        self._running.clear()
        seconds = asyncio.get_running_loop().time() - self._began
        if event.reason is ExitReason.INTERRUPTED:
            done = self._deeds.summary() or say("nothing was changed")
            self._warn(say("Stopped after {time}: {done}.", time=span(seconds), done=done))
        elif event.error:
            self._warn(inert(event.error), "error")
        self._lines.append("")

    def _say(self, text: str) -> None:
        if not self._speaking:
            self._end_thought()
            self._unfold()
            self._speaking = True
            self._phase = ""
        self._lines += self._text.feed(text)

    def _think(self, text: str) -> None:
        if self._reasoned == 0:
            self._reasoning.clear()
        if self._reasoned < MOST_REASONING:
            self._reasoning.append(text)
        self._reasoned += len(text)
        if self.look.display.show_reasoning:
            self._lines += self._thoughts.feed(text)
        self._wait_for(phrase("thinking"))

    def _end_thought(self) -> None:
        if self._reasoned:
            self._reasoned = 0
            self._lines += self._thoughts.close()

    def joined(self, text: str) -> None:
        """Words of the person's that waited have become part of the running turn."""
        if text in self.queued:
            self.queued.remove(text)
        self._close_text()
        self._unfold()
        self._said(text)

    def unfolded(self) -> list[str]:
        """The results of the last calls, as far as they are kept; empty when there are none."""
        lines: list[str] = []
        for one in [*self.results][-5:]:
            lines.append(self.look.tool(inert(one.name), one.seconds, failed=one.status is not ToolStatus.OK))
            lines += [
                line for raw in inert(one.preview).splitlines() for line in self.look.wrapped("result", f"  {raw}")
            ]
        return lines

    def reasoning(self) -> list[str]:
        """The model's last reasoning, as lines; empty when there was none."""
        stream = self.look.stream(style="reasoning")
        return [*stream.feed("".join(self._reasoning)), *stream.close()]

    def _close_text(self) -> None:
        if self._speaking:
            self._lines += self._text.close()
            self._speaking = False

    def _wait_for(self, phase: str) -> None:
        if phase != self._phase:
            self._phase, self._since = phase, asyncio.get_running_loop().time()

    # Work.

    def _work(self, event: ToolStarted | ToolEnded) -> None:
        self._close_text()
        self._end_thought()
        self._phase = ""
        if isinstance(event, ToolStarted):
            words = told(event, max(self.look.width - 16, 20))
            self._running[event.call_id] = Running(event.name, words, asyncio.get_running_loop().time())
            return
        running = self._running.pop(event.call_id, None)
        words = running.words if running is not None else one_line(inert(event.name))
        self._deeds.add(event, words)
        self.results.append(event)
        if not self._running:
            self._wait_for(phrase("waiting for the model"))
        if event.status is ToolStatus.REFUSED or self.look.display.tool_progress is ToolProgress.OFF:
            return  # a refusal is told by a line of its own
        self._report(event, words)

    def _report(self, event: ToolEnded, words: str) -> None:
        progress = self.look.display.tool_progress
        lines = inert(event.preview).splitlines()
        if event.status is not ToolStatus.OK:
            self._unfold()
            said = one_line(" ".join(lines), self.look.width - 8)
            self._lines.append(self.look.tool(words, event.seconds, failed=True))
            self._lines.append(
                self.look.paint("failed", f"  {say(event.status.value)}{say(': ') if said else ''}{said}")
            )
            return
        if event.name in CHANGING and any(line.startswith("@@") for line in lines):
            self._unfold()
            self._lines.append(self.look.tool(words, event.seconds))
            self._lines += self.look.diff(lines, _DIFF_LINES)
            return
        if progress is ToolProgress.SHORT:
            self._fold(event.name, words, event.seconds)
            return
        self._lines.append(self.look.tool(words, event.seconds))
        for line in lines[: _PREVIEW_LINES[progress]]:
            self._lines.append(self.look.paint("result", f"  {self.look.cut(line, self.look.width - 2)}"))

    def _fold(self, name: str, words: str, seconds: float) -> None:
        if name != self._folding:
            self._unfold()
            self._folding = name
        self._folded.append((words, seconds))

    def _unfold(self) -> None:
        """Show the calls of one kind that were held back: each, or all of them on a line."""
        folded, self._folded, name, self._folding = self._folded, [], self._folding, ""
        if len(folded) <= _FOLDED:
            self._lines += [self.look.tool(words, seconds) for words, seconds in folded]
            return
        last = folded[-1][0]
        words = say("{name}, {n} times, the last: {last}", name=name, n=len(folded), last=last)
        self._lines.append(self.look.tool(words, sum(seconds for _, seconds in folded)))

    # What else there is to say.

    def _remark(self, event: Refused | FellBack | Retrying | Notice | EpochBegan) -> None:
        match event:
            case Refused():
                subject = one_line(inert(event.subject), self.look.width - 12)
                self._warn(say("refused: {subject} ({reason})", subject=subject, reason=inert(event.reason)))
            case FellBack():
                why = sentence(inert(event.reason))
                model = f"{inert(event.model)} ({event.provider})"
                self._warn(say("{why} Going on with {model}.", why=why, model=model))
            case Retrying():
                why = sentence(inert(event.message))
                if event.delay:
                    values = {"why": why, "time": span(event.delay), "n": event.attempt}
                    why = say("{why} Trying again in {time} (attempt {n}).", **values)
                self._warn(why)
                self._wait_for(phrase("waiting to try again"))
            case Notice():
                style = {Level.INFO: "notice", Level.WARNING: "warning", Level.ERROR: "error"}[event.level]
                self._warn(inert(event.text), style)
            case EpochBegan() if event.number > 1:
                self._warn(say("The conversation is sent anew: {reason}.", reason=event.reason), "notice")
            case _:
                pass

    def _warn(self, text: str, style: str = "warning") -> None:
        self._close_text()
        self._unfold()
        mark = self.look.mark("warning") if style != "notice" else self.look.mark("notice")
        self._lines += self.look.wrapped(style, f"{mark} {' '.join(text.split())}", indent=2)
