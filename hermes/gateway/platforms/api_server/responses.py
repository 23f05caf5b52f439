"""`/v1/responses`: answers under ids, from which a conversation goes on."""

import asyncio
from collections.abc import Sequence

import msgspec
from aiohttp import web
from msgspec import Struct

from hermes.core.api import StoredResponse
from hermes.core.errors import HermesError, NotFoundError
from hermes.core.events import Refused, ToolEnded, ToolStarted
from hermes.gateway.platforms.api_server.chat_completions import EVENTS_HEADER, SESSION_HEADER, begun, marked
from hermes.gateway.platforms.api_server.context import Base
from hermes.gateway.platforms.api_server.errors import ApiError, as_api, failure_of
from hermes.gateway.platforms.api_server.event_stream import KEEP, KEEP_SECONDS, Stream
from hermes.gateway.platforms.api_server.keys import Caller
from hermes.gateway.platforms.api_server.message_input import SentFile, conversation
from hermes.gateway.platforms.api_server.options import Scope
from hermes.gateway.platforms.api_server.request_body import answer, caller_of
from hermes.gateway.platforms.api_server.responses_format import About, Body, Events, fresh, response_object, state_of
from hermes.gateway.platforms.api_server.session_lookup import OURS, Extra, Room, Said
from hermes.gateway.platforms.api_server.turns import Speech, Turn

_MOST_BACKGROUND = 1_024


class ResponseRequest(Struct, frozen=True):
    """A request, as far as it is looked at."""

    input: str | list[object]
    model: str = ""
    instructions: str | None = ""
    previous_response_id: str | None = ""
    conversation: str | dict[str, object] | None = ""
    stream: bool | None = False
    store: bool | None = True
    background: bool | None = False
    metadata: dict[str, str] | None = None
    user: str | None = ""
    tools: list[object] | None = None
    tool_choice: object = None
    text: dict[str, object] | None = None


class Order(Struct, frozen=True, kw_only=True):
    """A request that was understood."""

    caller: Caller
    said: Said
    files: Sequence[SentFile]
    about: About
    room: Room
    events: bool


class Work(Struct, frozen=True, eq=False):
    """A response that is being made."""

    order: Order
    turn: Turn
    item: str
    over: asyncio.Event


