"""Streams of the chat completions format that are odd: calls, usage, finish reasons, ends, errors and whole answers."""

from collections.abc import Iterator, Sequence

from hermes.core.messages import FinishReason
from hermes.core.outcomes import FailureKind as Kind
from hermes.core.usage import Usage
from tests.torture.streams.chat_stream import BARE, CALL, SECOND, TEXT, ChatStream, ChatVendor
from tests.torture.streams.chat_vendors import DEEPSEEK, MINIMAX, OPENAI, OPENROUTER, VLLM
from tests.torture.streams.stream_case import (
    DONE,
    EVENT_STREAM,
    JSON_BODY,
    Framing,
    Json,
    SaidCall,
    SaidEvent,
    StreamCase,
    dump,
    say,
)

PLAIN = ChatVendor(name="any", usage="none")
ONE = SaidCall("read", {"x": 1})
TWO = SaidCall("read", {"x": 2})
_DOUBLED = "the SDK adds arguments, ids and names up, however often they come"
_MERGED = "the SDK knows calls by their numbers only"
_RAW = "the SDK reads nothing but data lines"


def list_oddities() -> Iterator[StreamCase]:
    """Yield all of them."""
    yield from _framings()
    yield from _calls()
    yield from _usages()
    yield from _finishes()
    yield from _pieces()
    yield from _ends()
    yield from _errors()
    yield from _whole_answers()


FRAMINGS: dict[str, Framing] = {
    "LF": Framing(),
    "CR LF": Framing(newline="\r\n"),
    "CR": Framing(newline="\r"),
    "no space": Framing(space=""),
    "byte order mark": Framing(mark=b"\xef\xbb\xbf"),
    "byte order mark, CR LF": Framing(mark=b"\xef\xbb\xbf", newline="\r\n"),
    "comments": Framing(between=": ping 1\n:\n\n"),
    "comments between, CR": Framing(between=":\n\n: OPENROUTER PROCESSING\n", newline="\r"),
    "ids and retry": Framing(between="id: 7\nretry: 3000\n"),
    "null ids": Framing(between="id: a\x00b\nid\nretry: soon\n"),
    "unknown fields": Framing(between="foo: bar\nx\ndat: {}\n data: {}\n"),
    "several data lines": Framing(lines=True),
    "several data lines, CR LF": Framing(lines=True, newline="\r\n"),
    "empty events": Framing(between="\n\n\nevent: nothing\n\ndata:\n\n"),
    "empty lines first": Framing(mark=b"\n\n\r\n"),
    "no last empty line": Framing(open_end=True),
    "no last empty line, CR": Framing(open_end=True, newline="\r"),
    "text behind the end": Framing(tail="data: {not json}\n\n\ndata: later\n\n"),
}


def _framings() -> Iterator[StreamCase]:
    for name, framing in FRAMINGS.items():
        sdk = ""
        if name == "empty events":
            sdk = "the SDK parses an event without data"
        for kind, built in (
            ("text", ChatStream(DEEPSEEK).add_reasoning("Hm ", "先").add_text(*TEXT).finish("stop")),
            ("calls", ChatStream(OPENAI).add_calls(CALL, SECOND).finish("calls")),
        ):
            yield built.build("framing", name=f"{kind}, {name}").replace(framing=framing, sdk=sdk, vendor="framing")


def _piece(index: int | None, arguments: object = None, *, name: str | None = None, **more: object) -> Json:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**({} if index is None else {"index": index}), "function": function, **more}


def _called(
    name: str, calls: Sequence[SaidCall], *deltas: Json | Sequence[Json], finish: str = "calls", **more: object
) -> StreamCase:
    stream = ChatStream(PLAIN)
    for delta in deltas:
        stream.add_delta({"tool_calls": [delta] if isinstance(delta, dict) else list(delta)})
    reason = FinishReason.LENGTH if finish == "length" else FinishReason.TOOL_CALLS
    return stream.finish(finish).build("calls", reason, name, calls=tuple(calls), **more)


