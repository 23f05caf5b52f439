"""Streams of the Responses format: OpenAI's own, and those of the vendors and servers that speak it.

Source: the API reference, chapter Streaming events. The words are ours.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Self

from msgspec import Struct

from hermes.core.messages import FinishReason
from hermes.core.outcomes import FailureKind as Kind
from hermes.core.usage import Usage
from tests.torture.streams.chat_oddities import FRAMINGS
from tests.torture.streams.chat_stream import BARE, CALL, SECOND, TEXT, THOUGHTS
from tests.torture.streams.stream_case import JSON_BODY, Framing, Json, SaidCall, SaidEvent, StreamCase, dump, say

_COUNTS: Json = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 9},
    "total_tokens": 140,
}
_USED = Usage(input=100, output=40, cache_read=60, reasoning=9)
_BROKE: Json = MappingProxyType({"type": "error", "code": "server_error", "message": "It broke.", "param": None})
_ORDER = "the SDK demands the events in the API's order"


_PARTLESS = dict.fromkeys(("text", "reasoning", "text and call", "length", "filter", "error", "failed"), _ORDER)
"""What the SDK cannot read where no part of an item is opened."""
_FRAMING_REASONS = {
    "empty events": "the SDK parses an event without data",
    "no last empty line": "the SDK waits for the empty line",
    "no last empty line, CR": "the SDK waits for the empty line",
    "text behind the end": "the SDK reads on",
}


class ResponsesVendor(Struct, frozen=True, kw_only=True):
    """How a vendor writes the events."""

    name: str
    provider: str = "openai"
    is_numbered: bool = True
    """Whether events say the position of their item."""
    has_ids: bool = True
    """Whether events say the id of their item."""
    has_item_ids: bool = True
    """Whether the items have ids."""
    is_named: bool = True
    has_parts: bool = True
    """Whether the parts of items are opened and closed."""
    thought: str = "summary"
    """Where thoughts stand: `summary`, or `text` (open models)."""
    has_output: bool = True
    """Whether the final event repeats the items."""
    error: tuple[Json, Kind, str] = (_BROKE, Kind.SERVER_ERROR, "It broke")
    framing: Framing = Framing()
    sdk: Mapping[str, str] = {}
    """Why the SDK differs, by the kind or the name of a stream; `*` for all."""


OPENAI = ResponsesVendor(name="OpenAI (responses)")
VENDORS = (
    OPENAI,
    ResponsesVendor(name="Azure (responses)", framing=Framing(newline="\r\n")),
    ResponsesVendor(name="xAI (responses)", provider="xai", has_output=True, thought="summary"),
    ResponsesVendor(name="OpenRouter (responses)", provider="openrouter", framing=Framing(between=": PROCESSING\n\n")),
    ResponsesVendor(
        name="llama.cpp (responses)",
        provider="llamacpp",
        is_numbered=False,
        thought="text",
        error=({"error": {"code": 500, "message": "It broke.", "type": "server_error"}}, Kind.SERVER_ERROR, "It broke"),
        sdk=dict.fromkeys(("reasoning", "reasoning and call", "text and call", "parallel calls"), _ORDER),
    ),
    ResponsesVendor(name="vLLM (responses)", provider="vllm", thought="text", is_named=False),
    ResponsesVendor(
        name="LM Studio (responses)",
        provider="lmstudio",
        thought="text",
        has_parts=False,
        sdk=_PARTLESS | {"reasoning and call": ""},
    ),
    ResponsesVendor(
        name="a gateway (responses)",
        provider="custom",
        is_numbered=False,
        has_ids=False,
        has_parts=False,
        thought="text",
        sdk=_PARTLESS | {"reasoning and call": _ORDER},
    ),
    ResponsesVendor(
        name="a gateway without ids (responses)",
        provider="custom",
        is_numbered=False,
        has_ids=False,
        has_item_ids=False,
        has_parts=False,
        thought="text",
        sdk=_PARTLESS | {"reasoning and call": _ORDER},
    ),
    ResponsesVendor(
        name="a bare gateway (responses)",
        provider="custom",
        has_output=False,
        sdk={"*": "the SDK needs the final output", "error": "", "failed": ""},
    ),
)


class ResponsesStream:
    """Builds one stream, event by event."""

    def __init__(self, vendor: ResponsesVendor) -> None:
        self._vendor = vendor
        self._events: list[SaidEvent] = []
        self._calls: list[SaidCall] = []
        self.output: list[Json] = []
        for kind in ("response.created", "response.in_progress"):
            self.add({"type": kind, "response": self.build_response("in_progress", [])})

    def build_response(self, status: str, output: list[Json], **more: object) -> Json:
        """Return a response object."""
        given = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-x", "status": status}
        given |= {"error": None, "incomplete_details": None, "output": output, "parallel_tool_calls": True}
        return {**given, "tool_choice": "auto", "tools": [], "usage": None, **more}

    def add(self, data: Json, **said: object) -> Self:
        """Add an event; its name is its type."""
        named = str(data.get("type", "error")) if self._vendor.is_named else ""
        numbered = {**data, "sequence_number": len(self._events)} if "type" in data else data
        self._events.append(say(numbered, name=named, **said))
        return self

    def add_item_event(self, kind: str, item_id: str, data: Json, **said: object) -> Self:
        """Add an event about the item that comes next."""
        where: dict[str, object] = {"output_index": len(self.output)} if self._vendor.is_numbered else {}
        given = data.get("item")
        if not self._vendor.has_item_ids and isinstance(given, dict):
            data = {**data, "item": {key: value for key, value in given.items() if key != "id"}}
        if self._vendor.has_ids and "item" not in data:
            where["item_id"] = item_id
        return self.add({"type": kind, **where, **data}, **said)

    def add_message(self, *pieces: str, kind: str = "output_text") -> Self:
        """Add a message."""
        vendor, item_id, text = self._vendor, f"msg_{len(self.output)}", "".join(pieces)
        field = "text" if kind == "output_text" else "refusal"
        whole = {"type": kind, field: text, **({"annotations": []} if field == "text" else {})}
        item = {"id": item_id, "type": "message", "role": "assistant"}
        self.add_item_event(
            "response.output_item.added", item_id, {"item": {**item, "status": "in_progress", "content": []}}
        )
        at: Json = {"content_index": 0}
        if vendor.has_parts:
            self.add_item_event("response.content_part.added", item_id, {**at, "part": {**whole, field: ""}})
        stem = f"response.{kind if kind == 'refusal' else 'output_text'}"
        for piece in pieces:
            more: Json = {"logprobs": []} if field == "text" else {}
            self.add_item_event(f"{stem}.delta", item_id, {**at, "delta": piece, **more}, text=piece)
        more = {"logprobs": []} if field == "text" else {}
        self.add_item_event(f"{stem}.done", item_id, {**at, field: text, **more})
        if vendor.has_parts:
            self.add_item_event("response.content_part.done", item_id, {**at, "part": whole})
        return self.close_item({**item, "status": "completed", "content": [whole]})

    def add_reasoning(self, *paragraphs: tuple[str, ...]) -> Self:
        """Add thoughts; each group of pieces is a paragraph of the summary."""
        vendor, item_id = self._vendor, f"rs_{len(self.output)}"
        item: Json = {"id": item_id, "type": "reasoning", "summary": []}
        self.add_item_event("response.output_item.added", item_id, {"item": item})
        stem = "response.reasoning_summary_text" if vendor.thought == "summary" else "response.reasoning_text"
        index = "summary_index" if vendor.thought == "summary" else "content_index"
        for number, pieces in enumerate(paragraphs):
            break_ = "\n\n" if number else ""
            if vendor.thought == "summary":
                part = {index: number, "part": {"type": "summary_text", "text": ""}}
                self.add_item_event("response.reasoning_summary_part.added", item_id, part, reasoning=break_)
            for piece in pieces:
                self.add_item_event(f"{stem}.delta", item_id, {index: number, "delta": piece}, reasoning=piece)
            self.add_item_event(f"{stem}.done", item_id, {index: number, "text": "".join(pieces)})
        texts = ["".join(pieces) for pieces in paragraphs]
        if vendor.thought == "summary":
            whole: Json = {**item, "summary": [{"type": "summary_text", "text": text} for text in texts]}
        else:
            whole = {**item, "content": [{"type": "reasoning_text", "text": text} for text in texts]}
        return self.close_item({**whole, "encrypted_content": "gAAAA"})

    def add_call(
        self, call: SaidCall, *, cut: int = 0, size: int = 7, closes: bool = True, is_said: bool = True
    ) -> Self:
        """Add a call; `cut` leaves the last characters of its arguments out."""
        number = len(self.output)
        item_id, call_id = f"fc_{number}", f"call_{number}"
        arguments = dump(call.arguments)
        arguments = arguments[: len(arguments) - cut]
        if is_said:
            self._calls.append(SaidCall(call.name, arguments if cut else call.arguments, call_id))
        item = {"id": item_id, "type": "function_call", "call_id": call_id, "name": call.name}
        self.add_item_event("response.output_item.added", item_id, {"item": {**item, "arguments": ""}})
        stem = "response.function_call_arguments"
        for at in range(0, len(arguments), size):
            self.add_item_event(f"{stem}.delta", item_id, {"delta": arguments[at : at + size]})
        if not closes:
            return self
        self.add_item_event(f"{stem}.done", item_id, {"arguments": arguments, "name": call.name})
        return self.close_item({**item, "arguments": arguments, "status": "incomplete" if cut else "completed"})

    def close_item(self, item: Json) -> Self:
        """Close the item that was added last."""
        self.add_item_event("response.output_item.done", str(item["id"]), {"item": item})
        has_id = self._vendor.has_item_ids
        self.output.append({key: value for key, value in item.items() if key != "id" or has_id})
        return self

    def finish(self, status: str = "completed", reason: str = "", **more: object) -> Self:
        """Add the final event."""
        output = self.output if self._vendor.has_output else []
        response = self.build_response(status, output, usage=_COUNTS)
        response = {**response, **({"incomplete_details": {"reason": reason}} if reason else {})}
        return self.add({"type": f"response.{status}", "response": {**response, **more}}, usage=_USED, is_final=True)

    def add_done(self) -> Self:
        """Add the end mark of another format."""
        self._events.append(say("[DONE]"))
        return self

    def build(self, kind: str, finish: FinishReason = FinishReason.STOP, name: str = "", **more: object) -> StreamCase:
        """Return the stream."""
        vendor = self._vendor
        called = bool(self._calls) and finish is FinishReason.STOP and "failure" not in more
        return StreamCase(
            name=f"{vendor.name}: {name or kind}",
            vendor=vendor.name,
            kind=kind,
            wire="responses",
            provider=vendor.provider,
            events=tuple(self._events),
            framing=vendor.framing,
            calls=tuple(self._calls),
            finish=FinishReason.TOOL_CALLS if called else finish,
            sdk=next((vendor.sdk[key] for key in (name, kind, "*") if key in vendor.sdk), ""),
        ).replace(**more)


def list_responses_streams() -> Iterator[StreamCase]:
    """Yield all of them."""
    for vendor in VENDORS:
        yield from _scenes(vendor)
    yield from _orders()
    yield from _ends()
    yield from _failures()
    for name, framing in FRAMINGS.items():
        built = ResponsesStream(OPENAI).add_reasoning(("Hm",)).add_message(*TEXT).add_call(CALL).finish()
        case = built.build("framing", name=f"responses, {name}").replace(vendor="framing")
        yield case.replace(framing=framing, sdk=_FRAMING_REASONS.get(name, ""))


def _scenes(vendor: ResponsesVendor) -> Iterator[StreamCase]:
    made: Callable[[], ResponsesStream] = lambda: ResponsesStream(vendor)  # noqa: E731
    data, kind, words = vendor.error
    yield made().add_message(*TEXT).finish().build("text")
    yield made().add_reasoning(THOUGHTS).add_message(*TEXT).finish().build("reasoning")
    yield made().add_call(CALL).finish().build("call")
    yield made().add_reasoning(("Hm",)).add_call(CALL).finish().build("reasoning", name="reasoning and call")
    yield made().add_message(*TEXT[:2]).add_call(SECOND).finish().build("text and call")
    yield made().add_call(BARE).finish().build("call without arguments")
    if vendor.is_numbered or vendor.has_ids:
        yield made().add_call(CALL).add_call(SECOND).finish().build("parallel calls")
    yield made().add_message(*TEXT[:3]).finish("incomplete", "max_output_tokens").build("length", FinishReason.LENGTH)
    yield (
        made()
        .add_call(CALL, cut=9)
        .finish("incomplete", "max_output_tokens")
        .build("length within a call", FinishReason.LENGTH)
    )
    yield (
        made()
        .add_message(*TEXT[:2])
        .finish("incomplete", "content_filter")
        .build("filter", FinishReason.CONTENT_FILTER)
    )
    yield made().add_message("I will ", "not.", kind="refusal").finish().build("refusal")
    yield made().add_message(*TEXT[:2]).add(data, is_final=True).build("error", failure=kind, words=words)
    failed = made().add_message(*TEXT[:2])
    error = {"code": "rate_limit_exceeded", "message": "Rate limit reached"}
    failed.add({"type": "response.failed", "response": failed.build_response("failed", [], error=error)}, is_final=True)
    yield failed.build("error", name="failed", failure=Kind.RATE_LIMIT, words="Rate limit reached")
    yield made().add_message(*TEXT[:4]).build("cut", failure=Kind.CUT, has_sdk=False)
    yield (
        made()
        .add_call(CALL, cut=9, closes=False)
        .build("cut", name="cut within a call", failure=Kind.CUT, calls=(), has_sdk=False)
    )
    yield _whole(vendor)


def _whole(vendor: ResponsesVendor) -> StreamCase:
    stream = ResponsesStream(vendor).add_reasoning(("Hm",)).add_message("Hi ", "🙂").add_call(CALL).add_call(BARE)
    body = stream.build_response("completed", stream.output, usage=_COUNTS)
    event = say(body, text="Hi 🙂", reasoning="Hm", usage=_USED, is_final=True)
    case = stream.build("whole answer", has_sdk=False)
    return case.replace(events=(event,), raw=event.data.encode(), content_type=JSON_BODY)


def _orders() -> Iterator[StreamCase]:
    """Events that are missing, doubled or out of order."""
    made: Callable[[], ResponsesStream] = lambda: ResponsesStream(OPENAI)  # noqa: E731
    yield (
        made().add_reasoning(("One", " 🙂"), ("Two",)).add_message("Hi").finish().build("order", name="two paragraphs")
    )
    yield made().add_reasoning().add_message("Hi").finish().build("order", name="a thought without a summary")
    yield made().add_message("a").add_message("b").finish().build("order", name="two messages")
    yield made().add_message("\ud83d", "\ude42").finish().build("halves", name="emoji cut")
    yield made().add_call(CALL, size=1).finish().build("order", name="every letter alone")
    text = {"type": "output_text", "text": "Hi there", "annotations": []}
    message: Json = {"id": "msg_0", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    call: Json = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"x":1}'}
    said = (SaidCall("read", {"x": 1}, "call_1"),)
    called = FinishReason.TOOL_CALLS
    stream = made()
    body = stream.build_response("completed", [message, call], usage=_COUNTS)
    final: Json = {"type": "response.completed", "response": body}
    yield (
        made()
        .add(final, text="Hi there", usage=_USED, is_final=True)
        .build("order", called, "nothing but the final event", calls=said)
    )
    done = {"type": "response.output_item.done", "output_index": 0, "item": message}
    yield (
        made()
        .add(done, text="Hi there")
        .add(final, usage=_USED, is_final=True)
        .build("order", called, "an item that is only closed", calls=said)
    )
    delta: Json = {"type": "response.output_text.delta", "delta": "Hi there"}
    alone: dict[str, Json] = {
        "nothing": delta,
        "position": {**delta, "output_index": 0},
        "id": {**delta, "item_id": "msg_0"},
        "position and another id": {**delta, "output_index": 0, "item_id": "other"},
    }
    for name, given in alone.items():
        yield (
            made()
            .add(given, text="Hi there")
            .add(final, usage=_USED, is_final=True)
            .build("order", called, f"text with {name}, no item", calls=said, sdk=_ORDER)
        )
    arguments: Json = {"type": "response.function_call_arguments.delta", "delta": '{"x":1}'}
    only = stream.build_response("completed", [call], usage=_COUNTS)
    for name, given in {
        "nothing": arguments,
        "position": {**arguments, "output_index": 0},
        "id": {**arguments, "item_id": "fc_1"},
    }.items():
        yield (
            made()
            .add(given)
            .add({"type": "response.completed", "response": only}, usage=_USED, is_final=True)
            .build("order", called, f"arguments with {name}, no item", calls=said, sdk=_ORDER)
        )
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**call, "arguments": ""}}
    closed = {"type": "response.output_item.done", "output_index": 0, "item": call}
    piece: Json = {**arguments, "output_index": 0, "item_id": "fc_1"}
    end: Json = {"type": "response.completed", "response": only}
    for name, events in {
        "no deltas": (added, closed),
        "no closing": (added, piece),
        "deltas first": (piece, added, closed),
        "twice closed": (added, piece, closed, closed),
        "deltas behind the closing": (added, closed, piece),
        "other ids": (added, {**piece, "item_id": "q"}, {**closed, "item": {**call, "id": "z"}}),
    }.items():
        stream = made()
        for event in events:
            stream.add(event)
        yield stream.add(end, usage=_USED, is_final=True).build(
            "order", called, f"call: {name}", calls=said, has_sdk=False
        )
    crossed = made()
    for index, name in enumerate(("read", "list")):
        item = {**call, "id": f"fc_{index}", "call_id": f"call_{index}", "name": name, "arguments": ""}
        crossed.add({"type": "response.output_item.added", "output_index": index, "item": item})
    for index, given_delta in ((0, '{"x"'), (1, '{"x":'), (1, "2}"), (0, ":1}")):
        crossed.add({**arguments, "output_index": index, "item_id": f"fc_{index}", "delta": given_delta})
    both = [
        {**call, "id": "fc_0", "call_id": "call_0"},
        {**call, "id": "fc_1", "call_id": "call_1", "name": "list", "arguments": '{"x":2}'},
    ]
    ending = crossed.build_response("completed", both, usage=_COUNTS)
    yield crossed.add({"type": "response.completed", "response": ending}, usage=_USED, is_final=True).build(
        "order",
        called,
        "calls interleaved",
        calls=(SaidCall("read", {"x": 1}, "call_0"), SaidCall("list", {"x": 2}, "call_1")),
    )
    search: Json = {
        "id": "ws_0",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    yield made().close_item(search).add_message("Hi").finish().build("order", name="a search of the server")
    yield (
        made()
        .add({"type": "response.a_new_event", "x": 1})
        .add({"type": "keepalive"})
        .add_message("Hi")
        .finish()
        .build("order", name="unknown events")
    )


def _ends() -> Iterator[StreamCase]:
    made: Callable[[], ResponsesStream] = lambda: ResponsesStream(OPENAI)  # noqa: E731
    yield made().add_message("Hi").finish().add_done().build("end", name="an end mark of the other format")
    yield (
        made()
        .add_message("Hi")
        .add_done()
        .build("end", name="an end mark, no final event", failure=Kind.CUT, has_sdk=False)
    )
    yield made().add_call(BARE).add_done().build("end", name="a call, no final event", failure=Kind.CUT, has_sdk=False)
    done = made().add_message("Hi")
    body = done.build_response("completed", done.output, usage=_COUNTS)
    yield done.add({"type": "response.done", "response": body}, usage=_USED, is_final=True).build(
        "end", name="response.done", sdk="the SDK knows no such event"
    )
    for status in ("cancelled", "in_progress", "queued"):
        stream = made().add_message("Hi")
        body = stream.build_response(status, stream.output)
        yield stream.add({"type": "response.done", "response": body}).build(
            "end", name=f"response.done, {status}", failure=Kind.CUT, has_sdk=False
        )
        event = say(body)
        case = stream.build("end", name=f"whole answer, {status}", failure=Kind.BAD_RESPONSE, has_sdk=False)
        yield case.replace(events=(event,), raw=event.data.encode(), content_type=JSON_BODY)
    yield made().add_message("Hi").finish("incomplete").build("end", FinishReason.LENGTH, "incomplete without a reason")
    yield (
        made()
        .add_call(CALL, cut=len(dump(CALL.arguments)), is_said=False)
        .finish("incomplete", "max_output_tokens")
        .build("end", FinishReason.LENGTH, "incomplete at the name", sdk="it keeps the call")
    )
    late = {"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_0", "delta": " more"}
    yield made().add_message("Hi").finish().add(late).build("end", name="text behind the final event", has_sdk=False)


_FAILURES: dict[str, tuple[Json, Kind, str]] = {
    "error": ({"type": "error", "code": "rate_limit_exceeded", "message": "Too fast"}, Kind.RATE_LIMIT, "Too fast"),
    "nested error": (
        {"type": "error", "error": {"type": "server_error", "code": None, "message": "It broke"}},
        Kind.SERVER_ERROR,
        "It broke",
    ),
    "bare": ({"error": {"message": "Internal server error"}}, Kind.SERVER_ERROR, "Internal server error"),
    "failed without a reason": (
        {"type": "response.failed", "response": {"object": "response", "status": "failed", "error": None}},
        Kind.UNKNOWN,
        "gave no reason",
    ),
    "failed": (
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "server_error", "message": "It broke"}},
        },
        Kind.SERVER_ERROR,
        "It broke",
    ),
    "too long": (
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "context_length_exceeded", "message": "Too long"}},
        },
        Kind.CONTEXT_OVERFLOW,
        "Too long",
    ),
    "completed with an error": (
        {
            "type": "response.completed",
            "response": {"status": "failed", "error": {"code": "server_error", "message": "No"}},
        },
        Kind.SERVER_ERROR,
        "No",
    ),
}


def _failures() -> Iterator[StreamCase]:
    for name, (data, kind, words) in _FAILURES.items():
        for when, stream in (("first", ResponsesStream(OPENAI)), ("later", ResponsesStream(OPENAI).add_message("Hi"))):
            built = stream.add(data, is_final=True)
            yield built.build("error", name=f"{name}, {when}", failure=kind, words=words, has_sdk=False)
