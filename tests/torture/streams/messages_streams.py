"""Streams of Anthropic's format: its own, and those of the vendors and servers that speak it.

Sources: the API reference, chapters Streaming, Extended thinking, Web search and Citations. The words are ours.
"""

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Self

from msgspec import Struct

from hermes.core.messages import FinishReason
from hermes.core.outcomes import FailureKind as Kind
from hermes.core.usage import Usage
from tests.torture.streams.chat_oddities import FRAMINGS
from tests.torture.streams.chat_stream import BARE, CALL, SECOND, TEXT, THOUGHTS
from tests.torture.streams.stream_case import JSON_BODY, Framing, Json, SaidCall, SaidEvent, StreamCase, dump, say

_START: Json = MappingProxyType(
    {
        "input_tokens": 25,
        "cache_creation_input_tokens": 7,
        "cache_read_input_tokens": 60,
        "output_tokens": 1,
        "service_tier": "standard",
    }
)
_END: Json = MappingProxyType({"output_tokens": 40})
_OVERLOADED: Json = MappingProxyType(
    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}
)
_ORDER = "the SDK demands the events in the API's order"


class MessagesVendor(Struct, frozen=True, kw_only=True):
    """How a vendor writes the events."""

    name: str
    provider: str = "anthropic"
    start_usage: Json | None = _START
    end_usage: Json | None = _END
    used: tuple[Usage | None, Usage | None] = (
        Usage(input=92, output=1, cache_read=60, cache_write=7),
        Usage(input=92, output=40, cache_read=60, cache_write=7),
    )
    """What the usage means at the start and at the end."""
    is_signed: bool = True
    pings: bool = True
    is_named: bool = True
    """Whether events have their names on a line of their own."""
    closes: bool = True
    """Whether blocks are closed."""
    ids: tuple[str, str] = ("toolu_01A", "toolu_01B")
    error: tuple[Json, Kind, str] = (_OVERLOADED, Kind.OVERLOADED, "Overloaded")
    framing: Framing = Framing()
    sdk: str = ""


ANTHROPIC = MessagesVendor(name="Anthropic")
_LATE: dict[str, object] = {
    "start_usage": {"input_tokens": 0, "output_tokens": 0},
    "end_usage": {"input_tokens": 32, "output_tokens": 40, "cache_read_input_tokens": 60},
    "used": (None, Usage(input=92, output=40, cache_read=60)),
}
_SDK_ZERO = "the SDK keeps counts of the start"
VENDORS = (
    ANTHROPIC,
    MessagesVendor(name="MiniMax (messages)", provider="minimax", is_signed=False, **_LATE),
    MessagesVendor(name="DeepSeek (messages)", provider="deepseek", is_signed=False, pings=False),
    MessagesVendor(name="Moonshot (messages)", provider="kimi", is_signed=False, **_LATE),
    MessagesVendor(
        name="GLM (messages)", provider="glm", is_named=False, sdk="the SDK reads named events only", **_LATE
    ),
    MessagesVendor(
        name="llama.cpp (messages)",
        provider="llamacpp",
        is_signed=False,
        pings=False,
        error=({"error": {"code": 500, "message": "It broke.", "type": "server_error"}}, Kind.SERVER_ERROR, "It broke"),
    ),
    MessagesVendor(name="LiteLLM (messages)", provider="custom", closes=False, framing=Framing(newline="\r\n")),
    MessagesVendor(
        name="OpenRouter (messages)", provider="openrouter", framing=Framing(between=": OPENROUTER PROCESSING\n\n")
    ),
)