def _calls() -> Iterator[StreamCase]:
    a, b = SaidCall("read", {"x": 1}, "a"), SaidCall("read", {"x": 2}, "b")
    other = SaidCall("list", {"x": 2}, "b")
    first = _piece(0, '{"x"', id="a", name="read")
    yield _called("all in every piece", [a], first, _piece(0, ":1}", id="a", name="read"), sdk=_DOUBLED)
    yield _called("a new id in every piece", [a], first, _piece(0, ":1}", id="z"), sdk=_DOUBLED)
    whole = _piece(0, '{"x":1}', id="a", name="read")
    yield _called("arguments twice", [a], whole, _piece(0, '{"x":1}', id="a"), sdk=_DOUBLED)
    yield _called("arguments twice, named", [a], whole, whole, sdk=_DOUBLED)
    yield _called("arguments twice, no id", [a], whole, _piece(0, '{"x":1}', name="read"), sdk=_DOUBLED)
    yield _called("pieces, then all once more", [a], first, _piece(0, ":1}"), _piece(0, '{"x":1}'), sdk=_DOUBLED)
    yield _called("late arguments", [a], _piece(0, id="a", name="read"), _piece(0, '{"x":1}'))
    null = {**_piece(0, id="a"), "function": {"name": "read", "arguments": None}}
    yield _called("null arguments first", [a], null, _piece(0, '{"x":1}', id=None))
    yield _called("arguments as an object", [a], _piece(0, {"x": 1}, id="a", name="read"))
    unnumbered = "the SDK needs a number in every piece of a call"
    yield _called("object, no number", [a], _piece(None, {"x": 1}, id="a", name="read"), sdk=unnumbered)
    yield _called("empty object", [SaidCall("now", {}, "a")], _piece(0, {}, id="a", name="now"))
    yield _called("no arguments at all", [SaidCall("now", {}, "a")], _piece(0, id="a", name="now"))
    yield _called("empty arguments", [SaidCall("now", {}, "a")], _piece(0, "", id="a", name="now"))
    spaced = [_piece(0, " {", id="a", name="read"), _piece(0, '\n "x" '), _piece(0, ": 1 }"), _piece(0, "\n")]
    yield _called("blanks around", [a], *spaced)
    yield _called("brace in a text", [SaidCall("read", {"x": "}{"}, "a")], *_cut_call('{"x": "}{"}', 1))
    yield _called("object in an object", [SaidCall("read", {"x": {"x": 1}}, "a")], *_cut_call('{"x":{"x":1}}', 5))
    yield _called("every letter alone", [SaidCall("read", {"é": "🙂"}, "a")], *_cut_call('{"é": "🙂"}', 1))
    no_id = _piece(0, '{"x":1}', name="read")
    yield _called("no id", [ONE], no_id)
    yield _called("no id, two", [ONE, TWO], no_id, _piece(1, '{"x":2}', name="read"))
    yield _called("empty id", [ONE], {**no_id, "id": ""})
    yield _called("interleaved", [a, b], *_interleaved(), sdk="")
    yield _called("in one chunk", [a, b], [whole, _piece(1, '{"x":2}', id="b", name="read")])
    yield _called("backwards", [b, a], _piece(1, '{"x":2}', id="b", name="read"), whole, sdk=_MERGED)
    counted = "the SDK counts calls from 0"
    yield _called("numbered from 1", [a], _piece(1, '{"x":1}', id="a", name="read"), sdk=counted)
    third, seventh = {**whole, "index": 3}, _piece(7, '{"x":2}', id="b", name="read")
    yield _called("numbered 3 and 7", [a, b], third, seventh, sdk=counted)
    zero = _piece(0, '{"x":2}', id="b", name="read")
    yield _called("all numbered 0", [a, b], whole, zero, sdk=_MERGED)
    yield _called(
        "all numbered 0, in pieces", [a, b], *_cut_call('{"x":1}', 3), *_cut_call('{"x":2}', 3, "b"), sdk=_MERGED
    )
    yield _called("all numbered 0, in one chunk", [a, b], [whole, zero], sdk=_MERGED)
    yield _called("all numbered 0, no ids", [ONE, TWO], no_id, _piece(0, '{"x":2}', name="read"), sdk=_MERGED)
    listed = _piece(0, '{"x":2}', name="list")
    yield _called("all numbered 0, no ids, other tools", [ONE, SaidCall("list", {"x": 2})], no_id, listed, sdk=_MERGED)
    yield _called(
        "all numbered 0, no ids, same arguments",
        [ONE, SaidCall("list", {"x": 1})],
        no_id,
        _piece(0, '{"x":1}', name="list"),
        sdk=_MERGED,
    )
    in_pieces = [_piece(0, '{"x"', name="read"), _piece(0, ":1}"), _piece(0, '{"x"', name="list"), _piece(0, ":2}")]
    yield _called("all numbered 0, no ids, pieces", [ONE, SaidCall("list", {"x": 2})], *in_pieces, sdk=_MERGED)
    bare = [_piece(0, "{}", name="now"), _piece(0, "{}", name="list")]
    yield _called(
        "all numbered 0, no ids or arguments", [SaidCall("now", {}), SaidCall("list", {})], *bare, sdk=_MERGED
    )
    same_id = _piece(0, '{"x":2}', id="a", name="list")
    yield _called("all numbered 0, one id", [a, SaidCall("list", {"x": 2})], whole, same_id, sdk=_MERGED)
    yield _called("one id for two", [a, TWO], whole, _piece(1, '{"x":2}', id="a", name="read"))
    yield _called("no number", [a, b], _unnumbered(whole), _unnumbered(zero), sdk=unnumbered)
    loose = [_piece(None, '{"x"', id="a", name="read"), _piece(None, ":1}")]
    loose += [_piece(None, '{"x"', id="b", name="list"), _piece(None, ":2}")]
    yield _called("no number, ids first", [a, other], *loose, sdk=unnumbered)
    crossed = [_piece(None, '{"x"', id="a", name="read"), _piece(None, '{"x"', id="b", name="list")]
    crossed += [_piece(None, ":1}", id="a"), _piece(None, ":2}", id="b")]
    yield _called("no number, interleaved", [a, other], *crossed, sdk=unnumbered)
    nameless = [_piece(None, '{"x":1}', name="read"), _piece(None, '{"x":2}', name="read")]
    yield _called("neither number nor id", [ONE, TWO], *nameless, sdk=unnumbered)
    named = [_piece(0, "", id="a", name="re"), _piece(0, "", name="ad"), _piece(0, '{"x":1}')]
    yield _called("name in pieces", [a], *named)
    with_id = [_piece(0, id="a", name="re"), _piece(0, id="a", name="ad"), _piece(0, '{"x":1}', id="a")]
    yield _called("name in pieces, id again", [a], *with_id, sdk=_DOUBLED)
    growing = [_piece(0, id="a", name="re"), _piece(0, id="a", name="read"), _piece(0, '{"x":1}')]
    yield _called("growing name", [a], *growing, sdk=_DOUBLED)
    yield _called("name last", [a], _piece(0, '{"x":1}', id="a"), _piece(0, name="read"))
    yield _called("id last", [ONE], _piece(0, '{"x":1}', name="read"), _piece(0, "", id="a"), sdk="")
    yield _called(
        "length at the name", [], _piece(0, "", id="a", name="read"), finish="length", sdk="it keeps the call"
    )
    yield _called(
        "length at the second name", [a], whole, _piece(1, "", id="b", name="list"), finish="length", sdk="it keeps it"
    )
    cut = [whole, _piece(1, '{"x', id="b", name="list")]
    yield _called("length in the second", [a, SaidCall("list", '{"x', "b")], *cut, finish="length")


