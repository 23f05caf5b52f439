"""Print a session's events as lines of a plain terminal."""

import sys
from collections.abc import Callable
from typing import TextIO

from hermes.cli.output import StreamingWrapper, wrap_for_terminal
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
from hermes.i18n.messages import localize, tr
from hermes.util.text import end_sentence, strip_control_characters, to_one_line

_MAX_PATTERN_LENGTH = 300
_MAX_LINE_WIDTH = 100
_DIFF_LINES = 12
_EDIT_TOOLS = ("patch", "write_file")


class PlainRenderer:
    """Streams the answer to `out` and prints one line for each step of the work. With `quiet` it prints warnings only,
    to `err`.
    """

    def __init__(self, *, quiet: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._quiet = quiet
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._in_line = False
        self._wrapper = StreamingWrapper() if self._out.isatty() else None
        """Breaks the answer at spaces, on a terminal."""
        self._progress = ToolProgress.ALL
        self._started: set[str] = set()
        self._resumed: set[str] = set()
        self._resumed_outcome = ""
        """How a resumed turn ended; it is printed only when another turn follows."""
        self.output_error: OSError | None = None
        """The error after which nothing is shown any more: the output is closed or full."""
        self.prompt: Callable[[], str] = str
        """Returns the prompt of the line in which a person types now; it is shown again below a notice."""
        self.on_output_error: Callable[[], object] | None = None
        """Called when nothing can be shown any more."""

    def set_display(self, display: DisplaySettings) -> None:
        """Show as much of the work as these display settings say."""
        self._progress = display.tool_progress

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if self.output_error is not None:
            return
        try:
            self._show_event(event)
        except OSError as error:
            self.output_error = error
            """The error after which nothing is shown any more: the output is closed or full."""
            if self.on_output_error is not None:
                self.on_output_error()

    def _show_event(self, event: Event) -> None:
        match event:
            case Refused():
                self._print_warning(_format_refusal(event))
            case TurnStarted() if self._resumed_outcome:
                self._print_warning(self._resumed_outcome)
                self._resumed_outcome = ""
                """How a resumed turn ended; it is printed only when another turn follows."""
            case TurnResumed():
                self._resumed.add(event.turn_id)
                self._print_warning(
                    tr(
                        "Going on with the turn that was cut off: {text}",
                        text=to_one_line(strip_control_characters(event.text), _MAX_LINE_WIDTH),
                    )
                )
            case TurnEnded():
                self._end_turn(event)
            case FellBack():
                self._print_warning(_format_fallback(event))
            case Queued() if not self._quiet:
                self._print_warning(
                    tr("queued: {text}", text=to_one_line(strip_control_characters(event.text), _MAX_LINE_WIDTH))
                )
            case Retrying():
                again = (
                    tr("Trying again in {delay:.1f} s (attempt {attempt}).", delay=event.delay, attempt=event.attempt)
                    if event.delay
                    else ""
                )
                self._print_warning(
                    f"{localize(end_sentence(strip_control_characters(event.message)))} {again}".rstrip()
                )
            case Notice() if event.level is not Level.INFO:
                self._print_warning(localize(strip_control_characters(event.text)))
            case _ if not self._quiet:
                self._show_work(event)

    def _end_turn(self, event: TurnEnded) -> None:
        if not self._quiet:
            if event.error:
                self._print_warning(localize(strip_control_characters(event.error)))
            else:
                self._print_line("")
        elif event.turn_id in self._resumed:
            # Told when another turn follows: else its answer is the one that is printed.
            said = to_one_line(strip_control_characters(event.text or event.error), _MAX_LINE_WIDTH)
            self._resumed_outcome = tr("That turn has ended: {said}", said=said)
            """How a resumed turn ended; it is printed only when another turn follows."""

    def _show_work(self, event: Event) -> None:
        match event:
            case TextDelta():
                text = strip_control_characters(event.text)
                self._out.write(self._wrapper.feed_text(text) if self._wrapper is not None else text)
                self._out.flush()
                self._in_line = not text.endswith("\n") if text else self._in_line
            case ToolStarted() | ToolEnded() if self._progress is ToolProgress.OFF:
                pass
            case ToolStarted():
                self._started.add(event.call_id)
                self._print_line(f"· {_format_call(event)}")
            case ToolEnded():
                self._show_call_result(event)
            case EpochBegan() if event.number > 1:
                from hermes.commands.event_descriptions import format_epoch_notice

                said = format_epoch_notice(event.reason, event.bytes)
                self._print_line(f"· {said}" if said else "")
            case Notice():  # louder ones were shown already
                prompt = self.prompt()
                self._print_line(("\n" if prompt else "") + f"· {localize(strip_control_characters(event.text))}")
                self._out.write(prompt)
                self._out.flush()
            case _:
                pass

    def _show_call_result(self, event: ToolEnded) -> None:
        if event.status is ToolStatus.REFUSED:  # told already, by a line of its own
            return
        if event.call_id not in self._started:
            self._print_line(f"· {to_one_line(strip_control_characters(event.name), _MAX_LINE_WIDTH)}")
        self._started.discard(event.call_id)
        lines = strip_control_characters(event.preview).splitlines()
        if event.status is not ToolStatus.OK:
            said = to_one_line(" ".join(lines), _MAX_LINE_WIDTH)
            self._print_line(f"  {event.status.value} after {event.seconds:.1f} s{': ' if said else ''}{said}")
            return
        diff = event.name in _EDIT_TOOLS and any(line.startswith("@@") for line in lines)
        shown = 12 if self._progress is ToolProgress.VERBOSE else 0 if self._progress is ToolProgress.SHORT else 1
        for line in lines[: _DIFF_LINES if diff else shown]:
            self._print_line(f"  {line[:_MAX_LINE_WIDTH].rstrip()}")

    def _print_line(self, text: str) -> None:
        if self._wrapper is not None:
            self._out.write(self._wrapper.flush_text())
            text = wrap_for_terminal(text)
        if self._in_line:
            self._out.write("\n")
            self._in_line = False
        if text:
            self._out.write(text + "\n")
        self._out.flush()

    def _print_warning(self, text: str) -> None:
        if not self._quiet:
            self._print_line("")
        prompt = self.prompt()
        above = "\n" if prompt else ""
        self._err.write(f"{above}hermes: {' '.join(line.strip() for line in text.splitlines())}\n{prompt}")
        self._err.flush()


def _format_refusal(event: Refused) -> str:
    subject, reason = (
        to_one_line(strip_control_characters(event.subject)),
        localize(strip_control_characters(event.reason)) + _format_allow_hint(event.pattern),
    )
    return tr("refused: {subject} ({reason})", subject=subject, reason=reason)


def _format_fallback(event: FellBack) -> str:
    why, model = (
        localize(end_sentence(strip_control_characters(event.reason))),
        f"{strip_control_characters(event.model)} ({event.provider})",
    )
    return tr("{why} Going on with {model}.", why=why, model=model)


def _format_call(event: ToolStarted) -> str:
    """Describe what a call does. The tool's name is left out where the summary begins with the same verb."""
    summary = to_one_line(strip_control_characters(event.summary or event.arguments), _MAX_LINE_WIDTH)
    verb = event.name.partition("_")[0]
    return summary if event.summary and summary.partition(" ")[0] == verb else f"{event.name} {summary}"


def _format_allow_hint(pattern: str) -> str:
    """Say how to allow it the next time; empty for a pattern that a line cannot show unchanged."""
    if (
        not pattern
        or len(pattern) > _MAX_PATTERN_LENGTH
        or strip_control_characters(pattern) != pattern
        or "\n" in pattern
    ):
        return ""
    import shlex

    return tr("; --allow {quote} would let it run", quote=shlex.quote(pattern))
