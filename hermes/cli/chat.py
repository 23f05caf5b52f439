"""`hermes`, `hermes chat` and `hermes -z`: everything that starts a conversation."""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from hermes.app.pictures import read_picture
from hermes.app.wiring import App
from hermes.cli.ask import TerminalAsker, controlling_terminal
from hermes.cli.log import log_to
from hermes.cli.offer import offer_server
from hermes.cli.options import app_options, parser, prompt_text
from hermes.cli.render import Renderer
from hermes.cli.report import complain, failed
from hermes.cli.terminal import Lines
from hermes.cli.usage import write_usage
from hermes.config.environment import process_environment
from hermes.config.home import locate_home
from hermes.core.errors import HermesError
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.runtime.actor import Inbound, SessionActor
from hermes.util.text import inert

REFUSED = 3
STOPPED = 130
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(arguments: list[str]) -> int:
    """Parse the options and talk."""
    given = parser("hermes" if not arguments else "hermes chat").parse_args(arguments)
    try:
        return asyncio.run(_talk(given))
    except HermesError as error:
        return failed(error)


async def _talk(given: argparse.Namespace) -> int:
    text = given.oneshot if given.oneshot is not None else given.query
    if text is not None:
        text = prompt_text(text)
        if not text.strip():
            complain("The task is empty. Say what to do: hermes -z TEXT")
            return 2
    options = app_options(given)
    environ = process_environment()
    log_to(locate_home(environ).logs)
    with controlling_terminal() as found:
        terminal = None if given.no_input else found
        if terminal is not None and text is None:
            options = await offer_server(options, environ, terminal)
        async with App(environ, options) as app, contextlib.AsyncExitStack() as stack:
            try:
                actor = await _session(app, given, terminal, stack)
            finally:
                for line in app.notices:
                    complain(line)
            shown = Renderer(quiet=given.oneshot is not None)
            shown.on_broken = actor.stop
            actor.subscribe(shown)
            code = await (_chat(app, actor) if text is None else _once(app, actor, text, given))
        if shown.broken is not None:
            raise shown.broken
        return code


async def _session(
    app: App, given: argparse.Namespace, terminal: int | None, stack: contextlib.AsyncExitStack
) -> SessionActor:
    """The session that the options name, shown here, its questions asked on the terminal where there is one."""
    asker = await stack.enter_async_context(TerminalAsker(terminal)) if terminal is not None else None
    actor = await app.open_session(given.resume, latest=given.latest, asker=asker)
    if asker is not None:
        asker.attach(actor)
    return actor


async def _once(app: App, actor: SessionActor, text: str, given: argparse.Namespace) -> int:
    """One turn and its exit code."""
    images = tuple(read_picture(Path(name)) for name in given.image)
    ended = await _turn(actor, Inbound(text=text, images=images, cwd=app.options.cwd))
    if given.usage_file:
        write_usage(Path(given.usage_file), app.result(actor, ended))
    return _finish(actor, ended, only_text=given.oneshot is not None)


async def _turn(actor: SessionActor, inbound: Inbound) -> TurnEnded:
    """One turn; Ctrl-C, SIGTERM and a terminal that is closed stop it."""
    with _stopping(actor):
        return await actor.post(inbound)


@contextlib.contextmanager
def _stopping(actor: SessionActor) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    # What the one who started us lets us ignore (nohup) stays ignored.
    numbers = [one for one in _STOPPING if signal.getsignal(one) is not signal.SIG_IGN]
    for number in numbers:
        loop.add_signal_handler(number, actor.stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _finish(actor: SessionActor, ended: TurnEnded, *, only_text: bool) -> int:
    """Print what is owed and choose the exit code."""
    if only_text:
        if ended.text:
            print(inert(ended.text) if sys.stdout.isatty() else ended.text)
        if ended.error:
            complain(inert(ended.error))
    if ended.reason is ExitReason.INTERRUPTED:
        complain("Stopped.")
        return STOPPED
    if not ended.reason.completed:
        return 1
    return REFUSED if actor.approvals.unasked else 0


async def _chat(app: App, actor: SessionActor) -> int:
    """A plain chat: a line from standard input, an answer, and so on until the input ends."""
    lines = Lines(sys.stdin.fileno())
    if sys.stdin.isatty():
        length = await app.context_length()
        window = f"{length:,} tokens" if length is not None else "unknown (set model.context_length)"
        print(f"{app.endpoint.model} from {app.endpoint.record.title}, window: {window}.")
        print(f"Session {actor.session_id}. /quit ends it; Ctrl-C stops an answer.")
    while True:
        if sys.stdin.isatty():
            print("> ", end="", flush=True)
        line = await lines.next()
        if line is None or line.strip() in ("/quit", "/exit"):
            return 0
        if line.strip() == "/help":
            print("Type a message and Enter. /quit or Ctrl-D ends the chat; `hermes --resume ID` goes on with it.")
        elif line.strip():
            ended = await _turn(actor, Inbound(text=line, cwd=app.options.cwd))
            if ended.reason is ExitReason.LOCAL_ERROR:
                return 1
