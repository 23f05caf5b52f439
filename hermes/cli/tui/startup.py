"""Start the full-screen chat: what it needs to be drawn comes first, sessions and models behind it."""

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct

from hermes.cli.fault_log import FaultLog
from hermes.cli.render.theme import detect_color_depth
from hermes.cli.tui.chat import TuiChat
from hermes.cli.tui.command_context import TuiCommandContext
from hermes.cli.tui.composer import InputHistory
from hermes.cli.tui.synchronized_output import SynchronizedOutput
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.config.display import DisplaySettings
from hermes.config.home import HermesHome
from hermes.i18n.messages import localize, tr
from hermes.sessions.options import SessionOptions


class TuiStartOptions(Struct, frozen=True, kw_only=True):
    """The session to begin with, and how."""

    options: SessionOptions
    resume: str | None = None
    latest: bool = False
    no_input: bool = False
    """Whether no question may be asked."""


def run_chat(
    start_options: TuiStartOptions,
    environ: Mapping[str, str],
    home: HermesHome,
    log: FaultLog,
    display: DisplaySettings,
) -> int:
    """Chat until the person leaves and return the exit code. Raises HermesError when no session can be opened."""
    return asyncio.run(_run_chat(start_options, environ, home, log, display))


async def _run_chat(
    start_options: TuiStartOptions,
    environ: Mapping[str, str],
    home: HermesHome,
    log: FaultLog,
    display: DisplaySettings,
) -> int:
    term = environ.get("TERM", "")
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    terminal_style = TerminalStyle(
        display, lambda: paper.get_size().columns, unicode=utf8, depth=detect_color_depth(environ)
    )
    paper = SynchronizedOutput(term, None, synchronised=not term.startswith("linux"))
    history = InputHistory(home.cache / "input_history.jsonl", _late_redactor(log))
    chat = TuiChat(terminal_style, paper, history, environ)
    asyncio.get_running_loop().set_exception_handler(_log_unhandled)
    async with contextlib.AsyncExitStack() as stack:
        code = await chat.run(partial(_open_chat, start_options, environ, log, stack))
        if chat.context is not None:
            await _finish_session(chat, chat.context)
    chat.screen.close()
    return code


async def _open_chat(
    start_options: TuiStartOptions,
    environ: Mapping[str, str],
    log: FaultLog,
    stack: contextlib.AsyncExitStack,
    chat: TuiChat,
) -> TuiCommandContext:
    """Open the App and the first session, while the input line takes keys already."""
    await asyncio.to_thread(_import_session_modules)
    from hermes.cli.tui.live_session import TuiSession
    from hermes.sessions.app import App

    app = await stack.enter_async_context(App(environ, start_options.options))
    from hermes.ipc.session_server import serve_sessions

    await stack.enter_async_context(serve_sessions(app))
    log.redact = app.redact_text
    if chat.screen.terminal_style.skin_error:
        chat.screen.tell("warning", chat.screen.terminal_style.skin_error)
    live_session = TuiSession(app, chat.screen, chat.questions, lambda: chat.end_chat(1))
    stack.push_async_callback(live_session.close)
    try:
        await live_session.open_first_session(
            start_options.resume, latest=start_options.latest, asks=not start_options.no_input
        )
    finally:
        for line in app.notices:
            chat.screen.tell("warning", localize(line))
    return TuiCommandContext(live_session, chat.screen, environ, chat.end_chat)


async def _finish_session(chat: TuiChat, context: TuiCommandContext) -> None:
    """Print how to resume the session, or delete it where that is wanted."""
    from hermes.ipc.session_server import has_messages
    from hermes.runtime.actor import SessionActor

    actor = context.port
    if not context.delete_on_exit or not isinstance(actor, SessionActor):
        if has_messages(actor):
            chat.screen.tell("notice", tr("hermes --resume {id} goes on with it.", id=actor.session_id))
        return
    from hermes.admin.sessions import SessionAdmin

    await context.app.close_session(actor)
    services = context.app.services
    deleted = await SessionAdmin(services.store, services.home).delete_session(actor.session_id)
    chat.screen.tell("notice", tr("Deleted: {what}.", what=deleted))


def _late_redactor(log: FaultLog) -> Callable[[str], str]:
    """Return a redactor that knows all secrets that are known when something is written."""
    return lambda text: log.redact(text)  # noqa: PLW0108 - it changes once the keys are known


def _import_session_modules() -> None:
    """Import in a thread what sessions need: the input line answers meanwhile."""
    for name in (
        "hermes.sessions.app",
        "hermes.sessions.services",
        "hermes.sessions.session_builder",
        "hermes.sessions.session_tools",
    ):
        importlib.import_module(name)


def _log_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log an error that nobody awaits, instead of printing it across the screen."""
    import logging

    error = context.get("exception")
    logging.getLogger("hermes").error(
        "%s", context.get("message", ""), exc_info=error if isinstance(error, BaseException) else None
    )
