"""The command context of a chat in a terminal: it opens the chat's sessions, and is given to slash commands.

The plain chat and the full one add how they show, ask, and send messages.
"""

import asyncio
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from hermes.commands.command import parse_command_line
from hermes.commands.context import CommandContext, MenuOption, PromptScope, Surface
from hermes.commands.registry import builtin_command_names, command_registry
from hermes.core.errors import BusyError, HermesError, UsageError
from hermes.core.events import Event, Level
from hermes.core.messages import ImagePart
from hermes.i18n.messages import N_, join_sentences, tr, tr_plural

if TYPE_CHECKING:
    from hermes.admin.people.identity import PersonIdentity
    from hermes.cli.approval_questions import ApprovalAsker
    from hermes.core.sub_agents import BackgroundEnd
    from hermes.ipc.remote_session import RemoteSession
    from hermes.runtime.actor import SessionActor
    from hermes.sessions.app import App
    from hermes.sessions.port import SessionPort

LEAVING_WORDS = frozenset({"exit", "quit", ":q"})
"""What leaves a shell or an editor, and this chat too, alone on a line."""
_REOPEN_DELAYS = (0.2, 1.0, 3.0, 8.0)
"""Seconds before each attempt to open a session here whose process has ended."""
_MAX_NAMED = 8
"""Commands that are named where one was only begun."""
T = TypeVar("T")


class TerminalDesktop(ABC):
    """The part of a `Terminal` that uses programs of the person's desktop: clipboard and editor."""

    def __init__(self, environ: Mapping[str, str], write_sequence: Callable[[str], None] | None = None) -> None:
        self._environ = environ
        self._write_sequence = write_sequence
        """Sends a control sequence to the terminal, where it understands some."""

    @abstractmethod
    def add_picture(self, name: str, picture: ImagePart) -> None:
        """Send a picture along with the next message."""

    def watch_choice(
        self, moved: Callable[[int], None] | None = None, mark: Callable[[int], MenuOption] | None = None
    ) -> contextlib.AbstractContextManager[None]:
        """Watch nothing: there are no menus in lines."""
        del moved, mark
        return contextlib.nullcontext()

    async def lend_terminal(self, work: Callable[[], T]) -> T:
        """Give the terminal to another program until it is done."""
        return await asyncio.to_thread(work)

    async def copy_text(self, text: str) -> str:
        """Put a text into the clipboard."""
        from hermes.cli.desktop import copy_text

        return await asyncio.to_thread(copy_text, text, self._environ, self._write_sequence)

    async def edit_text(self, text: str) -> str | None:
        """Let the person write in their editor."""
        from hermes.cli.desktop import edit_in_editor

        return await self.lend_terminal(lambda: edit_in_editor(text, self._environ))

    async def paste_picture(self) -> bool:
        """Attach the picture in the clipboard. Return whether there was one."""
        from hermes.cli.desktop import read_clipboard_picture

        picture = None
        with contextlib.suppress(OSError):
            picture = await asyncio.to_thread(read_clipboard_picture, self._environ)
        if picture is not None:
            self.add_picture("clipboard.png", picture)
        return picture is not None


