"""The desk of the full chat: what slash commands are given."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hermes.cli.tui.clipboard import copy_text, read_picture_bytes
from hermes.cli.tui.screen import Screen
from hermes.cli.tui.session import Talk
from hermes.commands.context import MenuOption, PostMode, Surface
from hermes.config.display import DisplaySettings
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import phrase, say
from hermes.util.text import escaped

if TYPE_CHECKING:
    from hermes.admin.people.identity import PersonIdentity
    from hermes.ipc.remote_session import RemoteSession
    from hermes.runtime.actor import SessionActor
    from hermes.runtime.mailbox import Inbound
    from hermes.sessions.app import App
    from hermes.sessions.port import SessionPort

_LEVELS = {Level.INFO: "", Level.WARNING: "warning", Level.ERROR: "error"}
_MANY = 8
"""Options above which a menu is narrowed down by typing."""


class ChatTerminal:
    """A `Terminal`: what only a chat on a screen can do."""

    full = True

    def __init__(self, screen: Screen, environ: Mapping[str, str]) -> None:
        self._screen = screen
        self._environ = environ

    @property
    def width(self) -> int:
        """Columns for what is shown."""
        return self._screen.look.width

    @property
    def display(self) -> DisplaySettings:
        """How things are shown now."""
        return self._screen.look.display

    def set_display(self, display: DisplaySettings) -> None:
        """Show things this way from now on."""
        self._screen.look.wear(display)
        self._screen.restyle()

    def list_skins(self) -> Sequence[str]:
        """The names of the skins."""
        return self._screen.look.skins()

    def clear(self) -> None:
        """Clear the screen."""
        self._screen.clear()

    def redraw(self) -> None:
        """Draw everything anew."""
        self._screen.clear()

    def reasoning(self) -> Sequence[str]:
        """The model's last reasoning, as lines."""
        return self._screen.view.reasoning()

    async def copy_text(self, text: str) -> str:
        """Put a text into the clipboard."""
        return await asyncio.to_thread(copy_text, text, self._environ, self._screen.write_raw)

    async def edit_text(self, text: str) -> str | None:
        """Let the person write in their editor."""
        from hermes.cli.tui.editor import edited

        return await self._screen.aside(lambda: edited(text, self._environ))

    def attach_picture(self, path: str) -> None:
        """Send a picture along with the next message."""
        if not os.path.isfile(os.path.expanduser(path)):
            raise UsageError(phrase("There is no file {path}.", path=escaped(path)))
        self._screen.composer.attach(path)

    async def paste_picture(self) -> bool:
        """Attach the picture in the clipboard."""
        picture = None
        with contextlib.suppress(OSError):
            picture = await asyncio.to_thread(read_picture_bytes, self._environ)
        if picture is None:
            return False
        self._screen.composer.attach("clipboard.png", picture)
        return True


class ChatDesk:
    """A `Desk` over the screen and the session of a chat."""

    surface = Surface.TERMINAL

    def __init__(self, talk: Talk, screen: Screen, environ: Mapping[str, str], leave: Callable[[], None]) -> None:
        self._talk = talk
        self._screen = screen
        self._leave = leave
        self.terminal = ChatTerminal(screen, environ)
        self.deletes = False
        """Whether the session is to be deleted once it is closed."""

    @property
    def app(self) -> "App":
        """The process's Hermes."""
        return self._talk.app

    @property
    def actor(self) -> "SessionActor":
        """The session that is talked with."""
        return self._talk.actor

    @property
    def port(self) -> "SessionPort":
        """The same, wherever it lives."""
        return self._talk.port

    @property
    def remote(self) -> "RemoteSession | None":
        """The same, where it lives in another process."""
        return self._talk.remote

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._talk.busy

    def stop(self) -> bool:
        """Stop the running turn; False when none runs."""
        return self._talk.stop()

    @property
    def person(self) -> "PersonIdentity":
        """Who sits at this machine."""
        from hermes.admin.people.identity import OWNER_IDENTITY

        return OWNER_IDENTITY

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show lines as they are."""
        look, style = self._screen.look, _LEVELS[level]
        blocks = [look.wrapped(style, escaped(line), indent=2) if line else [""] for line in text.split("\n")]
        self._screen.view.tell([line for block in blocks for line in block])

    def show(self, markdown: str) -> None:
        """Show a text that is written in markdown."""
        stream = self._screen.look.stream()
        self._screen.view.tell([*stream.feed(markdown), *stream.close()])

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """A menu; long ones are narrowed down by typing."""
        safe = [MenuOption(escaped(one.label), escaped(one.detail)) for one in options]
        return await self._screen.menus.ask(self._asked(title), safe, chosen=chosen, typing=len(options) > _MANY)

    async def confirm(self, question: str) -> bool:
        """A yes or no; Enter alone means no."""
        return await self._screen.menus.ask(self._asked(question), [MenuOption(say("No")), MenuOption(say("Yes"))]) == 1

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """A line from the person."""
        return await self._screen.typed(self._asked(question), default)

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> "SessionPort":
        """Talk with another session from now on."""
        return await self._talk.switch(name, greet=greet)

    async def open_background_session(self) -> "SessionActor":
        """A fresh session beside this one, whose questions are asked here."""
        return await self._talk.beside()

    def post_message(self, inbound: "Inbound", delivery: PostMode = PostMode.USUAL) -> None:
        """Say something to the session."""
        self._talk.post(inbound, delivery)

    async def post_and_wait(self, inbound: "Inbound") -> ExitReason:
        """Say something, and wait for the end of its turn."""
        return (await self.port.post(inbound)).reason

    def prefill_input(self, text: str) -> None:
        """Put a text into the input line."""
        self._screen.composer.prefill(text)

    async def refresh_view(self) -> None:
        """Bring what is shown of the session up to date."""
        await self._talk.describe(greet=False)

    def leave_chat(self, *, delete: bool = False) -> None:
        """End the chat."""
        self.deletes = delete
        self._leave()

    def _asked(self, question: str) -> list[str]:
        return self._screen.look.wrapped("question", escaped(question), indent=2)
