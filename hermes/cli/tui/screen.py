"""The parts of the full chat that are seen and typed into; of sessions it knows nothing."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct
from prompt_toolkit.application.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.completion import Completer
from prompt_toolkit.enums import EditingMode as KeySet
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.styles import Style

from hermes.cli.tui import typeahead
from hermes.cli.tui.composer import Composer
from hermes.cli.tui.keys import Actions, bindings
from hermes.cli.tui.layout import Faces, layout
from hermes.cli.tui.menu import QUIET, Menus
from hermes.cli.tui.output import Paper
from hermes.cli.tui.painted import fragments
from hermes.cli.tui.status import Status, fitted, parts
from hermes.cli.tui.style import Look
from hermes.cli.tui.view import View
from hermes.config.display import EditingMode
from hermes.i18n.messages import say
from hermes.util.text import inert, one_line

T = TypeVar("T")

MOST_OWN_LINES = 200
"""Lines shown of what a command of the person's own has said."""
TICK = 0.25
"""Seconds between two drawings of what only tells the time."""
_TIDY = "\x1b[0m\x1b[?1000;1002;1003;1006l\x1b[?1047l\x1b[4l\x1b[?7h\x1b[?25h"
"""Takes back what a program leaves that was killed: mouse, second screen, insert mode, no wrapping, a hidden cursor.
None of it does anything to a terminal that is in order."""


class Wishes(Struct, frozen=True):
    """What a person may want of the chat by a key."""

    line: Callable[[str], None]
    stop: Callable[[], None]
    end: Callable[[], None]
    picture: Callable[[], None]
    edit: Callable[[], None]