def _unnumbered(piece: Json) -> Json:
    return {key: value for key, value in piece.items() if key != "index"}


def _cut_call(arguments: str, size: int, call_id: str = "a") -> list[Json]:
    pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
    return [_piece(0, "", id=call_id, name="read"), *(_piece(0, piece) for piece in pieces)]


def _interleaved() -> list[Json]:
    begun = [_piece(0, "", id="a", name="read"), _piece(1, "", id="b", name="read")]
    return [*begun, _piece(0, '{"x"'), _piece(1, '{"x":'), _piece(0, ":1"), _piece(1, "2}"), _piece(0, "}")]


def _usages() -> Iterator[StreamCase]:
    raw = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    used = Usage(input=10, output=4)
    stream = ChatStream(PLAIN)

    def made(name: str, *events: SaidEvent, sdk: str = "") -> StreamCase:
        begun = ChatStream(PLAIN).add_text("Hi").build("usage").events
        return ChatStream(PLAIN).build("usage", name=name).replace(events=(*begun, *events), sdk=sdk)

    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    finish = say(stream.build_chunk(end), is_final=True)
    alone = say(stream.build_chunk(usage=raw), usage=used)
    yield made("before the finish reason", alone, finish, DONE)
    yield made("behind it", finish, alone, DONE)
    yield made("with it", say(stream.build_chunk(end, usage=raw), usage=used, is_final=True), DONE)
    yield made("in the choice", say(stream.build_chunk({**end, "usage": raw}), usage=used, is_final=True), DONE)
    yield made("twice", finish, alone, alone, DONE)
    low = say(stream.build_chunk(usage={**raw, "completion_tokens": 1, "total_tokens": 11}), usage=Usage(10, 1))
    yield made("growing", low, finish, alone, DONE)
    yield made("null behind it", finish, alone, say(stream.build_chunk(usage=None)), DONE)
    yield made("empty behind it", finish, alone, say(stream.build_chunk(usage={})), DONE, sdk="the last one counts")
    yield made("without choices", finish, say({"usage": raw}, usage=used), DONE, sdk="the SDK needs choices")
    yield made(
        "null choices", finish, say({"id": "c", "choices": None, "usage": raw}, usage=used), DONE, sdk="it raises"
    )
    yield made("behind the end mark", finish, DONE, say(stream.build_chunk(usage=raw)))
    forms: dict[str, tuple[Json, Usage]] = {
        "null details": ({**raw, "prompt_tokens_details": None, "completion_tokens_details": None}, used),
        "null counts": ({"prompt_tokens": 10, "completion_tokens": None, "total_tokens": None}, Usage(input=10)),
        "fractions": ({"prompt_tokens": 10.0, "completion_tokens": 4.0, "total_tokens": 14.0}, used),
        "texts": ({"prompt_tokens": "10", "completion_tokens": 4}, Usage(output=4)),
        "below zero": ({"prompt_tokens": 10, "completion_tokens": -1}, Usage(input=10)),
        "thoughts outside": (
            {**raw, "total_tokens": 64, "completion_tokens_details": {"reasoning_tokens": 50}},
            Usage(input=10, output=54, reasoning=50),
        ),
        "cost": ({**raw, "cost": 0.5}, Usage(input=10, output=4, cost_usd=0.5)),
        "own key": (
            {**raw, "cost": 0.1, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.4}},
            Usage(input=10, output=4, cost_usd=0.5),
        ),
    }
    for name, (form, meant) in forms.items():
        yield made(name, finish, say(stream.build_chunk(usage=form), usage=meant), DONE).replace(has_sdk=False)


