"""Show a session that lives in another process, and ask its questions here."""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator

from hermes.cli.output import EXIT_INTERRUPTED, format_error, print_error
from hermes.cli.plain.prompts import TerminalAsker
from hermes.cli.plain.renderer import PlainRenderer
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import localize, tr
from hermes.ipc import frames
from hermes.ipc.frames import IpcConnection
from hermes.ipc.remote_session import RemoteSession
from hermes.util.text import strip_control_characters


def finish_oneshot(connection: socket.socket, received: bytes, session_id: str, terminal: int | None) -> int:
    """Follow a `hermes -z` that runs through the gateway to its end and return the exit code. `begun` is what
    was already read from the connection.
    """
    return asyncio.run(_finish_turn(connection, received, session_id, terminal))


async def _finish_turn(connection: socket.socket, received: bytes, session_id: str, terminal: int | None) -> int:
    connection.setblocking(False)
    # The caller closes its own handle; this one is the stream's.
    reader, writer = await asyncio.open_unix_connection(sock=connection.dup(), limit=frames.MAX_FRAME_BYTES)
    wire = IpcConnection(_PrefixedStreamReader(received, reader), writer, frames.response_decoder())
    about = frames.AttachedFrame(session_id=session_id, pid=0, busy=True, model="")
    session = RemoteSession(wire, about)
    ended = session.expect_oneshot_end()
    renderer = PlainRenderer(quiet=True)
    async with contextlib.AsyncExitStack() as stack:
        if terminal is not None:
            asker = await stack.enter_async_context(TerminalAsker(terminal))
            asker.attach_session(session)
            session.asker = asker
        renderer.on_output_error = session.stop
        session.subscribe(renderer)
        stack.enter_context(_stop_on_signals(session))
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
    ended = said.ended
    if ended is None:
        print_error(tr("The gateway has ended. `hermes --resume {id}` goes on.", id=session_id))
        return 1
    if ended.text:
        print(strip_control_characters(ended.text) if sys.stdout.isatty() else ended.text)
    if ended.error:
        print_error(strip_control_characters(localize(ended.error)))
    if ended.reason is ExitReason.INTERRUPTED:
        print_error("Stopped.")
        return EXIT_INTERRUPTED
    return said.code


@contextlib.contextmanager
def _stop_on_signals(session: RemoteSession) -> Iterator[None]:
    """Stop the turn on Ctrl-C, SIGTERM and a closed terminal."""
    loop = asyncio.get_running_loop()
    numbers = [
        one for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN
    ]
    for number in numbers:
        loop.add_signal_handler(number, session.stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class _PrefixedStreamReader(asyncio.StreamReader):
    """Gives the lines that were already read, then those of another reader."""

    def __init__(self, received: bytes, rest: asyncio.StreamReader) -> None:
        super().__init__(limit=frames.MAX_FRAME_BYTES)
        self._received = received
        self._rest = rest

    async def readline(self) -> bytes:
        """Read the next line with its end."""
        line, end, rest = self._received.partition(b"\n")
        if end:
            self._received = rest
            return line + end
        self._received = b""
        return line + await self._rest.readline()
