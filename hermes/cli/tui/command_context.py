"""The command context of the full-screen chat, which slash commands are given."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hermes.cli.desktop import copy_text, read_clipboard_picture
from hermes.cli.tui.live_session import TuiSession
from hermes.cli.tui.screen import Screen
from hermes.commands.context import MenuOption, PostMode, Surface
from hermes.config.display import DisplaySettings
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_unseen_characters

if TYPE_CHECKING:
    from hermes.admin.people.identity import PersonIdentity
    from hermes.ipc.remote_session import RemoteSession
    from hermes.runtime.actor import SessionActor
    from hermes.runtime.mailbox import InboundMessage
    from hermes.sessions.app import App
    from hermes.sessions.port import SessionPort

_LEVEL_STYLES = {Level.INFO: "", Level.WARNING: "warning", Level.ERROR: "error"}
_FILTER_THRESHOLD = 8
"""Options above which a menu is narrowed down by typing."""


class TuiTerminal:
    """The `Terminal` of the full-screen chat."""

    full = True

    def __init__(self, screen: Screen, environ: Mapping[str, str]) -> None:
        self._screen = screen
        self._environ = environ

    @property
    def width(self) -> int:
        """The columns for what is shown."""
        return self._screen.terminal_style.width

    @property
    def display(self) -> DisplaySettings:
        """The current display settings."""
        return self._screen.terminal_style.display

    def set_display(self, display: DisplaySettings) -> None:
        """Use these display settings from now on."""
        self._screen.terminal_style.apply_display(display)
        self._screen.apply_display()

    def list_skins(self) -> Sequence[str]:
        """Return the names of the skins."""
        return self._screen.terminal_style.list_skins()

    def clear(self) -> None:
        """Clear the screen."""
        self._screen.clear()

    def redraw(self) -> None:
        """Draw everything again."""
        self._screen.clear()

    def format_reasoning(self) -> Sequence[str]:
        """Return the model's last reasoning, as lines."""
        return self._screen.view.format_reasoning()

    async def copy_text(self, text: str) -> str:
        """Put a text into the clipboard."""
        return await asyncio.to_thread(copy_text, text, self._environ, self._screen.write_raw)

    async def edit_text(self, text: str) -> str | None:
        """Let the person write in their editor."""
        from hermes.cli.desktop import edit_in_editor

        return await self._screen.lend_terminal(lambda: edit_in_editor(text, self._environ))

    def attach_picture(self, path: str) -> None:
        """Send a picture along with the next message."""
        if not os.path.isfile(os.path.expanduser(path)):
            raise UsageError(N_("There is no file {path}.", path=escape_unseen_characters(path)))
        self._screen.composer.attach_picture(path)

    async def paste_picture(self) -> bool:
        """Attach the picture in the clipboard. Return whether there was one."""
        picture = None
        with contextlib.suppress(OSError):
            picture = await asyncio.to_thread(read_clipboard_picture, self._environ)
        if picture is None:
            return False
        self._screen.composer.attach_picture("clipboard.png", picture)
        return True


class TuiCommandContext:
    """The `CommandContext` of the full-screen chat."""

    surface = Surface.TERMINAL

    def __init__(
        self, live_session: TuiSession, screen: Screen, environ: Mapping[str, str], leave: Callable[[], None]
    ) -> None:
        self._live_session = live_session
        self._screen = screen
        self._leave = leave
        self.terminal = TuiTerminal(screen, environ)
        self.delete_on_exit = False
        """Whether the session is to be deleted once it is closed."""

    @property
    def app(self) -> "App":
        """The App of this process."""
        return self._live_session.app

    @property
    def actor(self) -> "SessionActor":
        """The current session. Raises BusyError where it lives in another process."""
        return self._live_session.actor

    @property
    def port(self) -> "SessionPort":
        """The current session, wherever it lives."""
        return self._live_session.port

    @property
    def remote(self) -> "RemoteSession | None":
        """The current session, where it lives in another process; else None."""
        return self._live_session.remote

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._live_session.busy

    def stop_turn(self) -> bool:
        """Stop the running turn; False when none runs."""
        return self._live_session.stop_turn()

    @property
    def person(self) -> "PersonIdentity":
        """The person who sits at this machine: the owner."""
        from hermes.admin.people.identity import OWNER_IDENTITY

        return OWNER_IDENTITY

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show lines unchanged, but for control and hidden characters."""
        terminal_style, style = self._screen.terminal_style, _LEVEL_STYLES[level]
        blocks = [
            terminal_style.wrap_paragraphs(style, escape_unseen_characters(line), indent=2) if line else [""]
            for line in text.split("\n")
        ]
        self._screen.view.tell_lines([line for block in blocks for line in block])

    def show(self, markdown: str) -> None:
        """Show a markdown text."""
        stream = self._screen.terminal_style.open_stream()
        self._screen.view.tell_lines([*stream.feed(markdown), *stream.close()])

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """Ask with a menu; a long one is narrowed down by typing."""
        safe = [
            MenuOption(escape_unseen_characters(one.label), escape_unseen_characters(one.detail)) for one in options
        ]
        return await self._screen.menus.ask(
            self._format_question(title), safe, chosen=chosen, typing=len(options) > _FILTER_THRESHOLD
        )

    async def confirm(self, question: str) -> bool:
        """Ask for a yes or a no; Enter alone means no."""
        return (
            await self._screen.menus.ask(self._format_question(question), [MenuOption(tr("No")), MenuOption(tr("Yes"))])
            == 1
        )

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """Ask the person for a line."""
        return await self._screen.ask_text(self._format_question(question), default)

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> "SessionPort":
        """Switch to another session."""
        return await self._live_session.switch_session(name, greet=greet)

    async def open_background_session(self) -> "SessionActor":
        """Open a fresh session beside this one, whose questions are asked here."""
        return await self._live_session.open_background_session()

    def post_message(self, inbound: "InboundMessage", delivery: PostMode = PostMode.USUAL) -> None:
        """Send a message to the session."""
        self._live_session.post_message(inbound, delivery)

    async def post_and_wait(self, inbound: "InboundMessage") -> ExitReason:
        """Send a message and wait for the end of its turn."""
        return (await self.port.post(inbound)).reason

    def prefill_input(self, text: str) -> None:
        """Put a text into the input line."""
        self._screen.composer.prefill_input(text)

    async def refresh_view(self) -> None:
        """Bring what is shown of the session up to date."""
        await self._live_session.refresh_status(greet=False)

    def leave_chat(self, *, delete: bool = False) -> None:
        """End the chat."""
        self.delete_on_exit = delete
        self._leave()

    def _format_question(self, question: str) -> list[str]:
        return self._screen.terminal_style.wrap_paragraphs("question", escape_unseen_characters(question), indent=2)
