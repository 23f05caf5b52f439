"""Messages to a browser over a web socket: what a browser elsewhere has in place of the pipes."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from hermes.browser.transport import MAX_MESSAGE_BYTES
from hermes.util.cancellation import cancel_tasks

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientWebSocketResponse

_CLOSE_SECONDS = 5.0
_SEND_SECONDS = 30.0
SOCKET_LIMIT = MAX_MESSAGE_BYTES
"""The most bytes of one message: a longer one ends the connection."""


class SocketTransport:
    """Carries messages over a web socket, which it owns with its session. `finish` ends both in the end."""

    def __init__(self, session: "ClientSession", socket: "ClientWebSocketResponse") -> None:
        self._session = session
        self._socket = socket
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()  # its bytes have a limit: see `CdpConnection`
        self._waiting_bytes = 0
        self._is_closed = False
        self._writer = asyncio.create_task(self._write_all(), name="messages to a remote browser")

    @property
    def is_closed(self) -> bool:
        """Whether the browser takes nothing any more."""
        return self._is_closed or self._writer.done() or self._socket.closed

    @property
    def waiting_bytes(self) -> int:
        """How many bytes have not been sent yet."""
        return self._waiting_bytes

    async def receive_message(self) -> bytes:
        """Return the next message; empty at the end, also after one that is too long."""
        from aiohttp import WSMsgType

        await asyncio.sleep(0)
        message = await self._socket.receive()
        if message.type is WSMsgType.TEXT:
            return str(message.data).encode()
        return bytes(message.data) if message.type is WSMsgType.BINARY else b""

    def send_message(self, message: bytes) -> None:
        """Send a message without waiting; after the end it is dropped."""
        if not self.is_closed:
            self._waiting_bytes += len(message)
            self._queue.put_nowait(message)

    def close(self) -> None:
        """Send nothing any more; a second call does nothing."""
        self._is_closed = True
        self._writer.cancel()

    async def finish(self) -> None:
        """End the connection, within a few seconds."""
        self.close()
        try:
            await cancel_tasks([self._writer])
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._socket.close()
        finally:
            await self._session.close()

    async def _write_all(self) -> None:
        while True:
            message = await self._queue.get()
            try:
                async with asyncio.timeout(_SEND_SECONDS):
                    await self._socket.send_str(message.decode())
            except (TimeoutError, OSError):
                return
            self._waiting_bytes -= len(message)
