"""Events as lines in a plain terminal."""

import sys
from collections.abc import Callable
from typing import TextIO

from hermes.cli.output import Flow, on_lines
from hermes.commands.views.usage import format_epoch_notice
from hermes.config.display import DisplaySettings, ToolProgress
from hermes.core.events import (
    EpochBegan,
    Event,
    FellBack,
    Level,
    Notice,
    Queued,
    Refused,
    Retrying,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from hermes.core.parts import ToolStatus
from hermes.core.stream import TextDelta
from hermes.i18n.messages import say, translated
from hermes.util.text import inert, one_line, sentence

_LONGEST_PATTERN = 300
_WIDTH = 100
_DIFF_LINES = 12
_CHANGING = ("patch", "write_file")


class Renderer:
    """Streams the answer to `out` and tells the work in a line a step. With `quiet` only warnings, to `err`."""

    def __init__(self, *, quiet: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._quiet = quiet
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._in_line = False
        self._flow = Flow() if self._out.isatty() else None
        """Breaks the answer at spaces, on a terminal."""
        self._progress = ToolProgress.ALL
        self._started: set[str] = set()
        self._resumed: set[str] = set()
        self._ended_before = ""
        """What is to be said of a resumed turn, should another one follow."""
        self.broken: OSError | None = None
        """Why nothing is shown any more: the output is closed or full."""
        self.prompt: Callable[[], str] = str
        """What stands in the line where a person types now; it is shown again below a notice."""
        self.on_broken: Callable[[], object] | None = None
        """Called when nothing can be shown any more."""

    def set_display(self, display: DisplaySettings) -> None:
        """Show as much of the work as the person wants."""
        self._progress = display.tool_progress

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if self.broken is not None:
            return
        try:
            self._show(event)
        except OSError as error:
            self.broken = error
            if self.on_broken is not None:
                self.on_broken()

    def _show(self, event: Event) -> None:
        match event:
            case Refused():
                self._warn(_refused(event))
            case TurnStarted() if self._ended_before:
                self._warn(self._ended_before)
                self._ended_before = ""
            case TurnResumed():
                self._resumed.add(event.turn_id)
                self._warn(
                    say("Going on with the turn that was cut off: {text}", text=one_line(inert(event.text), _WIDTH))
                )
            case TurnEnded():
                self._turn_ended(event)
            case FellBack():
                self._warn(_fell_back(event))
            case Queued() if not self._quiet:
                self._warn(say("queued: {text}", text=one_line(inert(event.text), _WIDTH)))
            case Retrying():
                again = (
                    say("Trying again in {delay:.1f} s (attempt {attempt}).", delay=event.delay, attempt=event.attempt)
                    if event.delay
                    else ""
                )
                self._warn(f"{translated(sentence(inert(event.message)))} {again}".rstrip())
            case Notice() if event.level is not Level.INFO:
                self._warn(translated(inert(event.text)))
            case _ if not self._quiet:
                self._work(event)

    def _turn_ended(self, event: TurnEnded) -> None:
        if not self._quiet:
            if event.error:
                self._warn(translated(inert(event.error)))
            else:
                self._line("")
        elif event.turn_id in self._resumed:
            # Told when another turn follows: else its answer is the one that is printed.
            said = one_line(inert(event.text or event.error), _WIDTH)
            self._ended_before = say("That turn has ended: {said}", said=said)

    def _work(self, event: Event) -> None:
        match event:
            case TextDelta():
                text = inert(event.text)
                self._out.write(self._flow.more(text) if self._flow is not None else text)
                self._out.flush()
                self._in_line = not text.endswith("\n") if text else self._in_line
            case ToolStarted() | ToolEnded() if self._progress is ToolProgress.OFF:
                pass
            case ToolStarted():
                self._started.add(event.call_id)
                self._line(f"· {_told(event)}")
            case ToolEnded():
                self._ended(event)
            case EpochBegan() if event.number > 1:
                said = format_epoch_notice(event.reason, event.bytes)
                self._line(f"· {said}" if said else "")
            case Notice():  # louder ones were shown already
                prompt = self.prompt()
                self._line(("\n" if prompt else "") + f"· {translated(inert(event.text))}")
                self._out.write(prompt)
                self._out.flush()
            case _:
                pass

    def _ended(self, event: ToolEnded) -> None:
        if event.status is ToolStatus.REFUSED:  # told already, by a line of its own
            return
        if event.call_id not in self._started:
            self._line(f"· {one_line(inert(event.name), _WIDTH)}")
        self._started.discard(event.call_id)
        lines = inert(event.preview).splitlines()
        if event.status is not ToolStatus.OK:
            said = one_line(" ".join(lines), _WIDTH)
            self._line(f"  {event.status.value} after {event.seconds:.1f} s{': ' if said else ''}{said}")
            return
        diff = event.name in _CHANGING and any(line.startswith("@@") for line in lines)
        shown = 12 if self._progress is ToolProgress.VERBOSE else 0 if self._progress is ToolProgress.SHORT else 1
        for line in lines[: _DIFF_LINES if diff else shown]:
            self._line(f"  {line[:_WIDTH].rstrip()}")

    def _line(self, text: str) -> None:
        if self._flow is not None:
            self._out.write(self._flow.end())
            text = on_lines(text)
        if self._in_line:
            self._out.write("\n")
            self._in_line = False
        if text:
            self._out.write(text + "\n")
        self._out.flush()

    def _warn(self, text: str) -> None:
        if not self._quiet:
            self._line("")
        prompt = self.prompt()
        above = "\n" if prompt else ""
        self._err.write(f"{above}hermes: {' '.join(line.strip() for line in text.splitlines())}\n{prompt}")
        self._err.flush()


def _refused(event: Refused) -> str:
    subject, reason = one_line(inert(event.subject)), translated(inert(event.reason)) + _way(event.pattern)
    return say("refused: {subject} ({reason})", subject=subject, reason=reason)


def _fell_back(event: FellBack) -> str:
    why, model = translated(sentence(inert(event.reason))), f"{inert(event.model)} ({event.provider})"
    return say("{why} Going on with {model}.", why=why, model=model)


def _told(event: ToolStarted) -> str:
    """What a call does; the tool's name is left out where the summary begins with the same verb."""
    summary = one_line(inert(event.summary or event.arguments), _WIDTH)
    verb = event.name.partition("_")[0]
    return summary if event.summary and summary.partition(" ")[0] == verb else f"{event.name} {summary}"


def _way(pattern: str) -> str:
    """How to allow it the next time; empty for a pattern that a line cannot show as it is."""
    if not pattern or len(pattern) > _LONGEST_PATTERN or inert(pattern) != pattern or "\n" in pattern:
        return ""
    import shlex

    return say("; --allow {quote} would let it run", quote=shlex.quote(pattern))
