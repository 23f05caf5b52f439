"""Run the plain chat: a conversation in lines."""

import argparse
import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.cli.fault_log import build_lazy_redactor, install_fault_log
from hermes.cli.plain.one_message import print_notices
from hermes.cli.plain.renderer import PlainRenderer
from hermes.cli.plain.terminal import LineSource, PlainInput, open_controlling_terminal
from hermes.config.environment import copy_environment
from hermes.config.home import locate_home
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.util.garbage_collector import collect_after_start

if TYPE_CHECKING:
    from hermes.admin.models.local_servers import LocalModelServer
    from hermes.cli.plain.prompts import TerminalAsker


def run_plain_chat(args: argparse.Namespace, options: SessionOptions, servers: "tuple[LocalModelServer, ...]") -> int:
    """Chat with whoever is at standard input and return the exit code. Raises HermesError."""
    from hermes.cli.plain.readline import open_readline_input

    readline_input = open_readline_input(copy_environment().get("TERM", ""))
    if readline_input is not None:
        return readline_input.run_conversation(_run_conversation(args, options, readline_input, servers))
    return asyncio.run(_run_conversation(args, options, PlainInput(), servers))


async def _run_conversation(
    args: argparse.Namespace,
    options: SessionOptions,
    source: LineSource,
    servers: "tuple[LocalModelServer, ...]",
) -> int:
    """Chat with whoever is at `source` until the input ends."""
    # An interactive chat goes on for a while; what a script says ends before a background review could run, and before
    # sub-agents in the background could report.
    options = structs.replace(options, reviews=source.interactive and options.remembers, goes_on=source.interactive)
    environ = copy_environment()
    home = locate_home(environ)
    log = install_fault_log(home.logs, build_lazy_redactor(environ, home))
    with open_controlling_terminal() as found:
        terminal = None if args.no_input else found
        if terminal is not None:
            from hermes.cli.plain.offer_model import offer_local_server

            options = await offer_local_server(options, environ, terminal, servers)
        renderer = PlainRenderer()
        renderer.prompt = source.current_prompt
        async with App(environ, options) as app, contextlib.AsyncExitStack() as stack:
            log.redact = app.redact_text  # it also knows the keys that are read while the process runs
            asker = None
            if terminal is not None:
                from hermes.cli.plain.prompts import TerminalAsker

                asker = TerminalAsker(terminal)
                asker.find_prompt = source.current_prompt
                stack.push_async_callback(asker.close)
            code = await _chat_in_lines(args, app, source, renderer, asker, environ)
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
        if args.prompt:
            context.queued.append(InboundMessage(text=args.prompt, cwd=app.options.cwd))
        with print_notices(app):
            await context.open_first_session(args.resume, latest=args.latest)
        collect_after_start()
        closed = asker.pop_closed_flag if asker is not None else lambda: False
        return await PlainRepl(source, context, closed=closed).run()
