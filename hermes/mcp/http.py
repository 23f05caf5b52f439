"""A transport to a server over streamable HTTP: a message is a POST, its answer JSON or events.

Up to the revision 2025-11-25 there are sessions, a GET that brings the rest, and streams that are resumed; from
2026-07-28 on each POST stands for itself.
"""

import asyncio
import base64
import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from hermes.core.errors import HermesError, ToolError, TransportError
from hermes.core.protocols import HttpStream, HttpTimeouts, HttpTransport
from hermes.execution.line_program import MAX_MESSAGE_BYTES
from hermes.i18n.messages import N_
from hermes.mcp.event_stream import EventStreamReader
from hermes.mcp.rpc import NoAnswerError, OutgoingMessage
from hermes.providers.http_common import parse_target
from hermes.util.cancellation import wait_for_task

_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
_MAX_SESSION_ID = 1_024
_MAX_EVENT_ID = 4_096
_EVENT_STREAM = "text/event-stream"
_JSON = "application/json"
_CLOSE_SECONDS = 1.0
"""Seconds that ending the session may take."""
_LISTEN_RETRY_SECONDS = (1.0, 5.0, 30.0)
"""Seconds before the stream of a server's own messages is requested again after it ended; the last is repeated."""
_RESUME_SECONDS, _MAX_RESUME_SECONDS = 1.0, 60.0
"""Seconds before a stream is resumed where the server names no time; the longest time that it may name."""
_LISTEN_TIMEOUTS = HttpTimeouts(read=3_600.0)
_MIN_RESUME_SECONDS = 0.05
_MAX_RESUME_FAILURES = 3
_MAX_RESUMES = 1_000
_MAX_SENDS = 4
"""How often a message is sent: once, and again with a refreshed token, after a sign-in, with more permissions."""
_HEADER_SAFE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_ENCODED = re.compile(r"=\?base64\?.*\?=", re.DOTALL)


class McpTokens(Protocol):
    """The tokens that a server wants, if it does."""

    async def find_token(self) -> str:
        """Return the token to send; empty for none. Raises `ToolError`."""
        ...

    async def answer_challenge(self, status: int, field: str, token: str, *, is_repeated: bool) -> None:
        """Take a refusal (401 or 403) of a request with `token`, with its field WWW-Authenticate; `is_repeated` if the
        request was refused with 401 before.

        Returns when it makes sense to send the request again. Raises `ToolError` with what the person has to do.
        """
        ...

    async def close(self) -> None:
        """End what is under way."""
        ...


