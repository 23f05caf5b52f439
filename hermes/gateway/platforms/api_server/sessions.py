"""`/v1/sessions`: a key's own sessions, and talking in them by their names."""

import asyncio

from aiohttp import web
from msgspec import Struct

from hermes.admin.sessions import Sessions as Administration
from hermes.core.errors import HermesError
from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, Notice, Refused, ToolEnded, ToolStarted
from hermes.gateway.platforms.api_server.chat_completions import begun
from hermes.gateway.platforms.api_server.context import Base
from hermes.gateway.platforms.api_server.errors import as_api, failure_of
from hermes.gateway.platforms.api_server.event_stream import KEEP, KEEP_SECONDS, Stream, named_event
from hermes.gateway.platforms.api_server.keys import Caller
from hermes.gateway.platforms.api_server.message_input import conversation
from hermes.gateway.platforms.api_server.options import Scope
from hermes.gateway.platforms.api_server.request_body import answer, caller_of, number
from hermes.gateway.platforms.api_server.responses_format import usage_of
from hermes.gateway.platforms.api_server.session_lookup import Extra
from hermes.gateway.platforms.api_server.turns import Speech, Turn
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.session_lookup import to_plain

_SHOWN = ToolStarted | ToolEnded | Refused | ApprovalAsked | ApprovalAnswered | Notice
_MOST = 200
_ROW = (
    *("title", "model", "created_at", "updated_at", "message_count", "tool_call_count", "input_tokens"),
    *("output_tokens", "cost_usd"),
)


class NewSession(Struct, frozen=True):
    """A session that is to be made."""

    id: str | None = ""


class Changed(Struct, frozen=True):
    """What is to change about a session."""

    title: str


class Branching(Struct, frozen=True):
    """From where a branch goes on: behind so many turns, all of them where it says nothing."""

    turns: int | None = None
    title: str = ""
    id: str | None = ""


class Saying(Struct, frozen=True):
    """What is said in a session."""

    input: str | list[object]
    model: str = ""
    instructions: str | None = ""


