"""Keep a chat in touch with its terminal while it runs: asked once, told of what happens, left as it was."""

import asyncio
import contextlib
import os
import select
import sys
import termios
import time
from collections.abc import Callable

from prompt_toolkit.application.current import get_app
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.input.vt100 import raw_mode

from hermes.cli.render.theme import Background
from hermes.cli.tui.terminal_signals import AWAY_SECONDS, TerminalInput, TerminalSignals
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.core.events import ApprovalAsked, Event, TurnEnded
from hermes.i18n.messages import tr

_MAX_BYTES = 65_536
_DRAIN_SECONDS = 0.1


class TerminalLink:
    """Knows whether a person looks at the chat, and what the terminal's background is."""

    def __init__(self, signals: TerminalSignals, terminal_style: TerminalStyle) -> None:
        self._signals = signals
        self._terminal_style = terminal_style
        self._is_open = False
        self.input = TerminalInput(sys.stdin, self._note_focus, self._note_background) if sys.stdin.isatty() else None
        """The chat's keys; None where standard input is no terminal."""
        self.on_background: Callable[[], None] = lambda: None
        """Called when what is known of the background changes the colors."""
        self.key_at = 0.0
        """When a key was last pressed, on the loop's clock."""
        self._waiting: asyncio.TimerHandle | None = None
        """The notice that is given unless the person comes back."""

    def open(self) -> None:
        """Ask the terminal what it can tell, once something is drawn: raw mode is on then, so no answer is shown."""
        if self._is_open:
            return
        self._is_open = True
        self.resume()
        if self._terminal_style.fits_background and self.input is not None:
            self.input.expects_color = self._signals.ask_background()

    def resume(self) -> None:
        """Have the terminal tell of its focus, and keep its title."""
        self._signals.open_terminal(self._terminal_style.display)

    def pause(self) -> None:
        """Leave the terminal as it was, to another program."""
        self._signals.close_terminal()

    def close(self) -> None:
        """Leave the terminal as it was, for good."""
        self._drop_notice()
        with contextlib.suppress(OSError, termios.error):
            if self.input is not None and self.input.expects_color:
                drain_reports(self.input.fileno())
            self.pause()

    def suspend(self) -> None:
        """Stop this process, as Ctrl-Z does, with the terminal as it was."""
        app = get_app()
        self.pause()
        app.suspend_to_background()
        app.create_background_task(self._resume_drawn())

    async def _resume_drawn(self) -> None:
        async with in_terminal():
            self.resume()

    def show_activity(self, mark: str) -> None:
        """Show in the title what goes on: `*` works, `?` asks."""
        if self._is_open:
            self._signals.set_title(mark, self._terminal_style.display)

    def notify_of_event(self, event: Event, *, is_last: bool) -> None:
        """Tell a person who is away that a turn has ended (`is_last`: nothing else follows), or asks."""
        match event:
            case TurnEnded() if is_last:
                self._notify(tr("The turn has failed.") if event.error else tr("The turn has ended."))
            case ApprovalAsked():
                self._notify(tr("A question waits for you."))
            case _:
                pass

    def _notify(self, text: str) -> None:
        """Tell a person who is away. Who has just typed is here; a window that is not in front is looked at again when
        its last key is long enough ago.
        """
        self._drop_notice()
        loop, focused = asyncio.get_running_loop(), self._signals.focused
        left = self.key_at + AWAY_SECONDS - loop.time()
        if left > 0 and focused is False:
            self._waiting = loop.call_later(left, self._notify, text)
        elif left <= 0 and not focused:
            self._signals.notify(text, self._terminal_style.display.notify)

    def note_key(self) -> None:
        """Note that a key was pressed: what happened before needs no notice any more."""
        self.key_at = asyncio.get_running_loop().time()
        self._drop_notice()

    def _drop_notice(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _note_focus(self, focused: bool) -> None:
        self._signals.focused = focused
        if focused:
            self._drop_notice()

    def _note_background(self, background: Background) -> None:
        if background is not Background.UNKNOWN and self._terminal_style.set_background(background):
            self.on_background()


def drain_reports(descriptor: int) -> None:
    """Take the answer of the terminal that may still come, so that the shell does not read it as typed."""
    end = time.monotonic() + _DRAIN_SECONDS
    typed = b""
    with raw_mode(descriptor):
        while (left := end - time.monotonic()) > 0 and not typed.endswith((b"\x07", b"\x1b\\")):
            if select.select([descriptor], [], [], left)[0]:
                typed += os.read(descriptor, _MAX_BYTES) or b"\x07"