_FINISHES: dict[str, FinishReason] = {
    "stop": FinishReason.STOP,
    "STOP": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "COMPLETE": FinishReason.STOP,
    "tool_calls": FinishReason.STOP,
    "function_call": FinishReason.STOP,
    "tool_use": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "MAX_TOKENS": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "SAFETY": FinishReason.CONTENT_FILTER,
    "RECITATION": FinishReason.CONTENT_FILTER,
    "PROHIBITED_CONTENT": FinishReason.CONTENT_FILTER,
    "BLOCKLIST": FinishReason.CONTENT_FILTER,
    "SPII": FinishReason.CONTENT_FILTER,
    "content_filter: SAFETY": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
    "guardrail_intervened": FinishReason.CONTENT_FILTER,
    "network_error": FinishReason.CUT,
    "insufficient_system_resource": FinishReason.CUT,
    "abort": FinishReason.CUT,
    "a new reason": FinishReason.UNKNOWN,
}


def _finishes() -> Iterator[StreamCase]:
    for reason, meant in _FINISHES.items():
        vendor = ChatVendor(name="any", usage="none", finishes={"stop": reason})
        yield ChatStream(vendor).add_text("Hi").finish("stop").build("finish reason", meant, f"finish {reason}")
    for reason in ("stop", "tool_calls", "function_call", "tool_use", "eos_token", "a new reason"):
        vendor = ChatVendor(name="any", usage="none", finishes={"stop": reason})
        yield ChatStream(vendor).add_calls(CALL).finish("stop").build("finish reason", name=f"calls, then {reason}")
    malformed = ChatVendor(name="any", usage="none", finishes={"stop": "function_call_filter: MALFORMED_FUNCTION_CALL"})
    yield ChatStream(malformed).finish("stop").build("finish reason", FinishReason.UNKNOWN, "malformed call")


