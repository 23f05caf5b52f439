"""The visible parts of the full-screen chat and the input line; it knows nothing of sessions.

What is seen is the live lines, a menu or the input line, completions, and the status line; what is finished is written
above them in one write with the drawing that follows, so that nothing flickers and nothing is seen half drawn.
"""

import asyncio
import contextlib
import os
import re
import select
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TypeVar

from msgspec import Struct
from prompt_toolkit.application.application import Application
from prompt_toolkit.application.current import get_app
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.completion import Completer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode as KeySet
from prompt_toolkit.filters import (
    Always,
    Condition,
    Filter,
    has_completions,
    is_searching,
    vi_insert_mode,
)
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input.base import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_bindings import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.layout.containers import ConditionalContainer, HSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl, SearchBufferControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.layout import Layout
from prompt_toolkit.layout.processors import AppendAutoSuggestion, BeforeInput, HighlightIncrementalSearchProcessor
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from hermes.cli.tui.completion_rows import CompletionRows
from hermes.cli.tui.composer import Composer
from hermes.cli.tui.event_view import EventView
from hermes.cli.tui.key_bindings import (
    build_key_bindings,
    limit_key_wait,
    list_stop_keys,
    read_action_keys,
)
from hermes.cli.tui.menu import QUIET_SECONDS, ChoiceMenu, MenuQueue
from hermes.cli.tui.status_line import SessionStatus, fit_parts, format_parts
from hermes.cli.tui.terminal_link import TerminalLink
from hermes.cli.tui.terminal_signals import TerminalSignals
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.cli.tui.view_actions import ViewActions
from hermes.config.chat_keys import format_action_keys
from hermes.config.display import EditingMode
from hermes.i18n.messages import tr
from hermes.util.text import strip_control_characters, to_one_line

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronised output: a terminal that knows it draws what stands between at once; others ignore both."""
_MAX_COMPLETIONS = 8
_COLOR_SEQUENCES = re.compile("(\x1b\\[[0-9;]*m)")
T = TypeVar("T")
MAX_SHELL_LINES = 200
"""Lines shown of the output of a shell command of the person's own."""
TICK_SECONDS = 0.25
"""Seconds between two drawings of elapsed times."""
_RESET_TERMINAL = "\x1b[0m\x1b[?1000;1002;1003;1006l\x1b[?1047l\x1b[4l\x1b[?7h\x1b[?25h"
"""Undoes what a killed program leaves: mouse, second screen, insert mode, no wrapping, a hidden cursor. None
of it does anything to a terminal that is in order.
"""
_MAX_BYTES = 65_536


class SynchronizedOutput(Vt100_Output):
    """Holds back what is written while `held`, so that it leaves together with the drawing that follows."""

    def __init__(self, term: str, depth: ColorDepth | None, *, synchronised: bool) -> None:
        import os

        def read_size() -> Size:
            rows, columns = 0, 0
            for stream in (sys.__stdout__, sys.__stdin__):
                try:
                    columns, rows = os.get_terminal_size(stream.fileno() if stream is not None else 1)
                    break
                except (OSError, ValueError):
                    continue
            return Size(rows=max(rows or 24, 2), columns=max(columns or 80, 2))

        super().__init__(sys.stdout, read_size, term=term, default_color_depth=depth, enable_cpr=False)
        self._marks = (_BEGIN, _END) if synchronised else ("", "")
        self.held = False

    def hold_output(self) -> None:
        """Hold back what is written from now on until `release_output`."""
        if not self.held:
            self.write_raw(self._marks[0])
        self.held = True

    def release_output(self) -> None:
        """Let out what was held back with the next drawing."""
        self.held = False

    def finish_frame(self) -> None:
        """Tell the terminal that the drawing is done and may be shown."""
        if self._marks[1]:
            self.write_raw(self._marks[1])
            self.flush()

    def flush(self) -> None:
        """Write what is there, unless it is held back."""
        if not self.held:
            super().flush()


def parse_fragments(lines: list[str]) -> StyleAndTextTuples:
    """Convert the lines to one text, newlines between them."""
    found: StyleAndTextTuples = []
    for number, line in enumerate(lines):
        if number:
            found.append(("", "\n"))
        if "\x1b" not in line:
            found.append(("", line))
            continue
        style = ""
        for piece in _COLOR_SEQUENCES.split(line):
            if piece.startswith("\x1b["):
                style = _apply_sequence(style, piece)
            elif piece:
                found.append((style, piece))
    return found


@lru_cache(maxsize=512)
def _apply_sequence(before: str, sequence: str) -> str:
    """Return the style after an SGR sequence of ours; each of ours begins from nothing or
    adds to the style before it.
    """
    if sequence in ("\x1b[m", "\x1b[0m"):
        return ""
    drawn = ANSI(f"{sequence}x").__pt_formatted_text__()
    own = str(drawn[-1][0]) if drawn else ""
    return f"{before} {own}".strip()


