"""Lines from a terminal, a pipe or a file, without blocking the event loop."""

import asyncio
import os


class Lines:
    """Reads lines from a file descriptor that it does not own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._ended = False

    async def next(self) -> str | None:
        """The next line without its end; None when there are no more."""
        while b"\n" not in self._buffer and not self._ended:
            await self._readable()
            try:
                chunk = os.read(self._descriptor, 65536)
            except OSError:
                chunk = b""
            self._buffer += chunk
            self._ended = not chunk
        line, found, self._buffer = self._buffer.partition(b"\n")
        if not found and not line:
            return None
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(self._descriptor, _set, ready)
        except PermissionError:
            return  # a regular file: it cannot be waited for, and never needs to be
        try:
            await ready
        finally:
            loop.remove_reader(self._descriptor)


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