class MessagesStream:
    """Builds one stream, event by event."""

    def __init__(self, vendor: MessagesVendor, *, start: bool = True) -> None:
        self._vendor = vendor
        self._events: list[SaidEvent] = []
        self._calls: list[SaidCall] = []
        self._index = -1
        if start:
            message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
            message |= {"stop_reason": None, "stop_sequence": None}
            message |= {} if vendor.start_usage is None else {"usage": dict(vendor.start_usage)}
            self.add({"type": "message_start", "message": message}, usage=vendor.used[0])
        if vendor.pings:
            self.add({"type": "ping"})

    def add(self, data: Json, *, name: str | None = None, **said: object) -> Self:
        """Add an event; its name is its type."""
        named = str(data.get("type", "error")) if name is None else name
        self._events.append(say(data, name=named if self._vendor.is_named else "", **said))
        return self

    def add_block(self, start: Json, *deltas: Json, text: str = "", reasoning: str = "") -> Self:
        """Add a content block; its start says `text` and `reasoning`, each delta what stands in it."""
        self._index += 1
        self.add(
            {"type": "content_block_start", "index": self._index, "content_block": start},
            text=text,
            reasoning=reasoning,
        )
        for delta in deltas:
            shown = str(delta.get("text", "")) if delta["type"] == "text_delta" else ""
            thought = str(delta.get("thinking", "")) if delta["type"] == "thinking_delta" else ""
            data = {"type": "content_block_delta", "index": self._index, "delta": delta}
            self.add(data, text=shown, reasoning=thought)
        if self._vendor.closes:
            self.add({"type": "content_block_stop", "index": self._index})
        return self

    def add_text(self, *pieces: str) -> Self:
        """Add a block of text."""
        return self.add_block({"type": "text", "text": ""}, *({"type": "text_delta", "text": p} for p in pieces))

    def add_thinking(self, *pieces: str) -> Self:
        """Add a block of thinking, signed where the vendor signs."""
        deltas: list[Json] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
        if self._vendor.is_signed:
            deltas += [{"type": "signature_delta", "signature": "EqQBCgIYAhIM"}]
        return self.add_block({"type": "thinking", "thinking": "", "signature": ""}, *deltas)

    def add_call(self, call: SaidCall, *, size: int = 7, cut: int = 0, is_said: bool = True) -> Self:
        """Add a call; `cut` leaves the last characters of its arguments out."""
        call_id = self._vendor.ids[len(self._calls)]
        arguments = dump(call.arguments)
        arguments = arguments[: len(arguments) - cut]
        if is_said:
            self._calls.append(SaidCall(call.name, arguments if cut else call.arguments, call_id))
        pieces = ["", *(arguments[at : at + size] for at in range(0, len(arguments), size))]
        start = {"type": "tool_use", "id": call_id, "name": call.name, "input": {}}
        return self.add_block(start, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))

    def finish(self, reason: str, *, stop: bool = True) -> Self:
        """Add the stop reason and the end."""
        vendor = self._vendor
        delta = {"stop_reason": reason, "stop_sequence": None}
        more = {} if vendor.end_usage is None else {"usage": dict(vendor.end_usage)}
        self.add({"type": "message_delta", "delta": delta, **more}, usage=vendor.used[1], is_final=True)
        if stop:
            self.add({"type": "message_stop"}, is_final=True)
        return self

    def add_done(self) -> Self:
        """Add the end mark of another format."""
        self._events.append(say("[DONE]"))
        return self

    def copy(self) -> Self:
        """Return a stream that has come as far."""
        made = type(self)(self._vendor)
        made._events, made._calls, made._index = [*self._events], [*self._calls], self._index
        return made

    def build(self, kind: str, finish: FinishReason = FinishReason.STOP, name: str = "", **more: object) -> StreamCase:
        """Return the stream."""
        vendor = self._vendor
        called = bool(self._calls) and finish is FinishReason.STOP and "failure" not in more
        return StreamCase(
            name=f"{vendor.name}: {name or kind}",
            vendor=vendor.name,
            kind=kind,
            wire="anthropic_messages",
            provider=vendor.provider,
            events=tuple(self._events),
            framing=vendor.framing,
            calls=tuple(self._calls),
            finish=FinishReason.TOOL_CALLS if called else finish,
            sdk=vendor.sdk,
        ).replace(**more)


def list_messages_streams() -> Iterator[StreamCase]:
    """Yield all of them."""
    for vendor in VENDORS:
        yield from _scenes(vendor)
    yield from _blocks()
    yield from _oddities()
    yield from _reasons()
    yield from _failures()
    for name, framing in FRAMINGS.items():
        built = MessagesStream(ANTHROPIC).add_thinking("Hm").add_text(*TEXT).add_call(CALL).finish("tool_use")
        case = built.build("framing", name=f"messages, {name}").replace(vendor="framing")
        yield case.replace(framing=framing, sdk="it knows no byte order mark" if framing.mark[:1] == b"\xef" else "")


