"""The desk of the full chat: what slash commands are given."""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.app.desk import Delivery, Option, Surface
from hermes.cli.tui.clipboard import copy_text, read_picture_bytes
from hermes.config.display import DisplaySettings
from hermes.core.errors import BusyError, UsageError
from hermes.core.events import Level
from hermes.core.outcomes import ExitReason
from hermes.util.say import say
from hermes.util.text import escaped

if TYPE_CHECKING:
    from hermes.app.wiring import App
    from hermes.cli.tui.chat import Chat
    from hermes.runtime.actor import SessionActor
    from hermes.runtime.mailbox import Inbound

_LEVELS = {Level.INFO: "", Level.WARNING: "warning", Level.ERROR: "error"}


class ChatDesk:
    """A `Desk` and a `Terminal` over the parts of a chat."""

    surface = Surface.TERMINAL

    def __init__(self, chat: "Chat", app: "App") -> None:
        self._chat = chat
        self.app = app

    @property
    def terminal(self) -> "ChatDesk":
        """This is one."""
        return self

    @property
    def actor(self) -> "SessionActor":
        """The session that is talked with."""
        actor = self._chat.actor
        if actor is None:
            raise BusyError(say("The session is not open yet."), say("Try again in a moment."))
        return actor

    # A desk.

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show lines as they are."""
        look = self._chat.look
        style = _LEVELS[level]
        lines = [look.wrapped(style, escaped(line), indent=2) if line else [""] for line in text.split("\n")]
        self._chat.view.tell([line for block in lines for line in block])

    def show(self, markdown: str) -> None:
        """Show a text that is written in markdown."""
        stream = self._chat.look.stream()
        self._chat.view.tell([*stream.feed(markdown), *stream.close()])

    async def choose(self, title: str, options: Sequence[Option], *, chosen: int = 0) -> int | None:
        """A menu; long ones are narrowed down by typing."""
        lines = self._chat.look.wrapped("question", escaped(title), indent=2)
        safe = [Option(escaped(one.label), escaped(one.detail)) for one in options]
        return await self._chat.menus.ask(lines, safe, chosen=chosen, typing=len(options) > 8)

    async def confirm(self, question: str) -> bool:
        """A yes or no; Enter alone means no."""
        lines = self._chat.look.wrapped("question", escaped(question), indent=2)
        letters = {"n": 0, "y": 1}
        return await self._chat.menus.ask(lines, [Option(say("No")), Option(say("Yes"))], letters=letters) == 1

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """A line from the person."""
        lines = self._chat.look.wrapped("question", escaped(question), indent=2)
        return await self._chat.typed(lines, default)

    async def open(self, name: str | None = None, *, greet: bool = True) -> "SessionActor":
        """Talk with another session from now on."""
        return await self._chat.switch(name, greet=greet)

    def post(self, inbound: "Inbound", delivery: Delivery = Delivery.USUAL) -> None:
        """Say something to the session."""
        self._chat.post(inbound, delivery)

    async def answered(self, inbound: "Inbound") -> ExitReason:
        """Say something, and wait for the end of its turn."""
        return (await self.actor.post(inbound)).reason

    def prefill(self, text: str) -> None:
        """Put a text into the input line."""
        self._chat.composer.prefill(text)

    def leave(self, *, delete: bool = False) -> None:
        """End the chat."""
        self._chat.leave(delete=delete)

    # A terminal.

    @property
    def display(self) -> DisplaySettings:
        """How things are shown now."""
        return self._chat.look.display

    def set_display(self, display: DisplaySettings) -> None:
        """Show things this way from now on."""
        self._chat.set_display(display)

    def skins(self) -> Sequence[str]:
        """The names of the skins."""
        return self._chat.look.skins()

    def clear(self) -> None:
        """Clear the screen."""
        self._chat.clear()

    def redraw(self) -> None:
        """Draw everything anew."""
        self._chat.redraw()

    async def copy(self, text: str) -> str:
        """Put a text into the clipboard."""
        return await asyncio.to_thread(copy_text, text, self._chat.environ, self._chat.write_raw)

    async def edit(self, text: str) -> str | None:
        """Let the person write in their editor."""
        from hermes.cli.tui.editor import edited

        return await self._chat.aside(lambda: edited(text, self._chat.environ))

    def attach(self, path: str) -> None:
        """Send a picture along with the next message."""
        if not os.path.isfile(os.path.expanduser(path)):
            raise UsageError(say("There is no file {path}.", path=escaped(path)))
        self._chat.composer.attach(path)

    async def paste_picture(self) -> bool:
        """Attach the picture in the clipboard."""
        picture = None
        with contextlib.suppress(OSError):
            picture = await asyncio.to_thread(read_picture_bytes, self._chat.environ)
        if picture is None:
            return False
        self._chat.composer.attach("clipboard.png", picture)
        return True