def _pieces() -> Iterator[StreamCase]:
    """Text in odd pieces and fields."""
    halves = ("a\ud83d", "\ude42b", "\ud83d", "\ude43", "", "\ud83d", "", "\ude44 c")
    yield ChatStream(PLAIN).add_text(*halves).finish("stop").build("halves", name="emoji cut", sdk="it keeps halves")
    yield (
        ChatStream(PLAIN)
        .add_text("a", "\ud83d")
        .finish("stop")
        .build("halves", name="half an emoji at the end", sdk="it keeps halves", is_stepwise=False)
    )
    yield (
        ChatStream(PLAIN)
        .add_text("a", "\ude42", "b")
        .finish("stop")
        .build("halves", name="a second half alone", sdk="it keeps halves")
    )
    yield (
        ChatStream(DEEPSEEK)
        .add_reasoning("a\ud83d", "\ude42")
        .add_text("\ud83d", "\ude42")
        .finish("stop")
        .build("halves", name="emoji cut in a thought", sdk="it keeps halves")
    )
    yield _called("emoji cut in arguments", [SaidCall("read", {"x": "🙂"}, "a")], *_cut_emoji(), sdk="it keeps halves")
    refusal = ChatStream(OPENAI)
    for piece in ("I will ", "not. 🙂"):
        refusal.add_delta({"refusal": piece}, text=piece)
    yield refusal.finish("stop").build("refusal")
    yield (
        ChatStream(PLAIN)
        .add_delta({"content": None})
        .add_delta({})
        .add_text("Hi")
        .add_delta({"content": None, "tool_calls": None, "refusal": None})
        .finish("stop")
        .build("null members")
    )
    yield (
        ChatStream(PLAIN)
        .add_delta({"content": "", "tool_calls": []})
        .add_text("Hi")
        .finish("stop")
        .build("empty lists")
    )
    yield (
        ChatStream(PLAIN)
        .add_text("a")
        .add_event(say(ChatStream(PLAIN).build_chunk()))
        .add_text("b")
        .finish("stop")
        .build("no choices")
    )
    yield ChatStream(PLAIN).add_text("Hi\x00\x1b[1m\u2028\u0085\r\n\x0b.").finish("stop").build("control characters")
    yield ChatStream(PLAIN).add_text("data: [DONE]\n\n", "[DONE]").finish("stop").build("an end mark in the text")
    yield ChatStream(PLAIN).add_text('{"error": {"message": "no"}}').finish("stop").build("an error in the text")
    yield ChatStream(PLAIN).add_text(*("x" * 5000 for _ in range(20))).finish("stop").build("long text")
    yield ChatStream(PLAIN).add_text(*"letter by letter, 文字, 🙂🙂").finish("stop").build("letters")
    lists: list[tuple[str, list[Json], str, str]] = [
        ("text chunks", [{"type": "text", "text": "Hi"}], "Hi", ""),
        ("thought", [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}], "", "Hm"),
        ("thought as text", [{"type": "thinking", "thinking": "Hm"}], "", "Hm"),
        (
            "closed thought",
            [{"type": "thinking", "thinking": [], "closed": True}, {"type": "text", "text": "Hi"}],
            "Hi",
            "",
        ),
        ("reference", [{"type": "text", "text": "Hi"}, {"type": "reference", "reference_ids": [1]}], "Hi", ""),
    ]
    for name, content, text, reasoning in lists:
        yield (
            ChatStream(PLAIN)
            .add_delta({"content": content}, text=text, reasoning=reasoning)
            .add_text("!")
            .finish("stop")
            .build(
                "content list", name=f"list with {name}", sdk="the SDK expects content to be a string" if text else ""
            )
        )
    both = ChatStream(VLLM).add_reasoning("Hm", " well").add_text("Hi").finish("stop")
    yield both.build("two thought fields")
    mixed = (
        ChatStream(PLAIN)
        .add_delta({"reasoning": "a"}, reasoning="a")
        .add_delta({"reasoning_content": "b"}, reasoning="b")
    )
    yield (
        mixed.add_delta({"reasoning": "c", "content": "Hi"}, reasoning="c", text="Hi")
        .finish("stop")
        .build("two thought fields", name="thought fields by turns")
    )
    late = ChatStream(DEEPSEEK).add_text("Hi").add_reasoning("still").add_text(" there").finish("stop")
    yield late.build("reasoning", name="a thought within the text")
    sealed = ChatStream(OPENROUTER).add_reasoning("Hm")
    sealed.add_delta({"reasoning_details": [{"type": "reasoning.encrypted", "data": "e", "index": 1}]})
    yield sealed.add_text("Hi").finish("stop").build("reasoning", name="sealed details")
    summary = {"type": "reasoning.summary", "summary": "Hm", "index": 0}
    yield (
        ChatStream(OPENROUTER)
        .add_delta({"reasoning_details": [summary]}, reasoning="Hm")
        .add_text("Hi")
        .finish("stop")
        .build("reasoning", name="summary details")
    )


