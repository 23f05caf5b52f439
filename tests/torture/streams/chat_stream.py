"""Streams of the chat completions format, in the form of each vendor that speaks it.

Sources: the vendors' API references and, for servers that are open, what they write. The words are ours.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Self

from msgspec import Struct, structs

from hermes.core.messages import FinishReason
from hermes.core.outcomes import FailureKind
from hermes.core.usage import Usage
from tests.torture.streams.stream_case import (
    DONE,
    JSON_BODY,
    Framing,
    Json,
    SaidCall,
    SaidEvent,
    StreamCase,
    dump,
    say,
)

TEXT = ("The weather", " in Köln: ", "", "18 °C, 晴れ", " 🌤️", "\n\n```py\nprint(", '"a\\n")\n```\n', " </div> ok.")
THOUGHTS = ("I am to ", "look 先に", " it up.\n", "Then 🙂 tell.")
CALL = SaidCall("read_file", {"path": "a b.txt", "text": 'x "y" \\ ü 🙂', "deep": {"n": [1, 2.5, None, True]}}, "")
SECOND = SaidCall("list_files", {"path": "/tmp", "all": False})
BARE = SaidCall("get_time", {})
STANDARD_COUNTS: Json = MappingProxyType(
    {
        "prompt_tokens": 100,
        "completion_tokens": 40,
        "total_tokens": 140,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 9},
    }
)
STANDARD_USAGE = Usage(input=100, output=40, cache_read=60, reasoning=9)


STANDARD_ERROR: tuple[str, FailureKind, str] = (
    '{"error":{"message":"The server had an error.","type":"server_error","param":null,"code":null}}',
    FailureKind.SERVER_ERROR,
    "The server had an error",
)
STANDARD_FINISHES: Mapping[str, str] = MappingProxyType(
    {"stop": "stop", "calls": "tool_calls", "length": "length", "filter": "content_filter"}
)


class ChatVendor(Struct, frozen=True, kw_only=True):
    """How a vendor writes its chunks."""

    name: str
    provider: str = "custom"
    model: str = "some-model"
    members: Json = {}
    """Members of every chunk beside the usual ones."""
    choice: Json = {}
    """Members of every choice beside the usual ones."""
    delta: Json = {}
    """Members of every delta."""
    head: tuple[Json, ...] = ({"role": "assistant", "content": ""},)
    """The deltas before the first word."""
    before: tuple[Json, ...] = ()
    """Chunks before the first delta."""
    behind: tuple[Json, ...] = ()
    """Chunks behind the finish reason."""
    last_delta: Json = {}
    reasoning: str = ""
    """The field of thoughts: a name, `both`, `details`, `list` (Mistral) or empty: none."""
    usage: str = "after"
    """Where the usage stands: `after` (a chunk without choices), `with` (the finish reason), `choice`, `x_groq`,
    `every` (growing), `extra` (after, beside a choice without words), `none`."""
    counts: tuple[Json, Usage] = (STANDARD_COUNTS, STANDARD_USAGE)
    calls: str = "pieces"
    """How calls come: `pieces`, `whole`, `zero` (all numbered 0), `unnumbered`, `empty` (ids and names are empty
    later), `repeated` (they are there every time), `object` (the list is one object)."""
    ids: tuple[str, str] = ("call_Ab3dEf6h", "call_Zy9xWv5u")
    finishes: Mapping[str, str] = STANDARD_FINISHES
    error: tuple[Json | list[object] | str, FailureKind, str] = STANDARD_ERROR
    error_event: str = ""
    framing: Framing = Framing()
    done: bool = True
    cumulative: bool = False
    """Whether every choice repeats as `message` what was said so far."""
    sdk: Mapping[str, str] = {}
    """Why the SDK differs, by the kind of stream; `*` for all."""


class ChatStream:
    """Builds one stream of a vendor, event by event."""

    def __init__(self, vendor: ChatVendor) -> None:
        self._vendor = vendor
        self._events: list[SaidEvent] = []
        self._calls: list[SaidCall] = []
        self._said = 0
        for chunk in vendor.before:
            self._events.append(say(chunk))
        for delta in vendor.head:
            self.add_delta(delta)

    def build_chunk(self, *choices: Json, **more: object) -> Json:
        """Return a chunk with these choices."""
        given = {
            "id": "chatcmpl-123",
            "object": "chat.completion.chunk",
            "created": 1_790_000_000,
            "model": self._vendor.model,
        }
        return {**given, **self._vendor.members, "choices": list(choices), **more}

    def add_delta(self, delta: Json, finish: str | None = None, *, more: Json | None = None, **said: object) -> Self:
        """Add a chunk with this delta."""
        vendor = self._vendor
        choice = {"index": 0, "delta": {**vendor.delta, **delta}, **vendor.choice, "finish_reason": finish}
        if vendor.cumulative:
            text = "".join(event.text for event in self._events) + str(delta.get("content", ""))
            choice["message"] = {"role": "assistant", "content": text}
        chunk = self.build_chunk(choice, **(more or {}))
        if vendor.usage == "every":
            self._said += 1
            raw, _ = vendor.counts
            grown = {**raw, "completion_tokens": self._said, "total_tokens": 100 + self._said}
            chunk = {**chunk, "usage": grown if finish is None else raw}
            used = structs.replace(vendor.counts[1], output=self._said) if finish is None else vendor.counts[1]
            said = {**said, "usage": used}
        self._events.append(say(chunk, **said))
        return self

    def add_text(self, *pieces: str) -> Self:
        """Add text."""
        for piece in pieces:
            as_list = self._vendor.reasoning == "list" and self._said_thought
            self.add_delta({"content": [{"type": "text", "text": piece}] if as_list else piece}, text=piece)
        return self

    @property
    def _said_thought(self) -> bool:
        return any(event.reasoning for event in self._events)

    def add_reasoning(self, *pieces: str) -> Self:
        """Add thoughts, in the vendor's field."""
        field = self._vendor.reasoning
        for piece in pieces:
            detail = {"type": "reasoning.text", "text": piece, "format": "unknown", "index": 0}
            if field == "list":
                delta: Json = {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}]}
            elif field == "details":
                delta = {"content": "", "reasoning": piece, "reasoning_details": [detail]}
            elif field == "only details":
                delta = {"content": "", "reasoning_details": [detail]}
            elif field == "both":
                delta = {"reasoning": piece, "reasoning_content": piece}
            else:
                delta = {"content": None, field: piece}
            self.add_delta(delta, reasoning=piece)
        return self

    def add_calls(self, *calls: SaidCall, cut: int | None = None) -> Self:
        """Add calls in the vendor's way; `cut` leaves the last characters of the last one's arguments out."""
        vendor = self._vendor
        for number, given in enumerate(calls):
            call_id = vendor.ids[number]
            arguments = dump(given.arguments)
            if cut is not None and number == len(calls) - 1:
                arguments = arguments[:-cut]
            whole = cut is None or number < len(calls) - 1
            self._calls.append(SaidCall(given.name, given.arguments if whole else arguments, call_id))
            for delta in _call_deltas(vendor.calls, number, SaidCall(given.name, arguments, call_id)):
                self.add_delta({"tool_calls": delta if vendor.calls == "object" else [delta]})
        return self

    def finish(self, reason: str, *, done: bool | None = None) -> Self:
        """Add the finish reason, the usage and the end mark where the vendor has them."""
        vendor = self._vendor
        raw, used = dict(vendor.counts[0]), vendor.counts[1]
        place = vendor.usage
        more: Json = {"usage": raw} if place == "with" else {"x_groq": {"id": "req_1", "usage": raw}}
        here = place in ("with", "x_groq", "choice")
        if place == "choice":
            choice = {"index": 0, "delta": {}, "finish_reason": vendor.finishes[reason], "usage": raw}
            self._events.append(say(self.build_chunk(choice), usage=used, is_final=True))
        else:
            self.add_delta(
                vendor.last_delta,
                vendor.finishes[reason],
                more=more if here else None,
                is_final=True,
                **({"usage": used} if here else {}),
            )
        for chunk in vendor.behind:
            self._events.append(say(chunk))
        if place == "after":
            self._events.append(say(self.build_chunk(usage=raw), usage=used))
        elif place == "extra":
            choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
            self._events.append(say(self.build_chunk(choice, usage=raw), usage=used))
        if vendor.done if done is None else done:
            self._events.append(DONE)
        return self

    def fail(self) -> Self:
        """Add the vendor's error."""
        data, _, _ = self._vendor.error
        self._events.append(say(data, name=self._vendor.error_event, is_final=True))
        return self

    def add_event(self, event: SaidEvent) -> Self:
        """Add an event as it is."""
        self._events.append(event)
        return self

    def build(self, kind: str, finish: FinishReason = FinishReason.STOP, name: str = "", **more: object) -> StreamCase:
        """Return the stream."""
        vendor = self._vendor
        called = bool(self._calls) and finish is FinishReason.STOP and "failure" not in more
        settings: dict[str, object] = {
            "vendor": vendor.name,
            "kind": kind,
            "provider": vendor.provider,
            "model": vendor.model,
            "framing": vendor.framing,
            "calls": tuple(self._calls),
            "finish": FinishReason.TOOL_CALLS if called else finish,
            "sdk": next((vendor.sdk[key] for key in (name, kind, "*") if key in vendor.sdk), ""),
        }
        return StreamCase(name=f"{vendor.name}: {name or kind}", events=tuple(self._events), **(settings | more))