def _scenes(vendor: MessagesVendor) -> Iterator[StreamCase]:
    made: Callable[[], MessagesStream] = lambda: MessagesStream(vendor)  # noqa: E731
    _, kind, words = vendor.error
    yield made().add_text(*TEXT).finish("end_turn").build("text")
    yield made().add_thinking(*THOUGHTS).add_text(*TEXT).finish("end_turn").build("reasoning")
    yield made().add_call(CALL).finish("tool_use").build("call")
    yield made().add_call(CALL).add_call(SECOND).finish("tool_use").build("parallel calls")
    yield made().add_text(*TEXT[:2]).add_call(SECOND).finish("tool_use").build("text and call")
    yield made().add_thinking("Hm").add_call(CALL).finish("tool_use").build("reasoning", name="reasoning and call")
    yield made().add_call(BARE).finish("tool_use").build("call without arguments")
    yield made().add_text(*TEXT[:3]).finish("max_tokens").build("length", FinishReason.LENGTH)
    yield (
        made()
        .add_call(CALL, cut=9)
        .finish("max_tokens")
        .build("length within a call", FinishReason.LENGTH, sdk="the SDK ends the arguments itself")
    )
    yield (
        made()
        .add_text(*TEXT[:2])
        .add(dict(vendor.error[0]), name="error", is_final=True)
        .build("error", failure=kind, words=words)
    )
    yield made().add_text(*TEXT).finish("end_turn", stop=False).build("no end mark")
    yield made().add_text(*TEXT[:4]).build("cut", failure=Kind.CUT, has_sdk=False)
    yield _whole(vendor)


def _whole(vendor: MessagesVendor) -> StreamCase:
    content = [
        {"type": "thinking", "thinking": "Hm", "signature": "s"},
        {"type": "text", "text": "Hi 🙂"},
        {"type": "tool_use", "id": "toolu_1", "name": CALL.name, "input": CALL.arguments},
        {"type": "tool_use", "id": "toolu_2", "name": BARE.name, "input": {}},
    ]
    usage = {"input_tokens": 25, "output_tokens": 40}
    body = {"id": "msg_1", "type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use"}
    said = Usage(input=25, output=40)
    event = say({**body, "usage": usage}, text="Hi 🙂", reasoning="Hm", usage=said, is_final=True)
    return StreamCase(
        name=f"{vendor.name}: whole answer",
        vendor=vendor.name,
        kind="whole answer",
        wire="anthropic_messages",
        provider=vendor.provider,
        events=(event,),
        raw=event.data.encode(),
        content_type=JSON_BODY,
        calls=(
            SaidCall(CALL.name, CALL.arguments, "toolu_1"),
            SaidCall(BARE.name, BARE.arguments, "toolu_2"),
        ),
        finish=FinishReason.TOOL_CALLS,
        has_sdk=False,
    )


