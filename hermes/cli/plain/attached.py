"""Show a session that lives in another process, and ask its questions here."""

import asyncio
import contextlib
import os
import socket

from msgspec import Struct

from hermes.cli.output import EXIT_INTERRUPTED, format_error, print_error
from hermes.cli.plain.prompts import TerminalAsker
from hermes.cli.plain.renderer import CheckedAnswer, PlainRenderer, print_turn_end
from hermes.cli.plain.run_report import (
    LOST,
    NOT_STARTED,
    ReportedEnd,
    ReportMode,
    RunReport,
    report_turn,
    run_reported,
)
from hermes.cli.plain.terminal import STOP_SIGNALS, handle_signals, run_stoppable
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import tr
from hermes.ipc import frames
from hermes.ipc.frames import IpcConnection
from hermes.ipc.remote_session import RemoteSession


class OneshotCall(Struct, frozen=True, kw_only=True):
    """A call of the gateway, as far as its caller knows it: the session that it took, and the report to write."""

    session_id: str
    model: str
    provider: str
    report: str = ""


def finish_oneshot(connection: socket.socket, received: bytes, call: OneshotCall, terminal: int | None) -> int:
    """Follow a `hermes -z` that runs through the gateway to its end and return the exit code. `received` is what
    was already read from the connection.
    """
    if not call.report:
        return run_stoppable(_finish_turn(connection, received, call, terminal, None))
    report = RunReport(ReportMode(call.report))
    return run_reported(report, lambda: run_stoppable(_finish_turn(connection, received, call, terminal, report)))


def report_early_stop(report: str) -> None:
    """Write the report of a run that was stopped before its turn began."""
    made = RunReport(ReportMode(report))
    made.finish(ReportedEnd(exit_code=EXIT_INTERRUPTED, outcome=ExitReason.INTERRUPTED.value))
    made.drain_now()


async def _finish_turn(
    connection: socket.socket, received: bytes, call: OneshotCall, terminal: int | None, report: RunReport | None
) -> int:
    connection.setblocking(False)
    reader = asyncio.StreamReader(limit=frames.MAX_FRAME_BYTES)
    reader.feed_data(received)
    protocol = asyncio.StreamReaderProtocol(reader)
    loop = asyncio.get_running_loop()
    # The caller closes its own handle; this one is the stream's.
    transport, _ = await loop.create_unix_connection(lambda: protocol, sock=connection.dup())
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    wire = IpcConnection(reader, writer, frames.response_decoder())
    about = frames.AttachedFrame(session_id=call.session_id, pid=0, busy=True, model=call.model)
    session = RemoteSession(wire, about)
    ended = session.expect_oneshot_end()
    renderer = PlainRenderer(quiet=True)
    async with contextlib.AsyncExitStack() as stack:
        if terminal is not None:
            asker = TerminalAsker(terminal)
            stack.push_async_callback(asker.close)
            asker.attach_session(session)
            session.asker = asker
        renderer.on_output_error = session.stop
        session.subscribe(renderer)
        if report is not None:
            report.begin(session_id=call.session_id, cwd=os.getcwd(), model=call.model, provider=call.provider)
            report.on_output_error(session.stop)
            session.subscribe(report)

        def stop() -> None:
            if report is not None:
                report.give_up.set()
            session.stop()

        stack.enter_context(handle_signals(dict.fromkeys(STOP_SIGNALS, stop)))
        session.start_reading()
        stack.push_async_callback(session.close)
        said = await ended
        if report is not None:
            await _report_end(report, said)
    output_error = renderer.output_error or (report.output_error if report is not None else None)
    if output_error is not None:
        raise output_error
    return _report_outcome(said, call.session_id, with_text=report is None)


async def _report_end(report: RunReport, said: frames.TurnEndedFrame) -> None:
    """Write the last line of a report by what the gateway said of the turn's end."""
    if said.ended is not None:
        report.add_totals(said.ended)
        await report_turn(report, CheckedAnswer(ended=said.ended, text=said.ended.text), said.code, said.files_changed)
        return
    if said.error is not None:
        error = format_error(frames.error_from_frame(said.error))
        report.finish(ReportedEnd(exit_code=said.code or 1, outcome=NOT_STARTED, error=error))
    else:
        report.finish(ReportedEnd(exit_code=1, outcome=LOST, error=tr("The gateway has ended.")))
    await report.drain()


def _report_outcome(said: frames.TurnEndedFrame, session_id: str, *, with_text: bool) -> int:
    """Print the answer or the error, and choose the exit code."""
    if said.error is not None:
        print_error(format_error(frames.error_from_frame(said.error)))
        return said.code or 1
    if said.ended is None:
        print_error(tr("The gateway has ended. `hermes --resume {id}` goes on.", id=session_id))
        return 1
    is_stopped = print_turn_end(said.ended, with_text=with_text, with_error=True)
    return EXIT_INTERRUPTED if is_stopped else said.code
