"""`/v1/chat/completions`: https://platform.openai.com/docs/api-reference/chat, streamed and whole."""

import asyncio
import secrets
from collections.abc import Sequence

import msgspec
from aiohttp import web
from msgspec import Struct

from hermes.core.errors import HermesError
from hermes.core.events import Event, Refused, ToolEnded, ToolStarted, TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.core.usage import Usage
from hermes.gateway.platforms.api_server.context import Base
from hermes.gateway.platforms.api_server.errors import ApiError, as_api, failure_of
from hermes.gateway.platforms.api_server.event_stream import DONE, KEEP, KEEP_SECONDS, Stream
from hermes.gateway.platforms.api_server.keys import Caller
from hermes.gateway.platforms.api_server.message_input import SentFile, conversation, inbound
from hermes.gateway.platforms.api_server.options import Scope
from hermes.gateway.platforms.api_server.request_body import answer, caller_of
from hermes.gateway.platforms.api_server.session_lookup import OURS, Extra, Room, Said
from hermes.gateway.platforms.api_server.turns import Speech, Turn
from hermes.runtime.actor import SessionActor

SESSION_HEADER = "X-Hermes-Session-Id"
EVENTS_HEADER = "X-Hermes-Events"


class StreamOptions(Struct, frozen=True):
    """What a stream is to hold."""

    include_usage: bool | None = False


class ChatRequest(Struct, frozen=True):
    """A request, as far as it is looked at."""

    messages: list[object]
    model: str = ""
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    user: str | None = ""
    metadata: dict[str, object] | None = None
    tools: list[object] | None = None
    functions: list[object] | None = None
    tool_choice: object = None
    response_format: dict[str, object] | None = None
    logprobs: bool | None = False
    modalities: list[str] | None = None
    stop: object = None


class Order(Struct, frozen=True, kw_only=True):
    """A request that was understood."""

    caller: Caller
    said: Said
    files: list[SentFile]
    extra: Extra
    model: str
    """What the answer calls it."""
    name: str
    """The session that it names; empty: the one in which just that was said."""
    stream: bool = False
    usage: bool = False
    events: bool = False


class Chat:
    """The handler."""

    def __init__(self, base: Base) -> None:
        self._base = base

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """One answer."""
        caller = caller_of(request)
        caller.need(Scope.CHAT)
        await self._base.admit(caller)
        asked = await self._base.reader.body(request, ChatRequest)
        order = self._order(request, caller, asked)
        with self._base.seats.seat(caller):
            room = await self._room(order)
            turn = await begun(self._base, room, order.said, order.files)
            about = {SESSION_HEADER: room.name}
            try:
                if order.stream:
                    return await self._streamed(request, order, room, turn, about)
                return await self._whole(order, room, turn, about)
            except (asyncio.CancelledError, ConnectionError):
                turn.stop()
                raise

    async def _whole(self, order: Order, room: Room, turn: Turn, headers: dict[str, str]) -> web.Response:
        ended = await turn.result()
        failure = failure_of(ended)
        if failure is not None:
            raise failure
        text = turn.outlet().whole(ended.text)
        await marked(self._base, room, order.said, text)
        message: dict[str, object] = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_of(ended)}
        body = {
            "id": _fresh_id(),
            "object": "chat.completion",
            "created": int(self._base.now()),
            "model": order.model,
            "choices": [choice],
            "usage": usage_of(ended.usage),
        }
        if order.events and ended.error:
            body["hermes"] = {"reason": ended.reason.value, "error": ended.error}
        return answer(body, headers=headers)

    async def _streamed(
        self, request: web.Request, order: Order, room: Room, turn: Turn, headers: dict[str, str]
    ) -> web.StreamResponse:
        wire = Chunks(order.model, int(self._base.now()), usage=order.usage)
        speech = Speech(turn)
        async with Stream(request, headers) as stream:
            await stream.send(wire.first)
            try:
                async for piece in speech.pieces(KEEP_SECONDS):
                    if isinstance(piece, str):
                        await stream.send(wire.text(piece))
                    elif piece is None:
                        await stream.send(KEEP)
                    elif order.events and isinstance(piece, ToolStarted | ToolEnded | Refused):
                        await stream.send(wire.event(piece))
                await stream.send(await self._end(wire, speech, order, room))
            except HermesError as error:
                await stream.send(failed(as_api(error)) + DONE)
            return stream.response

    async def _end(self, wire: "Chunks", speech: Speech, order: Order, room: Room) -> bytes:
        """The last events. The session is marked before them: the next request may follow at once."""
        ended = speech.ended
        assert ended is not None
        failure = failure_of(ended) if not speech.text else None
        if failure is not None:
            return failed(failure) + DONE
        await marked(self._base, room, order.said, speech.text)
        return wire.end(finish_of(ended), ended.usage) + DONE

    async def _room(self, order: Order) -> Room:
        rooms = self._base.rooms
        if order.name:
            return await rooms.named(order.caller, order.name, order.extra, history=order.said.before)
        return await rooms.of_said(order.caller, order.said, order.extra)

    def _order(self, request: web.Request, caller: Caller, asked: ChatRequest) -> Order:
        """What is asked for. Raises ApiError for what the agent cannot do, rather than leaving it out."""
        _check(asked)
        model = self._base.rooms.model(asked.model)
        said, files = conversation(asked.messages)
        named = request.headers.get(SESSION_HEADER) or (asked.metadata or {}).get("session_id") or ""
        if not named and not said.before:
            named = asked.user or ""
        return Order(
            caller=caller,
            said=said,
            files=files,
            extra=Extra(said.system, model),
            model=asked.model or OURS[0],
            name=str(named),
            stream=bool(asked.stream),
            usage=bool(asked.stream_options and asked.stream_options.include_usage),
            events=request.headers.get(EVENTS_HEADER) == "1",
        )