def _cut_emoji() -> list[Json]:
    return [_piece(0, '{"x":"\ud83d', id="a", name="read"), _piece(0, '\ude42"}')]


def _ends() -> Iterator[StreamCase]:
    begun = ChatStream(PLAIN).add_text("Hi")
    yield (
        ChatStream(PLAIN)
        .add_text("Hi")
        .add_event(say("[DONE]", is_final=True))
        .build("end", name="end mark, no finish reason", has_sdk=False)
    )
    yield (
        ChatStream(PLAIN)
        .add_text("Hi")
        .finish("stop", done=False)
        .add_event(say(" [DONE] "))
        .build("end", name="end mark with blanks", sdk="it parses the mark")
    )
    yield ChatStream(PLAIN).add_text("Hi").finish("stop").add_event(DONE).add_event(DONE).build("end", name="end marks")
    behind = ChatStream(PLAIN).add_text("Hi").finish("stop")
    behind.add_event(say(begun.build_chunk({"index": 0, "delta": {"content": " more"}, "finish_reason": None})))
    yield behind.build("end", name="text behind the end mark")
    error = {"error": {"message": "too late", "code": 500}}
    yield (
        ChatStream(PLAIN)
        .add_text("Hi")
        .finish("stop")
        .add_event(say(error))
        .build("end", name="error behind the end mark")
    )
    yield (
        ChatStream(PLAIN)
        .add_text("Hi")
        .finish("stop", done=False)
        .add_event(say(error))
        .build("end", name="error behind the finish reason", sdk="it raises")
    )
    yield (
        ChatStream(PLAIN)
        .add_text("Hi")
        .finish("stop", done=False)
        .add_event(say("{not json"))
        .build("end", name="rubbish behind the finish reason", sdk="it raises")
    )
    yield StreamCase(name="any: nothing", vendor="any", kind="end", events=(), failure=Kind.BAD_RESPONSE, has_sdk=False)
    only = ChatStream(PLAIN).build("end", name="nothing but a role", failure=Kind.CUT, has_sdk=False)
    yield only
    yield (
        ChatStream(PLAIN)
        .add_calls(CALL, cut=3)
        .build("end", name="cut within a call", failure=Kind.CUT, calls=(), has_sdk=False)
    )
    yield (
        ChatStream(PLAIN)
        .add_calls(BARE, CALL, cut=3)
        .build("end", name="cut within the second call", failure=Kind.CUT, has_sdk=False)
    )
    message = {"role": "assistant", "content": "Hi there"}
    final = {"finish_reason": "stop", "index": 0, "message": message}
    for name, vendor in (("MiniMax", MINIMAX), ("any", PLAIN)):
        raw = {
            "id": "c",
            "object": "chat.completion",
            "choices": [final],
            "usage": {"total_tokens": 9, "prompt_tokens": 5},
        }
        stream = ChatStream(vendor).add_text("Hi", " there")
        stream.add_event(say(raw, usage=Usage(input=5, output=4), is_final=True)).add_event(DONE)
        yield stream.build("end", name=f"{name}'s whole message at the end", sdk="the SDK needs a delta")
    called = {
        **message,
        "content": "",
        "tool_calls": [{"id": "a", "function": {"name": "read", "arguments": '{"x":1}'}}],
    }
    again = ChatStream(PLAIN).add_delta({"tool_calls": [_piece(0, '{"x":1}', id="a", name="read")]})
    again.add_event(say(begun.build_chunk({**final, "message": called, "finish_reason": "tool_calls"}), is_final=True))
    yield again.build("end", name="whole message with calls at the end", sdk="the SDK needs a delta").replace(
        calls=(SaidCall("read", {"x": 1}, "a"),), finish=FinishReason.TOOL_CALLS
    )
    thought = {**message, "reasoning_content": "Hm"}
    again = ChatStream(DEEPSEEK).add_reasoning("Hm").add_text("Hi", " there")
    again.add_event(say(begun.build_chunk({**final, "message": thought}), is_final=True)).add_event(DONE)
    yield again.build("end", name="whole message with a thought at the end", sdk="the SDK needs a delta")


