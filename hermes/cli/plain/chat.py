"""Run conversations in lines: the plain chat, and one message with its answer.

Write what a run cost as JSON (`--usage-file`), also when the run failed.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from hermes.admin.models.local_servers import LocalModelServer
from hermes.cli.fault_log import build_lazy_redactor, install_fault_log
from hermes.cli.output import EXIT_INTERRUPTED, print_error
from hermes.cli.plain.prompts import TerminalAsker, open_controlling_terminal
from hermes.cli.plain.renderer import PlainRenderer
from hermes.cli.plain.terminal import LineSource, PlainInput
from hermes.config.environment import copy_environment
from hermes.config.home import locate_home
from hermes.core.errors import BusyError
from hermes.core.events import ApprovalAsked, Event, TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import localize, tr
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.util.text import escape_confusable_characters, strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.cli.plain.command_context import PlainCommandContext
    from hermes.core.parts import ImagePart
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
        file.write_bytes(msgspec.json.format(msgspec.json.encode({key: result[key] for key in _USAGE_KEYS})) + b"\n")
    except OSError as error:
        print_error(f"{file} cannot be written: {error.strerror}.")


EXIT_REFUSED = 3


def run_once(args: argparse.Namespace, text: str, options: SessionOptions) -> int:
    """Send one message and return the exit code. Raises HermesError."""
    return asyncio.run(_run_conversation(args, options, PlainInput(), text))


def run_plain_chat(args: argparse.Namespace, options: SessionOptions, servers: tuple[LocalModelServer, ...]) -> int:
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
    servers: tuple[LocalModelServer, ...] = (),
) -> int:
    """Run the whole conversation. Without `text` it is a chat with whoever is at `source`."""
    # An interactive chat goes on for a while; what a script asks ends before a background review could run.
    options = structs.replace(options, reviews=text is None and source.interactive)
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
            if text is None:
                from hermes.ipc.session_server import serve_sessions

                await stack.enter_async_context(serve_sessions(app))
            log.redact = app.redact_text  # it also knows the keys that are read while the process runs
            asker = await stack.enter_async_context(TerminalAsker(terminal)) if terminal is not None else None
            sessions = _SessionOpener(app, renderer, asker, stack)
            try:
                actor = await sessions.open_session(args.resume, latest=args.latest)
            finally:
                for line in app.notices:
                    print_error(line)
            if text is not None:
                code = await _run_turn(app, actor, source, text, args)
            else:
                from hermes.cli.plain.command_context import PlainCommandContext, PlainTerminal
                from hermes.cli.plain.repl import PlainRepl

                closed = asker.pop_closed_flag if asker is not None else lambda: False
                plain = PlainTerminal(app.services.settings.display, environ, renderer.set_display)
                command_context = PlainCommandContext(
                    app, source, actor, plain, sessions.open_session, sessions.open_background_session
                )
                code = await PlainRepl(app, source, command_context, closed=closed).run()
                if command_context.delete_on_exit:
                    await _delete_session(command_context)
        if renderer.output_error is not None:
            raise renderer.output_error
        return code


class _SessionOpener:
    """Opens sessions that are shown here; their questions are asked on the terminal where there is one."""

    def __init__(
        self, app: App, renderer: PlainRenderer, asker: TerminalAsker | None, remotes: contextlib.AsyncExitStack
    ) -> None:
        self._app = app
        self._remotes = remotes
        self._renderer = renderer
        self._asker = asker

    async def open_session(self, name: str | None = None, *, latest: bool = False) -> "SessionPort":
        """Open the session of that name, the newest one, or a fresh one. A session that another process holds is
        joined.
        """
        actor = await self._open_or_join(name, latest=latest)
        if self._asker is not None:
            self._asker.attach_session(actor)
        self._renderer.on_output_error = actor.stop
        actor.subscribe(self._renderer)
        return actor

    async def _open_or_join(self, name: str | None, *, latest: bool) -> "SessionPort":
        try:
            return await self._app.open_session(name, latest=latest, asker=self._asker)
        except BusyError:
            from hermes.ipc.session_server import attach_named_session

            remote = await attach_named_session(self._app, name, latest=latest, asks=self._asker is not None)
            if remote is None:
                raise
            self._remotes.push_async_callback(remote.close)
            return remote

    async def open_background_session(self) -> SessionActor:
        """Open a fresh session that is not shown. The terminal belongs to the prompt while the person types, so its
        questions are only announced, and wait.
        """
        actor = await self._app.open_session()
        actor.approvals.can_ask = self._asker is not None
        actor.subscribe(self._announce_question)
        return actor

    def _announce_question(self, event: Event) -> None:
        if isinstance(event, ApprovalAsked):
            subject = to_one_line(escape_confusable_characters(event.subject), 200)
            asked = tr("A session in the background asks: {tool} {subject}", tool=event.tool, subject=subject)
            prompt = self._renderer.prompt()
            print("\n".join(["", asked, tr("/approvals answers it."), prompt]), end="", flush=True)


async def _delete_session(command_context: "PlainCommandContext") -> None:
    """Delete the session of the chat that has ended."""
    from hermes.admin.sessions import SessionAdmin

    actor = command_context.actor
    session_id = actor.session_id
    await command_context.app.close_session(actor)
    services = command_context.app.services
    print(tr("Deleted: {what}.", what=await SessionAdmin(services.store, services.home).delete_session(session_id)))


async def _run_turn(app: App, actor: "SessionPort", source: LineSource, text: str, args: argparse.Namespace) -> int:
    """Run one turn and return its exit code. Ctrl-C, SIGTERM and a closed terminal stop it."""
    images: tuple[ImagePart, ...] = ()
    if args.image:
        from hermes.sessions.pictures import read_picture

        images = tuple(read_picture(Path(name)) for name in args.image)
    used = _require_local_session(actor) if args.usage_file else None
    with source.handle_interrupts(actor.stop):
        ended = await actor.post(InboundMessage(text=text, images=images, cwd=app.options.cwd))
    if used is not None:
        write_usage_file(Path(args.usage_file), app.turn_result(used, ended))
    return _report_outcome(actor, ended, only_text=args.oneshot is not None)


def _require_local_session(port: "SessionPort") -> SessionActor:
    """Return the session itself: what it used is known only where it lives. Raises BusyError where that is
    another process.
    """
    from hermes.ipc.session_server import require_local

    return require_local(port)


def _report_outcome(actor: "SessionPort", ended: TurnEnded, *, only_text: bool) -> int:
    """Print the answer or the error, and choose the exit code."""
    if only_text:
        if ended.text:
            print(strip_control_characters(ended.text) if sys.stdout.isatty() else ended.text)
        if ended.error:
            print_error(strip_control_characters(localize(ended.error)))
    if ended.reason is ExitReason.INTERRUPTED:
        print_error("Stopped.")
        return EXIT_INTERRUPTED
    if not ended.reason.is_completed:
        return 1
    return EXIT_REFUSED if actor.approvals.unasked else 0