class Chunks:
    """The events of one streamed answer."""

    def __init__(self, model: str, created: int, *, usage: bool) -> None:
        about = {"id": _fresh_id(), "object": "chat.completion.chunk", "created": created, "model": model}
        self._head = b"data: " + msgspec.json.encode(about)[:-1]
        self._none = b',"usage":null' if usage else b""
        self._usage = usage

    @property
    def first(self) -> bytes:
        """Who speaks."""
        return self._chunk(b'{"role":"assistant","content":"","refusal":null}')

    def text(self, text: str) -> bytes:
        """More text."""
        return self._chunk(b'{"content":' + msgspec.json.encode(text) + b"}")

    def event(self, event: Event) -> bytes:
        """Something else that happens, in a field of Hermes' own."""
        return self._head + b',"choices":[],"hermes":' + msgspec.json.encode(event) + b"}\n\n"

    def end(self, finish: str, usage: Usage) -> bytes:
        """The end, and what it took where that was asked for."""
        last = self._chunk(b"{}", finish)
        if self._usage:
            last += self._head + b',"choices":[],"usage":' + msgspec.json.encode(usage_of(usage)) + b"}\n\n"
        return last

    def _chunk(self, delta: bytes, finish: str = "") -> bytes:
        why = b'"%b"' % finish.encode() if finish else b"null"
        return b'%b,"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]%b}\n\n' % (
            self._head,
            delta,
            why,
            self._none,
        )


def failed(error: ApiError) -> bytes:
    """An error inside a stream."""
    return b"data: " + msgspec.json.encode(error.body) + b"\n\n"


async def begun(base: Base, room: Room, said: Said, files: Sequence[SentFile]) -> Turn:
    """Say to the session what is said now; nobody is there to answer its questions. Raises HermesError."""
    person = room.caller.person
    letter = await inbound(said, files, base.rooms.received(person, base.media), base.rooms.cwd(person))

    async def post(actor: SessionActor) -> "asyncio.Future[TurnEnded]":
        await base.rooms.bind(room, actor)
        await base.note(room.caller, actor.session_id)
        return actor.post(letter)

    return await base.turns.begin(room.wish, post)


async def marked(base: Base, room: Room, said: Said, text: str) -> None:
    """Note in which state the session is now, for a program that sends the whole conversation each time."""
    if room.told:
        store = base.app.premises.store
        await store.chats.mark_api_session(room.caller.owner, room.name, mark=said.mark_after(text))


def finish_of(ended: TurnEnded) -> str:
    """Why the answer ends, in OpenAI's words."""
    match ended.reason:
        case ExitReason.TRUNCATED | ExitReason.BUDGET_EXHAUSTED | ExitReason.PARTIAL_STREAM:
            return "length"
        case _:
            return "stop"


def usage_of(usage: Usage) -> dict[str, object]:
    """Tokens in the form of chat completions: of all the model calls of the turn together."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    }


def _check(asked: ChatRequest) -> None:
    """Refuse what would be left out without a word."""
    shape = (asked.response_format or {}).get("type", "text")
    wrong = (
        ("n", (asked.n or 1) != 1, "One answer is given; `n` must be 1."),
        ("tools", bool(asked.tools or asked.functions), "Hermes has tools of its own and runs none of the caller's."),
        ("tool_choice", asked.tool_choice not in (None, "auto", "none"), "The agent chooses its tools by itself."),
        ("response_format", shape != "text", "Answers are text; no other format can be promised."),
        ("logprobs", bool(asked.logprobs), "An agent's answer has no log probabilities."),
        ("modalities", asked.modalities not in (None, [], ["text"]), "Answers are text."),
        ("stop", bool(asked.stop), "Stop sequences are not supported."),
    )
    for param, is_wrong, why in wrong:
        if is_wrong:
            raise ApiError(400, why, param=param, code="unsupported_parameter")


def _fresh_id() -> str:
    return f"chatcmpl-{secrets.token_hex(12)}"
