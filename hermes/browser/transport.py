"""The way of messages to a browser and back: a pair of pipes, or whatever else carries whole messages."""

import asyncio
import contextlib
import fcntl
import os
from collections import deque
from typing import Protocol

from hermes.util.pipes import PipeReader, PipeWriter

MAX_MESSAGE_BYTES = 64 << 20
"""The most bytes of one message that are kept."""
_CHUNK = 1 << 20
_END = b"\0"


class MessageTransport(Protocol):
    """Carries whole messages in both directions."""

    @property
    def is_closed(self) -> bool:
        """Whether the other side takes nothing any more."""
        ...

    @property
    def waiting_bytes(self) -> int:
        """How many bytes the other side has not taken yet."""
        ...

    async def receive_message(self) -> bytes:
        """Return the next message, of one that is too long only the beginning; empty at the end.

        It lets other tasks run however much there is to receive.
        """
        ...

    def send_message(self, message: bytes) -> None:
        """Send a message without waiting; after the end it is dropped."""
        ...

    def close(self) -> None:
        """End both directions; a second call does nothing. Nobody waits in `receive_message` then."""
        ...


class PipeTransport:
    """Carries messages over two pipes, as `--remote-debugging-pipe` has them: each ends with a zero byte.

    It owns both descriptors: `reading`, where the browser writes, and `writing`, where it reads.
    """

    def __init__(self, reading: int, writing: int, *, max_message: int = MAX_MESSAGE_BYTES) -> None:
        for descriptor in (reading, writing):
            with contextlib.suppress(OSError, AttributeError):  # fewer turns of the loop for long messages, no more
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _CHUNK)
        self._reading = reading
        self._reader = PipeReader(reading)
        self._writer = PipeWriter(writing)
        self._max_message = max_message
        self._whole: deque[bytes] = deque()
        self._begun = bytearray()
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether the browser takes nothing any more."""
        return self._is_closed or self._writer.is_closed

    @property
    def waiting_bytes(self) -> int:
        """How many bytes the browser has not taken yet."""
        return self._writer.waiting_bytes

    async def receive_message(self) -> bytes:
        """Return the next message, of one that is too long only the beginning; empty at the end."""
        while not self._whole:
            await asyncio.sleep(0)  # the pipe may have more than there is time for
            chunk = await self._reader.read(_CHUNK)
            if not chunk:
                return b""
            first, *others = chunk.split(_END)
            self._keep(first)
            for part in others:
                self._whole.append(bytes(self._begun))
                self._begun.clear()
                self._keep(part)
        return self._whole.popleft()

    def _keep(self, part: bytes) -> None:
        self._begun += part[: max(0, self._max_message - len(self._begun))]

    def send_message(self, message: bytes) -> None:
        """Send a message without waiting; after the end it is dropped."""
        self._writer.write(message + _END)

    def close(self) -> None:
        """Close both pipes; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._writer.close()
        os.close(self._reading)
