"""Send one message and show its answer: `hermes -z` and `hermes chat -q`, for people and, as JSON, for programs."""

import argparse
import asyncio
import contextlib
import errno
import os
import select
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from hermes.cli.fault_log import build_lazy_redactor, install_fault_log
from hermes.cli.output import EXIT_INTERRUPTED, print_error
from hermes.cli.plain.renderer import CheckedAnswer, PlainRenderer, print_turn_end
from hermes.cli.plain.terminal import (
    STOP_SIGNALS,
    handle_signals,
    ignore_signals,
    open_controlling_terminal,
    run_stoppable,
)
from hermes.config.environment import copy_environment
from hermes.config.home import locate_home
from hermes.core.encoding import to_json
from hermes.core.errors import BusyError
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import N_, tr
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App, list_changed_files
from hermes.sessions.options import SessionOptions
from hermes.util.text import strip_terminal_controls

if TYPE_CHECKING:
    from hermes.cli.plain.prompts import TerminalAsker
    from hermes.cli.plain.run_report import RunReport
    from hermes.core.messages import ImagePart
    from hermes.sessions.answer_schema import AnswerSchema
    from hermes.sessions.port import SessionPort

EXIT_REFUSED = 3
EXIT_INVALID_ANSWER = 4
_PIPE_MILLISECONDS = 30_000
"""How long whoever reads a named pipe may take nothing from it."""
_USAGE_KEYS = (
    "model", "provider", "session_id", "turn_exit_reason", "completed", "api_calls", "input_tokens", "output_tokens",
    "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "prompt_tokens", "completion_tokens", "total_tokens",
    "cache_hit_rate", "cache_saved_usd",
    "estimated_cost_usd", "cost_status", "cost_source",
)  # fmt: skip


def write_usage_file(file: Path, result: Mapping[str, object]) -> None:
    """Write the file. When it cannot be written an error is printed, and the run's outcome stays the same."""
    _write_file(file, msgspec.json.format(to_json({key: result[key] for key in _USAGE_KEYS})) + b"\n")


def _write_file(file: Path, data: bytes) -> None:
    try:
        if file.is_fifo():
            _write_pipe(file, data)
        else:
            file.write_bytes(data)
    except OSError as error:
        reason = tr("nobody reads it") if error.errno == errno.ENXIO else error.strerror
        print_error(N_("{file} cannot be written: {strerror}.", file=file, strerror=reason))


def _write_pipe(file: Path, data: bytes) -> None:
    """Write into a named pipe, for as long as somebody reads from it. Raises OSError.

    Opening one that nobody reads would wait for ever, deaf to Ctrl-C.
    """
    handle = os.open(file, os.O_WRONLY | os.O_NONBLOCK)
    try:
        waiter = select.poll()
        waiter.register(handle, select.POLLOUT)
        rest = memoryview(data)
        while rest:
            if not waiter.poll(_PIPE_MILLISECONDS):
                raise TimeoutError(errno.ETIMEDOUT, tr("whoever reads it takes nothing"))
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