def _blocks() -> Iterator[StreamCase]:
    """Blocks of other kinds, and what is attached to texts."""
    made: Callable[[], MessagesStream] = lambda: MessagesStream(ANTHROPIC)  # noqa: E731
    redacted = {"type": "redacted_thinking", "data": "EmwKAhgB"}
    yield made().add_block(redacted).add_text("Hi").finish("end_turn").build("blocks", name="redacted thinking")
    yield (
        made()
        .add_thinking("Hm")
        .add_block(redacted)
        .add_thinking(" so")
        .add_text("Hi")
        .finish("end_turn")
        .build("blocks", name="thinking around redacted thinking")
    )
    signature: list[Json] = [{"type": "signature_delta", "signature": "sig"}]
    yield (
        made()
        .add_block({"type": "thinking", "thinking": "", "signature": ""}, *signature)
        .add_text("Hi")
        .finish("end_turn")
        .build("blocks", name="a signature alone")
    )
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    query = [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"query"', ': "x"}')]
    hit = {"type": "web_search_result", "title": "T", "url": "https://example.org", "encrypted_content": "e"}
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [hit]}
    location = {
        "type": "web_search_result_location",
        "url": "https://example.org",
        "cited_text": "no text of the answer",
    }
    cited: list[Json] = [
        {"type": "citations_delta", "citation": location},
        {"type": "text_delta", "text": "It is so"},
        {"type": "text_delta", "text": "."},
    ]
    yield (
        made()
        .add_text("I look.")
        .add_block(search, *query)
        .add_block(result)
        .add_block({"type": "text", "text": "", "citations": []}, *cited)
        .add_text(" And so.")
        .finish("end_turn")
        .build("blocks", name="web search with citations")
    )
    error = {**result, "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}}
    yield (
        made()
        .add_block(search, *query)
        .add_block(error)
        .add_text("Hi")
        .finish("end_turn")
        .build("blocks", name="a search that failed")
    )
    yield made().add_block(search, *query).finish("pause_turn").build("blocks", FinishReason.UNKNOWN, "paused")
    yield (
        made()
        .add_block({"type": "a_new_block", "text": "no answer", "x": 1})
        .add_text("Hi")
        .finish("end_turn")
        .build("blocks", name="an unknown block with text")
    )
    yield (
        made()
        .add_block({"type": "text", "text": ""}, {"type": "a_new_delta", "text": "no"})
        .add_text("Hi")
        .finish("end_turn")
        .build("blocks", name="an unknown delta with text")
    )
    yield made().add_text("").add_call(CALL).finish("tool_use").build("blocks", name="empty text before a call")
    yield (
        made()
        .add_block({"type": "text", "text": "Hi"}, {"type": "text_delta", "text": " there"}, text="Hi")
        .finish("end_turn")
        .build("blocks", name="text in the start")
    )
    halves: list[Json] = [{"type": "text_delta", "text": piece} for piece in ("a\ud83d", "\ude42b")]
    yield (
        made()
        .add_block({"type": "text", "text": ""}, *halves)
        .finish("end_turn")
        .build("halves", name="emoji cut", sdk="it keeps halves")
    )


def _oddities() -> Iterator[StreamCase]:
    made: Callable[[], MessagesStream] = lambda: MessagesStream(ANTHROPIC)  # noqa: E731
    start = {"type": "tool_use", "id": "toolu_1", "name": CALL.name, "input": CALL.arguments}
    call = (SaidCall(CALL.name, CALL.arguments, "toolu_1"),)
    called = FinishReason.TOOL_CALLS
    yield made().add_block(start).finish("tool_use").build("calls", called, "input in the start", calls=call)
    again = [{"type": "input_json_delta", "partial_json": dump(CALL.arguments)}]
    yield made().add_block(start, *again).finish("tool_use").build("calls", called, "input twice", calls=call)
    yield made().add_call(CALL, size=1).finish("tool_use").build("calls", name="every letter alone")
    yield made().add_call(CALL, size=9999).finish("tool_use").build("calls", name="in one piece")
    yield made().add_call(CALL).finish("end_turn").build("calls", name="calls, then end_turn")
    yield made().add_text("Hi").finish("tool_use").build("calls", name="tool_use without a call")
    yield (
        made()
        .add_call(BARE, cut=2, is_said=False)
        .finish("max_tokens")
        .build("length within a call", FinishReason.LENGTH, "length at the name", sdk="it keeps the call")
    )
    first = {"type": "content_block_start", "index": 0, "content_block": {**start, "input": {}}}
    second = {"type": "content_block_start", "index": 1, "content_block": {**start, "id": "toolu_2", "input": {}}}
    stream = made().add(first).add(second)
    arguments = dump(CALL.arguments)
    for at in range(0, len(arguments), 9):
        delta = {"type": "input_json_delta", "partial_json": arguments[at : at + 9]}
        for index in (1, 0):
            stream.add({"type": "content_block_delta", "index": index, "delta": delta})
    stream.add({"type": "content_block_stop", "index": 1}).add({"type": "content_block_stop", "index": 0})
    yield stream.finish("tool_use").build(
        "calls", called, "interleaved", calls=(*call, SaidCall(CALL.name, CALL.arguments, "toolu_2"))
    )
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
    yield made().add(delta, text="Hi").finish("end_turn").build("order", name="no block start", sdk=_ORDER)
    thought = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}}
    yield (
        made().add(thought, reasoning="Hm").finish("end_turn").build("order", name="no start of a thought", sdk=_ORDER)
    )
    late = MessagesVendor(name="Anthropic", used=(None, Usage(output=40)))
    yield (
        MessagesStream(late, start=False)
        .add_text("Hi")
        .finish("end_turn")
        .build("order", name="no message start", sdk=_ORDER)
    )
    yield (
        made()
        .add_text("Hi")
        .add({"type": "message_stop"}, is_final=True)
        .build("order", name="no stop reason", sdk="the SDK leaves the stop reason out")
    )
    yield (
        made()
        .add_text("Hi")
        .add({"type": "a_new_event", "x": [1]})
        .add({"type": "ping"})
        .finish("end_turn")
        .build("order", name="an unknown event")
    )
    yield made().add_text("Hi").finish("end_turn").add({"type": "ping"}).build("order", name="a ping at the end")
    body: Json = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi there"}]}
    yield (
        made()
        .add_text("Hi", " there")
        .add(body, is_final=True)
        .finish("end_turn")
        .build("order", name="whole message behind its pieces")
    )
    yield made().add_text("Hi", " there").finish("end_turn").add(body).build("order", name="whole message at the end")
    late_text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " more"}}
    yield (
        made()
        .add_text("Hi")
        .finish("end_turn")
        .add(late_text)
        .build("order", name="text behind the end", sdk="the SDK reads on")
    )
    none = MessagesVendor(name="Anthropic", start_usage=None, end_usage=None, used=(None, None))
    yield MessagesStream(none).add_text("Hi").finish("end_turn").build("usage", name="no usage", has_sdk=False)
    thinking = MessagesVendor(
        name="Anthropic",
        end_usage={"output_tokens": 40, "output_tokens_details": {"thinking_tokens": 12}},
        used=(ANTHROPIC.used[0], Usage(input=92, output=40, cache_read=60, cache_write=7, reasoning=12)),
    )
    yield MessagesStream(thinking).add_text("Hi").finish("end_turn").build("usage", name="thinking tokens")
    nulls = {"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 40, "server_tool_use": None}
    yield (
        MessagesStream(MessagesVendor(name="Anthropic", end_usage=nulls))
        .add_text("Hi")
        .finish("end_turn")
        .build("usage", name="null counts", has_sdk=False)
    )
    yield made().add_text("Hi").finish("end_turn").add_done().build("end", name="an end mark of the other format")


_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.CONTENT_FILTER,
    "pause_turn": FinishReason.UNKNOWN,
    "tool_use": FinishReason.STOP,
    "a_new_reason": FinishReason.UNKNOWN,
}


