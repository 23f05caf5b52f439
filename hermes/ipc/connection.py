"""One connection: objects as lines, with an end to what may wait to be read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

import msgspec

F = TypeVar("F")
_MOST_UNREAD = 64 << 20
"""Bytes that may wait for a peer that does not read; then it is cut off."""


class Wire(Generic[F]):
    """Both directions of a connection. `decoder` reads what the peer says."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decoder: "msgspec.json.Decoder[F]"
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = decoder
        self.closed = False

    def send(self, frame: object) -> None:
        """Say something; nothing once the peer is gone."""
        if self.closed or self._writer.is_closing():
            return
        self._writer.write(msgspec.json.encode(frame) + b"\n")
        if self._writer.transport.get_write_buffer_size() > _MOST_UNREAD:
            self.abort()

    async def next(self) -> F | None:
        """What the peer says next; None once it is gone, or says what cannot be understood."""
        with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):  # too long, not ours: it is cut off
            line = await self._reader.readline()
            return self._decoder.decode(line) if line else None
        return None

    async def frames(self) -> AsyncIterator[F]:
        """What the peer says, until there is no next."""
        while (frame := await self.next()) is not None:
            yield frame

    async def flushed(self) -> None:
        """Wait until the peer has been given all of it."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    def abort(self) -> None:
        """Cut the connection."""
        self.closed = True
        self._writer.transport.abort()

    async def close(self) -> None:
        """Say the rest, and end."""
        if not self.closed:
            self.closed = True
            self._writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._writer.wait_closed()
