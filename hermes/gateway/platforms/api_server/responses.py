"""`/v1/responses`: stored answers with ids, from which a conversation continues.

Source: https://platform.openai.com/docs/api-reference/responses.
"""

import asyncio
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web
from msgspec import Struct

from hermes.client.objects import TokenCounts
from hermes.core.api import StoredResponse
from hermes.core.encoding import to_json
from hermes.core.errors import HermesError, NotFoundError
from hermes.core.events import Refused, ToolEnded, ToolStarted, TurnEnded
from hermes.core.messages import ToolCallPart
from hermes.core.outcomes import ExitReason
from hermes.gateway.platforms.api_server.chat_completions import EVENTS_HEADER, SESSION_HEADER, begin_turn, mark_session
from hermes.gateway.platforms.api_server.deps import ApiDeps
from hermes.gateway.platforms.api_server.errors import ApiRequestError, to_api_error, turn_failure
from hermes.gateway.platforms.api_server.keys import ApiCaller, ApiScope
from hermes.gateway.platforms.api_server.messages import UploadedFile, parse_input
from hermes.gateway.platforms.api_server.requests import (
    KEEP_ALIVE,
    KEEP_ALIVE_SECONDS,
    EventStreamResponse,
    caller_of,
    json_response,
)
from hermes.gateway.platforms.api_server.session_lookup import (
    DEFAULT_MODEL_NAMES,
    ApiSession,
    ParsedConversation,
    SessionExtras,
)
from hermes.gateway.platforms.api_server.tools import add_tool_choice, parse_tools
from hermes.gateway.platforms.api_server.turns import ApiTurn, TurnStream, stop_when_abandoned
from hermes.util.cancellation import cancel_tasks

if TYPE_CHECKING:
    from hermes.sessions.answer_schema import AnswerSchema

JsonBody = dict[str, object]
_ITEM_STATES = {"completed": "completed", "incomplete": "incomplete", "failed": "incomplete", "cancelled": "incomplete"}
_MAX_BACKGROUND = 1_024


class ResponseInfo(Struct, frozen=True, kw_only=True):
    """The fields of a response object that come from its request."""

    id: str
    created: int
    model: str
    instructions: str = ""
    previous: str = ""
    metadata: dict[str, str] = {}
    user: str = ""
    store: bool = True
    background: bool = False


def build_response(
    info: ResponseInfo,
    status: str,
    *,
    text: str = "",
    item_id: str = "",
    ended: TurnEnded | None = None,
    calls: Sequence[ToolCallPart] = (),
    error: ApiRequestError | None = None,
) -> JsonBody:
    """Build a whole response object."""
    body: JsonBody = {
        "id": info.id,
        "object": "response",
        "created_at": info.created,
        "status": status,
        "background": info.background,
        "error": None if error is None else {"code": error.code or "server_error", "message": str(error)},
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": info.instructions or None,
        "max_output_tokens": None,
        "metadata": info.metadata,
        "model": info.model,
        "output": [
            *([build_message_item(item_id, text, _ITEM_STATES.get(status, "in_progress"))] if text else []),
            *(build_call_item(call, make_item_id("fc", info.id, index)) for index, call in enumerate(calls)),
        ],
        "parallel_tool_calls": True,
        "previous_response_id": info.previous or None,
        "reasoning": {"effort": None, "summary": None},
        "store": info.store,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None if ended is None else TokenCounts.from_usage(ended.usage),
        "user": info.user or None,
    }
    return body


def response_status(ended: TurnEnded) -> str:
    """Return the status of a response that has an answer."""
    if ended.reason is ExitReason.INTERRUPTED:
        return "cancelled"
    return "completed" if ended.reason is ExitReason.CALLER_TOOLS or ended.reason.is_completed else "incomplete"


def build_message_item(item_id: str, text: str, status: str) -> JsonBody:
    """Build the output item that holds the answer."""
    return {
        "id": item_id,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [build_text_part(text)] if text else [],
    }


def make_item_id(prefix: str, response_id: str, index: int = 0) -> str:
    """Return the id of an output item of a response, by which later requests may refer to it."""
    return f"{prefix}_{response_id.partition('_')[2]}_{index}"