class TerminalCommandContext(ABC):
    """The `CommandContext` of a chat in a terminal; it holds one session of `app` after the other.

    Without `asker` every question is answered with no. `view` is called with each event of the current session.
    """

    surface = Surface.TERMINAL
    chat = None
    session_person = ""
    asks_questions = True
    """Whether a background session may ask the person something while they do something else."""

    def __init__(self, app: "App", asker: "ApprovalAsker | None", view: Callable[[Event], None]) -> None:
        self.app = app
        app.person_reports = self
        self._asker = asker
        self._view = view
        self._port: SessionPort | None = None
        self.delete_on_exit = False
        """Whether the session is to be deleted once it is closed."""

    @property
    def port(self) -> "SessionPort":
        """The current session, wherever it lives. Raises BusyError while the first one is being opened."""
        if self._port is None:
            raise BusyError(N_("The session is not open yet."), N_("Try again in a moment."))
        return self._port

    @property
    def actor(self) -> "SessionActor":
        """The current session. Raises BusyError where it lives in another process."""
        from hermes.ipc.session_server import require_local

        return require_local(self.port)

    @property
    def remote(self) -> "RemoteSession | None":
        """The current session, where it lives in another process; else None."""
        from hermes.ipc.remote_session import RemoteSession

        return self._port if isinstance(self._port, RemoteSession) else None

    @property
    def prompt_scope(self) -> PromptScope:
        """The skills of the home, and the own commands of the home and of the folder's project."""
        return PromptScope(folder=self.app.options.cwd or os.getcwd(), taken=builtin_command_names())

    @property
    def person(self) -> "PersonIdentity":
        """The person who sits at this machine: the owner."""
        from hermes.admin.people.identity import OWNER_IDENTITY

        return OWNER_IDENTITY

    @abstractmethod
    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show plain lines unchanged."""

    @abstractmethod
    def show(self, markdown: str) -> None:
        """Show a markdown text."""

    @abstractmethod
    def show_notice(self, text: str) -> None:
        """Show a line of Hermes' own about the session."""

    async def open_first_session(self, name: str | None, *, latest: bool) -> None:
        """Open the session of that name, the newest one, or a fresh one."""
        await self._open_session(name, latest=latest)

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> "SessionPort":
        """Switch to another session; when it cannot be opened nothing has changed."""
        from hermes.ipc.session_server import close_port, has_messages

        del greet
        before = self.port
        if before.busy and self.remote is None:
            raise BusyError(N_("A turn runs in this session."), N_("Ctrl-C or /stop ends it."))
        if name == before.session_id:
            return before
        port = await self._open_session(name)
        await close_port(self.app, before)
        if has_messages(before):
            self._show_resume_hint(before)
        return port

    async def reopen_session(self) -> None:
        """Open the session again after the process that held it has ended. Raises what opening raises in the end."""
        from hermes.ipc.session_server import close_port

        before = self.port
        for number, pause in enumerate(_REOPEN_DELAYS, 1):
            await asyncio.sleep(pause)
            try:
                await self._open_session(before.session_id)
            except HermesError:
                if number == len(_REOPEN_DELAYS):
                    raise
                continue
            break
        await close_port(self.app, before)

    async def hand_off(self, target: str) -> str:
        """Let a chat of the owner's go on with the session: by the gateway, or once one runs."""
        from hermes.ipc import frames
        from hermes.ipc.gateway_request import request_gateway
        from hermes.ipc.session_server import has_messages

        port, services = self.port, self.app.services
        if not has_messages(port):
            raise UsageError(N_("Nothing was said in this session yet."), N_("Say something first."))
        said = await request_gateway(services.home, frames.HandOffFrame(id=1, session_id=port.session_id, to=target))
        if isinstance(said, frames.DoneFrame):
            return said.said
        from hermes.sessions.features.handoff import hand_over_later

        return await hand_over_later(services.store, services.settings.platforms, port.session_id, target)

    async def show_report(self, end: "BackgroundEnd") -> bool:
        """Show how a background session has ended, and its answer."""
        from hermes.commands.texts.sub_agent_texts import tell_background_end

        tell_background_end(self, end)
        return True

    async def _open_session(self, name: str | None, *, latest: bool = False) -> "SessionPort":
        """Open a session, or join one that another process holds, and show it here."""
        from hermes.ipc.session_server import open_or_join
        from hermes.sessions.app import find_sub_agents

        port = self._port = await open_or_join(self.app, name, latest=latest, asker=self._asker)
        if self._asker is not None:
            self._asker.attach_session(port)
        port.subscribe(self._view)
        team = find_sub_agents(self.app, port.session_id)
        if team is not None and (left := len(team.runs)):
            said = tr_plural("{n} sub-agent of this session goes on.", "{n} sub-agents of this session go on.", left)
            self.show_notice(f"{said} {tr('/agents lists them.')}")
        return port

    async def finish_chat(self) -> None:
        """Delete the session where that is wanted; else show how to go on with one in which something was said."""
        from hermes.ipc.session_server import has_messages

        if not self.delete_on_exit or self.remote is not None:
            if has_messages(self.port):
                self._show_resume_hint(self.port)
            return
        from hermes.admin.sessions import SessionAdmin

        actor, services = self.actor, self.app.services
        await self.app.close_session(actor)
        deleted = await SessionAdmin(services.store, services.home).delete_session(actor.session_id)
        self.show_notice(tr("Deleted: {what}.", what=deleted))

    async def close(self) -> None:
        """Leave a session that lives elsewhere; those that live here are closed by the App."""
        if (remote := self.remote) is not None:
            await remote.close()

    def _show_resume_hint(self, port: "SessionPort") -> None:
        self.show_notice(tr("hermes --resume {id} goes on with it.", id=port.session_id))


def parse_typed_line(line: str) -> tuple[str, str] | None:
    """Return the name and the rest of a typed line that is a command; None for a message. A lone `?` or `/` asks for
    help, and one of `LEAVING_WORDS` leaves.
    """
    if line.rstrip() in LEAVING_WORDS:
        return "quit", ""
    return ("help", "") if line.rstrip() in ("?", "/") else parse_command_line(line)


async def run_typed_command(context: CommandContext, name: str, text: str) -> bool:
    """Run the slash command that was typed, in the process where it belongs; a command of the person's own is sent as
    the message that it stands for. What begins the name of one command alone is that command. Return False where the
    line names a skill, and so is a message.
    """
    from hermes.commands.named_prompts import find_named_prompt, list_named_prompts
    from hermes.ipc.remote_session import RemoteSession
    from hermes.runtime.mailbox import InboundMessage

    commands = command_registry(Surface.TERMINAL)
    if (command := commands.find_command(name)) is not None:
        if command.travels and isinstance(context.port, RemoteSession):
            await context.port.run_command(name, text, context)
        else:
            await commands.run_command(context, name, text)
        return True
    scope = context.prompt_scope
    prompt = await find_named_prompt(context.app, name, scope)
    if prompt is not None and prompt.body:
        context.post_message(InboundMessage(text=prompt.format_prompt(text), cwd=scope.folder))
    if prompt is not None:
        return bool(prompt.body)
    if (elsewhere := command_registry(Surface.CHAT).find_command(name)) is not None:
        context.tell(tr("/{name} works in a chat on a platform only.", name=elsewhere.name))
        return True
    names = [one.name for one in await list_named_prompts(context.app, scope)]
    begun = commands.list_begun(name, names)
    if len(begun) == 1:
        if not await run_typed_command(context, begun[0], text):
            context.post_message(InboundMessage(text=f"/{begun[0]} {text}".rstrip(), cwd=scope.folder))
        return True
    context.tell(_format_unknown_command(name, begun, commands.suggest_name(name, names)))
    return True


def _format_unknown_command(name: str, begun: Sequence[str], near: str) -> str:
    """Say that there is no such command, and which one may be meant: those that it begins, else the nearest."""
    parts = [tr("There is no command /{name}.", name=name)]
    if begun:
        more = ", …" if len(begun) > _MAX_NAMED else ""
        parts.append(tr("Which one: {names}?", names=", ".join(f"/{one}" for one in begun[:_MAX_NAMED]) + more))
    elif near:
        parts.append(tr("Did you mean /{near}?", near=near))
    return join_sentences(*parts, tr("A space in front sends it as a message."))
