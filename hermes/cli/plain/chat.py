"""Run conversations in lines: the plain chat, and one message with its answer and a file of what it cost."""

import argparse
import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from hermes.cli.fault_log import build_lazy_redactor, install_fault_log
from hermes.cli.output import EXIT_INTERRUPTED, print_error
from hermes.cli.plain.renderer import PlainRenderer, print_turn_end
from hermes.cli.plain.terminal import LineSource, PlainInput, open_controlling_terminal
from hermes.config.environment import copy_environment
from hermes.config.home import locate_home
from hermes.core.encoding import to_json
from hermes.core.errors import BusyError
from hermes.i18n.messages import N_
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions

if TYPE_CHECKING:
    from hermes.admin.models.local_servers import LocalModelServer
    from hermes.cli.plain.prompts import TerminalAsker
    from hermes.core.messages import ImagePart
    from hermes.sessions.port import SessionPort

_USAGE_KEYS = (
    "model", "provider", "session_id", "turn_exit_reason", "completed", "api_calls", "input_tokens", "output_tokens",
    "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "prompt_tokens", "completion_tokens", "total_tokens",
    "cache_hit_rate", "cache_saved_usd",
    "estimated_cost_usd", "cost_status", "cost_source",
)  # fmt: skip


def write_usage_file(file: Path, result: Mapping[str, object]) -> None:
    """Write the file. When it cannot be written an error is printed, and the run's outcome stays the same."""
    try:
        file.write_bytes(msgspec.json.format(to_json({key: result[key] for key in _USAGE_KEYS})) + b"\n")
    except OSError as error:
        print_error(N_("{file} cannot be written: {strerror}.", file=file, strerror=error.strerror))


EXIT_REFUSED = 3


def run_once(args: argparse.Namespace, text: str, options: SessionOptions) -> int:
    """Send one message and return the exit code. Raises HermesError."""
    return asyncio.run(_run_conversation(args, options, PlainInput(), text))


def run_plain_chat(args: argparse.Namespace, options: SessionOptions, servers: "tuple[LocalModelServer, ...]") -> int:
    """Chat with whoever is at standard input and return the exit code. Raises HermesError."""
    from hermes.cli.plain.readline import open_readline_input

    readline_input = open_readline_input(copy_environment().get("TERM", ""))
    if readline_input is not None:
        return readline_input.run_conversation(_run_conversation(args, options, readline_input, servers=servers))
    return asyncio.run(_run_conversation(args, options, PlainInput(), servers=servers))


async def _run_conversation(
    args: argparse.Namespace,
    options: SessionOptions,
    source: LineSource,
    text: str | None = None,
    *,
    servers: "tuple[LocalModelServer, ...]" = (),
) -> int:
    """Run the whole conversation. Without `text` it is a chat with whoever is at `source`."""
    # An interactive chat goes on for a while; what a script asks ends before a background review could run.
    options = structs.replace(options, reviews=text is None and source.interactive and options.remembers)
    environ = copy_environment()
    home = locate_home(environ)
    log = install_fault_log(home.logs, build_lazy_redactor(environ, home))
    with open_controlling_terminal() as found:
        terminal = None if args.no_input else found
        if terminal is not None and text is None:
            from hermes.cli.plain.offer_model import offer_local_server

            options = await offer_local_server(options, environ, terminal, servers)
        renderer = PlainRenderer(quiet=args.oneshot is not None)
        renderer.prompt = source.current_prompt
        async with App(environ, options) as app, contextlib.AsyncExitStack() as stack:
            log.redact = app.redact_text  # it also knows the keys that are read while the process runs
            asker = None
            if terminal is not None:
                from hermes.cli.plain.prompts import TerminalAsker

                asker = TerminalAsker(terminal)
                stack.push_async_callback(asker.close)
            if text is None:
                code = await _chat_in_lines(args, app, source, renderer, asker, environ)
            else:
                port = await _open_session(args, app, renderer, asker, stack)
                code = await _run_turn(app, port, source, text, args)
        if renderer.output_error is not None:
            raise renderer.output_error
        return code


async def _chat_in_lines(
    args: argparse.Namespace,
    app: App,
    source: LineSource,
    renderer: PlainRenderer,
    asker: "TerminalAsker | None",
    environ: Mapping[str, str],
) -> int:
    """Open the first session, and chat until the person leaves or the input ends."""
    from hermes.cli.plain.repl import PlainCommandContext, PlainRepl
    from hermes.ipc.session_server import serve_sessions

    async with serve_sessions(app), contextlib.AsyncExitStack() as stack:
        context = PlainCommandContext(app, source, renderer, asker, environ)
        stack.push_async_callback(context.close)
        with _print_notices(app):
            await context.open_first_session(args.resume, latest=args.latest)
        closed = asker.pop_closed_flag if asker is not None else lambda: False
        return await PlainRepl(source, context, closed=closed).run()


async def _open_session(
    args: argparse.Namespace,
    app: App,
    renderer: PlainRenderer,
    asker: "TerminalAsker | None",
    stack: contextlib.AsyncExitStack,
) -> "SessionPort":
    """Open the session of one message, or join it where another process holds it."""
    with _print_notices(app):
        port: SessionPort
        try:
            port = await app.open_session(args.resume, latest=args.latest, asker=asker)
        except BusyError:
            from hermes.ipc.session_server import close_port, open_or_join

            port = await open_or_join(app, args.resume, latest=args.latest, asker=asker)
            stack.push_async_callback(close_port, app, port)
    if asker is not None:
        asker.attach_session(port)
    renderer.on_output_error = port.stop
    port.subscribe(renderer)
    return port


@contextlib.contextmanager
def _print_notices(app: App) -> Iterator[None]:
    """Print what the App has to say when its first session is opened, or could not be."""
    try:
        yield
    finally:
        for line in app.notices:
            print_error(line)


async def _run_turn(app: App, port: "SessionPort", source: LineSource, text: str, args: argparse.Namespace) -> int:
    """Run one turn and return its exit code. Ctrl-C, SIGTERM and a closed terminal stop it."""
    images: tuple[ImagePart, ...] = ()
    if args.image:
        from hermes.sessions.pictures import read_picture

        images = tuple(read_picture(Path(name)) for name in args.image)
    used = _require_local_session(port) if args.usage_file else None
    with source.handle_interrupts(port.stop):
        ended = await port.post(InboundMessage(text=text, images=images, cwd=app.options.cwd))
    if used is not None:
        write_usage_file(Path(args.usage_file), app.turn_result(used, ended))
    if print_turn_end(ended, with_text=args.oneshot is not None):
        return EXIT_INTERRUPTED
    if not ended.reason.is_completed:
        return 1
    return EXIT_REFUSED if port.approvals.unasked else 0


def _require_local_session(port: "SessionPort") -> SessionActor:
    """Return the session itself: what it used is known only where it lives. Raises BusyError where that is
    another process.
    """
    from hermes.ipc.session_server import require_local

    return require_local(port)
