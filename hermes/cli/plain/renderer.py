"""Print a session's events as lines of a plain terminal."""

import sys
from collections.abc import Callable, Mapping
from shutil import get_terminal_size
from typing import Protocol

from msgspec import Struct

from hermes.cli.event_texts import (
    PICTURE_TOOLS,
    RefusalFilter,
    SubAgentLines,
    count_preview_lines,
    describe_event,
    has_diff,
    name_asker,
)
from hermes.cli.output import StreamingWrapper, print_error, wrap_for_terminal
from hermes.config.display import DisplaySettings, ToolProgress
from hermes.core.events import (
    Event,
    Queued,
    Refused,
    RequestEnded,
    SubAgentChanged,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    WorkStarted,
)
from hermes.core.ids import is_nested_call
from hermes.core.messages import ToolStatus
from hermes.core.outcomes import ExitReason
from hermes.core.stream import TextDelta
from hermes.core.sub_agents import SubAgentState
from hermes.i18n.messages import localize, tr
from hermes.runtime.mailbox import OwnWords
from hermes.util.text import strip_control_characters, strip_terminal_controls, to_one_line

_MAX_ECHO = 500
_MAX_LINE_WIDTH = 100
_MAX_CALL_WIDTH = _MAX_LINE_WIDTH + len("terminal ")
"""Of a command as much is shown as of any other line, and the tool's name before it."""
_DIFF_LINES = 12


class TextShaper(Protocol):
    """Shapes an answer that arrives in pieces for a terminal."""

    def feed_text(self, text: str) -> str:
        """Add text and return what can be written now."""
        ...

    def flush_text(self) -> str:
        """Return the text that was held back; what follows begins a new line."""
        ...