def _call_deltas(way: str, number: int, call: SaidCall) -> Iterator[Json]:
    """Yield the deltas of a call in one of the ways; its arguments are JSON text."""
    arguments = str(call.arguments)
    kind: Json = {"type": "function"}
    if way == "whole":
        yield {"index": number, "id": call.call_id, **kind, "function": {"name": call.name, "arguments": arguments}}
        return
    if way in ("whole zero", "object"):
        yield {"index": 0, "id": call.call_id, **kind, "function": {"name": call.name, "arguments": arguments}}
        return
    if way == "whole unnumbered":
        yield {"id": call.call_id, **kind, "function": {"name": call.name, "arguments": arguments}}
        return
    index: Json = {} if way == "unnumbered" else {"index": 0 if way == "zero" else number}
    pieces = [arguments[at : at + 7] for at in range(0, len(arguments), 7)]
    yield {**index, "id": call.call_id, **kind, "function": {"name": call.name, "arguments": ""}}
    for piece in pieces:
        if way == "repeated":
            yield {**index, "id": call.call_id, **kind, "function": {"name": call.name, "arguments": piece}}
        elif way in ("empty", "zero"):
            yield {**index, "id": "", **kind, "function": {"name": None, "arguments": piece}}
        else:
            yield {**index, "function": {"arguments": piece}}


