"""`/v1/sessions`: a key's own sessions, and messages to them by their names."""

import msgspec
from aiohttp import web
from msgspec import structs

from hermes.admin.sessions import MAX_TITLE_LENGTH, SessionAdmin
from hermes.client.objects import (
    TURN_ENDED,
    TURN_FAILED,
    DeletedSession,
    ForkSessionRequest,
    MessagePage,
    NewSessionRequest,
    RenameSessionRequest,
    SessionAnswer,
    SessionMessageRequest,
    SessionObject,
    SessionPage,
    TokenCounts,
)
from hermes.core.encoding import Plain
from hermes.core.errors import HermesError
from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, Notice, Refused, ToolEnded, ToolStarted
from hermes.gateway.platforms.api_server.chat_completions import begin_turn
from hermes.gateway.platforms.api_server.deps import ApiDeps
from hermes.gateway.platforms.api_server.errors import to_api_error, turn_failure
from hermes.gateway.platforms.api_server.keys import ApiCaller, ApiScope
from hermes.gateway.platforms.api_server.messages import parse_input
from hermes.gateway.platforms.api_server.requests import (
    KEEP_ALIVE,
    KEEP_ALIVE_SECONDS,
    EventStreamResponse,
    caller_of,
    encode_event,
    json_response,
    query_number,
)
from hermes.gateway.platforms.api_server.session_lookup import SessionExtras, check_session_name
from hermes.gateway.platforms.api_server.turns import ApiTurn, TurnStream, stop_when_abandoned
from hermes.sessions.session_lookup import row_to_dict
from hermes.util.text import strip_control_characters, to_one_line

_STREAMED_EVENTS = ToolStarted | ToolEnded | Refused | ApprovalAsked | ApprovalAnswered | Notice
_MAX_LIMIT = 200