def build_call_item(call: ToolCallPart, item_id: str, *, begun: bool = False) -> JsonBody:
    """Build the output item of a call that the caller is to run; with `begun` as it is before its arguments."""
    return {
        "id": item_id,
        "type": "function_call",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": "" if begun else call.arguments or "{}",
        "status": "in_progress" if begun else "completed",
    }


def build_text_part(text: str) -> JsonBody:
    """Build the content part with the answer's text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class ResponseEventEncoder:
    """Encodes the numbered events of one streamed response."""

    def __init__(self, item_id: str) -> None:
        self._item_id = item_id
        self._number = -1

    def encode_response(self, kind: str, body: JsonBody) -> bytes:
        """Return an event that carries the response object."""
        return self._encode_event(kind, {"response": body})

    def encode_begin(self) -> bytes:
        """Return the events that begin the message."""
        item = build_message_item(self._item_id, "", "in_progress")
        added = self._encode_event("response.output_item.added", {"output_index": 0, "item": item})
        return added + self._encode_event(
            "response.content_part.added", {**self._position, "part": build_text_part("")}
        )

    def encode_delta(self, text: str) -> bytes:
        """Return an event with more text."""
        return self._encode_event("response.output_text.delta", {**self._position, "delta": text, "logprobs": []})

    def encode_end(self, text: str, status: str) -> bytes:
        """Return the events that end the message."""
        done = self._encode_event("response.output_text.done", {**self._position, "text": text, "logprobs": []})
        done += self._encode_event("response.content_part.done", {**self._position, "part": build_text_part(text)})
        item = build_message_item(self._item_id, text, status)
        return done + self._encode_event("response.output_item.done", {"output_index": 0, "item": item})

    def encode_call(self, call: ToolCallPart, item_id: str, index: int) -> bytes:
        """Return the events of a call that the caller is to run; `index` is its place in the output."""
        item, place = build_call_item(call, item_id), {"output_index": index}
        about = {**place, "item_id": item_id}
        empty = build_call_item(call, item_id, begun=True)
        begun = self._encode_event("response.output_item.added", {**place, "item": empty})
        begun += self._encode_event("response.function_call_arguments.delta", {**about, "delta": item["arguments"]})
        done = {**about, "name": call.name, "arguments": item["arguments"]}
        begun += self._encode_event("response.function_call_arguments.done", done)
        return begun + self._encode_event("response.output_item.done", {**place, "item": item})

    def encode_other(self, kind: str, body: JsonBody) -> bytes:
        """Return an event of Hermes' own."""
        return self._encode_event(kind, body)

    @property
    def _position(self) -> JsonBody:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}

    def _encode_event(self, kind: str, body: JsonBody) -> bytes:
        self._number += 1
        data = to_json({"type": kind, "sequence_number": self._number, **body})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def new_id(prefix: str) -> str:
    """Return a random id that cannot be guessed."""
    return f"{prefix}_{secrets.token_hex(16)}"


class ResponseRequest(Struct, frozen=True):
    """The body of a request; fields that are not named here are ignored."""

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


class ParsedResponseRequest(Struct, frozen=True, kw_only=True):
    """A request that passed all checks."""

    caller: ApiCaller
    parsed: ParsedConversation
    files: Sequence[UploadedFile]
    info: ResponseInfo
    session: ApiSession
    with_events: bool
    schema: "AnswerSchema | None" = None
    """The form that the answer must have."""


class PendingResponse(Struct, frozen=True, eq=False):
    """A response that is being made."""

    request: ParsedResponseRequest
    turn_stream: TurnStream
    item_id: str
    ended: asyncio.Event

    @property
    def turn(self) -> ApiTurn:
        """The turn that makes it."""
        return self.turn_stream.turn


