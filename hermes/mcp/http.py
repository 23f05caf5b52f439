"""A transport to a server over streamable HTTP: a message is a POST, its answer JSON or events.

Up to the revision 2025-11-25 there are sessions, a GET that brings the rest, and streams that are resumed; from
2026-07-28 on each POST stands for itself.
"""

import asyncio
import base64
import contextlib
import itertools
import re
from collections.abc import Callable

from hermes.core.errors import HermesError, ToolError, TransportError
from hermes.core.protocols import HttpStream
from hermes.execution.line_program import MAX_MESSAGE_BYTES
from hermes.mcp.event_stream import EventStreamReader
from hermes.mcp.http_exchanges import (
    EVENT_STREAM,
    JSON_TYPE,
    LISTEN_TIMEOUTS,
    MESSAGE_TOO_LONG,
    McpHttpExchanges,
    TokenDemand,
    get_content_type,
    iter_chunks,
    make_refusal,
)
from hermes.mcp.rpc import OutgoingMessage
from hermes.util.cancellation import wait_for_task

_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
_MAX_SESSION_ID = 1_024
_MAX_EVENT_ID = 4_096
_CLOSE_SECONDS = 1.0
"""Seconds that ending the session may take."""
_LISTEN_RETRY_SECONDS = (1.0, 5.0, 30.0)
"""Seconds before the stream of a server's own messages is requested again after it ended; the last is repeated."""
_RESUME_SECONDS, _MAX_RESUME_SECONDS = 1.0, 60.0
"""Seconds before a stream is resumed where the server names no time; the longest time that it may name."""
_MIN_RESUME_SECONDS = 0.05
_MAX_RESUME_FAILURES = 3
_MAX_RESUMES = 1_000
_HEADER_SAFE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_ENCODED = re.compile(r"=\?base64\?.*\?=", re.DOTALL)


class McpHttpTransport:
    """One session with a server."""

    answers_in_place = True

    def __init__(self, exchanges: McpHttpExchanges) -> None:
        self._exchanges = exchanges
        self._session_headers: dict[str, str] = {}
        """The header fields of a protocol with sessions: the version that was agreed, and the session's id."""
        self._listen_task: asyncio.Task[None] | None = None
        self._on_message: Callable[[bytes], None] = lambda _: None
        self._on_lost: Callable[[str], None] = lambda _: None

    async def open(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Check the address; nothing is sent yet. Raises `ToolError` for an address that cannot be requested."""
        self._on_message, self._on_lost = on_message, on_lost
        self._exchanges.check_address()

    async def set_version(self, version: str) -> None:
        """Name the version from now on, and listen to what the server sends by itself."""
        self._session_headers[_VERSION_HEADER] = version
        self._listen_task = asyncio.create_task(self._listen_for_messages())

    async def send(self, message: OutgoingMessage) -> None:
        """Post a message and take what is answered until the answer ends. Raises `ToolError`.

        What a server refuses for want of a token is sent again once there is one.
        """
        await self._exchanges.repeat_for_tokens(lambda token: self._post_once(message, token))

    async def close(self) -> None:
        """Stop listening and end the session, if the server knows it."""
        if self._listen_task is not None:
            self._listen_task.cancel()
            await wait_for_task(self._listen_task)
        if _SESSION_HEADER in self._session_headers:
            with contextlib.suppress(HermesError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    token = await self._exchanges.find_token()
                    async with self._exchanges.open("DELETE", self._session_headers, token=token):
                        pass
        await self._exchanges.close()

    async def _post_once(self, message: OutgoingMessage, token: str) -> TokenDemand | None:
        """Post the message and take its answer; return a demand for another token."""
        reader = EventStreamReader(MAX_MESSAGE_BYTES)
        try:
            challenge = await self._exchange_message(message, token, reader)
        except TransportError:
            if message.version or not reader.last_id or message.is_answered():
                raise
            challenge = None
        if challenge is None and not message.version and reader.last_id:
            await self._resume_answer(message, reader)
        return challenge

    async def _exchange_message(
        self, message: OutgoingMessage, token: str, reader: EventStreamReader
    ) -> TokenDemand | None:
        fields = _describe_message(message) if message.version else self._session_headers
        # A subscription is silent for as long as nothing changes.
        timeouts = LISTEN_TIMEOUTS if message.method == "subscriptions/listen" else None
        async with self._exchanges.open("POST", fields, message.body, token=token, timeouts=timeouts) as stream:
            if (challenge := self._exchanges.find_challenge(stream)) is not None:
                return challenge
            if not message.version:
                self._remember_session(stream)
            await self._take_answer(stream, reader)
            return None

    def _remember_session(self, stream: HttpStream) -> None:
        session_id = stream.headers.get(_SESSION_HEADER, "")
        if session_id and session_id.isascii() and session_id.isprintable() and len(session_id) <= _MAX_SESSION_ID:
            self._session_headers[_SESSION_HEADER] = session_id

    async def _take_answer(self, stream: HttpStream, reader: EventStreamReader) -> None:
        """Hand on the messages of an answer."""
        if stream.status == 404 and _SESSION_HEADER in self._session_headers:
            self._on_lost("it has forgotten the session")
        kind = get_content_type(stream)
        if stream.status in (202, 204):
            return
        if not 200 <= stream.status < 300 and kind != JSON_TYPE:
            raise make_refusal(stream)
        if kind == EVENT_STREAM:
            await self._take_events(stream, reader)
            return
        body = bytearray()
        async for chunk in iter_chunks(stream):
            body += chunk
            if len(body) > MAX_MESSAGE_BYTES:
                raise ToolError(MESSAGE_TOO_LONG)
        self._on_message(bytes(body).strip())
        if stream.status >= 300:
            raise make_refusal(stream)

    async def _take_events(self, stream: HttpStream, reader: EventStreamReader) -> None:
        async for chunk in iter_chunks(stream):
            try:
                events = reader.feed(chunk)
            except ValueError:
                raise ToolError(MESSAGE_TOO_LONG) from None
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
        fields = {**self._session_headers, **position}
        token = await self._exchanges.find_token()
        async with self._exchanges.open("GET", fields, token=token, timeouts=LISTEN_TIMEOUTS) as stream:
            if stream.status >= 500:
                return True
            if stream.status != 200 or get_content_type(stream) != EVENT_STREAM:
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


def _limit_pause(seconds: float | None, default: float) -> float:
    return default if seconds is None else min(max(seconds, _MIN_RESUME_SECONDS), _MAX_RESUME_SECONDS)


def _is_usable_event_id(text: str) -> bool:
    """Return whether an id can be sent back in a header field."""
    return bool(text) and text.isprintable() and text.isascii() and len(text) <= _MAX_EVENT_ID