def _reasons() -> Iterator[StreamCase]:
    for reason, meant in _REASONS.items():
        yield MessagesStream(ANTHROPIC).add_text("Hi").finish(reason).build("finish reason", meant, f"finish {reason}")


_FAILURES: dict[str, tuple[Json, Kind, str]] = {
    "api error": ({"type": "error", "error": {"type": "api_error", "message": "It broke"}}, Kind.SERVER_ERROR, "broke"),
    "rate limit": (
        {"type": "error", "error": {"type": "rate_limit_error", "message": "Too fast"}},
        Kind.RATE_LIMIT,
        "Too fast",
    ),
    "too long": (
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8"}},
        Kind.CONTEXT_OVERFLOW,
        "too long",
    ),
    "wrong key": (
        {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
        Kind.AUTH,
        "x-api-key",
    ),
    "no type": ({"error": {"message": "Internal server error"}}, Kind.SERVER_ERROR, "Internal server error"),
    "bare message": ({"message": "Internal server error"}, Kind.SERVER_ERROR, "Internal server error"),
}


def _failures() -> Iterator[StreamCase]:
    for name, (data, kind, words) in _FAILURES.items():
        for when, stream in (("first", MessagesStream(ANTHROPIC)), ("later", MessagesStream(ANTHROPIC).add_text("Hi"))):
            for event in ("error", ""):
                built = stream.copy().add(data, name=event, is_final=True)
                yield built.build(
                    "error",
                    name=f"{name}, {when}{'' if event else ', no name'}",
                    failure=kind,
                    words=words,
                    has_sdk=False,
                )