class ResponseRoutes:
    """The handlers, and the responses that are being made."""

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self._store = deps.app.services.store
        self._live: dict[tuple[str, str], PendingResponse] = {}
        self._tasks: set[asyncio.Task[JsonBody]] = set()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes and their handlers."""
        return [
            web.post("/v1/responses", self._create_response),
            web.get("/v1/responses/{id}", self._get_response),
            web.delete("/v1/responses/{id}", self._delete_response),
            web.post("/v1/responses/{id}/cancel", self._cancel_response),
        ]

    async def close(self) -> None:
        """Stop waiting for responses that are being made; the next start stores them as failed."""
        await cancel_tasks(self._tasks)

    async def _create_response(self, request: web.Request) -> web.StreamResponse:
        caller = caller_of(request)
        caller.require_scope(ApiScope.CHAT)
        await self._deps.admit_turn(caller)
        asked = await self._deps.reader.read_value(request, ResponseRequest)
        if asked.background:
            return await self._start_background(request, caller, asked)
        with self._deps.slots.take_slot(caller):
            order = await self._parse_request(request, caller, asked)
            work = await self._begin_response(order)
            headers = {SESSION_HEADER: order.session.name}
            try:
                with stop_when_abandoned(work.turn_stream):
                    if asked.stream:
                        return await self._stream_response(request, work, headers)
                    body = await self._finish_response(work)
            finally:
                self._end_response(work)
            return json_response(body, headers=headers)

    async def _start_background(self, request: web.Request, caller: ApiCaller, asked: ResponseRequest) -> web.Response:
        """Start a response, and return it at once; the client polls for it."""
        if asked.stream or asked.store is False:
            raise ApiRequestError(400, "A response in the background is stored, and not streamed.", param="background")
        if len(self._tasks) >= _MAX_BACKGROUND:
            raise ApiRequestError(429, "Too many responses are being made.", headers={"Retry-After": "5"})
        order = await self._parse_request(request, caller, asked)
        begun: asyncio.Future[PendingResponse] = asyncio.get_running_loop().create_future()

        async def make_response() -> JsonBody:
            with self._deps.slots.take_slot(caller):
                try:
                    work = await self._begin_response(order)
                    await self._store_response(work, build_response(order.info, "in_progress"), "in_progress")
                except BaseException as error:
                    if not begun.done():
                        begun.set_exception(error if isinstance(error, Exception) else NotFoundError("It was stopped."))
                    raise
                begun.set_result(work)
                try:
                    return await self._finish_response(work)
                finally:
                    self._end_response(work)

        task = asyncio.create_task(make_response(), name=f"response {order.info.id}")
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        await asyncio.shield(begun)
        return json_response(build_response(order.info, "queued"), headers={SESSION_HEADER: order.session.name})

    def _on_task_done(self, task: "asyncio.Task[JsonBody]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # it stands in the response that is stored

    async def _begin_response(self, order: ParsedResponseRequest) -> PendingResponse:
        turn = await begin_turn(self._deps, order.session, order.parsed, order.files, order.schema)
        work = PendingResponse(order, turn, make_item_id("msg", order.info.id), asyncio.Event())
        self._live[order.caller.name, order.info.id] = work
        return work

    def _end_response(self, work: PendingResponse) -> None:
        self._live.pop((work.request.caller.name, work.request.info.id), None)
        work.ended.set()

    async def _finish_response(self, work: PendingResponse) -> JsonBody:
        """Wait for the response, store it and return it. Raises ApiRequestError where there is no answer."""
        ended, text = await work.turn_stream.wait_answer()
        failure = turn_failure(ended)
        about = work.request.info
        if failure is not None and about.background:
            state = "cancelled" if failure.code == "stopped" else "failed"
            body = build_response(about, state, ended=ended, error=failure)
            await self._store_response(work, body, state)
            return body
        if failure is not None:
            raise failure
        body = build_response(
            about, response_status(ended), text=text, item_id=work.item_id, ended=ended, calls=work.turn.open_calls
        )
        await self._store_response(work, body, response_status(ended))
        return body

    async def _stream_response(
        self, request: web.Request, work: PendingResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        events, about, turn_stream = ResponseEventEncoder(work.item_id), work.request.info, work.turn_stream
        async with EventStreamResponse(request, headers) as stream:
            begun = build_response(about, "in_progress")
            await stream.send(
                events.encode_response("response.created", begun)
                + events.encode_response("response.in_progress", begun)
            )
            try:
                async for piece in turn_stream.iter_pieces(KEEP_ALIVE_SECONDS):
                    if isinstance(piece, str):
                        first = events.encode_begin() if len(turn_stream.text) == len(piece) else b""
                        await stream.send(first + events.encode_delta(piece))
                    elif piece is None:
                        await stream.send(KEEP_ALIVE)
                    elif work.request.with_events and isinstance(piece, ToolStarted | ToolEnded | Refused):
                        await stream.send(events.encode_other("hermes.event", {"event": piece}))
                await stream.send(await self._finish_stream(events, turn_stream, work))
            except HermesError as error:
                failed = build_response(about, "failed", error=to_api_error(error))
                await stream.send(events.encode_response("response.failed", failed))
            return stream.response

    async def _finish_stream(
        self, events: ResponseEventEncoder, turn_stream: TurnStream, work: PendingResponse
    ) -> bytes:
        """Return the last events; the response is stored before them."""
        ended, about = turn_stream.ended, work.request.info
        assert ended is not None
        failure = turn_failure(ended) if not turn_stream.text else None
        if failure is not None:
            return events.encode_response(
                "response.failed", build_response(about, "failed", ended=ended, error=failure)
            )
        state = response_status(ended)
        body = build_response(
            about, state, text=turn_stream.text, item_id=work.item_id, ended=ended, calls=work.turn.open_calls
        )
        await self._store_response(work, body, state)
        last = (
            events.encode_end(turn_stream.text, "completed" if state == "completed" else "incomplete")
            if turn_stream.text
            else b""
        )
        shown = 1 if turn_stream.text else 0
        for index, call in enumerate(work.turn.open_calls):
            last += events.encode_call(call, make_item_id("fc", about.id, index), shown + index)
        return last + events.encode_response(
            "response.completed" if state == "completed" else "response.incomplete", body
        )

    async def _store_response(self, work: PendingResponse, body: JsonBody, state: str) -> None:
        """Store the response, and note its session's state after it."""
        order = work.request
        if not order.info.store:
            await mark_session(self._deps, order.session, order.parsed, _response_text(body), work.turn.open_calls)
            return
        stored = StoredResponse(
            id=order.info.id,
            session_id=order.session.request.session_id,
            turn_id=work.turn.turn_id,
            state=state,
            body=to_json(body),
        )
        await self._store.api.store_response(order.caller.owner, stored)
        if state != "in_progress":
            text = _response_text(body)
            mark = (
                order.parsed.mark_after_answer(text, work.turn.open_calls) if order.session.found_by_history else None
            )
            await self._store.api.mark_session(order.caller.owner, order.session.name, mark=mark, answer=order.info.id)

    async def _parse_request(
        self, request: web.Request, caller: ApiCaller, asked: ResponseRequest
    ) -> ParsedResponseRequest:
        model = self._deps.sessions.resolve_model(asked.model)
        said, files = parse_input(await self._resolve_references(caller, asked.input), asked.instructions)
        tools = parse_tools(asked.tools, asked.tool_choice)
        said = add_tool_choice(said, tools, asked.tool_choice)
        schema = await _parse_schema(asked)
        about = _make_info(asked, int(self._deps.current_time()))
        name = request.headers.get(SESSION_HEADER) or _named_session(asked)
        room = await self._find_session(caller, about, name, said, SessionExtras(said.system, model, tools))
        events = request.headers.get(EVENTS_HEADER) == "1"
        return ParsedResponseRequest(
            caller=caller, parsed=said, files=files, info=about, session=room, with_events=events, schema=schema
        )

    async def _resolve_references(self, caller: ApiCaller, given: str | list[object]) -> str | list[object]:
        """Return the input with the items of earlier responses in the place of references to them.

        Raises ApiRequestError for an item that is not stored.
        """
        if isinstance(given, str):
            return given
        items: list[object] = []
        outputs: dict[str, Sequence[dict[str, object]]] = {}
        size = 0
        for item in given:
            if not isinstance(item, dict) or item.get("type") != "item_reference":
                items.append(item)
                continue
            wanted = str(item.get("id"))
            response_id = f"resp_{''.join(wanted.split('_')[1:2])}"
            if response_id not in outputs:
                outputs[response_id] = await self._read_output(caller, response_id)
            found = next((one for one in outputs[response_id] if one.get("id") == wanted), None)
            if found is None:
                raise ApiRequestError(404, f"Item with id {wanted[:80]!r} not found.", param="input")
            size += len(to_json(found))
            if size > self._deps.options.body_limit:
                raise ApiRequestError(413, "The items that are referred to are too large together.", param="input")
            items.append(found)
        return items

    async def _read_output(self, caller: ApiCaller, response_id: str) -> Sequence[dict[str, object]]:
        """Return the output items of a response of this caller; none where it is not stored."""
        known = await self._store.api.get_response(caller.owner, response_id)
        output = msgspec.json.decode(known.body, type=dict[str, object])["output"] if known is not None else []
        return msgspec.convert(output, list[dict[str, object]])

    async def _find_session(
        self, caller: ApiCaller, info: ResponseInfo, name: str, parsed: ParsedConversation, extras: SessionExtras
    ) -> ApiSession:
        """Return the session in which a request continues."""
        if info.previous and name:
            raise ApiRequestError(400, "Name a session or a previous response, not both.", param="previous_response_id")
        if info.previous:
            return await self._continue_from(caller, info.previous, extras)
        if name:
            return await self._deps.sessions.find_or_create(caller, name, extras, history=parsed.before)
        return await self._deps.sessions.find_by_history(caller, parsed, extras)

    async def _continue_from(self, caller: ApiCaller, response_id: str, extras: SessionExtras) -> ApiSession:
        """Return the session that continues a response: its own where nothing was said since, else a branch of it."""
        rooms = self._deps.sessions
        taken = await self._store.api.take_session(caller.owner, answer=response_id)
        if taken is not None:
            return rooms.make_session(caller, *taken, extras)
        known = await self._store.api.get_response(caller.owner, response_id)
        if known is None or not known.turn_id:
            raise ApiRequestError(
                404,
                f"Previous response with id {response_id[:80]!r} not found.",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        turns = [one.turn_id for one in await self._store.undo.list_last_turns(known.session_id, 1_000_000)]
        if known.turn_id not in turns:
            raise ApiRequestError(
                404, "What was said before that response was taken back.", param="previous_response_id"
            )
        name = rooms.fresh_session_id()
        await self._store.branches.create(known.session_id, name, turns=turns.index(known.turn_id) + 1)
        await self._store.api.bind_session(caller.owner, name, name)
        return rooms.make_session(caller, name, name, extras)

    async def _get_response(self, request: web.Request) -> web.Response:
        found = await self._find_response(request)
        return web.Response(body=found.body, content_type="application/json")

    async def _delete_response(self, request: web.Request) -> web.Response:
        found = await self._find_response(request)
        await self._store.api.delete_response(caller_of(request).owner, found.id)
        return json_response({"id": found.id, "object": "response", "deleted": True})

    async def _cancel_response(self, request: web.Request) -> web.Response:
        """Stop a response that is being made; return it as it is then."""
        caller = caller_of(request)
        caller.require_scope(ApiScope.CHAT)
        work = self._live.get((caller.name, request.match_info["id"]))
        if work is not None:
            work.turn.stop()
            await work.ended.wait()
        return await self._get_response(request)

    async def _find_response(self, request: web.Request) -> StoredResponse:
        caller = caller_of(request)
        caller.require_scope(ApiScope.CHAT)
        found = await self._store.api.get_response(caller.owner, request.match_info["id"])
        if found is None:
            raise ApiRequestError(404, f"Response with id {request.match_info['id'][:80]!r} not found.", param="id")
        return found


def _response_text(body: JsonBody) -> str:
    """Return the text of a response object."""
    return "".join(
        str(part["text"])
        for item in msgspec.convert(body["output"], list[dict[str, object]])
        for part in msgspec.convert(item.get("content", []), list[dict[str, object]])
    )


def _make_info(asked: ResponseRequest, now: int) -> ResponseInfo:
    return ResponseInfo(
        id=new_id("resp"),
        created=now,
        model=asked.model or DEFAULT_MODEL_NAMES[0],
        instructions=asked.instructions or "",
        previous=asked.previous_response_id or "",
        metadata=asked.metadata or {},
        user=asked.user or "",
        store=asked.store is not False,
        background=bool(asked.background),
    )


def _named_session(asked: ResponseRequest) -> str:
    """Return the session that the body names; empty where it names none."""
    named = asked.conversation.get("id") if isinstance(asked.conversation, dict) else asked.conversation
    return str(named or (asked.metadata or {}).get("session_id") or "")


async def _parse_schema(asked: ResponseRequest) -> "AnswerSchema | None":
    """Return the form that the answer must have; None for text. Raises ApiRequestError for what is no JSON Schema."""
    if not asked.text or not asked.text.get("format"):
        return None
    from hermes.gateway.platforms.api_server.answer_format import parse_answer_format

    return await parse_answer_format(asked.text["format"], "text.format")
