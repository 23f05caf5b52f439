"""Server-sent events to programs that may read slowly, or disconnect."""

import asyncio
from types import TracebackType

import msgspec
from aiohttp import web

WRITE_SECONDS = 60.0
"""How long a program may read nothing before it counts as disconnected."""
KEEP_ALIVE_SECONDS = 15.0
"""Seconds of silence after which a comment is sent, so that proxies do not close the connection."""
KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


class ClientGoneError(ConnectionError):
    """The client does not read any more."""


class EventStreamResponse:
    """A response of server-sent events, as an async context that sends its head on entry."""

    def __init__(self, request: web.Request, headers: dict[str, str] | None = None) -> None:
        self._request = request
        self._response = web.StreamResponse(headers={**(headers or {}), "X-Accel-Buffering": "no"})
        self._response.content_type = "text/event-stream"
        self._response.charset = "utf-8"

    async def __aenter__(self) -> "EventStreamResponse":
        await self._response.prepare(self._request)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self._response.write_eof()

    @property
    def response(self) -> web.StreamResponse:
        """The response that the handler returns."""
        return self._response

    async def send(self, data: bytes) -> None:
        """Send events. Raises ClientGoneError when nobody reads."""
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ClientGoneError("the connection is closed")
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._response.write(data)
        except TimeoutError:
            transport.abort()
            raise ClientGoneError("nothing was read for too long") from None


def encode_event(kind: str, body: object) -> bytes:
    """Encode one event of Hermes' own."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(body))
