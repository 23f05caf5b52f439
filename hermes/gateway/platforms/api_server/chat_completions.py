"""`/v1/chat/completions`, streamed and whole: https://platform.openai.com/docs/api-reference/chat"""

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiohttp import web
from msgspec import Struct, structs

from hermes.core.encoding import to_json
from hermes.core.errors import HermesError
from hermes.core.events import Event, Refused, ToolEnded, ToolStarted, TurnEnded
from hermes.core.messages import ToolCallPart
from hermes.core.outcomes import ExitReason
from hermes.core.usage import Usage
from hermes.gateway.platforms.api_server.deps import ApiDeps
from hermes.gateway.platforms.api_server.errors import ApiRequestError, check_supported, to_api_error, turn_failure
from hermes.gateway.platforms.api_server.keys import ApiCaller, ApiScope
from hermes.gateway.platforms.api_server.messages import UploadedFile, parse_conversation
from hermes.gateway.platforms.api_server.requests import (
    DONE,
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
from hermes.gateway.platforms.api_server.turns import TurnStream, stop_when_abandoned

if TYPE_CHECKING:
    from hermes.sessions.answer_schema import AnswerSchema

SESSION_HEADER = "X-Hermes-Session-Id"
EVENTS_HEADER = "X-Hermes-Events"


class StreamOptions(Struct, frozen=True):
    """The stream options of a request."""

    include_usage: bool | None = False


class ChatRequest(Struct, frozen=True):
    """The body of a request; fields that are not named here are ignored."""

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


class ParsedChatRequest(Struct, frozen=True, kw_only=True):
    """A request that passed all checks."""

    caller: ApiCaller
    parsed: ParsedConversation
    files: list[UploadedFile]
    extras: SessionExtras
    model: str
    """The model's name in the answer."""
    name: str
    """The name of the session; empty: the one whose messages are the same."""
    stream: bool = False
    with_usage: bool = False
    with_events: bool = False
    schema: "AnswerSchema | None" = None
    """The form that the answer must have."""


class ChatCompletionsHandler:
    """The handler of chat completions."""

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps

    async def handle_completion(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        caller = caller_of(request)
        caller.require_scope(ApiScope.CHAT)
        await self._deps.admit_turn(caller)
        asked = await self._deps.reader.read_value(request, ChatRequest)
        order = self._parse_request(request, caller, asked)
        if asked.response_format is not None:
            from hermes.gateway.platforms.api_server.answer_format import parse_answer_format

            schema = await parse_answer_format(asked.response_format, "response_format")
            order = structs.replace(order, schema=schema)
        with self._deps.slots.take_slot(caller):
            room = await self._find_session(order)
            turn = await begin_turn(self._deps, room, order.parsed, order.files, order.schema)
            about = {SESSION_HEADER: room.name}
            with stop_when_abandoned(turn):
                if order.stream:
                    return await self._send_stream(request, order, room, turn, about)
                return await self._send_whole(order, room, turn, about)

    async def _send_whole(
        self, parsed: ParsedChatRequest, session: ApiSession, turn_stream: TurnStream, headers: dict[str, str]
    ) -> web.Response:
        ended, text = await turn_stream.wait_answer()
        failure = turn_failure(ended)
        if failure is not None:
            raise failure
        calls = turn_stream.turn.open_calls
        await mark_session(self._deps, session, parsed.parsed, text, calls)
        message: dict[str, object] = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
        if calls:
            message |= {"content": text or None, "tool_calls": [format_call(call) for call in calls]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(ended)}
        body = {
            "id": _new_completion_id(),
            "object": "chat.completion",
            "created": int(self._deps.current_time()),
            "model": parsed.model,
            "choices": [choice],
            "usage": format_chat_usage(ended.usage),
        }
        if parsed.with_events and ended.error:
            body["hermes"] = {"reason": ended.reason.value, "error": ended.error}
        return json_response(body, headers=headers)

    async def _send_stream(
        self,
        request: web.Request,
        parsed: ParsedChatRequest,
        session: ApiSession,
        turn_stream: TurnStream,
        headers: dict[str, str],
    ) -> web.StreamResponse:
        wire = ChatChunkEncoder(parsed.model, int(self._deps.current_time()), usage=parsed.with_usage)
        async with EventStreamResponse(request, headers) as stream:
            await stream.send(wire.first_chunk)
            try:
                async for piece in turn_stream.iter_pieces(KEEP_ALIVE_SECONDS):
                    if isinstance(piece, str):
                        await stream.send(wire.encode_text(piece))
                    elif piece is None:
                        await stream.send(KEEP_ALIVE)
                    elif parsed.with_events and isinstance(piece, ToolStarted | ToolEnded | Refused):
                        await stream.send(wire.encode_event(piece))
                await stream.send(await self._finish_stream(wire, turn_stream, parsed, session))
            except HermesError as error:
                await stream.send(encode_error(to_api_error(error)) + DONE)
            return stream.response

    async def _finish_stream(
        self, encoder: "ChatChunkEncoder", turn_stream: TurnStream, parsed: ParsedChatRequest, session: ApiSession
    ) -> bytes:
        """Return the last chunks. The session's state is stored before them: the next request may follow at once."""
        ended = turn_stream.ended
        assert ended is not None
        failure = turn_failure(ended) if not turn_stream.text else None
        if failure is not None:
            return encode_error(failure) + DONE
        calls = turn_stream.turn.open_calls
        await mark_session(self._deps, session, parsed.parsed, turn_stream.text, calls)
        return encoder.encode_calls(calls) + encoder.encode_end(finish_reason(ended), ended.usage) + DONE

    async def _find_session(self, parsed: ParsedChatRequest) -> ApiSession:
        rooms = self._deps.sessions
        if parsed.name:
            return await rooms.find_or_create(parsed.caller, parsed.name, parsed.extras, history=parsed.parsed.before)
        return await rooms.find_by_history(parsed.caller, parsed.parsed, parsed.extras)

    def _parse_request(self, request: web.Request, caller: ApiCaller, asked: ChatRequest) -> ParsedChatRequest:
        """Parse a request. Raises ApiRequestError for what the agent cannot do, rather than ignoring it."""
        _check_supported(asked)
        model = self._deps.sessions.resolve_model(asked.model)
        said, files = parse_conversation(asked.messages)
        tools = parse_tools(asked.tools, asked.tool_choice)
        said = add_tool_choice(said, tools, asked.tool_choice)
        named = request.headers.get(SESSION_HEADER) or (asked.metadata or {}).get("session_id") or ""
        if not named and not said.before:
            named = asked.user or ""
        return ParsedChatRequest(
            caller=caller,
            parsed=said,
            files=files,
            extras=SessionExtras(said.system, model, tools),
            model=asked.model or DEFAULT_MODEL_NAMES[0],
            name=str(named),
            stream=bool(asked.stream),
            with_usage=bool(asked.stream_options and asked.stream_options.include_usage),
            with_events=request.headers.get(EVENTS_HEADER) == "1",
        )


class ChatChunkEncoder:
    """Encodes the chunks of one streamed answer."""

    def __init__(self, model: str, created: int, *, usage: bool) -> None:
        about = {"id": _new_completion_id(), "object": "chat.completion.chunk", "created": created, "model": model}
        self._head = b"data: " + to_json(about)[:-1]
        self._null_usage = b',"usage":null' if usage else b""
        self._usage = usage

    @property
    def first_chunk(self) -> bytes:
        """The chunk that names the role."""
        return self._encode_chunk(b'{"role":"assistant","content":"","refusal":null}')

    def encode_text(self, text: str) -> bytes:
        """Return a chunk with more text."""
        return self._encode_chunk(b'{"content":' + to_json(text) + b"}")

    def encode_event(self, event: Event) -> bytes:
        """Return a chunk with another event, in a field of Hermes' own."""
        return self._head + b',"choices":[],"hermes":' + to_json(event) + b"}\n\n"

    def encode_calls(self, calls: Sequence[ToolCallPart]) -> bytes:
        """Return a chunk with the calls that the caller is to run; empty without any."""
        listed = [{"index": index, **format_call(call)} for index, call in enumerate(calls)]
        return self._encode_chunk(to_json({"tool_calls": listed})) if listed else b""

    def encode_end(self, finish: str, usage: Usage) -> bytes:
        """Return the last chunk, and one with the usage where it was asked for."""
        last = self._encode_chunk(b"{}", finish)
        if self._usage:
            last += self._head + b',"choices":[],"usage":' + to_json(format_chat_usage(usage)) + b"}\n\n"
        return last

    def _encode_chunk(self, delta: bytes, finish: str = "") -> bytes:
        why = b'"%b"' % finish.encode() if finish else b"null"
        return b'%b,"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]%b}\n\n' % (
            self._head,
            delta,
            why,
            self._null_usage,
        )


def encode_error(error: ApiRequestError) -> bytes:
    """Return a chunk with an error."""
    return b"data: " + to_json(error.body) + b"\n\n"


async def begin_turn(
    deps: ApiDeps,
    session: ApiSession,
    parsed: ParsedConversation,
    files: Sequence[UploadedFile],
    schema: "AnswerSchema | None" = None,
) -> TurnStream:
    """Post the request's message to its session; nobody is there to answer questions. Raises HermesError."""
    message = await deps.build_message(session.caller, parsed, files)
    if schema is None:
        return TurnStream(await deps.post_message(session, message))
    from hermes.gateway.platforms.api_server.answer_format import FormattedTurnStream

    return FormattedTurnStream(
        deps, session, await deps.post_message(session, schema.add_instructions(message)), schema
    )


def format_call(call: ToolCallPart) -> dict[str, object]:
    """Return a call that the caller is to run, as OpenAI's clients expect it."""
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": call.call_id, "type": "function", "function": function}


async def mark_session(
    deps: ApiDeps, session: ApiSession, parsed: ParsedConversation, text: str, calls: Sequence[ToolCallPart] = ()
) -> None:
    """Store the hash of the session's state now, for programs that send the whole conversation each time."""
    if session.found_by_history:
        store = deps.app.services.store
        await store.api.mark_session(session.caller.owner, session.name, mark=parsed.mark_after_answer(text, calls))


def finish_reason(ended: TurnEnded) -> str:
    """Return OpenAI's `finish_reason` of a turn."""
    match ended.reason:
        case ExitReason.CALLER_TOOLS:
            return "tool_calls"
        case ExitReason.TRUNCATED | ExitReason.BUDGET_EXHAUSTED | ExitReason.GUARDRAIL_HALT | ExitReason.PARTIAL_STREAM:
            return "length"
        case _:
            return "stop"


def format_chat_usage(usage: Usage) -> dict[str, object]:
    """Return the tokens of all model calls of the turn, in the form of chat completions."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    }


def _check_supported(asked: ChatRequest) -> None:
    """Raise ApiRequestError for options that would otherwise be ignored silently."""
    check_supported(
        (
            ("n", (asked.n or 1) != 1, "One answer is given; `n` must be 1."),
            ("functions", bool(asked.functions), "Functions are taken as `tools`."),
            ("logprobs", bool(asked.logprobs), "An agent's answer has no log probabilities."),
            ("modalities", asked.modalities not in (None, [], ["text"]), "Answers are text."),
            ("stop", bool(asked.stop), "Stop sequences are not supported."),
        )
    )


def _new_completion_id() -> str:
    return f"chatcmpl-{secrets.token_hex(12)}"
