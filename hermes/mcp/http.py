"""A transport to a server over streamable HTTP: a message is a POST, its answer JSON or events; a GET
brings the rest.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Mapping

from hermes.core.errors import HermesError, ToolError, TransportError
from hermes.core.protocols import HttpStream, HttpTimeouts, HttpTransport
from hermes.execution.line_program import MAX_MESSAGE_BYTES
from hermes.i18n.messages import N_
from hermes.providers.decoding import SseReader
from hermes.providers.http_common import parse_target
from hermes.util.cancellation import wait_for_task

_SESSION_HEADER = "mcp-session-id"
_MAX_SESSION_ID = 1_024
_EVENT_STREAM = "text/event-stream"
_CLOSE_SECONDS = 1.0
"""Seconds that ending the session may take."""
_LISTEN_RETRY_SECONDS = (1.0, 5.0, 30.0)
"""Seconds before the stream of a server's own messages is requested again after it ended; the last is repeated."""


class McpHttpTransport:
    """One session with a server. `headers` are sent to it and to nobody else: redirects are not followed."""

    answers_in_place = True

    def __init__(self, url: str, headers: Mapping[str, str], transport: HttpTransport, timeouts: HttpTimeouts) -> None:
        self._url = url
        self._headers = {**headers, "accept": f"application/json, {_EVENT_STREAM}", "content-type": "application/json"}
        self._transport = transport
        self._timeouts = timeouts
        self._listen_task: asyncio.Task[None] | None = None
        self._on_message: Callable[[bytes], None] = lambda _: None
        self._on_lost: Callable[[str], None] = lambda _: None

    async def open(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Check the address; nothing is sent yet. Raises `ToolError` for an address that cannot be requested."""
        self._on_message, self._on_lost = on_message, on_lost
        try:
            parse_target(self._url)
        except TransportError:
            raise ToolError("its url is not an http or https address") from None

    async def set_version(self, version: str) -> None:
        """Name the version from now on, and listen to what the server sends by itself."""
        self._headers["mcp-protocol-version"] = version
        self._listen_task = asyncio.create_task(self._listen_for_messages())

    async def send(self, message: bytes) -> None:
        """Post a message and take what is answered until the answer ends. Raises `ToolError`."""
        try:
            async with self._open_exchange("POST", message) as stream:
                self._remember_session(stream)
                await self._take_answer(stream)
        except TransportError as error:
            raise ToolError(error.message.rstrip(".")) from None

    async def close(self) -> None:
        """Stop listening and end the session, if the server knows it."""
        if self._listen_task is not None:
            self._listen_task.cancel()
            await wait_for_task(self._listen_task)
        if _SESSION_HEADER in self._headers:
            with contextlib.suppress(TransportError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS), self._open_exchange("DELETE", b""):
                    pass
        await self._transport.close()

    def _open_exchange(self, method: str, body: bytes) -> contextlib.AbstractAsyncContextManager[HttpStream]:
        return self._transport.open(method, self._url, headers=self._headers, body=body, timeouts=self._timeouts)

    def _remember_session(self, stream: HttpStream) -> None:
        session_id = stream.headers.get(_SESSION_HEADER, "")
        if session_id and session_id.isascii() and session_id.isprintable() and len(session_id) <= _MAX_SESSION_ID:
            self._headers[_SESSION_HEADER] = session_id

    async def _take_answer(self, stream: HttpStream) -> None:
        """Hand on the messages of an answer."""
        if stream.status == 404 and _SESSION_HEADER in self._headers:
            self._on_lost("it has forgotten the session")
        kind = stream.headers.get("content-type", "").partition(";")[0].strip().lower()
        if stream.status in (202, 204):
            return
        if not 200 <= stream.status < 300 and kind != "application/json":
            raise ToolError(_describe_refusal(stream))
        if kind == _EVENT_STREAM:
            await self._take_events(stream)
            return
        body = bytearray()
        async for chunk in _iter_chunks(stream):
            body += chunk
            if len(body) > MAX_MESSAGE_BYTES:
                raise ToolError(_MESSAGE_TOO_LONG)
        self._on_message(bytes(body).strip())
        if stream.status >= 300:
            raise ToolError(_describe_refusal(stream))

    async def _take_events(self, stream: HttpStream) -> None:
        reader = SseReader(MAX_MESSAGE_BYTES)
        async for chunk in _iter_chunks(stream):
            try:
                events = reader.feed(chunk)
            except HermesError:
                raise ToolError(_MESSAGE_TOO_LONG) from None
            for event in events:
                self._on_message(event.data.encode())

    async def _listen_for_messages(self) -> None:
        """Take the messages that the server sends unasked; stop if the server has no such stream."""
        headers = {name: value for name, value in self._headers.items() if name != "content-type"}
        headers["accept"] = _EVENT_STREAM
        for pause in itertools.chain(_LISTEN_RETRY_SECONDS, itertools.repeat(_LISTEN_RETRY_SECONDS[-1])):
            with contextlib.suppress(TransportError, ToolError):
                opening = self._transport.open(
                    "GET", self._url, headers=headers, body=b"", timeouts=HttpTimeouts(read=3_600.0)
                )
                async with opening as stream:
                    if stream.status != 200 or _EVENT_STREAM not in stream.headers.get("content-type", ""):
                        return
                    await self._take_events(stream)
            await asyncio.sleep(pause)


_MESSAGE_TOO_LONG = N_(
    "it sent a message of more than {MAX_MESSAGE_BYTES} MB", MAX_MESSAGE_BYTES=MAX_MESSAGE_BYTES >> 20
)


def _describe_refusal(stream: HttpStream) -> str:
    status_text = N_("it answered with status {status}", status=stream.status)
    if stream.status in (401, 403):
        return N_(
            "{status_text}: it wants other credentials (`headers`); signing in by OAuth is not supported",
            status_text=status_text,
        )
    if 300 <= stream.status < 400:
        return N_(
            "{status_text}: it is elsewhere ({get}); put that address into `url`",
            status_text=status_text,
            get=repr(stream.headers.get("location", "")[:200]),
        )
    return status_text


async def _iter_chunks(stream: HttpStream) -> AsyncIterator[bytes]:
    async with contextlib.aclosing(stream.chunks()) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            yield chunk
