"""Starts the full chat: what it needs to be drawn comes first, sessions and models behind it."""

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct

from hermes.cli.log import FaultLog
from hermes.cli.render.theme import depth_of
from hermes.cli.tui.chat import Chat
from hermes.cli.tui.command_context import ChatDesk
from hermes.cli.tui.composer import Past
from hermes.cli.tui.output import Paper
from hermes.cli.tui.style import Look
from hermes.config.display import DisplaySettings
from hermes.config.home import Home
from hermes.i18n.messages import say, translated
from hermes.sessions.options import SessionOptions


class Wanted(Struct, frozen=True, kw_only=True):
    """Which session to begin with, and how."""

    options: SessionOptions
    resume: str | None = None
    latest: bool = False
    no_input: bool = False
    """Whether nothing is to be asked."""


def serve(wanted: Wanted, environ: Mapping[str, str], home: Home, log: FaultLog, display: DisplaySettings) -> int:
    """Chat until the person leaves; returns the exit code. Raises HermesError when no session can be opened."""
    return asyncio.run(_talk(wanted, environ, home, log, display))


async def _talk(wanted: Wanted, environ: Mapping[str, str], home: Home, log: FaultLog, display: DisplaySettings) -> int:
    term = environ.get("TERM", "")
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    look = Look(display, lambda: paper.get_size().columns, unicode=utf8, depth=depth_of(environ))
    paper = Paper(term, None, synchronised=not term.startswith("linux"))
    past = Past(home.cache / "input_history.jsonl", _by_now(log))
    chat = Chat(look, paper, past, environ)
    asyncio.get_running_loop().set_exception_handler(_logged)
    async with contextlib.AsyncExitStack() as stack:
        code = await chat.run(partial(_opened, wanted, environ, log, stack))
        if chat.desk is not None:
            await _farewell(chat, chat.desk)
    chat.screen.close()
    return code


async def _opened(
    wanted: Wanted, environ: Mapping[str, str], log: FaultLog, stack: contextlib.AsyncExitStack, chat: Chat
) -> ChatDesk:
    """Open the program and the first session, while the input line takes keys already."""
    await asyncio.to_thread(_import_what_sessions_need)
    from hermes.cli.tui.session import Talk
    from hermes.sessions.app import App

    app = await stack.enter_async_context(App(environ, wanted.options))
    from hermes.ipc.session_server import serve_sessions

    await stack.enter_async_context(serve_sessions(app))
    log.redact = app.redact_text
    if chat.screen.look.fault:
        chat.screen.tell("warning", chat.screen.look.fault)
    talk = Talk(app, chat.screen, chat.questions, lambda: chat.leave(1))
    stack.push_async_callback(talk.close)
    try:
        await talk.begin(wanted.resume, latest=wanted.latest, asks=not wanted.no_input)
    finally:
        for line in app.notices:
            chat.screen.tell("warning", translated(line))
    return ChatDesk(talk, chat.screen, environ, chat.leave)


async def _farewell(chat: Chat, desk: ChatDesk) -> None:
    """Say how to go on with the session, or delete it where that is wanted."""
    from hermes.ipc.session_server import has_messages
    from hermes.runtime.actor import SessionActor

    actor = desk.port
    if not desk.deletes or not isinstance(actor, SessionActor):
        if has_messages(actor):
            chat.screen.tell("notice", say("hermes --resume {id} goes on with it.", id=actor.session_id))
        return
    from hermes.admin.sessions import SessionAdmin

    await desk.app.close_session(actor)
    on = desk.app.services
    deleted = await SessionAdmin(on.store, on.home).delete_session(actor.session_id)
    chat.screen.tell("notice", say("Deleted: {what}.", what=deleted))


def _by_now(log: FaultLog) -> Callable[[str], str]:
    """Redaction by all that is known when something is written."""
    return lambda text: log.redact(text)  # noqa: PLW0108 - it changes once the keys are known


def _import_what_sessions_need() -> None:
    """In a thread: the input line answers meanwhile."""
    for name in (
        "hermes.sessions.app",
        "hermes.sessions.services",
        "hermes.sessions.session_builder",
        "hermes.sessions.session_tools",
    ):
        importlib.import_module(name)


def _logged(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """What nobody awaits goes to the log, not across the screen."""
    import logging

    error = context.get("exception")
    logging.getLogger("hermes").error(
        "%s", context.get("message", ""), exc_info=error if isinstance(error, BaseException) else None
    )