_ERRORS: dict[str, tuple[object, str, Kind, str]] = {
    "bare text": ({"error": "the model crashed"}, "", Kind.UNKNOWN, "the model crashed"),
    "text and type": ({"error": "overloaded", "error_type": "overloaded"}, "", Kind.OVERLOADED, "overloaded"),
    "null members": ({"error": {"message": "boom", "type": None, "code": None}}, "", Kind.UNKNOWN, "boom"),
    "status": ({"error": {"message": "slow down", "code": 429}}, "", Kind.RATE_LIMIT, "slow down"),
    "status as text": ({"error": {"message": "slow down", "code": "429"}}, "", Kind.RATE_LIMIT, "slow down"),
    "detail": ({"detail": "Internal server error"}, "", Kind.SERVER_ERROR, "Internal server error"),
    "message": ({"message": "Internal server error"}, "", Kind.SERVER_ERROR, "Internal server error"),
    "event": ({"message": "Internal server error", "status": 500}, "error", Kind.SERVER_ERROR, "Internal server error"),
    "event, text": ("Internal server error", "error", Kind.SERVER_ERROR, "Internal server error"),
    "list": ([{"error": {"code": 500, "message": "Internal"}}], "", Kind.SERVER_ERROR, "Internal"),
    "in the choice": (
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "gone"}}]},
        "",
        Kind.SERVER_ERROR,
        "gone",
    ),
    "finish reason": (
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]},
        "",
        Kind.SERVER_ERROR,
        "broke",
    ),
    "success": ({"code": 500, "msg": "404 NOT_FOUND", "success": False}, "", Kind.SERVER_ERROR, "NOT_FOUND"),
    "rubbish": ("<html>502 Bad Gateway</html>", "", Kind.BAD_RESPONSE, "502 Bad Gateway"),
    "number": ("17", "", Kind.BAD_RESPONSE, "17"),
    "null": ("null", "", Kind.BAD_RESPONSE, "null"),
    "empty list": ("[]", "", Kind.BAD_RESPONSE, "[]"),
}