class Screen:
    """The input line at the bottom and all that is shown above it. `run` lasts until `leave`."""

    def __init__(self, look: Look, paper: Paper, past: History, completer: Completer, wishes: Wishes) -> None:
        self.look = look
        self._paper = paper
        self._wishes = wishes
        self._typed: asyncio.Future[str | None] | None = None
        self._answering = False
        """Whether the input line is an answer's now."""
        self._key_at = 0.0
        """When a key was pressed last, on the loop's clock."""
        self._ticking: asyncio.TimerHandle | None = None
        self.status = Status()
        self.composer = Composer(past, completer, self._line)
        self.view = View(look, self.commit, self.changed)
        self.menus = Menus(self.changed, self.view.tell)
        self.application: Application[None] = self._application()

    def _application(self) -> Application[None]:
        faces = Faces(
            live=self._live,
            status=self._status,
            prompt=self._prompt,
            menu=lambda: self.menus.menu is not None,
            status_shown=lambda: self.look.display.status_bar,
        )
        wishes = self._wishes
        actions = Actions(
            stop=self._stop,
            end=wishes.end,
            clear=self.clear,
            unfold=self._unfold,
            thoughts=self._thoughts,
            picture=wishes.picture,
            edit=wishes.edit,
        )
        made: Application[None] = Application(
            layout=layout(self.composer, faces),
            key_bindings=bindings(self.composer, self.menus, actions),
            style=Style.from_dict(self.look.styles()),
            editing_mode=KeySet.VI if self.look.display.editing_mode is EditingMode.VI else KeySet.EMACS,
            output=self._paper,
            erase_when_done=True,
            min_redraw_interval=0.01,
            terminal_size_polling_interval=None,
        )
        made.ttimeoutlen = 0.05
        made.key_processor.before_key_press += lambda _: self._key()
        made.before_render += lambda _: self._paper.release()
        made.after_render += lambda _: self._paper.finish()
        return made

    async def run(self) -> None:
        """Show everything until `leave`. Raises EOFError when the terminal is gone."""
        typeahead.take(self.application.input)
        await self.application.run_async(handle_sigint=False, set_exception_handler=False)

    def leave(self) -> None:
        """Take the input line away; what was shown stays."""
        self.view.flush()
        if self.application.is_running and not self.application.is_done:
            self.application.exit()

    # Showing.

    def commit(self, lines: Sequence[str]) -> None:
        """Put finished lines into the scrollback, above everything that moves."""
        text = "\r\n".join(lines) + "\r\n"
        if not self.application.is_running:
            self._paper.write_raw(text)
            self._paper.flush()
            return
        self._paper.hold()
        self.application.renderer.erase(leave_alternate_screen=False)
        self._paper.write_raw(text)
        self.application.invalidate()

    def changed(self) -> None:
        """Something that moves has changed."""
        if self.application.is_running:
            self.application.invalidate()
        if self.view.busy and self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)

    def tell(self, style: str, text: str) -> None:
        """A line of the program's own."""
        self.view.tell(self.look.wrapped(style, f"{self.look.mark('notice')} {text}", indent=2))

    def tell_result(self, command: str, said: str) -> None:
        """What a command of the person's own has said, as far as it fits; all of it goes to the model."""
        look = self.look
        lines = look.wrapped("person", f"! {one_line(inert(command), 400)}", indent=2)
        shown = inert(said).rstrip("\n").split("\n")
        for line in shown[:MOST_OWN_LINES]:
            lines += look.wrapped("result", f"  {line}", indent=2)
        if len(shown) > MOST_OWN_LINES:
            lines.append(look.paint("notice", "  " + say("… {n} more lines", n=len(shown) - MOST_OWN_LINES)))
        self.view.tell([*lines, ""])

    def write_raw(self, sequence: str) -> None:
        """Send a sequence of our own to the terminal, one that draws nothing."""
        self._paper.write_raw(sequence)
        self._paper.flush()

    def clear(self) -> None:
        """Clear the screen; the scrollback stays."""
        self.application.renderer.clear()
        self.changed()

    def restyle(self) -> None:
        """Take over changed colours and keys."""
        self.application.style = Style.from_dict(self.look.styles())
        vi = self.look.display.editing_mode is EditingMode.VI
        self.application.editing_mode = KeySet.VI if vi else KeySet.EMACS
        self.changed()

    async def aside(self, work: Callable[[], T]) -> T:
        """Give the terminal to another program until it is done."""
        async with in_terminal():
            self.menus.hide(True)
            try:
                return await asyncio.to_thread(work)
            finally:
                self.menus.hide(False)
                self._paper.write_raw(_TIDY)
                self._paper.flush()

    async def typed(self, lines: Sequence[str], default: str = "") -> str | None:
        """Let the person type an answer below `lines`; None when they would rather not.

        What they are just writing is finished first: the line becomes the answer's after a moment without keys.
        """
        while self._typed is not None:
            await asyncio.wait({self._typed})
        self.view.tell(lines)
        buffer, loop = self.composer.buffer, asyncio.get_running_loop()
        answer: asyncio.Future[str | None] = loop.create_future()
        self._typed = answer
        kept = None
        try:
            while buffer.text and (left := self._key_at + QUIET - loop.time()) > 0:
                await asyncio.wait({answer}, timeout=left)
            kept, buffer.text = buffer.text, default
            buffer.cursor_position = len(default)
            self._answering = True
            self.changed()
            return await answer
        finally:
            self._typed, self._answering = None, False
            if kept is not None:
                buffer.text = kept
                buffer.cursor_position = len(kept)
            self.changed()

    # Typing.

    def _line(self, text: str) -> None:
        if self._typed is not None and self._answering:
            if not self._typed.done():
                self._typed.set_result(text)
            return
        self._wishes.line(text)

    def _key(self) -> None:
        self._key_at = asyncio.get_running_loop().time()
        self.menus.any_key()

    def _stop(self) -> None:
        """Ctrl-C: leaves a question, else stops what runs, else clears the line."""
        if self.menus.menu is not None:
            self.menus.leave()
        elif self._typed is not None:
            if not self._typed.done():
                self._typed.set_result(None)
        else:
            self._wishes.stop()

    def _unfold(self) -> None:
        self.view.tell(self.view.unfolded() or [say("There is nothing to unfold.")])

    def _thoughts(self) -> None:
        self.view.tell(self.view.reasoning() or [say("The model has shown no reasoning yet.")])

    # What is drawn.

    def _live(self) -> StyleAndTextTuples:
        size = self._paper.get_size()
        room = max(size.rows - 6, 2)
        menu = self.menus.drawn(
            self.look.paint, lambda style, text: self.look.wrapped(style, text, indent=4), size.rows
        )
        menu = menu[-max(size.rows - 2, 1) :]
        lines = [*self.view.live(max(room - len(menu), 1) if menu else room), *menu]
        return fragments(lines) if lines else []

    def _prompt(self) -> StyleAndTextTuples:
        mark = say("answer") + " " if self._answering else ""
        return [("class:prompt", f"{mark}{self.look.mark('prompt')} ")]

    def _status(self) -> StyleAndTextTuples:
        return list(fitted(parts(self.status), self.look.width))

    def _tick(self) -> None:
        self._ticking = None
        if self.view.busy:
            self.changed()

    def close(self) -> None:
        """Stop what moves by itself."""
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
        with contextlib.suppress(RuntimeError):
            self.view.flush()