class SessionRoutes:
    """The handlers."""

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self._store = deps.app.services.store
        self._admin = SessionAdmin(self._store, deps.app.services.home)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes and their handlers."""
        return [
            web.get("/v1/sessions", self._list_sessions),
            web.post("/v1/sessions", self._create_session),
            web.get("/v1/sessions/{id}", self._get_session),
            web.patch("/v1/sessions/{id}", self._rename_session),
            web.delete("/v1/sessions/{id}", self._delete_session),
            web.get("/v1/sessions/{id}/messages", self._list_messages),
            web.post("/v1/sessions/{id}/fork", self._fork_session),
            web.post("/v1/sessions/{id}/chat", self._send_message),
            web.post("/v1/sessions/{id}/chat/stream", self._stream_message),
        ]

    async def _list_sessions(self, request: web.Request) -> web.Response:
        caller = _authorized_caller(request)
        limit, offset = query_number(request, "limit", 50, _MAX_LIMIT), query_number(request, "offset", 0, 1_000_000)
        rows = await self._store.api.list_sessions(caller.owner, limit + 1, offset=offset)
        data = [_session_object(name, row_to_dict(row)) for name, row in rows[:limit]]
        return json_response(SessionPage(data=data, has_more=len(rows) > limit))

    async def _create_session(self, request: web.Request) -> web.Response:
        """Create a session; it is kept once it has a message."""
        caller = _authorized_caller(request)
        asked = await self._deps.reader.read_value(request, NewSessionRequest)
        room = await self._deps.sessions.find_or_create(caller, asked.id or self._deps.sessions.fresh_session_id())
        row = await self._admin.find_session_row(room.request.session_id)
        return json_response(_session_object(room.name, row), 201)

    async def _get_session(self, request: web.Request) -> web.Response:
        name, session_id = await self._find_session(request)
        return json_response(_session_object(name, await self._admin.find_session_row(session_id)))

    async def _rename_session(self, request: web.Request) -> web.Response:
        name, session_id = await self._find_session(request)
        changed = await self._deps.reader.read_value(request, RenameSessionRequest)
        return json_response(_session_object(name, await self._admin.rename_session(session_id, changed.title)))

    async def _delete_session(self, request: web.Request) -> web.Response:
        """Delete a session with all its messages, even while it works."""
        name, session_id = await self._find_session(request)
        await self._deps.gateway.drop_session(session_id)
        await self._admin.delete_session(session_id)
        return json_response(DeletedSession(id=name))

    async def _list_messages(self, request: web.Request) -> web.Response:
        _, session_id = await self._find_session(request)
        limit, offset = query_number(request, "limit", 100, 1_000), query_number(request, "offset", 0, 1_000_000)
        shown = await self._admin.show_session(session_id)
        messages = shown["messages"]
        assert isinstance(messages, list)
        page = messages[offset : offset + limit]
        return json_response(MessagePage(data=page, has_more=offset + limit < len(messages)))

    async def _fork_session(self, request: web.Request) -> web.Response:
        """Create a session that begins as this one did, and continues separately."""
        _, session_id = await self._find_session(request)
        caller, asked = caller_of(request), await self._deps.reader.read_value(request, ForkSessionRequest)
        fresh = self._deps.sessions.fresh_session_id()
        name = asked.id or fresh
        check_session_name(name, "id")
        title = to_one_line(strip_control_characters(asked.title), MAX_TITLE_LENGTH)
        await self._store.branches.create(session_id, fresh, title=title, turns=asked.turns)
        bound = await self._store.api.bind_session(caller.owner, name, fresh)
        if bound != fresh:
            await self._store.api.bind_session(caller.owner, fresh, fresh)
            name = fresh
        return json_response(_session_object(name, await self._admin.find_session_row(fresh)), 201)

    async def _send_message(self, request: web.Request) -> web.StreamResponse:
        caller = _authorized_caller(request)
        with self._deps.slots.take_slot(caller):
            turn = await self._begin_turn(request, caller)
            with stop_when_abandoned(turn):
                ended = await turn.wait_result()
            failure = turn_failure(ended)
            if failure is not None:
                raise failure
            return json_response(
                SessionAnswer(
                    session_id=request.match_info["id"],
                    turn_id=ended.turn_id,
                    text=turn.make_text_filter().filter_whole(ended.text),
                    reason=ended.reason.value,
                    usage=TokenCounts.from_usage(ended.usage),
                )
            )

    async def _stream_message(self, request: web.Request) -> web.StreamResponse:
        caller = _authorized_caller(request)
        with self._deps.slots.take_slot(caller):
            turn = await self._begin_turn(request, caller)
            with stop_when_abandoned(turn):
                async with EventStreamResponse(request) as stream:
                    await _send_events(stream, turn)
                    return stream.response

    async def _begin_turn(self, request: web.Request, caller: ApiCaller) -> ApiTurn:
        await self._deps.admit_turn(caller)
        asked = await self._deps.reader.read_value(request, SessionMessageRequest)
        said, files = parse_input(asked.input, asked.instructions)
        extra = SessionExtras(said.system, self._deps.sessions.resolve_model(asked.model))
        room = await self._deps.sessions.find_or_create(caller, request.match_info["id"], extra, history=said.before)
        return (await begin_turn(self._deps, room, said, files)).turn

    async def _find_session(self, request: web.Request) -> tuple[str, str]:
        caller, name = _authorized_caller(request), request.match_info["id"]
        return name, await self._deps.sessions.find_session_id(caller, name)


def _authorized_caller(request: web.Request) -> ApiCaller:
    caller = caller_of(request)
    caller.require_scope(ApiScope.SESSIONS)
    return caller


async def _send_events(stream: EventStreamResponse, turn: ApiTurn) -> None:
    """Send every event of a turn, to the end: `turn_ended`, or `error` where it has no answer."""
    turn_stream = TurnStream(turn)
    try:
        async for piece in turn_stream.iter_pieces(KEEP_ALIVE_SECONDS):
            await stream.send(_encode_event(piece))
        assert turn_stream.ended is not None
        if (failure := turn_failure(turn_stream.ended)) is not None:
            raise failure
        said = turn.make_text_filter().filter_whole(turn_stream.ended.text)
        await stream.send(encode_event(TURN_ENDED, structs.replace(turn_stream.ended, text=said)))
    except HermesError as error:
        await stream.send(encode_event(TURN_FAILED, to_api_error(error).body["error"]))


def _session_object(name: str, row: Plain) -> SessionObject:
    """Return the part of a stored session that programs read, under the name by which they know it."""
    return msgspec.convert({**row, "id": name}, SessionObject)


def _encode_event(piece: str | Event | None) -> bytes:
    if isinstance(piece, str):
        return encode_event("text_delta", {"text": piece})
    return (
        encode_event(str(piece.__struct_config__.tag), piece)
        if isinstance(piece, _STREAMED_EVENTS)
        else KEEP_ALIVE
        if piece is None
        else b""
    )
