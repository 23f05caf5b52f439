"""Server-sent events to a program, which may read slowly, and may go away."""

import asyncio
from types import TracebackType

import msgspec
from aiohttp import web

WRITE_SECONDS = 60.0
"""How long a program may read nothing before it counts as gone."""
KEEP_SECONDS = 15.0
"""Seconds of silence after which a comment is sent, so that nothing on the way takes the line for dead."""
KEEP = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


class GoneError(ConnectionError):
    """The program does not read any more."""


class Stream:
    """An answer of events, as an async context: its head goes out with the first event."""

    def __init__(self, request: web.Request, headers: dict[str, str] | None = None) -> None:
        self._request = request
        self._response = web.StreamResponse(headers={**(headers or {}), "X-Accel-Buffering": "no"})
        self._response.content_type = "text/event-stream"
        self._response.charset = "utf-8"

    async def __aenter__(self) -> "Stream":
        await self._response.prepare(self._request)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self._response.write_eof()

    @property
    def response(self) -> web.StreamResponse:
        """What the handler gives back."""
        return self._response

    async def send(self, data: bytes) -> None:
        """Send events. Raises GoneError when nobody reads."""
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise GoneError("the connection is closed")
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._response.write(data)
        except TimeoutError:
            transport.abort()
            raise GoneError("nothing was read for too long") from None


def named_event(kind: str, body: object) -> bytes:
    """One event of a stream of Hermes' own."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(body))
