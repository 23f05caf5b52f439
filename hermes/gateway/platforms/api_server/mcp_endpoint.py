"""The Model Context Protocol over streamable HTTP: one address, on which requests are posted. Those of the stateless
revision stand for themselves; those of the revisions before it belong to a session.

An answer is JSON, or a stream of events once there is something to tell before it. Who goes away takes the request
back.
"""

import asyncio
import logging
import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
from aiohttp import web
from msgspec import Raw, Struct

from hermes.core.errors import HermesError
from hermes.core.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RequestId,
    RpcError,
)
from hermes.gateway.platforms.api_server.requests import (
    KEEP_ALIVE,
    KEEP_ALIVE_SECONDS,
    EventStreamResponse,
    RequestReader,
    encode_event,
    json_response,
)
from hermes.mcp.revisions import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    SESSION_VERSIONS,
    UNSUPPORTED_VERSION,
)
from hermes.mcp.serving.calls import Result, decode_params
from hermes.mcp.serving.service import McpRequestHead, McpResponder, McpSession
from hermes.util.cancellation import cancel_tasks

PATH = "/mcp"
_VERSION, _METHOD, _NAME, _SESSION = "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose subject stands in a header field, too, and the parameter that it must be equal to."""
_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The HTTP status of an error of the stateless revision."""
_MAX_SESSIONS, _IDLE_SECONDS = 64, 3_600.0
"""The most sessions of one key, and the seconds after which an unused one is gone."""
_MAX_REQUESTS = 64
"""The most requests of one key that are answered at once."""
_MAX_WAITING = 256
"""The most messages before an answer that wait for a reader; more are dropped."""
_NOTHING = Raw()
_LOG = logging.getLogger(__name__)


class _Message(Struct):
    id: RequestId | msgspec.UnsetType | None = msgspec.UNSET
    method: str | None = None
    params: Raw = _NOTHING
    result: Raw = _NOTHING
    error: Raw = _NOTHING


class _CancelParams(Struct):
    request_id: RequestId = msgspec.field(name="requestId")


class _HttpSession(McpSession):
    """A session of one key: its requests that are answered, and what its client was asked."""

    def __init__(self, owner: str, now: float) -> None:
        super().__init__()
        self.id = secrets.token_urlsafe(32)
        self.owner = owner
        self.used_at = now
        self.running: dict[RequestId, asyncio.Task[Result]] = {}
        self.asked: dict[int, asyncio.Future[Raw]] = {}
        self.last_id = 0

    def take_response(self, message: _Message) -> None:
        """Take the client's answer to what it was asked."""
        answer = self.asked.get(message.id) if isinstance(message.id, int) else None
        if answer is None or answer.done():
            return
        if bytes(message.error):
            answer.set_exception(RpcError(INTERNAL_ERROR, "The client has answered with an error."))
        else:
            answer.set_result(message.result)

    def end(self) -> None:
        """Take back all of its requests."""
        for task in self.running.values():
            task.cancel()


