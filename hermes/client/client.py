"""The client: runs, their events, and sessions of a Hermes that serves programs (`hermes serve`).

Every call raises a `ServerAnswerError` for what the server refuses, and `TransportError` where it cannot be reached or
does not answer in time. A call that is cancelled closes its connection; a run goes on by itself all the same.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import structs

from hermes.client.errors import ServerAnswerError, build_answer_error
from hermes.client.objects import (
    EVENT_SCHEMA_VERSION,
    RUN_ENDED,
    TURN_ENDED,
    TURN_FAILED,
    ApprovalDecision,
    ApprovalReceipt,
    DeletedSession,
    ErrorObject,
    ErrorResponse,
    ForkSessionRequest,
    MessagePage,
    NewSessionRequest,
    RenameSessionRequest,
    Run,
    RunEvent,
    RunRequest,
    SessionAnswer,
    SessionEvent,
    SessionMessageRequest,
    SessionObject,
    SessionPage,
)
from hermes.config.environment import copy_environment
from hermes.core.encoding import to_json
from hermes.core.errors import HermesError, TransportError, UsageError
from hermes.core.outcomes import AnswerScope, FailureKind
from hermes.core.protocols import HttpStream, HttpTimeouts
from hermes.i18n.messages import N_
from hermes.providers.decoding import SseReader
from hermes.providers.http import DefaultHttpTransport
from hermes.providers.http_common import HttpTarget, parse_target
from hermes.providers.wire import ServerEvent, WireError
from hermes.util.hosts import is_loopback
from hermes.util.text import strip_control_characters, to_one_line

CALL_SECONDS = 60.0
"""Seconds that a call may take as a whole."""
TURN_SECONDS = 3_600.0
"""Seconds that the answer to a message may take."""
SILENCE_SECONDS = 45.0
"""Seconds without a byte after which a stream of events counts as lost: the server sends a comment every 15."""
EVENT_LIMIT = 16 * 1024 * 1024
"""Bytes of an event."""
BODY_LIMIT = 64 * 1024 * 1024
"""Bytes of an answer."""
RECONNECT_PAUSES = (0.2, 1.0, 3.0, 10.0, 20.0)
"""Seconds before each attempt to follow a run again; they start over with each event that arrives."""
_ERROR_LIMIT = 64 * 1024
_LONGEST_VALUE = 1_024
"""Characters of a header field."""
_LONGEST_MESSAGE = 500
_BUSY_STATUSES = frozenset({429, 502, 503, 504})
"""Answers of a server that starts, ends or has too much to do: following a run is tried again."""
ObjectT = TypeVar("ObjectT")


class HermesClient:
    """A client of one server, with one key; an async context. `url` is the server's address, with the path at which a
    web server before it has it.

    A key is sent over plain http to this machine only, unless `allow_plain_http` says otherwise. `seconds` bounds each
    call, `silence` the wait for the next bytes of a stream, `event_limit` the bytes of an event.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        allow_plain_http: bool = False,
        seconds: float = CALL_SECONDS,
        silence: float = SILENCE_SECONDS,
        event_limit: int = EVENT_LIMIT,
    ) -> None:
        """Raises UsageError for an address to which the key must not be sent, or a key that is none."""
        url = url.strip()
        target = _parse_address(url)
        if not target.is_secure and not is_loopback(target.host) and not allow_plain_http:
            raise UsageError(
                N_("The key would go to {host} readable by everybody on the way.", host=target.authority),
                N_("Use an https address, or pass allow_plain_http=True."),
            )
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise UsageError(N_("A key of the server has printable ASCII characters and no blanks."))
        self._url = url.rstrip("/")
        self._host = target.authority
        self._headers = {"authorization": f"Bearer {key}", "accept": "application/json, text/event-stream"}
        self._seconds = seconds
        self._silence = silence
        self._event_limit = event_limit
        self._transport = DefaultHttpTransport(copy_environment())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    # Runs.

    async def begin_run(
        self,
        input: str | list[object],  # noqa: A002 - the name that it has in the JSON
        *,
        session_id: str = "",
        model: str = "",
        instructions: str = "",
        idempotency_key: str = "",
    ) -> Run:
        """Begin a run and return it; it is stored by then. The same idempotency key returns the same run."""
        headers = {"idempotency-key": idempotency_key} if idempotency_key else {}
        wish = RunRequest(input, session_id, model, instructions)
        return await self._request("POST", "/v1/runs", Run, wish, headers=headers)

    async def get_run(self, run_id: str) -> Run:
        """Return a run as it stands."""
        return await self._request("GET", f"/v1/runs/{_quote_name(run_id)}", Run)

    async def stop_run(self, run_id: str) -> Run:
        """Stop a run, and return it; it may take a moment until it has ended."""
        return await self._request("POST", f"/v1/runs/{_quote_name(run_id)}/stop", Run, {})

    async def answer_approval(self, run_id: str, approval_id: str, decision: AnswerScope | str) -> None:
        """Answer an approval question: `once`, `session`, `always` or `deny`. Raises StateConflictError where nobody
        asks that any more.
        """
        answer = ApprovalDecision(approval_id, AnswerScope(decision))
        await self._request("POST", f"/v1/runs/{_quote_name(run_id)}/approval", ApprovalReceipt, answer)

    async def follow_run(self, run_id: str, *, after: str = "") -> AsyncGenerator[RunEvent, None]:
        """Yield the events of a run up to its end, `run.ended`; those behind the id `after`, where it is given.

        A lost connection is opened again behind the last event; TransportError is raised where that fails time and
        again. Events of a newer version of the schema come as they are.
        """
        last, attempt = after, 0
        while True:
            failure: HermesError | None = None
            async with aclosing(self._read_until_lost(run_id, last)) as items:
                async for item in items:
                    if isinstance(item, HermesError):
                        failure = item
                        break
                    if item.id and item.id != last:
                        last, attempt = item.id, 0
                    yield item
                    if item.type == RUN_ENDED:
                        return
            if attempt >= len(RECONNECT_PAUSES):
                raise TransportError(
                    FailureKind.CUT, N_("The events of the run {id} broke off time and again.", id=run_id)
                ) from failure
            await asyncio.sleep(RECONNECT_PAUSES[attempt])
            attempt += 1

    async def wait_run(self, run_id: str) -> Run:
        """Wait until a run has ended, however long that takes, and return it."""
        async with aclosing(self.follow_run(run_id)) as events:
            async for event in events:
                if event.type == RUN_ENDED and event.version == EVENT_SCHEMA_VERSION:
                    return self._decode(to_json(event.data), Run)
        return await self.get_run(run_id)

    # Sessions.

    async def list_sessions(self, *, page_size: int = 50) -> AsyncGenerator[SessionObject, None]:
        """Yield the sessions of the key, the newest first."""
        offset = 0
        while True:
            query = urlencode({"limit": page_size, "offset": offset})
            page = await self._request("GET", f"/v1/sessions?{query}", SessionPage)
            for one in page.data:
                yield one
            offset += len(page.data)
            if not page.has_more or not page.data:
                return

    async def create_session(self, session_id: str = "") -> SessionObject:
        """Return the session of this name, a new one where there is none; without a name one that the server names. It
        is kept once it has a message.
        """
        return await self._request("POST", "/v1/sessions", SessionObject, NewSessionRequest(session_id))

    async def get_session(self, session_id: str) -> SessionObject:
        """Return a session."""
        return await self._request("GET", f"/v1/sessions/{_quote_name(session_id)}", SessionObject)

    async def list_messages(self, session_id: str, *, limit: int = 100, offset: int = 0) -> MessagePage:
        """Return a page of a session's messages, the oldest first."""
        query = urlencode({"limit": limit, "offset": offset})
        return await self._request("GET", f"/v1/sessions/{_quote_name(session_id)}/messages?{query}", MessagePage)

    async def rename_session(self, session_id: str, title: str) -> SessionObject:
        """Give a session another title."""
        path = f"/v1/sessions/{_quote_name(session_id)}"
        return await self._request("PATCH", path, SessionObject, RenameSessionRequest(title))

    async def delete_session(self, session_id: str) -> None:
        """Delete a session with all its messages, even while it works."""
        await self._request("DELETE", f"/v1/sessions/{_quote_name(session_id)}", DeletedSession)

    async def fork_session(self, session_id: str, *, turns: int | None = None, new_id: str = "") -> SessionObject:
        """Return a new session that begins with so many turns of this one, or with all of them."""
        path = f"/v1/sessions/{_quote_name(session_id)}/fork"
        return await self._request("POST", path, SessionObject, ForkSessionRequest(turns, id=new_id))

    async def send_message(
        self, session_id: str, text: str, *, model: str = "", seconds: float = TURN_SECONDS
    ) -> SessionAnswer:
        """Send a message to a session, and return its answer. When this is cancelled or takes more than so many
        seconds, the turn is stopped.
        """
        path = f"/v1/sessions/{_quote_name(session_id)}/chat"
        return await self._request("POST", path, SessionAnswer, SessionMessageRequest(text, model), seconds=seconds)

    async def stream_message(
        self, session_id: str, text: str, *, model: str = ""
    ) -> AsyncGenerator[SessionEvent, None]:
        """Send a message to a session, and yield what happens up to the end, `turn_ended`.

        Leaving it early stops the turn. A connection that is lost is not opened again: TransportError is raised, and
        the turn is stopped. Raises ServerAnswerError for a turn that fails, too.
        """
        path = f"/v1/sessions/{_quote_name(session_id)}/chat/stream"
        body, headers = to_json(SessionMessageRequest(text, model)), {"content-type": "application/json"}
        async with aclosing(self._read_stream("POST", path, body, headers)) as events:
            async for event in events:
                if event.event == TURN_FAILED:
                    told = self._decode(event.data.encode(), ErrorObject)
                    raise build_answer_error(0, told.message, told.code or "")
                yield SessionEvent(event.event, self._decode(event.data.encode(), dict[str, object]))
                if event.event == TURN_ENDED:
                    return
        raise TransportError(FailureKind.CUT, N_("The answer in the session {id} broke off.", id=session_id))

    # The exchange.

    async def _read_until_lost(self, run_id: str, last: str) -> AsyncGenerator[RunEvent | HermesError, None]:
        """Yield the events of one connection, and where it is lost the error, as the last item."""
        try:
            async with aclosing(self._read_events(run_id, last)) as events:
                async for event in events:
                    yield event
        except TransportError as error:
            yield error
        except ServerAnswerError as error:
            if error.status not in _BUSY_STATUSES:
                raise
            yield error

    async def _read_events(self, run_id: str, last: str) -> AsyncGenerator[RunEvent, None]:
        """Yield the events of one connection."""
        path = f"/v1/runs/{_quote_name(run_id)}/events"
        headers = {"last-event-id": last} if last else {}
        async with aclosing(self._read_stream("GET", path, b"", headers)) as events:
            async for event in events:
                found = self._decode(event.data.encode(), RunEvent)
                yield structs.replace(found, id=event.id if _is_header_value(event.id) else "")

    async def _read_stream(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[ServerEvent, None]:
        """Yield the server-sent events of one exchange."""
        async with self._open(method, path, body, headers, self._silence) as stream:
            reader = SseReader(self._event_limit)
            async for chunk in stream.chunks():
                try:
                    events = reader.feed(chunk)
                except WireError:
                    raise _reject_answer(N_("It sent an event of more than {n} bytes.", n=self._event_limit)) from None
                for event in events:
                    yield event

    async def _request(
        self,
        method: str,
        path: str,
        kind: type[ObjectT],
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float = 0.0,
    ) -> ObjectT:
        """Send a request and return the object of its answer."""
        limit = seconds or self._seconds
        data = to_json(body) if body is not None else b""
        fields = {"content-type": "application/json", **(headers or {})} if data else dict(headers or {})
        try:
            async with asyncio.timeout(limit), self._open(method, path, data, fields, limit) as stream:
                return self._decode(await _read_body(stream, BODY_LIMIT), kind)
        except TimeoutError:
            raise TransportError(
                FailureKind.TIMEOUT, N_("{host} did not answer within {n} s.", host=self._host, n=format(limit, "g"))
            ) from None

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[HttpStream]:
        """Open an exchange whose answer is a success. Raises TransportError and ServerAnswerError."""
        fields = {**self._headers, **headers}
        if not all(map(_is_header_value, fields.values())):
            raise UsageError(N_("Keys and ids have 1 to {n} printable ASCII characters.", n=_LONGEST_VALUE))
        timeouts = HttpTimeouts(connect=min(10.0, self._seconds), read=silence)
        async with self._transport.open(
            method, self._url + path, headers=fields, body=body, timeouts=timeouts
        ) as stream:
            if not 200 <= stream.status < 300:
                raise _build_error(stream.status, await self._read_refusal(stream))
            yield stream

    async def _read_refusal(self, stream: HttpStream) -> bytes:
        """Return the body of an answer that is no success; an empty one where it does not come in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                return await _read_body(stream, _ERROR_LIMIT)
        return b""

    def _decode(self, data: bytes, kind: type[ObjectT]) -> ObjectT:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise _reject_answer(
                N_("{host} sent what is no {kind}: {why}", host=self._host, kind=kind.__name__, why=str(error)[:200])
            ) from None


def _parse_address(url: str) -> HttpTarget:
    with suppress(ValueError, TransportError):
        parts = urlsplit(url)
        has_more = parts.query or parts.fragment or parts.username is not None or parts.password is not None
        if not has_more and url.isascii() and url.isprintable() and " " not in url:
            return parse_target(url)
    raise UsageError(
        N_("That is no address of a server."),
        N_("It is an http or https address without a user, a query or a fragment: https://hermes.example.org"),
    )


async def _read_body(stream: HttpStream, limit: int) -> bytes:
    found = bytearray()
    async for chunk in stream.chunks():
        found += chunk
        if len(found) > limit:
            raise _reject_answer(N_("It sent more than {n} bytes.", n=limit))
    return bytes(found)


def _build_error(status: int, body: bytes) -> ServerAnswerError:
    try:
        told = msgspec.json.decode(body, type=ErrorResponse).error
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return build_answer_error(status, N_("The server answered with the status {status}.", status=status), "")
    # What a server says is shown to people, whoever the server is.
    said = to_one_line(strip_control_characters(told.message), _LONGEST_MESSAGE)
    return build_answer_error(status, said, strip_control_characters(told.code or "")[:_LONGEST_MESSAGE])


def _reject_answer(why: str) -> ServerAnswerError:
    return ServerAnswerError(why, N_("Is it a Hermes that listens there?"))


def _quote_name(name: str) -> str:
    """Return a name as one segment of a path. Raises UsageError for one that would be another path."""
    if name in ("", ".", ".."):
        raise UsageError(N_("{name!r} is no id.", name=name))
    return quote(name, safe="")


def _is_header_value(value: str) -> bool:
    return 0 < len(value) <= _LONGEST_VALUE and value.isascii() and value.isprintable()
