"""Starts the full chat: what it needs to be drawn comes first, sessions and models behind it."""

import asyncio
import contextlib
import importlib
from collections.abc import Mapping

from msgspec import Struct

from hermes.app.options import Options
from hermes.cli.log import FaultLog
from hermes.cli.tui.chat import Chat
from hermes.cli.tui.composer import Past
from hermes.cli.tui.desk import ChatDesk
from hermes.cli.tui.look import Look
from hermes.cli.tui.output import Paper
from hermes.config.display import DisplaySettings
from hermes.config.home import Home


class Wanted(Struct, frozen=True, kw_only=True):
    """Which session to begin with, and how."""

    options: Options
    resume: str | None = None
    latest: bool = False
    no_input: bool = False
    """Whether nothing is to be asked."""


def serve(wanted: Wanted, environ: Mapping[str, str], home: Home, log: FaultLog, display: DisplaySettings) -> int:
    """Chat until the person leaves; returns the exit code. Raises HermesError when no session can be opened."""
    return asyncio.run(_talk(wanted, environ, home, log, display))


async def _talk(wanted: Wanted, environ: Mapping[str, str], home: Home, log: FaultLog, display: DisplaySettings) -> int:
    term = environ.get("TERM", "")
    look = Look(display, lambda: paper.get_size().columns)
    paper = Paper(term, None, synchronised=not term.startswith("linux"))
    past = Past(home.cache / "input_history.jsonl", _by_now(log))
    chat = Chat(look, paper, past, environ)
    asyncio.get_running_loop().set_exception_handler(_logged)
    async with contextlib.AsyncExitStack() as stack:

        async def opening(chat: Chat) -> ChatDesk:
            await asyncio.to_thread(_import_what_sessions_need)
            from hermes.app.wiring import App

            app = await stack.enter_async_context(App(environ, wanted.options))
            log.redact = app.redact
            chat.desk = desk = ChatDesk(chat, app)
            asker = None if wanted.no_input else chat.questions
            actor = await app.open_session(wanted.resume, latest=wanted.latest, asker=asker)
            chat.begin(actor)
            for line in app.notices:
                chat.screen.tell("warning", line)
            await chat.describe(greet=True)
            chat.resume()
            return desk

        code = await chat.run(opening)
    chat.screen.close()
    chat.farewell()
    return code


def _by_now(log: FaultLog) -> Callable[[str], str]:
    """Redaction by all that is known when something is written."""
    return lambda text: log.redact(text)


def _import_what_sessions_need() -> None:
    """In a thread: the input line answers meanwhile."""
    for name in ("hermes.app.wiring", "hermes.app.premises", "hermes.app.birth", "hermes.app.toolbox"):
        importlib.import_module(name)


def _logged(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """What nobody awaits goes to the log, not across the screen."""
    import logging

    error = context.get("exception")
    logging.getLogger("hermes").error(
        "%s", context.get("message", ""), exc_info=error if isinstance(error, BaseException) else None
    )
