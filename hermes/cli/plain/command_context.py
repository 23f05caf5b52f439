"""The desk of the plain chat: lines in, lines out, and questions by number."""

import asyncio
import contextlib
import shutil
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.cli.output import on_lines
from hermes.cli.plain.terminal import Key, Source
from hermes.commands.context import MenuOption, PostMode, Surface
from hermes.config.display import DisplaySettings
from hermes.core.events import Level
from hermes.core.outcomes import ExitReason
from hermes.core.parts import ImagePart
from hermes.i18n.messages import say
from hermes.ipc.session_server import close_port, has_messages, require_local
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.sessions.app import App
from hermes.sessions.image_files import read_picture
from hermes.sessions.port import SessionPort
from hermes.util.text import escaped, inert

if TYPE_CHECKING:
    from hermes.admin.people.identity import PersonIdentity

YES = ("y", "yes", "是", "好")
"""What counts as a yes."""


class PlainTerminal:
    """A `Terminal` of lines: it has no screen to draw on, but an editor and a clipboard may be there."""

    full = False

    def __init__(
        self, display: DisplaySettings, environ: Mapping[str, str], shown: Callable[[DisplaySettings], None]
    ) -> None:
        self.display = display
        self._environ = environ
        self._shown = shown
        self.pictures: list[ImagePart] = []
        """What goes along with the next message."""

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return shutil.get_terminal_size((80, 24)).columns

    def set_display(self, display: DisplaySettings) -> None:
        """Show things this way from now on."""
        self.display = display
        self._shown(display)

    def list_skins(self) -> Sequence[str]:
        """Lines have no colours."""
        return ("default",)

    def clear(self) -> None:
        """Lines stay where they are."""

    def redraw(self) -> None:
        """There is nothing to draw anew."""

    async def copy_text(self, text: str) -> str:
        """Put a text into the clipboard, where the desktop has a program for that."""
        from hermes.cli.tui.clipboard import copy_text

        return await asyncio.to_thread(copy_text, text, self._environ, None)

    async def edit_text(self, text: str) -> str | None:
        """Let the person write in their editor."""
        from hermes.cli.tui.editor import edited

        return await asyncio.to_thread(edited, text, self._environ)

    def attach_picture(self, path: str) -> None:
        """Send a picture along with the next message."""
        self.pictures.append(read_picture(Path(path).expanduser()))
        print(say("It goes along with your next message."))

    async def paste_picture(self) -> bool:
        """Attach the picture in the clipboard."""
        from hermes.cli.tui.clipboard import read_picture_bytes

        picture = None
        with contextlib.suppress(OSError):
            picture = await asyncio.to_thread(read_picture_bytes, self._environ)
        if picture is not None:
            self.pictures.append(picture)
        return picture is not None


class PlainDesk:
    """A `Desk` over lines. What a command wants to be said is said when the command is done."""

    surface = Surface.TERMINAL

    def __init__(
        self,
        app: App,
        source: Source,
        port: SessionPort,
        terminal: PlainTerminal,
        begin: Callable[[str | None], Awaitable[SessionPort]],
        aside: Callable[[], Awaitable[SessionActor]],
    ) -> None:
        self.app = app
        self.port = port
        self.terminal = terminal
        self._source = source
        self._begin = begin
        self._aside = aside
        self.owed: deque[Inbound] = deque()
        """What is to be said next."""
        self.leaving = False
        self.deletes = False

    @property
    def person(self) -> "PersonIdentity":
        """Who sits at this machine."""
        from hermes.admin.people.identity import OWNER_IDENTITY

        return OWNER_IDENTITY

    @property
    def actor(self) -> SessionActor:
        """The session that is talked with. Raises BusyError where it lives in another process."""
        return require_local(self.port)

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show lines as they are."""
        mark = "" if level is Level.INFO else "! "
        self._print(on_lines("\n".join(f"{mark}{escaped(line)}" for line in text.split("\n"))))

    def show(self, markdown: str) -> None:
        """Lines show markdown as it is written."""
        self._print(on_lines(inert(markdown)))

    def _print(self, text: str) -> None:
        """Lines above the prompt, where one waits: what works in the background is done at any time."""
        prompt = self._source.shown()
        print(f"\n{text}\n{prompt}" if prompt else text, end="" if prompt else "\n", flush=True)

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """A list with numbers; Enter alone takes none."""
        print(escaped(title))
        for number, option in enumerate(options, 1):
            print(escaped(f"  {number}. {option.label}  {option.detail}".rstrip()))
        line = await self.ask(say("A number (Enter alone: none)"))
        if line is None or not line.strip().isdecimal() or not 0 < int(line) <= len(options):
            return None
        return int(line) - 1

    async def confirm(self, question: str) -> bool:
        """Only a plain yes is one."""
        line = await self.ask(f"{question} [y/N]")
        return line is not None and line.strip().lower() in YES

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """A line from the person; nobody there means none."""
        if not self._source.typed:
            return None
        shown = f"{escaped(question)} ({default})" if default else escaped(question)
        line = await self._source.next(f"{shown}: ")
        return None if isinstance(line, Key) else line or default

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> SessionPort:
        """Talk with another session from now on."""
        del greet
        before = self.port
        if name == before.session_id:
            return before
        self.port = await self._begin(name)
        if before is not self.port:
            await close_port(self.app, before)
        if has_messages(before):
            print(say("hermes --resume {id} goes on with it.", id=before.session_id))
        return self.port

    async def again(self) -> SessionPort:
        """Open the session anew, whose process is gone. Raises what opening raises."""
        before, self.port = self.port, await self._begin(self.port.session_id)
        await close_port(self.app, before)
        return self.port

    async def open_background_session(self) -> SessionActor:
        """A fresh session beside this one, whose questions are asked here."""
        return await self._aside()

    def post_message(self, inbound: Inbound, delivery: PostMode = PostMode.USUAL) -> None:
        """No turn runs while a command does: it is said next."""
        del delivery
        self.owed.append(inbound)

    async def post_and_wait(self, inbound: Inbound) -> ExitReason:
        """Say something, and wait for the end of its turn; Ctrl-C stops it."""
        with self._source.during(self.port.stop):
            return (await self.port.post(inbound)).reason

    def prefill_input(self, text: str) -> None:
        """There is no line to put it into: it is shown, to be typed anew or copied."""
        print(f"> {inert(text)}")

    async def refresh_view(self) -> None:
        """Nothing is shown of the session all the time."""

    def leave_chat(self, *, delete: bool = False) -> None:
        """End the chat."""
        self.leaving, self.deletes = True, delete
