"""Show a session that lives in another process, and ask its questions here."""

import asyncio
import contextlib
import socket

from hermes.cli.output import EXIT_INTERRUPTED, format_error, print_error
from hermes.cli.plain.prompts import TerminalAsker
from hermes.cli.plain.renderer import PlainRenderer, print_turn_end
from hermes.cli.plain.terminal import STOP_SIGNALS, handle_signals
from hermes.i18n.messages import tr
from hermes.ipc import frames
from hermes.ipc.frames import IpcConnection
from hermes.ipc.remote_session import RemoteSession


def finish_oneshot(connection: socket.socket, received: bytes, session_id: str, terminal: int | None) -> int:
    """Follow a `hermes -z` that runs through the gateway to its end and return the exit code. `received` is what
    was already read from the connection.
    """
    return asyncio.run(_finish_turn(connection, received, session_id, terminal))


async def _finish_turn(connection: socket.socket, received: bytes, session_id: str, terminal: int | None) -> int:
    connection.setblocking(False)
    reader = asyncio.StreamReader(limit=frames.MAX_FRAME_BYTES)
    reader.feed_data(received)
    protocol = asyncio.StreamReaderProtocol(reader)
    loop = asyncio.get_running_loop()
    # The caller closes its own handle; this one is the stream's.
    transport, _ = await loop.create_unix_connection(lambda: protocol, sock=connection.dup())
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    wire = IpcConnection(reader, writer, frames.response_decoder())
    about = frames.AttachedFrame(session_id=session_id, pid=0, busy=True, model="")
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
        stack.enter_context(handle_signals(dict.fromkeys(STOP_SIGNALS, session.stop)))
        session.start_reading()
        stack.push_async_callback(session.close)
        said = await ended
    if renderer.output_error is not None:
        raise renderer.output_error
    return _report_outcome(said, session_id)


def _report_outcome(said: frames.TurnEndedFrame, session_id: str) -> int:
    """Print the answer or the error, and choose the exit code."""
    if said.error is not None:
        print_error(format_error(frames.error_from_frame(said.error)))
        return said.code or 1
    if said.ended is None:
        print_error(tr("The gateway has ended. `hermes --resume {id}` goes on.", id=session_id))
        return 1
    return EXIT_INTERRUPTED if print_turn_end(said.ended, with_text=True) else said.code