Scene = Callable[[ChatVendor], StreamCase]


def list_scenes(vendor: ChatVendor) -> Iterator[StreamCase]:
    """Yield what every vendor sends, in the vendor's form."""
    _, failed, words = vendor.error
    yield ChatStream(vendor).add_text(*TEXT).finish("stop").build("text")
    yield ChatStream(vendor).add_calls(CALL).finish("calls").build("call")
    yield ChatStream(vendor).add_calls(CALL, SECOND).finish("calls").build("parallel calls")
    yield ChatStream(vendor).add_text(*TEXT[:4]).add_calls(SECOND).finish("calls").build("text and call")
    yield ChatStream(vendor).add_calls(BARE).finish("calls").build("call without arguments")
    yield ChatStream(vendor).add_text(*TEXT[:5]).finish("length").build("length", FinishReason.LENGTH)
    yield ChatStream(vendor).add_calls(CALL, cut=9).finish("length").build("length within a call", FinishReason.LENGTH)
    yield ChatStream(vendor).add_text(*TEXT[:2]).finish("filter").build("filter", FinishReason.CONTENT_FILTER)
    yield ChatStream(vendor).add_text(*TEXT[:3]).fail().build("error", failure=failed, words=words)
    yield (
        ChatStream(vendor)
        .add_calls(CALL, cut=20)
        .fail()
        .build("error", name="error within a call", failure=failed, words=words, calls=())
    )
    yield ChatStream(vendor).add_text(*TEXT).finish("stop", done=False).build("no end mark")
    yield ChatStream(vendor).add_text(*TEXT[:5]).build("cut", failure=FailureKind.CUT, has_sdk=False)
    yield build_whole(vendor, "whole answer", "stop", TEXT)
    yield build_whole(vendor, "whole answer", "calls", TEXT[:2], CALL, SECOND)
    if vendor.reasoning:
        yield ChatStream(vendor).add_reasoning(*THOUGHTS).add_text(*TEXT).finish("stop").build("reasoning")
        yield (
            ChatStream(vendor)
            .add_reasoning(*THOUGHTS)
            .add_calls(CALL)
            .finish("calls")
            .build("reasoning", name="reasoning and call")
        )
        yield (
            ChatStream(vendor)
            .add_reasoning(*THOUGHTS[:2])
            .build("cut", name="cut thought", failure=FailureKind.CUT, has_sdk=False)
        )
        yield (
            ChatStream(vendor)
            .add_reasoning(*THOUGHTS)
            .finish("length")
            .build("length", FinishReason.LENGTH, name="length within a thought")
        )


def build_whole(
    vendor: ChatVendor, kind: str, reason: str, pieces: tuple[str, ...], *calls: SaidCall, **more: object
) -> StreamCase:
    """Return a whole JSON answer to a request for a stream."""
    text = "".join(pieces)
    raw, used = dict(vendor.counts[0]), vendor.counts[1]
    written = [
        {"id": vendor.ids[n], "type": "function", "function": {"name": call.name, "arguments": dump(call.arguments)}}
        for n, call in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": written} if calls else {})}
    choice = {"index": 0, "message": message, **vendor.choice, "finish_reason": vendor.finishes[reason]}
    given = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": vendor.model, **vendor.members}
    body = {**given, "choices": [choice], "usage": raw}
    event = say(body, text=text, usage=used, is_final=True)
    return StreamCase(
        name=f"{vendor.name}: {kind}{' with calls' if calls else ''}",
        vendor=vendor.name,
        kind=kind,
        provider=vendor.provider,
        model=vendor.model,
        events=(event,),
        raw=event.data.encode(),
        content_type=JSON_BODY,
        calls=tuple(SaidCall(c.name, c.arguments, vendor.ids[n]) for n, c in enumerate(calls)),
        finish=FinishReason.TOOL_CALLS if calls else FinishReason.STOP,
        has_sdk=False,
    ).replace(**more)