class ScreenCallbacks(Struct, frozen=True):
    """The callbacks for what a person asks of the chat by a key."""

    line: Callable[[str], None]
    later: Callable[[str], None]
    """Is given a line for a turn of its own."""
    stop: Callable[[], None]
    back: Callable[[], None]
    mode: Callable[[], None]
    model: Callable[[], None]
    waiting: Callable[[], None]
    background: Callable[[], None]
    end: Callable[[], None]
    picture: Callable[[], None]
    edit: Callable[[], None]


class Screen:
    """The input line at the bottom and all that is shown above it. `run` lasts until `leave_screen`."""

    def __init__(
        self,
        terminal_style: TerminalStyle,
        output: SynchronizedOutput,
        history: History,
        completer: Completer,
        callbacks: ScreenCallbacks,
        environ: Mapping[str, str],
    ) -> None:
        self.terminal_style = terminal_style
        self._output = output
        self._callbacks = callbacks
        self._answer: asyncio.Future[str | None] | None = None
        self._answering = False
        """Whether the input line belongs to an answer now."""
        self._ticking: asyncio.TimerHandle | None = None
        self.status = SessionStatus()
        self._action_keys, self.key_error = read_action_keys(terminal_style.display.keys)
        self.composer = Composer(history, completer, self._submit_line)
        self.view = EventView(terminal_style, self.commit_lines, self.request_redraw, environ)
        self.view.calls.unfold_key = format_action_keys(self._action_keys["unfold"][:1])
        self.view.background_key = format_action_keys(self._action_keys["background"][:1])
        self.view.stop_key = format_action_keys(list_stop_keys(self._action_keys, terminal_style.display)[:1])
        self.link = TerminalLink(TerminalSignals(environ, self.write_raw, os.getcwd()), terminal_style)
        self.link.on_background = self.apply_display
        self.view.listeners.append(lambda event: self.link.notify_of_event(event, is_last=not self.view.queued))
        self.menus = MenuQueue(self.request_redraw, partial(self.view.tell_lines, apart=True))
        self._view_actions = ViewActions(self.view, self.composer, self.menus, self.tell)
        self.application: Application[None] = self._build_application()

    def _build_application(self) -> Application[None]:
        made: Application[None] = Application(
            layout=self._build_layout(),
            key_bindings=self._build_key_bindings(),
            style=Style.from_dict(self.terminal_style.theme.resolve_styles()),
            editing_mode=KeySet.VI if self.terminal_style.display.editing_mode is EditingMode.VI else KeySet.EMACS,
            input=self.link.input,
            output=self._output,
            erase_when_done=True,
            min_redraw_interval=0.01,
            terminal_size_polling_interval=None,
        )
        made.ttimeoutlen = 0.05
        made.key_processor.before_key_press += lambda _: self._note_key()
        made.key_processor.after_key_press += lambda _: limit_key_wait(made)
        made.before_render += lambda _: self._output.release_output()
        made.after_render += lambda _: self._output.finish_frame()
        made.after_render += lambda _: self.link.open()
        return made

    def _build_layout(self) -> Layout:
        """Build the layout, with the input line in focus."""
        search = SearchBufferControl()
        control = BufferControl(
            buffer=self.composer.buffer,
            search_buffer_control=search,
            preview_search=True,
            input_processors=[
                HighlightIncrementalSearchProcessor(),
                AppendAutoSuggestion(),
                BeforeInput(self._render_prompt),
            ],
        )
        live = Window(FormattedTextControl(self._render_live), wrap_lines=False, dont_extend_height=True)
        line = Window(
            control,
            wrap_lines=True,
            dont_extend_height=True,
            height=lambda: Dimension(min=1, max=max(get_app().output.get_size().rows // 3, 3)),
            get_line_prefix=lambda number, wrapped: "  " if number or wrapped else "",
        )
        completions = Window(
            CompletionRows(self.composer.is_first_marked),
            height=Dimension(min=1, max=_MAX_COMPLETIONS),
            dont_extend_height=True,
            style="class:completion-menu",
        )
        found = Window(search, height=1, get_line_prefix=lambda number, wrapped: tr("search back: "))
        status = Window(
            FormattedTextControl(self._render_status), height=1, dont_extend_height=True, style="class:status"
        )
        return Layout(
            HSplit(
                [
                    live,
                    line,
                    ConditionalContainer(found, is_searching),
                    ConditionalContainer(
                        completions, has_completions & ~Condition(lambda: self.menus.menu is not None)
                    ),
                    ConditionalContainer(
                        status, Condition(lambda: self.terminal_style.display.status_bar) & ~is_searching
                    ),
                ]
            ),
            focused_element=line,
        )

    def _build_key_bindings(self) -> KeyBindings:
        """Build the chat's own key bindings; those of emacs or vi come from prompt_toolkit."""
        composer, menus, parts = self.composer, self.menus, self._view_actions
        free = ~Condition(menus.is_listening)
        actions: Mapping[str, tuple[Callable[[], object], Filter]] = {
            "newline": (parts.insert_newline, Always()),
            "later": (partial(parts.send_later, self._callbacks.later), Always()),
            "waiting": (self._callbacks.waiting, free),
            "stop": (self._handle_interrupt, Always()),
            "back": (self._handle_escape, free & ~is_searching & ~vi_insert_mode),
            "mode": (
                self._callbacks.mode,
                (free & ~has_completions & ~is_searching) | Condition(menus.is_mode_question),
            ),
            "background": (self._callbacks.background, Condition(self.view.calls.is_command_running)),
            "model": (self._callbacks.model, free),
            "leave": (self._callbacks.end, free & Condition(lambda: not composer.buffer.text)),
            "unfold": (parts.show_results, free),
            "plan": (parts.toggle_plan, free),
            "reasoning": (parts.show_reasoning, free),
            "edit": (self._callbacks.edit, free & ~is_searching),
            "picture": (self._callbacks.picture, free),
            "clear": (self.clear, free),
            "suspend": (self.link.suspend, Always()),
        }
        return build_key_bindings(self._action_keys, actions, composer, menus)

    async def run(self) -> None:
        """Show everything until `leave_screen`. Raises EOFError when the terminal is gone."""
        take_typed_lines(self.application.input)
        try:
            await self.application.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            self.link.close()

    def leave_screen(self) -> None:
        """Remove the input line; what was shown stays."""
        self.view.flush()
        if self.application.is_running and not self.application.is_done:
            self.application.exit()

    # Showing.

    def commit_lines(self, lines: Sequence[str]) -> None:
        """Put finished lines into the scrollback, above everything that moves."""
        text = "\r\n".join(lines) + "\r\n"
        if not self.application.is_running:
            self._output.write_raw(text)
            self._output.flush()
            return
        self._output.hold_output()
        self.application.renderer.erase(leave_alternate_screen=False)
        self._output.write_raw(text)
        self.application.invalidate()

    def request_redraw(self) -> None:
        """Ask for a redraw, since something that moves has changed."""
        if self.application.is_running:
            self.application.invalidate()
            asks = self.menus.menu is not None or self._answer is not None
            self.link.show_activity("?" if asks else "*" if self.view.busy else "")
        if self.view.busy and self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._redraw_times)

    def tell(self, style: str, text: str) -> None:
        """Show a line of Hermes' own."""
        words = f"{self.terminal_style.get_mark('notice')} {text}"
        self.view.tell_lines(
            self.terminal_style.wrap_paragraphs(style, words, indent=2, width=self.terminal_style.prose_width)
        )

    def echo_command(self, line: str) -> None:
        """Show a command as it was typed, above what it says."""
        words = f"{self.terminal_style.get_mark('person')} {to_one_line(strip_control_characters(line), 400)}"
        self.view.tell_lines(["", *self.terminal_style.wrap_paragraphs("person", words, indent=2)])

    def show_shell_result(self, command: str, said: str) -> None:
        """Show the output of a shell command of the person's own, as far as it fits; all of it goes to the model."""
        terminal_style = self.terminal_style
        lines = terminal_style.wrap_paragraphs(
            "person", f"! {to_one_line(strip_control_characters(command), 400)}", indent=2
        )
        shown = strip_control_characters(said).rstrip("\n").split("\n")
        for line in shown[:MAX_SHELL_LINES]:
            lines += terminal_style.wrap_paragraphs("result", f"  {line}", indent=2)
        if len(shown) > MAX_SHELL_LINES:
            lines.append(terminal_style.paint("notice", "  " + tr("… {n} more lines", n=len(shown) - MAX_SHELL_LINES)))
        self.view.tell_lines([*lines, ""])

    def write_raw(self, sequence: str) -> None:
        """Send a control sequence of our own to the terminal, one that draws nothing."""
        self._output.write_raw(sequence)
        self._output.flush()

    def clear(self) -> None:
        """Clear the screen; the scrollback stays."""
        self.application.renderer.clear()
        self.request_redraw()

    def apply_display(self) -> None:
        """Apply changed colors and keys."""
        self.application.style = Style.from_dict(self.terminal_style.theme.resolve_styles())
        vi = self.terminal_style.display.editing_mode is EditingMode.VI
        self.application.editing_mode = KeySet.VI if vi else KeySet.EMACS
        self.request_redraw()

    async def lend_terminal(self, work: Callable[[], T]) -> T:
        """Give the terminal to another program until it is done."""
        async with in_terminal():
            self.menus.set_hidden(True)
            self.link.pause()
            try:
                return await asyncio.to_thread(work)
            finally:
                self.menus.set_hidden(False)
                self._output.write_raw(_RESET_TERMINAL)
                self._output.flush()
                self.link.resume()

    async def ask_text(self, lines: Sequence[str], default: str = "") -> str | None:
        """Let the person type an answer below `lines`; None when they would rather not.

        What they are just writing is finished first: the line becomes the answer's after a moment without keys.
        """
        while self._answer is not None:
            await asyncio.wait({self._answer})
        self.view.tell_lines(lines)
        buffer, loop = self.composer.buffer, asyncio.get_running_loop()
        answer: asyncio.Future[str | None] = loop.create_future()
        self._answer = answer
        interrupted_text = None
        try:
            while buffer.text and (left := self.link.key_at + QUIET_SECONDS - loop.time()) > 0:
                await asyncio.wait({answer}, timeout=left)
            interrupted_text, buffer.text = buffer.text, default
            buffer.cursor_position = len(default)
            self._answering = True
            self.request_redraw()
            return await answer
        finally:
            answer.cancel()  # another that waits for its turn waits for this one
            self._answer, self._answering = None, False
            if interrupted_text is not None:
                buffer.text = interrupted_text
                buffer.cursor_position = len(interrupted_text)
            self.request_redraw()

    # Typing.

    def _submit_line(self, text: str) -> None:
        if self._answer is not None and self._answering:
            beside_menu = self.menus.menu is not None
            if not self._answer.done() and (text.strip() or not beside_menu):
                self._answer.set_result(text)
            return
        self._callbacks.line(text)

    def _note_key(self) -> None:
        self.link.note_key()
        self.menus.note_any_key()

    def _handle_interrupt(self) -> None:
        """Handle Ctrl-C: dismiss a question, else stop what runs, else clear the line."""
        if self.menus.menu is not None:
            self.menus.change_menu(ChoiceMenu.dismiss)
        elif self._answer is not None:
            if not self._answer.done():
                self._answer.set_result(None)
        else:
            self._callbacks.stop()

    def _handle_escape(self) -> None:
        """Handle Esc: close the completions, else leave a question unanswered, else what the chat has it for."""
        buffer = self.composer.buffer
        if buffer.complete_state is not None:
            buffer.cancel_completion()
        elif self.menus.menu is None and self._answer is None:
            self._callbacks.back()
        elif self._answering and self._answer is not None and not self._answer.done():
            self._answer.set_result(None)

    # What is drawn.

    def _render_live(self) -> StyleAndTextTuples:
        size = self._output.get_size()
        room = max(size.rows - 6, 2)
        menu = self.menus.render_menu(self.terminal_style, size.rows)
        lines = [*self.view.render_live(max(room - len(menu), 1) if menu else room), *menu]
        return parse_fragments(lines[-max(size.rows - 2, 1) :]) if lines else []

    def _render_prompt(self) -> StyleAndTextTuples:
        """Render what stands before the line: in a list that letters narrow down these letters, so that the cursor
        stands behind them.
        """
        menu, mark = self.menus.menu, f"{self.terminal_style.get_mark('prompt')} "
        if menu is not None and menu.typing:
            narrowed = tr("filter: {letters}", letters=menu.filter)
            return [("class:prompt", f"{narrowed} {mark}" if self.composer.buffer.text else narrowed)]
        return [("class:prompt", f"{tr('answer')} {mark}" if self._answering else mark)]

    def _render_status(self) -> StyleAndTextTuples:
        return list(fit_parts(format_parts(self.status), self.terminal_style.width))

    def _redraw_times(self) -> None:
        self._ticking = None
        if self.view.busy:
            self.request_redraw()

    def close(self) -> None:
        """Stop what moves by itself."""
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
        with contextlib.suppress(RuntimeError):
            self.view.flush()


def take_typed_lines(source: Input) -> None:
    """Give the lines that were typed so far to the chat as they were meant.

    Until the terminal is in raw mode it turns Enter into a newline, which the input line takes for one.
    Called before raw mode begins; the beginning of a line that is not ended yet stays in the terminal and
    comes by itself.
    """
    descriptor = source.fileno()
    try:
        if not termios.tcgetattr(descriptor)[3] & termios.ICANON:
            return
        typed = b""
        while len(typed) < _MAX_BYTES and select.select([descriptor], [], [], 0)[0]:
            line = os.read(descriptor, _MAX_BYTES)
            typed += line.replace(b"\n", b"\r") or b"\x04"
            if not line:
                break  # Ctrl-D at the beginning of a line
    except (termios.error, OSError):
        return
    presses: list[KeyPress] = []
    parser = Vt100Parser(presses.append)
    parser.feed_and_flush(typed.decode("utf-8", "replace"))
    store_typeahead(source, presses)
