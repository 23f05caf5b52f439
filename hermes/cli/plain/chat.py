"""Conversations in lines: the plain chat, and one message with its answer."""

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.admin.models.local_servers import LocalModelServer
from hermes.cli.errors import complain
from hermes.cli.log import log_to, redaction
from hermes.cli.options import app_options, prompt_text
from hermes.cli.plain.offer_model import offer_server
from hermes.cli.plain.prompts import TerminalAsker, controlling_terminal
from hermes.cli.plain.renderer import Renderer
from hermes.cli.plain.terminal import PlainInput, Source
from hermes.cli.usage import write_usage
from hermes.config.environment import process_environment
from hermes.config.home import locate_home
from hermes.core.errors import BusyError
from hermes.core.events import ApprovalAsked, Event, TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import say, translated
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.sessions.app import App
from hermes.sessions.image_files import read_picture
from hermes.util.text import inert, one_line, visible

if TYPE_CHECKING:
    from hermes.cli.plain.command_context import PlainDesk
    from hermes.sessions.port import SessionPort

REFUSED = 3
STOPPED = 130


def once(given: argparse.Namespace, text: str) -> int:
    """One message; returns the exit code. Raises HermesError."""
    return asyncio.run(_talk(given, PlainInput(), prompt_text(text)))


def chat(given: argparse.Namespace, servers: tuple[LocalModelServer, ...]) -> int:
    """A chat with whoever is at standard input; returns the exit code. Raises HermesError."""
    from hermes.cli.plain.readline import keyboard

    typed = keyboard(process_environment().get("TERM", ""))
    if typed is not None:
        return typed.serve(_talk(given, typed, servers=servers))
    return asyncio.run(_talk(given, PlainInput(), servers=servers))


async def _talk(
    given: argparse.Namespace, source: Source, text: str | None = None, *, servers: tuple[LocalModelServer, ...] = ()
) -> int:
    """The whole conversation; without `text` a chat with whoever is at `source`."""
    # A chat that somebody sits at goes on for a while; what a script asks ends before anything could be looked back at.
    options = structs.replace(app_options(given), reviews=text is None and source.typed)
    environ = process_environment()
    home = locate_home(environ)
    log = log_to(home.logs, redaction(environ, home))
    with controlling_terminal() as found:
        terminal = None if given.no_input else found
        if terminal is not None and text is None:
            options = await offer_server(options, environ, terminal, servers)
        shown = Renderer(quiet=given.oneshot is not None)
        shown.prompt = source.shown
        async with App(environ, options) as app, contextlib.AsyncExitStack() as stack:
            if text is None:
                from hermes.ipc.session_server import serve_sessions

                await stack.enter_async_context(serve_sessions(app))
            log.redact = app.redact_text  # it also knows the keys that are read while the process runs
            asker = await stack.enter_async_context(TerminalAsker(terminal)) if terminal is not None else None
            sessions = _Sessions(app, shown, asker, stack)
            try:
                actor = await sessions.open(given.resume, latest=given.latest)
            finally:
                for line in app.notices:
                    complain(line)
            if text is not None:
                code = await _once(app, actor, source, text, given)
            else:
                from hermes.cli.plain.command_context import PlainDesk, PlainTerminal
                from hermes.cli.plain.repl import Dialogue

                closed = asker.took_away if asker is not None else lambda: False
                plain = PlainTerminal(app.services.settings.display, environ, shown.set_display)
                desk = PlainDesk(app, source, actor, plain, sessions.open, sessions.beside)
                code = await Dialogue(app, source, desk, closed=closed).run()
                if desk.deletes:
                    await _delete(desk)
        if shown.broken is not None:
            raise shown.broken
        return code


class _Sessions:
    """Opens sessions that are shown here, their questions asked on the terminal where there is one."""

    def __init__(
        self, app: App, shown: Renderer, asker: TerminalAsker | None, remotes: contextlib.AsyncExitStack
    ) -> None:
        self._app = app
        self._remotes = remotes
        self._shown = shown
        self._asker = asker

    async def open(self, name: str | None = None, *, latest: bool = False) -> "SessionPort":
        """The session of that name, the newest, or a fresh one; of one that another process holds, a part in it."""
        actor = await self._session(name, latest=latest)
        if self._asker is not None:
            self._asker.attach(actor)
        self._shown.on_broken = actor.stop
        actor.subscribe(self._shown)
        return actor

    async def _session(self, name: str | None, *, latest: bool) -> "SessionPort":
        try:
            return await self._app.open_session(name, latest=latest, asker=self._asker)
        except BusyError:
            from hermes.ipc.session_server import attach_named_session

            remote = await attach_named_session(self._app, name, latest=latest, asks=self._asker is not None)
            if remote is None:
                raise
            self._remotes.push_async_callback(remote.close)
            return remote

    async def beside(self) -> SessionActor:
        """A fresh session that is not shown. While the person types the terminal is the prompt's, so of its questions
        it is said that they wait."""
        actor = await self._app.open_session()
        actor.approvals.can_ask = self._asker is not None
        actor.subscribe(self._tell_question)
        return actor

    def _tell_question(self, event: Event) -> None:
        if isinstance(event, ApprovalAsked):
            subject = one_line(visible(event.subject), 200)
            asked = say("A session in the background asks: {tool} {subject}", tool=event.tool, subject=subject)
            prompt = self._shown.prompt()
            print("\n".join(["", asked, say("/approvals answers it."), prompt]), end="", flush=True)


async def _delete(desk: "PlainDesk") -> None:
    """Delete the session that was talked with."""
    from hermes.admin.sessions import SessionAdmin

    actor = desk.actor
    session_id = actor.session_id
    await desk.app.close_session(actor)
    on = desk.app.services
    print(say("Deleted: {what}.", what=await SessionAdmin(on.store, on.home).delete_session(session_id)))


async def _once(app: App, actor: "SessionPort", source: Source, text: str, given: argparse.Namespace) -> int:
    """One turn and its exit code; Ctrl-C, SIGTERM and a terminal that is closed stop it."""
    images = tuple(read_picture(Path(name)) for name in given.image)
    used = _local(actor) if given.usage_file else None
    with source.during(actor.stop):
        ended = await actor.post(Inbound(text=text, images=images, cwd=app.options.cwd))
    if used is not None:
        write_usage(Path(given.usage_file), app.turn_result(used, ended))
    return _finish(actor, ended, only_text=given.oneshot is not None)


def _local(port: "SessionPort") -> SessionActor:
    """The session itself: what it uses is known where it lives. Raises BusyError where that is elsewhere."""
    from hermes.ipc.session_server import require_local

    return require_local(port)


def _finish(actor: "SessionPort", ended: TurnEnded, *, only_text: bool) -> int:
    """Print what is owed and choose the exit code."""
    if only_text:
        if ended.text:
            print(inert(ended.text) if sys.stdout.isatty() else ended.text)
        if ended.error:
            complain(inert(translated(ended.error)))
    if ended.reason is ExitReason.INTERRUPTED:
        complain("Stopped.")
        return STOPPED
    if not ended.reason.completed:
        return 1
    return REFUSED if actor.approvals.unasked else 0
