"""Reads a pipe in the event loop, and leaves closing it to whoever owns it.

`connect_read_pipe` does not: uvloop closes the descriptor itself and the file object once more. In between another
thread may have been given the same descriptor, which is closed under it then.
"""

import asyncio
import os


class PipeReader:
    """Reads one pipe, which is made non-blocking. Nothing of it stays in the event loop between two reads."""

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
