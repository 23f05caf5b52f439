"""A connection that sends objects as JSON lines, with a limit on unread bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

import msgspec

FrameT = TypeVar("FrameT")
_MAX_UNREAD_BYTES = 64 << 20
"""Bytes that may wait for a peer that does not read; beyond that it is disconnected."""


class IpcConnection(Generic[FrameT]):
    """Both directions of a connection. `decoder` reads the frames of the peer."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decoder: "msgspec.json.Decoder[FrameT]"
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = decoder
        self.closed = False

    def send(self, frame: object) -> None:
        """Send a frame; do nothing once the peer is gone."""
        if self.closed or self._writer.is_closing():
            return
        self._writer.write(msgspec.json.encode(frame) + b"\n")
        if self._writer.transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            self.abort()

    async def next_frame(self) -> FrameT | None:
        """Return the peer's next frame; None once it is gone, or sends what cannot be decoded."""
        with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):  # too long, not ours: it is cut off
            line = await self._reader.readline()
            return self._decoder.decode(line) if line else None
        return None

    async def iterate_frames(self) -> AsyncIterator[FrameT]:
        """Yield the peer's frames until the connection ends."""
        while (frame := await self.next_frame()) is not None:
            yield frame

    async def flush(self) -> None:
        """Wait until the peer has been given everything."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    def abort(self) -> None:
        """Cut the connection."""
        self.closed = True
        self._writer.transport.abort()

    async def close(self) -> None:
        """Send the rest, and close the connection."""
        if not self.closed:
            self.closed = True
            self._writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._writer.wait_closed()
