"""What is shown and asked here of a session that lives in another process."""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator

from hermes.cli.errors import complain, explained
from hermes.cli.plain.prompts import TerminalAsker
from hermes.cli.plain.renderer import Renderer
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import say, translated
from hermes.ipc import frames
from hermes.ipc.connection import IpcConnection
from hermes.ipc.remote_session import RemoteSession
from hermes.util.text import inert

_STOPPED = 130


def finish_oneshot(one: socket.socket, begun: bytes, session_id: str, terminal: int | None) -> int:
    """See `hermes -z` through the gateway to its end, of which `begun` was read already; the exit code."""
    return asyncio.run(_finish(one, begun, session_id, terminal))


async def _finish(one: socket.socket, begun: bytes, session_id: str, terminal: int | None) -> int:
    one.setblocking(False)
    # The caller closes its own handle; this one is the stream's.
    reader, writer = await asyncio.open_unix_connection(sock=one.dup(), limit=frames.MAX_FRAME_BYTES)
    wire = IpcConnection(_Begun(begun, reader), writer, frames.response_decoder())
    about = frames.AttachedFrame(session_id=session_id, pid=0, busy=True, model="")
    session = RemoteSession(wire, about)
    ended = session.expect_oneshot_end()
    shown = Renderer(quiet=True)
    async with contextlib.AsyncExitStack() as stack:
        if terminal is not None:
            asker = await stack.enter_async_context(TerminalAsker(terminal))
            asker.attach(session)
            session.asker = asker
        shown.on_broken = session.stop
        session.subscribe(shown)
        stack.enter_context(_signals(session))
        session.start_reading()
        stack.push_async_callback(session.close)
        said = await ended
    if shown.broken is not None:
        raise shown.broken
    return _code(said, session_id)


def _code(said: frames.TurnEndedFrame, session_id: str) -> int:
    """Print what is owed and choose the exit code."""
    if said.error is not None:
        complain(explained(frames.error_from_frame(said.error)))
        return said.code or 1
    ended = said.ended
    if ended is None:
        complain(say("The gateway has ended. `hermes --resume {id}` goes on.", id=session_id))
        return 1
    if ended.text:
        print(inert(ended.text) if sys.stdout.isatty() else ended.text)
    if ended.error:
        complain(inert(translated(ended.error)))
    if ended.reason is ExitReason.INTERRUPTED:
        complain("Stopped.")
        return _STOPPED
    return said.code


@contextlib.contextmanager
def _signals(session: RemoteSession) -> Iterator[None]:
    """Ctrl-C, SIGTERM and a terminal that is closed stop the turn."""
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


class _Begun(asyncio.StreamReader):
    """Lines that were read already, and then those of another reader."""

    def __init__(self, begun: bytes, rest: asyncio.StreamReader) -> None:
        super().__init__(limit=frames.MAX_FRAME_BYTES)
        self._begun = begun
        self._rest = rest

    async def readline(self) -> bytes:
        """The next line with its end."""
        line, end, rest = self._begun.partition(b"\n")
        if end:
            self._begun = rest
            return line + end
        self._begun = b""
        return line + await self._rest.readline()