def _errors() -> Iterator[StreamCase]:
    for name, (data, event, kind, words) in _ERRORS.items():
        told = say(data if isinstance(data, str) else dump(data), name=event, is_final=True)
        for when, stream in (("first", ChatStream(PLAIN)), ("later", ChatStream(PLAIN).add_text("Hi", " there"))):
            built = stream.add_event(told).add_event(DONE).build("error", name=f"{name}, {when}")
            yield built.replace(failure=kind, words=words, finish=FinishReason.STOP, has_sdk=False)
    error = dump(
        {"code": 400, "message": "the request exceeds the available context size", "type": "invalid_request_error"}
    )
    said = ChatStream(PLAIN).add_text("Hi")
    built = said.build("error", name="error field", failure=Kind.CONTEXT_OVERFLOW, words="context size")
    yield built.replace(raw=built.body + f"error: {error}\n\ndata: [DONE]\n\n".encode(), sdk=_RAW)
    yield built.replace(
        name="any: error field alone", raw=f"error: {error}\n\n".encode(), events=(), vendor="any", has_sdk=False
    )
    plain = dump({"error": {"message": "Internal server error", "code": 500}})
    told = {"kind": "error", "failure": Kind.SERVER_ERROR, "words": "Internal server error", "has_sdk": False}
    built = said.build("error", name="raw error in the stream").replace(**told)
    yield built.replace(raw=built.body + plain.encode() + b"\n\n")
    yield built.replace(name="any: raw error alone", raw=plain.encode(), events=())
    pretty = b'{\n  "error": {\n    "message": "Internal server error",\n    "code": 500\n  }\n}\n'
    yield built.replace(name="any: raw error in lines", raw=pretty, events=())


def _whole_answers() -> Iterator[StreamCase]:
    """Whole answers where a stream was asked for, under several types."""
    message: Json = {"role": "assistant", "content": "Hi 🙂"}
    raw = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    body = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": raw,
    }
    event = say(body, text="Hi 🙂", usage=Usage(input=10, output=4), is_final=True)
    case = StreamCase(
        name="any: whole answer",
        vendor="any",
        kind="whole answer",
        events=(event,),
        raw=event.data.encode(),
        has_sdk=False,
    )
    for kind in (JSON_BODY, "application/json; charset=utf-8", "text/plain", "", EVENT_STREAM):
        yield case.replace(name=f"any: whole answer as {kind or 'nothing'}", content_type=kind)
    indented = b'{\n "object": "chat.completion",\n' + event.data[len('{"object":"chat.completion",') :].encode()
    yield case.replace(name="any: whole answer in lines", raw=indented, content_type=JSON_BODY)
    yield case.replace(name="any: whole answer in lines as a stream", raw=indented)
    framed = f"data: {event.data}\n\ndata: [DONE]\n\n".encode()
    yield case.replace(name="any: whole answer in an event", raw=framed)
    yield case.replace(name="any: stream as JSON", raw=framed, content_type=JSON_BODY)
    yield case.replace(name="any: stream as text", raw=b": ping\n\n" + framed, content_type="text/plain")
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": {"x": 1}}}
    loose = {**body, "choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": "stop"}]}
    said = say(loose, usage=Usage(input=10, output=4), is_final=True)
    yield case.replace(
        name="any: whole answer with an object",
        events=(said,),
        raw=said.data.encode(),
        content_type=JSON_BODY,
        calls=(SaidCall("read", {"x": 1}, "a"),),
        finish=FinishReason.TOOL_CALLS,
    )
