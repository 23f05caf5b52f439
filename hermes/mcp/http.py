"""A server over streamable HTTP: a message is a POST, its answer JSON or a stream of events; a GET brings the rest."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Mapping

from hermes.core.errors import HermesError, ToolError, TransportError
from hermes.core.protocols import HttpStream, HttpTimeouts, HttpTransport
from hermes.mcp.rpc import MAX_MESSAGE
from hermes.providers.exchange import target
from hermes.providers.sse import SseReader
from hermes.util.cancellation import finished

_SESSION = "mcp-session-id"
_LONGEST_SESSION = 1_024
_STREAM = "text/event-stream"
_FAREWELL = 1.0
"""Seconds that saying goodbye may take."""
_AGAIN = (1.0, 5.0, 30.0)
"""Seconds before the stream of a server's own messages is asked for again when it ended; the last for good."""


class HttpLink:
    """One session with a server. `headers` are sent to it and to nobody else: redirects are not followed."""

    answers_in_place = True

    def __init__(self, url: str, headers: Mapping[str, str], transport: HttpTransport, timeouts: HttpTimeouts) -> None:
        self._url = url
        self._headers = {**headers, "accept": f"application/json, {_STREAM}", "content-type": "application/json"}
        self._transport = transport
        self._timeouts = timeouts
        self._listening: asyncio.Task[None] | None = None
        self._received: Callable[[bytes], None] = lambda _: None
        self._lost: Callable[[str], None] = lambda _: None

    async def open(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """Nothing is sent yet. Raises `ToolError` for an address that cannot be asked."""
        self._received, self._lost = received, lost
        try:
            target(self._url)
        except TransportError:
            raise ToolError("its url is not an http or https address") from None

    async def agreed(self, version: str) -> None:
        """Name the version from now on, and listen to what the server says by itself."""
        self._headers["mcp-protocol-version"] = version
        self._listening = asyncio.create_task(self._listen())

    async def send(self, message: bytes) -> None:
        """Post a message and take what is answered until the answer ends. Raises `ToolError`."""
        try:
            async with self._exchange("POST", message) as stream:
                self._note_session(stream)
                await self._take(stream)
        except TransportError as error:
            raise ToolError(error.message.rstrip(".")) from None

    async def close(self) -> None:
        """Stop listening and say goodbye, if the server knows this session."""
        if self._listening is not None:
            self._listening.cancel()
            await finished(self._listening)
        if _SESSION in self._headers:
            with contextlib.suppress(TransportError, TimeoutError):
                async with asyncio.timeout(_FAREWELL), self._exchange("DELETE", b""):
                    pass
        await self._transport.close()

    def _exchange(self, method: str, body: bytes) -> contextlib.AbstractAsyncContextManager[HttpStream]:
        return self._transport.open(method, self._url, headers=self._headers, body=body, timeouts=self._timeouts)

    def _note_session(self, stream: HttpStream) -> None:
        given = stream.headers.get(_SESSION, "")
        if given and given.isascii() and given.isprintable() and len(given) <= _LONGEST_SESSION:
            self._headers[_SESSION] = given

    async def _take(self, stream: HttpStream) -> None:
        """Hand on the messages of an answer."""
        if stream.status == 404 and _SESSION in self._headers:
            self._lost("it has forgotten the session")
        kind = stream.headers.get("content-type", "").partition(";")[0].strip().lower()
        if stream.status in (202, 204):
            return
        if not 200 <= stream.status < 300 and kind != "application/json":
            raise ToolError(_refusal(stream))
        if kind == _STREAM:
            await self._events(stream)
            return
        body = bytearray()
        async for chunk in _chunks(stream):
            body += chunk
            if len(body) > MAX_MESSAGE:
                raise ToolError(_TOO_LONG)
        self._received(bytes(body).strip())
        if stream.status >= 300:
            raise ToolError(_refusal(stream))

    async def _events(self, stream: HttpStream) -> None:
        reader = SseReader(MAX_MESSAGE)
        async for chunk in _chunks(stream):
            try:
                events = reader.feed(chunk)
            except HermesError:
                raise ToolError(_TOO_LONG) from None
            for event in events:
                self._received(event.data.encode())

    async def _listen(self) -> None:
        """Take what the server says unasked; one that has no such stream is left alone."""
        headers = {name: value for name, value in self._headers.items() if name != "content-type"}
        headers["accept"] = _STREAM
        for pause in itertools.chain(_AGAIN, itertools.repeat(_AGAIN[-1])):
            with contextlib.suppress(TransportError, ToolError):
                opening = self._transport.open(
                    "GET", self._url, headers=headers, body=b"", timeouts=HttpTimeouts(read=3_600.0)
                )
                async with opening as stream:
                    if stream.status != 200 or _STREAM not in stream.headers.get("content-type", ""):
                        return
                    await self._events(stream)
            await asyncio.sleep(pause)


_TOO_LONG = f"it sent a message of more than {MAX_MESSAGE >> 20} MB"


def _refusal(stream: HttpStream) -> str:
    said = f"it answered with status {stream.status}"
    if stream.status in (401, 403):
        return f"{said}: it wants other credentials (`headers`); signing in by OAuth is not supported"
    if 300 <= stream.status < 400:
        return f"{said}: it is elsewhere ({stream.headers.get('location', '')[:200]!r}); put that address into `url`"
    return said


async def _chunks(stream: HttpStream) -> AsyncIterator[bytes]:
    async with contextlib.aclosing(stream.chunks()) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            yield chunk
