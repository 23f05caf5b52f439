"""Enough of HTTP/1.1 to serve a model client: read a request, send a planned answer."""

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hermes.testing.answer_plan import AnswerPlan, encode_head
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Ending

_T = TypeVar("_T")

_READ_LIMIT = 1 << 20
_IDLE_SECONDS = 120.0
_MAX_BODY = 1 << 28


class ClientClosedError(Exception):
    """The client has closed the connection."""


class ClientConnection(asyncio.StreamReaderProtocol):
    """One connection. It notices at once when the client closes, also while nothing is read."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_accept: Callable[["ClientConnection"], None]) -> None:
        self.closed = asyncio.Event()
        self.closed_at: float | None = None
        self.reusable = True
        self._on_accept = on_accept
        super().__init__(asyncio.StreamReader(limit=_READ_LIMIT, loop=loop), self._on_connect, loop=loop)

    def _on_connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._on_accept(self)

    def eof_received(self) -> bool | None:
        """Count the client as gone: a model's client that sends no more has closed."""
        self._mark_closed()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the client as gone."""
        self._mark_closed()
        super().connection_lost(exc)

    def _mark_closed(self) -> None:
        if self.closed_at is None:
            self.closed_at = time.monotonic()
        self.closed.set()

    async def pause(self, seconds: float) -> None:
        """Wait, or raise `ClientClosedError` at the moment the client closes."""
        if seconds > 0 and not self.closed.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self.closed.wait()
            except TimeoutError:
                return
        if self.closed.is_set():
            raise ClientClosedError

    async def run_unless_closed(self, work: Awaitable[_T]) -> _T:
        """Return the result of `work`, which is cancelled when the client closes first."""
        task = asyncio.ensure_future(work)
        watch = asyncio.ensure_future(self.closed.wait())
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientClosedError
            return task.result()
        finally:
            watch.cancel()
            task.cancel()

    async def write(self, data: bytes) -> None:
        """Hand bytes to the kernel."""
        if self.closed.is_set():
            raise ClientClosedError
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError as error:
            raise ClientClosedError from error

    def close(self) -> None:
        """Close the connection; written bytes are still sent."""
        self.reusable = False
        self.writer.close()

    async def reset_connection(self) -> None:
        """Reset the connection after the written bytes."""
        transport = self.writer.transport
        transport.set_write_buffer_limits(0)
        await self.write(b"")
        self.reusable = False
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


async def read_request(connection: ClientConnection, connection_id: int) -> RecordedRequest | None:
    """Return the connection's next request, or None if there is none."""
    reader = connection.reader
    try:
        async with asyncio.timeout(_IDLE_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").rstrip().split("\r\n")
            method, path, _version = first.split(" ", 2)
            headers = {}
            for line in lines:
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            if headers.get("expect", "").lower() == "100-continue":
                await connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await _read_body(reader, headers)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, TimeoutError, ValueError):
        return None
    connection.reusable = headers.get("connection", "").lower() != "close"
    return RecordedRequest(method, path, headers, body, connection_id)


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        parts = []
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
        return b"".join(parts)
    length = int(headers.get("content-length", 0))
    if length > _MAX_BODY:
        raise ValueError(f"a body of {length} bytes is too large")
    return await reader.readexactly(length)


async def send_answer(plan: AnswerPlan, connection: ClientConnection, *, hold: Callable[[], Awaitable[None]]) -> None:
    """Send an answer as planned. Raises `ClientClosedError` when the client closes before the end."""
    how = plan.delivery
    await connection.pause(how.delay)
    if how.head and plan.at_once:
        last = b"0\r\n\r\n" if plan.streamed and plan.ending in {Ending.WHOLE, Ending.STOP} else b""
        body = _encode_chunk(b"".join(plan.pieces)) if plan.streamed else b"".join(plan.pieces)
        await connection.write(b"".join(encode_head(plan)) + body + last)
    elif how.head:
        await _send_slowly(plan, connection, hold)
    await _end_answer(plan, connection)


def _encode_chunk(data: bytes) -> bytes:
    """Encode data as one chunk of a chunked body.

    Empty data gives no chunk, since an empty chunk would end the body.
    """
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


async def _send_slowly(plan: AnswerPlan, connection: ClientConnection, hold: Callable[[], Awaitable[None]]) -> None:
    how = plan.delivery
    if how.head_pace:
        for line in encode_head(plan):
            await connection.write(line)
            await connection.pause(how.head_pace)
    else:
        await connection.write(b"".join(encode_head(plan)))
    await connection.pause(how.body_delay)
    for index, piece in enumerate(plan.pieces):
        if index == plan.hold_index:
            await connection.run_unless_closed(hold())
        await connection.write(_encode_chunk(piece) if plan.streamed else piece)
        if how.pace:
            await connection.pause(how.pace)
        elif how.split:
            await asyncio.sleep(0)
    if plan.hold_index == len(plan.pieces):
        await connection.run_unless_closed(hold())
    if plan.streamed and plan.ending in {Ending.WHOLE, Ending.STOP}:
        await connection.write(b"0\r\n\r\n")


async def _end_answer(plan: AnswerPlan, connection: ClientConnection) -> None:
    if plan.ending is Ending.HANG:
        await connection.closed.wait()
        raise ClientClosedError
    if plan.ending is Ending.RESET:
        await connection.reset_connection()
    elif plan.ending is Ending.CUT or not plan.delivery.head or (plan.ending is Ending.STOP and not plan.streamed):
        connection.close()
