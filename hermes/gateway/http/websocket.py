"""A WebSocket to a platform: frames wait in a queue of limited length while those before them are written down."""

import asyncio
import time
from typing import TYPE_CHECKING, Literal

from hermes.gateway.http.errors import told
from hermes.gateway.platform import PlatformError
from hermes.i18n.messages import phrase

if TYPE_CHECKING:
    import aiohttp

    Raw = aiohttp.ClientWebSocketResponse[Literal[False]]

WAITING = 512
"""Frames that wait at most; then nothing more is read until some were taken."""
AT_ONCE = 64
"""Frames that are given out together."""
FRAME_LIMIT = 16 * 1024 * 1024
"""Bytes of the largest frame; a large Discord server's first frame has a few millions."""
CONNECT_SECONDS = 20.0
SEND_SECONDS = 10.0
CLOSE_SECONDS = 2.0


class Socket:
    """A connection, read by a task of its own that `close` ends."""

    def __init__(self, raw: "Raw") -> None:
        self._raw = raw
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING)
        self._reader = asyncio.create_task(self._read())
        self._ended = False
        self.heard = time.monotonic()
        """When the last frame came."""
        self.problem = ""
        """Why it ended, where it was not the other side that closed it."""

    @property
    def crowded(self) -> bool:
        """Whether frames are not read now because too many wait."""
        return self._queue.full()

    @property
    def code(self) -> int:
        """With what the connection was closed; 1006 when it broke."""
        return self._raw.close_code or 1006

    async def frames(self) -> list[bytes]:
        """What came, in order; waits for the first. Empty: the connection has ended."""
        if self._ended:
            return []
        found: list[bytes] = []
        frame = await self._queue.get()
        while frame is not None:
            found.append(frame)
            if self._queue.empty() or len(found) == AT_ONCE:
                return found
            frame = self._queue.get_nowait()
        self._ended = True
        return found

    async def send(self, text: str) -> None:
        """Send a frame. Raises `PlatformError` when the connection is lost."""
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._raw.send_str(text)
        except (ConnectionError, TimeoutError) as error:
            raise PlatformError(phrase("The connection broke: {error}", error=told(error))) from error

    def stop(self) -> None:
        """Read no more: `frames` ends."""
        self._reader.cancel()

    async def close(self, code: int = 1000) -> None:
        """Close the connection, politely for a moment."""
        self.stop()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._raw.close(code=code)

    async def _read(self) -> None:
        import aiohttp

        try:
            while True:
                frame = await self._raw.receive()
                self.heard = time.monotonic()
                if frame.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                    break
                await self._queue.put(frame.data)
            if frame.type is aiohttp.WSMsgType.ERROR:
                self.problem = told(frame.data)
            await self._queue.put(None)
        except asyncio.CancelledError:
            if self._queue.full():
                self._queue.get_nowait()
            self._queue.put_nowait(None)
            raise


async def connect(http: "aiohttp.ClientSession", url: str, *, heartbeat: float | None = None) -> Socket:
    """Open a connection; with `heartbeat` it is pinged every so many seconds and ends when no answer comes. Raises
    `PlatformError`."""
    import aiohttp

    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            raw = await http.ws_connect(
                url,
                max_msg_size=FRAME_LIMIT,
                heartbeat=heartbeat,
                decode_text=False,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
            )
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise PlatformError(phrase("No connection for news: {error}", error=told(error))) from error
    return Socket(raw)
