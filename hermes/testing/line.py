"""Just enough of HTTP/1.1 to be a server for a model client: read a request, send a planned answer."""

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hermes.testing.plan import Plan, head_lines
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Ending

_T = TypeVar("_T")

_READ_LIMIT = 1 << 20
_IDLE_SECONDS = 120.0
_MAX_BODY = 1 << 28


class ClientClosedError(Exception):
    """The client has closed the connection."""


class Link(asyncio.StreamReaderProtocol):
    """One connection. Knows at once when the client closes, also while nothing is read."""

    def __init__(self, loop: asyncio.AbstractEventLoop, accepted: Callable[["Link"], None]) -> None:
        self.closed = asyncio.Event()
        self.closed_at: float | None = None
        self.reusable = True
        self._accepted = accepted
        super().__init__(asyncio.StreamReader(limit=_READ_LIMIT, loop=loop), self._connected, loop=loop)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._accepted(self)

    def eof_received(self) -> bool | None:
        """The client sends no more: with a model's client that means it is gone."""
        self._mark_closed()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
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

    async def unless_closed(self, work: Awaitable[_T]) -> _T:
        """The result of `work`, which is cancelled when the client closes first."""
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
        """Close; what was written is still sent."""
        self.reusable = False
        self.writer.close()

    async def reset(self) -> None:
        """Let the client see a reset connection after what was written."""
        transport = self.writer.transport
        transport.set_write_buffer_limits(0)
        await self.write(b"")
        self.reusable = False
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


async def read_request(link: Link, connection_id: int) -> RecordedRequest | None:
    """The connection's next request, or None when there is none."""
    reader = link.reader
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
                await link.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await _read_body(reader, headers)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, TimeoutError, ValueError):
        return None
    link.reusable = headers.get("connection", "").lower() != "close"
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


async def send(plan: Plan, link: Link, *, hold: Callable[[], Awaitable[None]]) -> None:
    """Send an answer as planned. Raises `ClientClosedError` when the client closes before the end."""
    how = plan.delivery
    await link.pause(how.delay)
    if how.head and plan.at_once:
        last = b"0\r\n\r\n" if plan.streamed and plan.ending in {Ending.WHOLE, Ending.STOP} else b""
        body = _frame(b"".join(plan.pieces)) if plan.streamed else b"".join(plan.pieces)
        await link.write(b"".join(head_lines(plan)) + body + last)
    elif how.head:
        await _send_slowly(plan, link, hold)
    await _end(plan, link)


def _frame(data: bytes) -> bytes:
    """The data as one chunk of a chunked body; no data is no chunk, since an empty one would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


async def _send_slowly(plan: Plan, link: Link, hold: Callable[[], Awaitable[None]]) -> None:
    how = plan.delivery
    if how.head_pace:
        for line in head_lines(plan):
            await link.write(line)
            await link.pause(how.head_pace)
    else:
        await link.write(b"".join(head_lines(plan)))
    await link.pause(how.body_delay)
    for index, piece in enumerate(plan.pieces):
        if index == plan.hold:
            await link.unless_closed(hold())
        await link.write(_frame(piece) if plan.streamed else piece)
        if how.pace:
            await link.pause(how.pace)
        elif how.split:
            await asyncio.sleep(0)
    if plan.hold == len(plan.pieces):
        await link.unless_closed(hold())
    if plan.streamed and plan.ending in {Ending.WHOLE, Ending.STOP}:
        await link.write(b"0\r\n\r\n")


async def _end(plan: Plan, link: Link) -> None:
    if plan.ending is Ending.HANG:
        await link.closed.wait()
        raise ClientClosedError
    if plan.ending is Ending.RESET:
        await link.reset()
    elif plan.ending is Ending.CUT or not plan.delivery.head or (plan.ending is Ending.STOP and not plan.streamed):
        link.close()