class OneMessage:
    """One run: a message, its turn (and more where the answer's form is wrong), its report and its exit code."""

    def __init__(
        self,
        args: argparse.Namespace,
        inbound: InboundMessage,
        options: SessionOptions,
        *,
        report: "RunReport | None" = None,
        schema: "AnswerSchema | None" = None,
    ) -> None:
        self._args = args
        self._inbound = inbound if schema is None else schema.add_instructions(inbound)
        # What a script asks ends before a background review could run.
        self._options = structs.replace(options, reviews=False)
        self._report = report
        self._schema = schema
        self._is_quiet = args.oneshot is not None or report is not None or schema is not None
        """Whether only the answer is printed."""
        self._port: SessionPort | None = None
        self._is_stopped = False
        self._handlers = contextlib.ExitStack()
        self._turn_ids: list[str] = []

    def run(self) -> int:
        """Send the message and return the exit code. Raises HermesError."""
        return run_stoppable(self._run_stoppable())

    async def _run_stoppable(self) -> int:
        """Run it; Ctrl-C, SIGTERM and a closed terminal stop what runs, from the start to the last line."""
        task = asyncio.current_task()
        assert task is not None
        with self._handlers:
            self._handlers.enter_context(handle_signals(dict.fromkeys(STOP_SIGNALS, lambda: self._stop(task))))
            try:
                return await self._run()
            except asyncio.CancelledError:
                if not self._is_stopped:
                    raise
                task.uncancel()
        return await self._report_stop()

    def _stop(self, task: "asyncio.Task[object]") -> None:
        self._is_stopped = True
        if self._report is not None:
            self._report.give_up.set()
        if self._report is not None and self._report.finished:
            return
        if self._port is None:
            task.cancel()
        else:
            self._port.stop()

    async def _report_stop(self) -> int:
        """Report a run that was stopped before its turn began."""
        print_error(tr("Stopped."))
        if self._report is not None:
            from hermes.cli.plain.run_report import ReportedEnd

            self._report.finish(ReportedEnd(exit_code=EXIT_INTERRUPTED, outcome=ExitReason.INTERRUPTED.value))
            await self._report.drain()
        return EXIT_INTERRUPTED

    async def _run(self) -> int:
        environ = copy_environment()
        home = locate_home(environ)
        log = install_fault_log(home.logs, build_lazy_redactor(environ, home))
        with open_controlling_terminal() as found:
            terminal = None if self._args.no_input else found
            renderer = PlainRenderer(quiet=self._is_quiet)
            async with App(environ, self._options) as app, contextlib.AsyncExitStack() as stack:
                log.redact = app.redact_text  # it also knows the keys that are read while the process runs
                asker = None
                if terminal is not None:
                    from hermes.cli.plain.prompts import TerminalAsker

                    asker = TerminalAsker(terminal)
                    stack.push_async_callback(asker.close)
                if not (self._is_quiet or self._args.plain):
                    renderer.render_markdown(app.services.settings.display, environ)
                port = await self._open_session(app, renderer, asker, stack)
                code = await self._run_turn(app, port)
                self._handlers.close()  # the outcome is told: closing what is open is not a turn to stop
                if self._report is not None:
                    ignore_signals(STOP_SIGNALS)  # the last line has told the exit code
            output_error = renderer.output_error or (self._report.output_error if self._report is not None else None)
            if output_error is not None:
                raise output_error
            return code

    async def _open_session(
        self, app: App, renderer: PlainRenderer, asker: "TerminalAsker | None", stack: contextlib.AsyncExitStack
    ) -> "SessionPort":
        """Open the session of the message, or join it where another process holds it."""
        args = self._args
        with print_notices(app):
            port: SessionPort
            try:
                port = await app.open_session(args.resume, latest=args.latest, asker=asker)
            except BusyError:
                from hermes.ipc.session_server import close_port, open_or_join

                port = await open_or_join(app, args.resume, latest=args.latest, asker=asker)
                stack.push_async_callback(close_port, app, port)
        if asker is not None:
            asker.attach_session(port)
        self._port = port
        renderer.on_output_error = port.stop
        port.subscribe(renderer)
        if self._report is not None:
            local = port.conversation.client.endpoint if isinstance(port, SessionActor) else app.endpoint
            self._report.begin(
                session_id=port.session_id,
                cwd=self._options.cwd or "",
                model=local.model,
                provider=local.record.name,
            )
            self._report.on_output_error(port.stop)
            port.subscribe(self._report)
        return port

    async def _run_turn(self, app: App, port: "SessionPort") -> int:
        """Run the turn, report it, and return the exit code."""
        used = _require_local_session(port) if self._args.usage_file else None
        images: tuple[ImagePart, ...] = ()
        if self._args.image:
            from hermes.sessions.pictures import read_picture

            images = tuple(read_picture(Path(name)) for name in self._args.image)
        checked = await self._ask(port, structs.replace(self._inbound, images=images))
        ended = checked.ended
        if used is not None:
            write_usage_file(Path(self._args.usage_file), app.turn_result(used, ended))
        code = choose_exit_code(ended, unasked=port.approvals.unasked, problem=checked.problem)
        if self._report is not None:
            from hermes.cli.plain.run_report import report_turn

            await report_turn(self._report, checked, code, await self._list_changed_files(app, port))
        self._show_end(checked)
        return code

    def _show_end(self, checked: CheckedAnswer) -> None:
        """Print the answer where it has not been shown, and what went wrong; write the answer's file."""
        ended, is_answer = checked.ended, checked.ended.reason.is_completed and not checked.problem
        if self._args.output and is_answer:
            _write_file(Path(self._args.output), f"{checked.text}\n".encode("utf-8", "surrogateescape"))
        if self._schema is not None and self._report is None and is_answer:
            print(strip_terminal_controls(checked.text) if sys.stdout.isatty() else checked.text)
        with_text = self._is_quiet and self._report is None and self._schema is None
        print_turn_end(ended, with_text=with_text, with_error=self._is_quiet)
        if checked.problem:
            print_error(tr("The answer does not have the form that was asked for: {problem}.", problem=checked.problem))

    async def _ask(self, port: "SessionPort", inbound: InboundMessage) -> CheckedAnswer:
        """Post the message; where its answer must have a form, ask again while it has not, a few times at most."""
        ended = await self._post(port, inbound)
        if self._schema is None:
            return CheckedAnswer(ended=ended, text=ended.text)
        from hermes.sessions.answer_schema import MAX_REPAIRS, build_repair_message, extract_json

        repairs = 0
        while True:
            if not ended.reason.is_completed:
                return CheckedAnswer(ended=ended, text=ended.text)
            value, problem = self._schema.parse_answer(ended.text)
            if not problem:
                return CheckedAnswer(ended=ended, text=extract_json(ended.text), structured=value)
            if repairs == MAX_REPAIRS or self._is_stopped:
                return CheckedAnswer(ended=ended, text=ended.text, problem=problem)
            repairs += 1
            ended = await self._post(port, build_repair_message(problem, cwd=inbound.cwd))

    async def _post(self, port: "SessionPort", inbound: InboundMessage) -> TurnEnded:
        ended = await port.post(inbound)
        self._turn_ids.append(ended.turn_id)
        if self._report is not None:
            self._report.add_totals(ended)
        return ended

    async def _list_changed_files(self, app: App, port: "SessionPort") -> tuple[str, ...] | None:
        """Return the files that the turns changed, as their checkpoints have them; None where none are made."""
        if not app.services.settings.checkpoints.enabled:
            return None
        return await list_changed_files(app, port.session_id, self._turn_ids)


def choose_exit_code(ended: TurnEnded, *, unasked: int, problem: str = "") -> int:
    """Return the exit code of a run by how its turn ended."""
    if ended.reason is ExitReason.INTERRUPTED:
        return EXIT_INTERRUPTED
    if not ended.reason.is_completed:
        return 1
    if problem:
        return EXIT_INVALID_ANSWER
    return EXIT_REFUSED if unasked else 0


@contextlib.contextmanager
def print_notices(app: App) -> Iterator[None]:
    """Print what the App has to say when its first session is opened, or could not be."""
    try:
        yield
    finally:
        for line in app.notices:
            print_error(line)


def _require_local_session(port: "SessionPort") -> SessionActor:
    """Return the session itself: what it used is known only where it lives. Raises BusyError where that is
    another process.
    """
    from hermes.ipc.session_server import require_local

    return require_local(port)
