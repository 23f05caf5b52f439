"""Reads and writes pipes in the event loop, and closes no descriptor twice.

`connect_read_pipe` and `connect_write_pipe` do: uvloop closes the descriptor itself and the file object once more. In
between another thread may have been given the same descriptor, which is closed under it then.
"""

import asyncio
import os


class PipeReader:
    """Reads one pipe, which is made non-blocking, and leaves closing it to whoever owns it.

    Nothing of it stays in the event loop between two reads.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def read(self, limit: int) -> bytes:
        """Return up to `limit` bytes once there are some; empty at the end."""
        while True:
            try:
                return os.read(self._descriptor, limit)
            except BlockingIOError:
                await self._wait_until_readable()

    async def _wait_until_readable(self) -> None:
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._descriptor)


class PipeWriter:
    """Owns and writes one pipe, which is made non-blocking. What the pipe does not take yet waits in memory."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._waiting = bytearray()
        self._closes_when_written = False
        self._loop = asyncio.get_running_loop()
        self._taken = asyncio.Event()
        self.is_closed = False
        """True after `close`, and once nobody can read the other end."""

    @property
    def waiting_bytes(self) -> int:
        """Return how many bytes the pipe has not taken yet."""
        return len(self._waiting)

    def write(self, data: bytes) -> None:
        """Write `data` after all that was written before, without waiting; a closed pipe drops it."""
        if self.is_closed:
            return
        was_waiting = bool(self._waiting)
        self._waiting += data
        if not was_waiting:
            self._write_waiting()
            if self._waiting and not self.is_closed:
                self._loop.add_writer(self._descriptor, self._write_waiting)

    async def wait_until_taken(self, most: int) -> None:
        """Wait until at most `most` bytes wait, or nobody can read them any more."""
        while len(self._waiting) > most and not self.is_closed:
            self._taken.clear()
            await self._taken.wait()

    def close_when_written(self) -> None:
        """Close the pipe as soon as it has taken all that waits, which may never be: `close` ends that."""
        self._closes_when_written = True
        if not self._waiting:
            self.close()

    def close(self) -> None:
        """Close the pipe and drop what waits; a second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self._waiting.clear()
        self._taken.set()
        self._loop.remove_writer(self._descriptor)
        os.close(self._descriptor)

    def _write_waiting(self) -> None:
        try:
            written = os.write(self._descriptor, self._waiting)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        del self._waiting[:written]
        self._taken.set()
        if not self._waiting:
            self._loop.remove_writer(self._descriptor)
            if self._closes_when_written:
                self.close()