class PlainRenderer:
    """Streams the answer to standard output and prints one line for each step of the work. With `quiet` it prints
    warnings only, to standard error.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._out = sys.stdout
        self._in_line = False
        self._wrapper: TextShaper | None = StreamingWrapper() if self._out.isatty() else None
        """Breaks the answer at spaces, or renders its Markdown, on a terminal."""
        self._environ: Mapping[str, str] = {}
        """The environment of a terminal that draws; empty where output goes elsewhere."""
        self._progress = ToolProgress.ALL
        self.own_words: OwnWords | None = None
        """What was typed here, which the terminal shows already; None where only one message is answered."""
        self._started: set[str] = set()
        self._resumed: set[str] = set()
        self._resumed_outcome = ""
        """How a resumed turn ended; it is printed only when another turn follows."""
        self._refusals = RefusalFilter()
        self._sub_agents = SubAgentLines()
        self._is_answering = False
        self._after_answer: list[str] = []
        """Lines about sub-agents that came while an answer did: they break no answer off."""
        self.output_error: OSError | None = None
        """The error after which nothing is shown any more: the output is closed or full."""
        self.prompt: Callable[[], str] = str
        """Returns the prompt of the line in which a person types now; it is shown again below a notice."""
        self.on_output_error: Callable[[], object] | None = None
        """Called when nothing can be shown any more."""

    def set_display(self, display: DisplaySettings) -> None:
        """Show as much of the work as these display settings say."""
        self._progress = display.tool_progress

    def render_markdown(self, display: DisplaySettings, environ: Mapping[str, str]) -> None:
        """Show the answer's Markdown as the full chat does, where standard output is a terminal that can."""
        if self._wrapper is not None and not display.plain and environ.get("TERM", "") not in ("", "dumb", "unknown"):
            from hermes.cli.plain.markdown_text import MarkdownText

            self._wrapper = MarkdownText(display, environ)
            self._environ = environ

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if self.output_error is not None:
            return
        self._refusals.note_event(event)
        try:
            self._show_event(event)
        except OSError as error:
            self.output_error = error
            if self.on_output_error is not None:
                self.on_output_error()

    def _show_event(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self._begin_turn()
        if isinstance(event, TurnEnded):
            self._end_turn(event)
        elif isinstance(event, Refused) and self._refusals.is_known(event):
            self._print_refusal(event)
        elif (remark := describe_event(event)) is not None:
            if isinstance(event, TurnResumed):
                self._resumed.add(event.turn_id)
            style, text = remark
            if style != "notice":
                self._print_warning(text)
            elif not self._quiet:
                self._print_notice(text)
        elif not self._quiet:
            self._show_work(event)

    def _begin_turn(self) -> None:
        if not self._quiet and self.prompt():
            self._out.write("\n")  # it begins by itself, while the person is about to type
        if self._resumed_outcome:
            self._print_warning(self._resumed_outcome)
            self._resumed_outcome = ""

    def _print_refusal(self, event: Refused) -> None:
        """Print that the person has refused a call: the question has told them why it was asked."""
        subject = to_one_line(strip_control_characters(event.subject), _MAX_LINE_WIDTH)
        said = tr("refused: {subject}", subject=subject)
        self._print_warning(name_asker(event.asker, said) if event.asker else said)

    def _end_answer(self, show: Callable[[str], None]) -> None:
        self._is_answering = False
        lines, self._after_answer = self._after_answer, []
        for line in lines:
            show(line)

    def _end_turn(self, event: TurnEnded) -> None:
        if not self._quiet:
            self._end_answer(lambda line: self._print_line(f"· {line}"))
            remark = describe_event(event)
            if remark is not None:
                self._print_warning(remark[1])
            else:
                self._print_line("")
            self._out.write(self.prompt())
            self._out.flush()
        elif event.turn_id in self._resumed:
            # Told when another turn follows: else its answer is the one that is printed.
            said = to_one_line(strip_control_characters(event.text or event.error), _MAX_LINE_WIDTH)
            self._resumed_outcome = tr("That turn has ended: {said}", said=said)

    def _show_work(self, event: Event) -> None:
        match event:
            case RequestEnded():
                self._end_answer(self._print_notice)
            case TextDelta():
                self._is_answering = True
                text = strip_terminal_controls(event.text)
                self._write_text(self._wrapper.feed_text(text) if self._wrapper is not None else text)
                self._out.flush()
            case TurnStarted() if self._was_said_elsewhere(event.text):
                self._print_line(f"› {to_one_line(strip_control_characters(event.text), _MAX_ECHO)}")
            case Queued():
                text = to_one_line(strip_control_characters(event.text), _MAX_LINE_WIDTH)
                self._print_warning(tr("queued: {text}", text=text))
            case SubAgentChanged():
                self._show_sub_agent(event)
            case ToolStarted() | ToolEnded() if self._progress is ToolProgress.OFF:
                pass
            case ToolStarted():
                self._show_call(event)
            case ToolEnded():
                self._show_call_result(event)
            case WorkStarted():
                self._print_line(f"· {localize(event.doing)}")
            case _:
                pass

    def _show_sub_agent(self, event: SubAgentChanged) -> None:
        """Print that a sub-agent begins, and how one ends; where calls are not shown only what is not done."""
        line = self._sub_agents.describe_change(event)
        hidden = self._progress is ToolProgress.OFF and event.state in (SubAgentState.RUNNING, SubAgentState.DONE)
        if line and not hidden:
            self._after_answer.append(line)
            if not self._is_answering:
                self._end_answer(self._print_notice)

    def _was_said_elsewhere(self, text: str) -> bool:
        return self.own_words is not None and bool(text.strip()) and not self.own_words.take(text)

    def _show_call(self, event: ToolStarted) -> None:
        from hermes.commands.event_descriptions import describe_call

        indent = "  " if is_nested_call(event.call_id, tuple(self._started)) else ""
        self._started.add(event.call_id)
        self._print_line(f"{indent}· {describe_call(event, _MAX_CALL_WIDTH)}")

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
        shown = _DIFF_LINES if has_diff(event) else count_preview_lines(self._progress, 1)
        for line in lines[:shown]:
            self._print_line(f"  {line[:_MAX_LINE_WIDTH].rstrip()}")
        if event.name in PICTURE_TOOLS and self._environ:
            self._draw_picture(event)

    def _draw_picture(self, event: ToolEnded) -> None:
        """Draw a picture that was made, where the terminal shows pictures."""
        from hermes.cli.render.inline_pictures import draw_result

        columns = get_terminal_size().columns
        if drawn := draw_result(event.preview, self._environ, columns, "\n"):
            self._out.write(f"{drawn}\n")
            self._out.flush()

    def _print_notice(self, text: str) -> None:
        prompt = self.prompt()
        self._print_line(("\n" if prompt else "") + f"· {text}")
        self._out.write(prompt)
        self._out.flush()

    def _print_line(self, text: str) -> None:
        if self._wrapper is not None:
            self._write_text(self._wrapper.flush_text())
            text = wrap_for_terminal(text)
        if self._in_line:
            self._out.write("\n")
            self._in_line = False
        if text:
            self._out.write(text + "\n")
        self._out.flush()

    def _write_text(self, text: str) -> None:
        self._out.write(text)
        self._in_line = not text.endswith("\n") if text else self._in_line

    def _print_warning(self, text: str) -> None:
        if not self._quiet:
            self._print_line("")
        prompt = self.prompt()
        above = "\n" if prompt else ""
        sys.stderr.write(f"{above}hermes: {' '.join(line.strip() for line in text.splitlines())}\n{prompt}")
        sys.stderr.flush()


class CheckedAnswer(Struct, frozen=True, kw_only=True):
    """The last turn of a run with its answer; `problem` says why the answer does not have the demanded form."""

    ended: TurnEnded
    text: str
    structured: object = None
    problem: str = ""


def print_turn_end(ended: TurnEnded, *, with_text: bool, with_error: bool = False) -> bool:
    """Print how a turn has ended, `with_text` also its answer or error, `with_error` its error. Return whether it was
    stopped.
    """
    if with_text and ended.text:
        print(strip_terminal_controls(ended.text) if sys.stdout.isatty() else ended.text)
    if (with_text or with_error) and ended.error:
        print_error(strip_control_characters(localize(ended.error)))
    if ended.reason is not ExitReason.INTERRUPTED:
        return False
    print_error(tr("Stopped."))
    return True