class _HttpChannel:
    """What is told to a client before the answer to its request."""

    def __init__(self, session: _HttpSession | None) -> None:
        self._session = session
        self._waiting: deque[bytes] = deque(maxlen=_MAX_WAITING)
        self._changed = asyncio.Event()

    def notify(self, method: str, params: Result) -> None:
        """Tell it something."""
        self._put({"jsonrpc": "2.0", "method": method, "params": params})

    async def request(self, method: str, params: object, seconds: float | None) -> Raw:
        """Ask it something; only within a session. Raises RpcError, TimeoutError."""
        session = self._session
        if session is None:
            raise RpcError(INTERNAL_ERROR, "Clients of this revision are asked nothing.")
        session.last_id += 1
        number = session.last_id
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        session.asked[number] = answer
        self._put({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(seconds):
                return await answer
        finally:
            del session.asked[number]

    async def wait_messages(self, task: "asyncio.Task[Result]", seconds: float) -> Sequence[bytes]:
        """Return what waits, once there is something, the task is done, or the time is over."""
        if not self._waiting and not task.done():
            waiting = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait({task, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
        found = [*self._waiting]
        self._waiting.clear()
        self._changed.clear()
        return found

    def _put(self, message: object) -> None:
        self._waiting.append(encode_event("message", message))
        self._changed.set()


class McpEndpoint:
    """Answers at one address. `find_responder` returns who answers a request, or raises for a caller who may not;
    `name_owner` returns whose sessions the caller's are.
    """

    def __init__(
        self,
        reader: RequestReader,
        find_responder: Callable[[web.Request], McpResponder],
        name_owner: Callable[[web.Request], str],
    ) -> None:
        self._reader = reader
        self._find_responder = find_responder
        self._name_owner = name_owner
        self._sessions: dict[str, _HttpSession] = {}
        self._running: Counter[str] = Counter()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes and their handlers; nothing is streamed that was not asked for, so there is no GET."""
        return [web.post(PATH, self._handle_post), web.delete(PATH, self._handle_delete)]

    async def _handle_post(self, request: web.Request) -> web.StreamResponse:
        responder = self._find_responder(request)
        if request.content_type != "application/json" or request.headers.get("Content-Encoding"):
            return _make_error(None, RpcError(INVALID_REQUEST, "The body must be plain JSON."), 415)
        body = await self._reader.read_bytes(request)
        try:
            message = msgspec.json.decode(body, type=_Message)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return _refuse_body(body)
        identity = None if message.id is msgspec.UNSET else message.id
        if message.method is not None and message.id is None:
            return _make_error(None, RpcError(INVALID_REQUEST, "The id of a request must be a number or a text."), 400)
        try:
            return await self._take_message(request, responder, message)
        except RpcError as error:
            return _make_error(identity, error, _STATUS.get(error.code, 400))

    async def _handle_delete(self, request: web.Request) -> web.StreamResponse:
        self._find_responder(request)
        session = self._find_session(request)
        if session is None:
            return _refuse_session(request, None)
        del self._sessions[session.id]
        session.end()
        return web.Response(status=204)

    async def _take_message(
        self, request: web.Request, responder: McpResponder, message: _Message
    ) -> web.StreamResponse:
        version = request.headers.get(_VERSION, "")
        head = decode_params(message.params, McpRequestHead) if message.method is not None else McpRequestHead()
        if head.version is not None or (version and version not in SESSION_VERSIONS):
            return await self._take_stateless(request, responder, message, head)
        if message.method == "initialize":
            return await self._begin_session(request, responder, message)
        session = self._find_session(request)
        if session is None:
            return _refuse_session(request, None if message.id is msgspec.UNSET else message.id)
        session.used_at = asyncio.get_running_loop().time()
        if message.method is None:
            session.take_response(message)
        elif message.id is msgspec.UNSET:
            _take_notification(session, message)
        else:
            return await self._answer(request, responder, message, session)
        return web.Response(status=202)

    async def _take_stateless(
        self, request: web.Request, responder: McpResponder, message: _Message, head: McpRequestHead
    ) -> web.StreamResponse:
        if message.id is msgspec.UNSET or message.method is None:  # no message but requests means anything here
            return web.Response(status=202)
        if head.meta is not None and isinstance(head.version, str):
            _check_headers(request.headers, message.method, head)
        return await self._answer(request, responder, message, None)

    async def _begin_session(
        self, request: web.Request, responder: McpResponder, message: _Message
    ) -> web.StreamResponse:
        now = asyncio.get_running_loop().time()
        owner = self._name_owner(request)
        session = _HttpSession(owner, now)
        response = await self._answer(request, responder, message, session)
        if session.is_open:
            self._drop_unused(owner, now)
            self._sessions[session.id] = session
            response.headers[_SESSION] = session.id
        return response

    def _drop_unused(self, owner: str, now: float) -> None:
        """End sessions that nobody uses any more, and of this owner's the one that was used longest ago, where there
        are too many.
        """
        for one in [one for one in self._sessions.values() if now - one.used_at > _IDLE_SECONDS and not one.running]:
            del self._sessions[one.id]
        own = sorted((one for one in self._sessions.values() if one.owner == owner), key=lambda one: one.used_at)
        for one in own[: max(0, len(own) - _MAX_SESSIONS + 1)]:
            one.end()
            del self._sessions[one.id]

    def _find_session(self, request: web.Request) -> _HttpSession | None:
        """Return the session that a request names; None for another's as for one that there is not."""
        found = self._sessions.get(request.headers.get(_SESSION, ""))
        return found if found is not None and found.owner == self._name_owner(request) else None

    async def _answer(
        self, request: web.Request, responder: McpResponder, message: _Message, session: _HttpSession | None
    ) -> web.StreamResponse:
        """Answer a request: as JSON, or with a stream where something is told before that, or where it takes long."""
        identity, owner = message.id, self._name_owner(request)
        assert isinstance(identity, int | str)
        assert message.method is not None
        if self._running[owner] >= _MAX_REQUESTS or (session is not None and identity in session.running):
            raise RpcError(INVALID_REQUEST, "Its id is in use, or too many requests are open.")
        channel = _HttpChannel(session)
        work = (
            responder.answer_stateless(message.method, message.params, channel)
            if session is None
            else responder.answer_in_session(message.method, message.params, session, channel)
        )
        task = asyncio.create_task(_tell_faults(work, message.method), name="mcp request")
        self._running[owner] += 1
        if session is not None:
            session.running[identity] = task
        try:
            if "text/event-stream" not in request.headers.get("Accept", ""):
                await asyncio.wait({task})
                return _make_response(identity, task, is_stateless=session is None)
            first = await channel.wait_messages(task, KEEP_ALIVE_SECONDS)
            if task.done() and not first:
                return _make_response(identity, task, is_stateless=session is None)
            return await _stream_answer(request, identity, channel, task, first)
        finally:
            self._running[owner] -= 1
            if session is not None:
                session.running.pop(identity, None)
            await cancel_tasks([task])


async def _stream_answer(
    request: web.Request,
    identity: RequestId,
    channel: _HttpChannel,
    task: "asyncio.Task[Result]",
    first: Sequence[bytes],
) -> web.StreamResponse:
    async with EventStreamResponse(request) as stream:
        waiting = first
        while not task.done():
            await stream.send(b"".join(waiting) or KEEP_ALIVE)
            waiting = await channel.wait_messages(task, KEEP_ALIVE_SECONDS)
        rest = await channel.wait_messages(task, 0)
        await stream.send(b"".join((*waiting, *rest, encode_event("message", _describe_end(identity, task)))))
        return stream.response


async def _tell_faults(work: Awaitable[Result], method: str) -> Result:
    """Return the result. Raises RpcError for whatever goes wrong."""
    try:
        return await work
    except RpcError:
        raise
    except (HermesError, TimeoutError) as error:
        raise RpcError(INTERNAL_ERROR, str(error) or "It has taken too long.") from None
    except Exception as error:  # noqa: BLE001 - who asks must get an answer; the fault is logged
        _LOG.exception("answering %s failed", method[:80])
        raise RpcError(INTERNAL_ERROR, f"Hermes has failed inside ({type(error).__name__}).") from None


def _describe_end(identity: RequestId, task: "asyncio.Task[Result]") -> Mapping[str, object]:
    """Return the message that a request ends with."""
    reply: dict[str, object] = {"jsonrpc": "2.0", "id": identity}
    if task.cancelled():
        return {**reply, "error": {"code": INTERNAL_ERROR, "message": "The request was taken back."}}
    error = task.exception()
    if isinstance(error, RpcError):
        return {**reply, "error": _describe_error(error)}
    return {**reply, "result": task.result()}


def _make_response(identity: RequestId, task: "asyncio.Task[Result]", *, is_stateless: bool) -> web.Response:
    error = None if task.cancelled() else task.exception()
    status = _STATUS.get(error.code, 200) if isinstance(error, RpcError) and is_stateless else 200
    return json_response(_describe_end(identity, task), status)


def _describe_error(error: RpcError) -> Mapping[str, object]:
    told: dict[str, object] = {"code": error.code, "message": error.message}
    return told if error.data is None else {**told, "data": error.data}


def _make_error(identity: RequestId | None, error: RpcError, status: int) -> web.Response:
    return json_response({"jsonrpc": "2.0", "id": identity, "error": _describe_error(error)}, status)


def _refuse_body(body: bytes) -> web.Response:
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _make_error(None, RpcError(PARSE_ERROR, "The body is not JSON, or nested too deeply."), 400)
    return _make_error(None, RpcError(INVALID_REQUEST, "The body must be one message of JSON-RPC 2.0."), 400)


def _refuse_session(request: web.Request, identity: RequestId | None) -> web.Response:
    if _SESSION in request.headers:
        return _make_error(identity, RpcError(INVALID_REQUEST, "There is no such session."), 404)
    return _make_error(identity, RpcError(INVALID_REQUEST, f"The header field {_SESSION} is missing."), 400)


def _take_notification(session: _HttpSession, message: _Message) -> None:
    if message.method != "notifications/cancelled":
        return
    task = session.running.get(decode_params(message.params, _CancelParams).request_id)
    if task is not None:
        task.cancel()


def _check_headers(headers: Mapping[str, str], method: str, head: McpRequestHead) -> None:
    """Raise RpcError where header fields say something else than the body: who routes by them must not be deceived."""
    wanted = {_VERSION: head.version, _METHOD: method}
    subject = {"name": head.name, "uri": head.uri}.get(_NAMED.get(method, ""))
    if isinstance(subject, str):
        wanted[_NAME] = subject
    for name, value in wanted.items():
        if _decode_field(headers.get(name, "")) != value:
            raise RpcError(HEADER_MISMATCH, f"The header field {name} does not say what the body says.")


def _decode_field(value: str) -> str:
    """Return the value of a header field; one that is no plain ASCII stands in base64."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    import base64
    import binascii

    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeError):
        return ""