class Sessions:
    """The handlers."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._store = base.app.premises.store
        self._chats = self._store.chats
        self._desk = Administration(self._store, base.app.premises.home)

    def routes(self) -> list[web.RouteDef]:
        """What is answered where."""
        return [
            web.get("/v1/sessions", self._list),
            web.post("/v1/sessions", self._create),
            web.get("/v1/sessions/{id}", self._get),
            web.patch("/v1/sessions/{id}", self._rename),
            web.delete("/v1/sessions/{id}", self._delete),
            web.get("/v1/sessions/{id}/messages", self._messages),
            web.post("/v1/sessions/{id}/fork", self._fork),
            web.post("/v1/sessions/{id}/chat", self._chat),
            web.post("/v1/sessions/{id}/chat/stream", self._stream),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        caller = _caller(request)
        limit, offset = number(request, "limit", 50, _MOST), number(request, "offset", 0, 1_000_000)
        rows = await self._chats.api_sessions(caller.owner, limit + 1, offset=offset)
        data = [_shown(name, to_plain(row)) for name, row in rows[:limit]]
        return answer({"object": "list", "data": data, "has_more": len(rows) > limit})

    async def _create(self, request: web.Request) -> web.Response:
        """A session: it is kept once something is said in it."""
        caller = _caller(request)
        asked = await self._base.reader.body(request, NewSession)
        room = await self._base.rooms.named(caller, asked.id or self._base.rooms.fresh_id())
        row = await self._desk.find(room.wish.session_id)
        return answer(_shown(room.name, row), 201)

    async def _get(self, request: web.Request) -> web.Response:
        name, session_id = await self._known(request)
        return answer(_shown(name, await self._desk.find(session_id)))

    async def _rename(self, request: web.Request) -> web.Response:
        name, session_id = await self._known(request)
        changed = await self._base.reader.body(request, Changed)
        return answer(_shown(name, await self._desk.rename(session_id, changed.title)))

    async def _delete(self, request: web.Request) -> web.Response:
        """Delete it with every word of it, whatever it does."""
        name, session_id = await self._known(request)
        await self._base.front.drop(session_id)
        await self._desk.delete(session_id)
        return answer({"id": name, "object": "session", "deleted": True})

    async def _messages(self, request: web.Request) -> web.Response:
        _, session_id = await self._known(request)
        limit, offset = number(request, "limit", 100, 1_000), number(request, "offset", 0, 1_000_000)
        shown = await self._desk.show(session_id)
        messages = shown["messages"]
        assert isinstance(messages, list)
        page = messages[offset : offset + limit]
        return answer({"object": "list", "data": page, "has_more": offset + limit < len(messages)})

    async def _fork(self, request: web.Request) -> web.Response:
        """A session that begins as this one did, and goes its own way."""
        _, session_id = await self._known(request)
        caller, asked = caller_of(request), await self._base.reader.body(request, Branching)
        fresh = self._base.rooms.fresh_id()
        await self._store.branch_session(session_id, fresh, title=asked.title[:200], turns=asked.turns)
        name = asked.id or fresh
        bound = await self._chats.bind_api_session(caller.owner, name, fresh)
        if bound != fresh:
            await self._chats.bind_api_session(caller.owner, fresh, fresh)
            name = fresh
        return answer(_shown(name, await self._desk.find(fresh)), 201)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        caller = _caller(request)
        with self._base.seats.seat(caller):
            turn = await self._begun(request, caller)
            try:
                ended = await turn.result()
            except asyncio.CancelledError:
                turn.stop()
                raise
            failure = failure_of(ended)
            if failure is not None:
                raise failure
            return answer(
                {
                    "object": "session.answer",
                    "session_id": request.match_info["id"],
                    "turn_id": ended.turn_id,
                    "text": turn.outlet().whole(ended.text),
                    "reason": ended.reason.value,
                    "usage": usage_of(ended.usage),
                }
            )

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        caller = _caller(request)
        with self._base.seats.seat(caller):
            turn = await self._begun(request, caller)
            speech = Speech(turn)
            try:
                async with Stream(request) as stream:
                    await _spoken(stream, speech)
                    return stream.response
            except (asyncio.CancelledError, ConnectionError):
                turn.stop()
                raise

    async def _begun(self, request: web.Request, caller: Caller) -> Turn:
        await self._base.admit(caller)
        asked = await self._base.reader.body(request, Saying)
        given: list[object] = (
            asked.input if isinstance(asked.input, list) else [{"role": "user", "content": asked.input}]
        )
        said, files = conversation(given, asked.instructions or "")
        extra = Extra(said.system, self._base.rooms.model(asked.model))
        room = await self._base.rooms.named(caller, request.match_info["id"], extra, history=said.before)
        return await begun(self._base, room, said, files)

    async def _known(self, request: web.Request) -> tuple[str, str]:
        caller, name = _caller(request), request.match_info["id"]
        return name, await self._base.rooms.known(caller, name)


def _caller(request: web.Request) -> Caller:
    caller = caller_of(request)
    caller.need(Scope.SESSIONS)
    return caller


async def _spoken(stream: Stream, speech: Speech) -> None:
    """Everything, to the end."""
    try:
        async for piece in speech.pieces(KEEP_SECONDS):
            await stream.send(_event(piece))
        assert speech.ended is not None
        await stream.send(named_event("turn_ended", speech.ended))
    except HermesError as error:
        await stream.send(named_event("error", as_api(error).body["error"]))


def _shown(name: str, row: Plain) -> Plain:
    return {"id": name, "object": "session", **{key: row[key] for key in _ROW}}


def _event(piece: str | Event | None) -> bytes:
    if isinstance(piece, str):
        return named_event("text_delta", {"text": piece})
    return (
        named_event(str(piece.__struct_config__.tag), piece)
        if isinstance(piece, _SHOWN)
        else KEEP
        if piece is None
        else b""
    )
