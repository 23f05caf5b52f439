"""The command context of the plain chat: output as lines, and questions answered by number."""

import asyncio
import contextlib
import shutil
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.cli.output import YES_ANSWERS, wrap_for_terminal
from hermes.cli.plain.terminal import InputSignal, LineSource
from hermes.commands.context import MenuOption, PostMode, Surface
from hermes.config.display import DisplaySettings
from hermes.core.events import Level
from hermes.core.outcomes import ExitReason
from hermes.core.parts import ImagePart
from hermes.i18n.messages import tr
from hermes.ipc.session_server import close_port, has_messages, require_local
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.pictures import read_picture
from hermes.sessions.port import SessionPort
from hermes.util.text import escape_unseen_characters, strip_control_characters

if TYPE_CHECKING:
    from hermes.admin.people.identity import PersonIdentity


class PlainTerminal:
    """The `Terminal` of the plain chat. It has no screen to draw on, but an editor and a clipboard may be there."""

    full = False

    def __init__(
        self, display: DisplaySettings, environ: Mapping[str, str], on_display: Callable[[DisplaySettings], None]
    ) -> None:
        self.display = display
        self._environ = environ
        self._on_display = on_display
        self.pictures: list[ImagePart] = []
        """Pictures that go along with the next message."""

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return shutil.get_terminal_size((80, 24)).columns

    def set_display(self, display: DisplaySettings) -> None:
        """Use these display settings from now on."""
        self.display = display
        self._on_display(display)

    def list_skins(self) -> Sequence[str]:
        """Return only the default skin: lines have no colors."""
        return ("default",)

    def clear(self) -> None:
        """Do nothing: lines stay where they are."""

    def redraw(self) -> None:
        """Do nothing: there is no screen to redraw."""

    async def copy_text(self, text: str) -> str:
        """Put a text into the clipboard, where the desktop has a program for that."""
        from hermes.cli.desktop import copy_text

        return await asyncio.to_thread(copy_text, text, self._environ, None)

    async def edit_text(self, text: str) -> str | None:
        """Let the person write in their editor."""
        from hermes.cli.desktop import edit_in_editor

        return await asyncio.to_thread(edit_in_editor, text, self._environ)

    def attach_picture(self, path: str) -> None:
        """Send a picture along with the next message."""
        self.pictures.append(read_picture(Path(path).expanduser()))
        print(tr("It goes along with your next message."))

    async def paste_picture(self) -> bool:
        """Attach the picture in the clipboard. Return whether there was one."""
        from hermes.cli.desktop import read_clipboard_picture

        picture = None
        with contextlib.suppress(OSError):
            picture = await asyncio.to_thread(read_clipboard_picture, self._environ)
        if picture is not None:
            self.pictures.append(picture)
        return picture is not None


class PlainCommandContext:
    """The `CommandContext` of the plain chat. Messages that a command posts are sent when the command is done."""

    surface = Surface.TERMINAL

    def __init__(
        self,
        app: App,
        source: LineSource,
        port: SessionPort,
        terminal: PlainTerminal,
        open_session: Callable[[str | None], Awaitable[SessionPort]],
        open_background: Callable[[], Awaitable[SessionActor]],
    ) -> None:
        self.app = app
        self.port = port
        self.terminal = terminal
        self._source = source
        self._open_session = open_session
        self._open_background = open_background
        self.queued: deque[InboundMessage] = deque()
        """Messages to send next."""
        self.leaving = False
        self.delete_on_exit = False

    @property
    def person(self) -> "PersonIdentity":
        """The person who sits at this machine: the owner."""
        from hermes.admin.people.identity import OWNER_IDENTITY

        return OWNER_IDENTITY

    @property
    def actor(self) -> SessionActor:
        """The current session. Raises BusyError where it lives in another process."""
        return require_local(self.port)

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Print lines unchanged, but for control and hidden characters."""
        mark = "" if level is Level.INFO else "! "
        self._print_above_prompt(
            wrap_for_terminal("\n".join(f"{mark}{escape_unseen_characters(line)}" for line in text.split("\n")))
        )

    def show(self, markdown: str) -> None:
        """Show markdown as it is written."""
        self._print_above_prompt(wrap_for_terminal(strip_control_characters(markdown)))

    def _print_above_prompt(self, text: str) -> None:
        """Print lines above a waiting prompt, if any: background work may print at any time."""
        prompt = self._source.current_prompt()
        print(f"\n{text}\n{prompt}" if prompt else text, end="" if prompt else "\n", flush=True)

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """Ask for one of a numbered list; Enter alone takes none."""
        print(escape_unseen_characters(title))
        for number, option in enumerate(options, 1):
            print(escape_unseen_characters(f"  {number}. {option.label}  {option.detail}".rstrip()))
        line = await self.ask(tr("A number (Enter alone: none)"))
        if line is None or not line.strip().isdecimal() or not 0 < int(line) <= len(options):
            return None
        return int(line) - 1

    async def confirm(self, question: str) -> bool:
        """Ask for a yes or a no; only a plain yes counts as one."""
        line = await self.ask(f"{question} [y/N]")
        return line is not None and line.strip().lower() in YES_ANSWERS

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """Ask for a line; None where nobody is there to answer."""
        if not self._source.interactive:
            return None
        shown = f"{escape_unseen_characters(question)} ({default})" if default else escape_unseen_characters(question)
        line = await self._source.read_line(f"{shown}: ")
        return None if isinstance(line, InputSignal) else line or default

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> SessionPort:
        """Switch to another session."""
        del greet
        before = self.port
        if name == before.session_id:
            return before
        self.port = await self._open_session(name)
        if before is not self.port:
            await close_port(self.app, before)
        if has_messages(before):
            print(tr("hermes --resume {id} goes on with it.", id=before.session_id))
        return self.port

    async def reopen_session(self) -> SessionPort:
        """Open the session again after the process that held it has ended. Raises what opening raises."""
        before, self.port = self.port, await self._open_session(self.port.session_id)
        await close_port(self.app, before)
        return self.port

    async def open_background_session(self) -> SessionActor:
        """Open a fresh session beside this one, whose questions are asked here."""
        return await self._open_background()

    def post_message(self, inbound: InboundMessage, delivery: PostMode = PostMode.USUAL) -> None:
        """Queue a message: no turn runs while a command does, so it is sent next."""
        del delivery
        self.queued.append(inbound)

    async def post_and_wait(self, inbound: InboundMessage) -> ExitReason:
        """Send a message and wait for the end of its turn; Ctrl-C stops it."""
        with self._source.handle_interrupts(self.port.stop):
            return (await self.port.post(inbound)).reason

    def prefill_input(self, text: str) -> None:
        """Print the text, to be typed again or copied: there is no input line to put it into."""
        print(f"> {strip_control_characters(text)}")

    async def refresh_view(self) -> None:
        """Do nothing: no view of the session is shown permanently."""

    def leave_chat(self, *, delete: bool = False) -> None:
        """End the chat."""
        self.leaving, self.delete_on_exit = True, delete
