"""A WebSocket connection to a platform, with a bounded queue of frames that wait to be stored."""

import asyncio
import time
from typing import TYPE_CHECKING, Literal

from hermes.gateway.http.client import describe_error
from hermes.gateway.platform import PlatformError
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    import aiohttp

    RawSocket = aiohttp.ClientWebSocketResponse[Literal[False]]

MAX_QUEUED_FRAMES = 512
"""Frames that wait at most; then nothing more is read until some were taken."""
FRAMES_AT_ONCE = 64
"""Frames that are given out together."""
FRAME_LIMIT = 16 * 1024 * 1024
"""Bytes of the largest frame; a large Discord server's first frame has a few million."""
CONNECT_SECONDS = 20.0
SEND_SECONDS = 10.0
CLOSE_SECONDS = 2.0


class WebSocketConnection:
    """A connection, read by a task of its own that `close` ends."""

    def __init__(self, raw: "RawSocket") -> None:
        self._raw = raw
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_QUEUED_FRAMES)
        self._reader = asyncio.create_task(self._read_frames())
        self._ended = False
        self.last_frame_at = time.monotonic()
        """When the newest frame came, by the monotonic clock."""
        self.problem = ""
        """Why it ended, where the other side did not close it."""

    @property
    def is_crowded(self) -> bool:
        """Whether reading is paused because too many frames wait."""
        return self._queue.full()

    @property
    def close_code(self) -> int:
        """The code with which the connection was closed; 1006 when it broke."""
        return self._raw.close_code or 1006

    async def next_frames(self) -> list[bytes]:
        """Return the frames that came, in order; wait for the first. Empty: the connection has ended."""
        if self._ended:
            return []
        found: list[bytes] = []
        frame = await self._queue.get()
        while frame is not None:
            found.append(frame)
            if self._queue.empty() or len(found) == FRAMES_AT_ONCE:
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
            raise PlatformError(N_("The connection broke: {error}", error=describe_error(error))) from error

    def stop_reading(self) -> None:
        """Stop reading: `next_frames` ends."""
        self._reader.cancel()

    async def close(self, code: int = 1000) -> None:
        """Close the connection; wait briefly for the closing handshake."""
        self.stop_reading()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._raw.close(code=code)

    async def _read_frames(self) -> None:
        import aiohttp

        try:
            while True:
                frame = await self._raw.receive()
                self.last_frame_at = time.monotonic()
                if frame.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                    break
                await self._queue.put(frame.data)
            if frame.type is aiohttp.WSMsgType.ERROR:
                self.problem = describe_error(frame.data)
            await self._queue.put(None)
        except asyncio.CancelledError:
            if self._queue.full():
                self._queue.get_nowait()
            self._queue.put_nowait(None)
            raise


async def connect_websocket(
    http: "aiohttp.ClientSession", url: str, *, heartbeat: float | None = None
) -> WebSocketConnection:
    """Open a connection; with `heartbeat` it is pinged every so many seconds and ends when no answer comes. Raises
    `PlatformError`.
    """
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
        raise PlatformError(N_("No connection for news: {error}", error=describe_error(error))) from error
    return WebSocketConnection(raw)