class Responses:
    """The handlers, and the responses that are being made."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._store = base.app.premises.store
        self._chats = self._store.chats
        self._live: dict[tuple[str, str], Work] = {}
        self._tasks: set[asyncio.Task[Body]] = set()

    def routes(self) -> list[web.RouteDef]:
        """What is answered where."""
        return [
            web.post("/v1/responses", self._create),
            web.get("/v1/responses/{id}", self._get),
            web.delete("/v1/responses/{id}", self._delete),
            web.post("/v1/responses/{id}/cancel", self._cancel),
        ]

    async def close(self) -> None:
        """Stop waiting for what is being made; at the next start it is named as failed."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _create(self, request: web.Request) -> web.StreamResponse:
        caller = caller_of(request)
        caller.need(Scope.CHAT)
        await self._base.admit(caller)
        asked = await self._base.reader.body(request, ResponseRequest)
        _check(asked)
        if asked.background:
            return await self._background(request, caller, asked)
        with self._base.seats.seat(caller):
            order = await self._order(request, caller, asked)
            work = await self._begun(order)
            headers = {SESSION_HEADER: order.room.name}
            try:
                if asked.stream:
                    return await self._streamed(request, work, headers)
                body = await self._whole(work)
            except (asyncio.CancelledError, ConnectionError):
                work.turn.stop()
                raise
            finally:
                self._over(work)
            return answer(body, headers=headers)

    async def _background(self, request: web.Request, caller: Caller, asked: ResponseRequest) -> web.Response:
        """Begin a response, and answer at once; it is asked for later."""
        if asked.stream or asked.store is False:
            raise ApiError(400, "A response in the background is stored, and not streamed.", param="background")
        if len(self._tasks) >= _MOST_BACKGROUND:
            raise ApiError(429, "Too many responses are being made.", headers={"Retry-After": "5"})
        order = await self._order(request, caller, asked)
        begun: asyncio.Future[Work] = asyncio.get_running_loop().create_future()

        async def make() -> Body:
            with self._base.seats.seat(caller):
                try:
                    work = await self._begun(order)
                    await self._keep(work, response_object(order.about, "in_progress"), "in_progress")
                except BaseException as error:
                    if not begun.done():
                        begun.set_exception(error if isinstance(error, Exception) else NotFoundError("It was stopped."))
                    raise
                begun.set_result(work)
                try:
                    return await self._whole(work)
                finally:
                    self._over(work)

        task = asyncio.create_task(make(), name=f"response {order.about.id}")
        self._tasks.add(task)
        task.add_done_callback(self._made)
        await asyncio.shield(begun)
        return answer(response_object(order.about, "queued"), headers={SESSION_HEADER: order.room.name})

    def _made(self, task: "asyncio.Task[Body]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # it stands in the response that is stored

    async def _begun(self, order: Order) -> Work:
        turn = await begun(self._base, order.room, order.said, order.files)
        work = Work(order, turn, fresh("msg"), asyncio.Event())
        self._live[order.caller.name, order.about.id] = work
        return work

    def _over(self, work: Work) -> None:
        self._live.pop((work.order.caller.name, work.order.about.id), None)
        work.over.set()

    async def _whole(self, work: Work) -> Body:
        """The response once it is there; it is stored when this returns. Raises ApiError where there is no answer."""
        ended = await work.turn.result()
        failure = failure_of(ended)
        about = work.order.about
        if failure is not None and about.background:
            state = "cancelled" if failure.code == "stopped" else "failed"
            body = response_object(about, state, ended=ended, error=failure)
            await self._keep(work, body, state)
            return body
        if failure is not None:
            raise failure
        text = work.turn.outlet().whole(ended.text)
        body = response_object(about, state_of(ended), text=text, item=work.item, ended=ended)
        await self._keep(work, body, state_of(ended))
        return body

    async def _streamed(self, request: web.Request, work: Work, headers: dict[str, str]) -> web.StreamResponse:
        events, about, speech = Events(work.item), work.order.about, Speech(work.turn)
        async with Stream(request, headers) as stream:
            begun = response_object(about, "in_progress")
            await stream.send(events.whole("response.created", begun) + events.whole("response.in_progress", begun))
            try:
                async for piece in speech.pieces(KEEP_SECONDS):
                    if isinstance(piece, str):
                        first = events.begin() if len(speech.text) == len(piece) else b""
                        await stream.send(first + events.delta(piece))
                    elif piece is None:
                        await stream.send(KEEP)
                    elif work.order.events and isinstance(piece, ToolStarted | ToolEnded | Refused):
                        await stream.send(events.other("hermes.event", {"event": piece}))
                await stream.send(await self._end(events, speech, work))
            except HermesError as error:
                failed = response_object(about, "failed", error=as_api(error))
                await stream.send(events.whole("response.failed", failed))
            return stream.response

    async def _end(self, events: Events, speech: Speech, work: Work) -> bytes:
        """The last events; the response is stored before them."""
        ended, about = speech.ended, work.order.about
        assert ended is not None
        failure = failure_of(ended) if not speech.text else None
        if failure is not None:
            return events.whole("response.failed", response_object(about, "failed", ended=ended, error=failure))
        state = state_of(ended)
        body = response_object(about, state, text=speech.text, item=work.item, ended=ended)
        await self._keep(work, body, state)
        last = events.end(speech.text, "completed" if state == "completed" else "incomplete") if speech.text else b""
        return last + events.whole("response.completed" if state == "completed" else "response.incomplete", body)

    async def _keep(self, work: Work, body: Body, state: str) -> None:
        """Store the response, and note that its session is in the state that it left."""
        order = work.order
        if not order.about.store:
            await marked(self._base, order.room, order.said, _text(body))
            return
        stored = StoredResponse(
            id=order.about.id,
            session_id=order.room.wish.session_id,
            turn_id=work.turn.turn_id,
            state=state,
            body=msgspec.json.encode(body),
        )
        await self._chats.put_response(order.caller.owner, stored)
        if state != "in_progress":
            mark = order.said.mark_after(_text(body)) if order.room.told else None
            await self._chats.mark_api_session(order.caller.owner, order.room.name, mark=mark, answer=order.about.id)

    async def _order(self, request: web.Request, caller: Caller, asked: ResponseRequest) -> Order:
        model = self._base.rooms.model(asked.model)
        said, files = conversation([_as_message(one) for one in _listed(asked.input)], asked.instructions or "")
        about = _about(asked, int(self._base.now()))
        name = request.headers.get(SESSION_HEADER) or _named(asked)
        room = await self._room(caller, about, name, said, Extra(said.system, model))
        events = request.headers.get(EVENTS_HEADER) == "1"
        return Order(caller=caller, said=said, files=files, about=about, room=room, events=events)

    async def _room(self, caller: Caller, about: About, name: str, said: Said, extra: Extra) -> Room:
        """The session that a request goes on in."""
        if about.previous and name:
            raise ApiError(400, "Name a session or a previous response, not both.", param="previous_response_id")
        if about.previous:
            return await self._after(caller, about.previous, extra)
        if name:
            return await self._base.rooms.named(caller, name, extra, history=said.before)
        return await self._base.rooms.of_said(caller, said, extra)

    async def _after(self, caller: Caller, response_id: str, extra: Extra) -> Room:
        """The session that goes on from a response: its own where nothing was said since, else a branch of it."""
        rooms = self._base.rooms
        taken = await self._chats.take_api_session(caller.owner, answer=response_id)
        if taken is not None:
            return rooms.room(caller, *taken, extra)
        known = await self._chats.response(caller.owner, response_id)
        if known is None or not known.turn_id:
            raise ApiError(
                404,
                f"Previous response with id {response_id[:80]!r} not found.",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        turns = [one.turn_id for one in await self._store.last_turns(known.session_id, 1_000_000)]
        if known.turn_id not in turns:
            raise ApiError(404, "What was said before that response was taken back.", param="previous_response_id")
        name = rooms.fresh_id()
        await self._store.branch_session(known.session_id, name, turns=turns.index(known.turn_id) + 1)
        await self._chats.bind_api_session(caller.owner, name, name)
        return rooms.room(caller, name, name, extra)

    async def _get(self, request: web.Request) -> web.Response:
        found = await self._found(request)
        return web.Response(body=found.body, content_type="application/json")

    async def _delete(self, request: web.Request) -> web.Response:
        found = await self._found(request)
        await self._chats.drop_response(caller_of(request).owner, found.id)
        return answer({"id": found.id, "object": "response", "deleted": True})

    async def _cancel(self, request: web.Request) -> web.Response:
        """Stop a response that is being made; the response as it is then."""
        caller = caller_of(request)
        caller.need(Scope.CHAT)
        work = self._live.get((caller.name, request.match_info["id"]))
        if work is not None:
            work.turn.stop()
            await work.over.wait()
        return await self._get(request)

    async def _found(self, request: web.Request) -> StoredResponse:
        caller = caller_of(request)
        caller.need(Scope.CHAT)
        found = await self._chats.response(caller.owner, request.match_info["id"])
        if found is None:
            raise ApiError(404, f"Response with id {request.match_info['id'][:80]!r} not found.", param="id")
        return found


def _text(body: Body) -> str:
    """What a response says."""
    return "".join(
        str(part["text"])
        for item in msgspec.convert(body["output"], list[dict[str, object]])
        for part in msgspec.convert(item["content"], list[dict[str, object]])
    )


def _listed(given: str | list[object]) -> list[object]:
    """The input as messages: a text is the user's."""
    return given if isinstance(given, list) else [{"role": "user", "content": given}]


def _about(asked: ResponseRequest, now: int) -> About:
    return About(
        id=fresh("resp"),
        created=now,
        model=asked.model or OURS[0],
        instructions=asked.instructions or "",
        previous=asked.previous_response_id or "",
        metadata=asked.metadata or {},
        user=asked.user or "",
        store=asked.store is not False,
        background=bool(asked.background),
    )


def _named(asked: ResponseRequest) -> str:
    """The session that the body names; empty where it names none."""
    named = asked.conversation.get("id") if isinstance(asked.conversation, dict) else asked.conversation
    return str(named or (asked.metadata or {}).get("session_id") or "")


def _as_message(given: object) -> object:
    """An item of the input as a message: those without a type are messages already."""
    if isinstance(given, dict) and given.get("type", "message") != "message":
        raise ApiError(400, f"Items of the kind {str(given['type'])[:40]!r} are not taken.", param="input")
    return given


def _check(asked: ResponseRequest) -> None:
    """Refuse what would be left out without a word."""
    shape = (asked.text or {}).get("format")
    wrong = (
        ("tools", bool(asked.tools), "Hermes has tools of its own and runs none of the caller's."),
        ("tool_choice", asked.tool_choice not in (None, "auto", "none"), "The agent chooses its tools by itself."),
        ("text", isinstance(shape, dict) and shape.get("type", "text") != "text", "Answers are text."),
    )
    for param, is_wrong, why in wrong:
        if is_wrong:
            raise ApiError(400, why, param=param, code="unsupported_parameter")