class McpHttpTransport:
    """One session with a server. `headers` are sent to it and to nobody else: redirects are not followed."""

    answers_in_place = True

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        transport: HttpTransport,
        timeouts: HttpTimeouts,
        tokens: McpTokens | None = None,
    ) -> None:
        self._url = url
        self._headers = {**headers, "accept": f"{_JSON}, {_EVENT_STREAM}", "content-type": _JSON}
        self._session_headers: dict[str, str] = {}
        """The header fields of a protocol with sessions: the version that was agreed, and the session's id."""
        self._transport = transport
        self._timeouts = timeouts
        self._tokens = tokens
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
        self._session_headers[_VERSION_HEADER] = version
        self._listen_task = asyncio.create_task(self._listen_for_messages())

    async def send(self, message: OutgoingMessage) -> None:
        """Post a message and take what is answered until the answer ends. Raises `ToolError`.

        What a server refuses for want of a token is sent again once there is one.
        """
        try:
            was_refused = False
            for _ in range(_MAX_SENDS):
                status = await self._post_once(message, is_repeated=was_refused)
                if not status:
                    return
                was_refused = was_refused or status == 401
        except TransportError as error:
            raise ToolError(error.message.rstrip(".")) from None
        raise ToolError("it wants other permissions again and again")

    async def close(self) -> None:
        """Stop listening and end the session, if the server knows it."""
        if self._listen_task is not None:
            self._listen_task.cancel()
            await wait_for_task(self._listen_task)
        if _SESSION_HEADER in self._session_headers:
            with contextlib.suppress(HermesError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    headers = {**self._session_headers, **self._add_token(await self._find_token())}
                    async with self._open_exchange("DELETE", headers, b""):
                        pass
        await self._transport.close()
        if self._tokens is not None:
            await self._tokens.close()

    async def _post_once(self, message: OutgoingMessage, *, is_repeated: bool) -> int:
        """Post the message; return the status with which it was refused, if it is to be sent again, else 0."""
        token = await self._find_token()
        reader = EventStreamReader(MAX_MESSAGE_BYTES)
        try:
            challenge = await self._exchange_message(message, token, reader)
        except TransportError:
            if message.version or not reader.last_id or message.is_answered():
                raise
            challenge = None
        if challenge is not None and self._tokens is not None:
            await self._tokens.answer_challenge(*challenge, token, is_repeated=is_repeated)
            return challenge[0]
        if not message.version and reader.last_id:
            await self._resume_answer(message, reader)
        return 0

    async def _exchange_message(
        self, message: OutgoingMessage, token: str, reader: EventStreamReader
    ) -> tuple[int, str] | None:
        """Post the message and take its answer; return a demand for another token: the status, and what it says."""
        headers = _describe_message(message) if message.version else self._session_headers
        fields = {**headers, **self._add_token(token)}
        # A subscription is silent for as long as nothing changes.
        timeouts = _LISTEN_TIMEOUTS if message.method == "subscriptions/listen" else None
        async with self._open_exchange("POST", fields, message.body, timeouts) as stream:
            if stream.status in (401, 403) and self._tokens is not None:
                return stream.status, stream.headers.get("www-authenticate", "")
            if not message.version:
                self._remember_session(stream)
            await self._take_answer(stream, reader)
            return None

    async def _find_token(self) -> str:
        return await self._tokens.find_token() if self._tokens is not None else ""

    @staticmethod
    def _add_token(token: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer {token}"} if token else {}

    def _open_exchange(
        self, method: str, headers: Mapping[str, str], body: bytes, timeouts: HttpTimeouts | None = None
    ) -> contextlib.AbstractAsyncContextManager[HttpStream]:
        fields = {**self._headers, **headers}
        if method == "GET":
            del fields["content-type"]
            fields["accept"] = _EVENT_STREAM
        return self._transport.open(method, self._url, headers=fields, body=body, timeouts=timeouts or self._timeouts)

    def _remember_session(self, stream: HttpStream) -> None:
        session_id = stream.headers.get(_SESSION_HEADER, "")
        if session_id and session_id.isascii() and session_id.isprintable() and len(session_id) <= _MAX_SESSION_ID:
            self._session_headers[_SESSION_HEADER] = session_id

    async def _take_answer(self, stream: HttpStream, reader: EventStreamReader) -> None:
        """Hand on the messages of an answer."""
        if stream.status == 404 and _SESSION_HEADER in self._session_headers:
            self._on_lost("it has forgotten the session")
        kind = stream.headers.get("content-type", "").partition(";")[0].strip().lower()
        if stream.status in (202, 204):
            return
        if not 200 <= stream.status < 300 and kind != _JSON:
            raise _make_refusal(stream)
        if kind == _EVENT_STREAM:
            await self._take_events(stream, reader)
            return
        body = bytearray()
        async for chunk in _iter_chunks(stream):
            body += chunk
            if len(body) > MAX_MESSAGE_BYTES:
                raise ToolError(_MESSAGE_TOO_LONG)
        self._on_message(bytes(body).strip())
        if stream.status >= 300:
            raise _make_refusal(stream)

    async def _take_events(self, stream: HttpStream, reader: EventStreamReader) -> None:
        async for chunk in _iter_chunks(stream):
            try:
                events = reader.feed(chunk)
            except ValueError:
                raise ToolError(_MESSAGE_TOO_LONG) from None
            for event in events:
                if event.type == "message":
                    self._on_message(event.data.encode())

    async def _resume_answer(self, message: OutgoingMessage, reader: EventStreamReader) -> None:
        """Go on with a stream that ended before the answer came: where it stood, and when the server says.

        Ends when the answer is there, or the server has no more of it.
        """
        failures = 0
        for _ in range(_MAX_RESUMES):
            if message.is_answered() or failures >= _MAX_RESUME_FAILURES:
                return
            await asyncio.sleep(_limit_pause(reader.retry_seconds, _RESUME_SECONDS))
            before = reader.last_id
            try:
                if not await self._read_stream(reader):
                    return
            except TransportError:
                failures += 1
            else:
                failures = 0 if reader.last_id != before else failures + 1

    async def _read_stream(self, reader: EventStreamReader) -> bool:
        """Read a stream of the server's from where the reader stands; return whether the server has one."""
        reader.start_over()
        position = {"last-event-id": reader.last_id} if _is_usable_event_id(reader.last_id) else {}
        headers = {**self._session_headers, **self._add_token(await self._find_token()), **position}
        async with self._open_exchange("GET", headers, b"", _LISTEN_TIMEOUTS) as stream:
            if stream.status >= 500:
                return True
            if stream.status != 200 or _EVENT_STREAM not in stream.headers.get("content-type", ""):
                return False
            await self._take_events(stream, reader)
            return True

    async def _listen_for_messages(self) -> None:
        """Take the messages that the server sends unasked; stop if the server has no such stream."""
        reader = EventStreamReader(MAX_MESSAGE_BYTES)
        for pause in itertools.chain(_LISTEN_RETRY_SECONDS, itertools.repeat(_LISTEN_RETRY_SECONDS[-1])):
            with contextlib.suppress(TransportError, ToolError):
                if not await self._read_stream(reader):
                    return
            wanted = _limit_pause(reader.retry_seconds, pause)
            await asyncio.sleep(max(wanted, _LISTEN_RETRY_SECONDS[0]))  # it may end the stream at once, for ever


_MESSAGE_TOO_LONG = N_(
    "it sent a message of more than {MAX_MESSAGE_BYTES} MB", MAX_MESSAGE_BYTES=MAX_MESSAGE_BYTES >> 20
)


def encode_header_value(value: str) -> str:
    """Return a value as a header field can hold it: itself if it is plain ASCII, else in base64 with its mark."""
    if not value or (_HEADER_SAFE.fullmatch(value) and not _ENCODED.fullmatch(value)):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def _describe_message(message: OutgoingMessage) -> dict[str, str]:
    """Return the header fields that say of a message of the stateless protocol what stands in it."""
    fields = {_VERSION_HEADER: message.version, "mcp-method": message.method}
    if message.name:
        fields["mcp-name"] = encode_header_value(message.name)
    return fields | {name.lower(): encode_header_value(value) for name, value in message.headers.items()}


def _make_refusal(stream: HttpStream) -> ToolError:
    """Return the error for another status than success. A server may refuse a message that it does not know; one that
    is elsewhere, wants credentials or does not work says nothing of that.
    """
    is_final = stream.status in (401, 403, 407, 429) or not 400 <= stream.status < 500
    return (ToolError if is_final else NoAnswerError)(_describe_refusal(stream))


def _describe_refusal(stream: HttpStream) -> str:
    status_text = N_("it answered with status {status}", status=stream.status)
    if stream.status in (401, 403):
        return N_("{status_text}: it wants other credentials (`headers`)", status_text=status_text)
    if 300 <= stream.status < 400:
        return N_(
            "{status_text}: it is elsewhere ({get}); put that address into `url`",
            status_text=status_text,
            get=repr(stream.headers.get("location", "")[:200]),
        )
    return status_text


def _limit_pause(seconds: float | None, default: float) -> float:
    return default if seconds is None else min(max(seconds, _MIN_RESUME_SECONDS), _MAX_RESUME_SECONDS)


def _is_usable_event_id(text: str) -> bool:
    """Return whether an id can be sent back in a header field."""
    return bool(text) and text.isprintable() and text.isascii() and len(text) <= _MAX_EVENT_ID


async def _iter_chunks(stream: HttpStream) -> AsyncIterator[bytes]:
    async with contextlib.aclosing(stream.chunks()) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            yield chunk
