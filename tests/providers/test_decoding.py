"""Answers of three vendors' kinds, as they are and as some gateways bend them."""

import json
import re

import pytest

from hermes.core.messages import FinishReason, ReasoningPart, TextPart, ToolCallPart
from hermes.core.stream import Answer, CallStarted, ReasoningDelta, TextDelta
from hermes.core.usage import MAX_CALL_TOKENS, Usage
from hermes.providers.wire import WireError
from tests.providers.loopback_server import chat_chunk
from tests.providers.wire_scenes import decode, endpoint

CHAT, OPENAI, CLAUDE = endpoint("custom"), endpoint("openai"), endpoint("anthropic")


def call_delta(index: int | None, arguments: str | None, **more: object) -> dict[str, object]:
    name = more.pop("name", None)
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    given = {"function": function, **more} if index is None else {"index": index, "function": function, **more}
    return chat_chunk({"tool_calls": [given]})


def calls_of(answer: Answer) -> list[tuple[str, str, str]]:
    return [(call.call_id, call.name, call.arguments) for call in answer.message.tool_calls()]


def test_chat_text_reasoning_and_usage() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 7,
        "total_tokens": 17,
        "cost": 0.25,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    deltas, answer = decode(
        CHAT,
        chat_chunk({"role": "assistant", "content": ""}),
        chat_chunk({"reasoning_content": "Hm"}),
        chat_chunk({"reasoning_content": "."}),
        chat_chunk({"content": "Hel"}),
        chat_chunk({"content": "lo"}, "stop"),
        {"id": "c", "choices": [], "usage": usage},
        "[DONE]",
    )
    assert deltas == [ReasoningDelta("Hm"), ReasoningDelta("."), TextDelta("Hel"), TextDelta("lo")]
    assert answer.message.parts == (ReasoningPart(text="Hm.", kind="reasoning_content"), TextPart(text="Hello"))
    assert answer.message.finish is FinishReason.STOP
    assert answer.served_model == "served"
    assert answer.usage == Usage(input=10, output=7, cache_read=4, cache_write=2, reasoning=3, cost_usd=0.25)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}, Usage(5, 1, 4)),
        ({"prompt_tokens": 5, "completion_tokens": 1, "cached_tokens": 3}, Usage(5, 1, 3)),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 1,
                "total_tokens": 106,
                "completion_tokens_details": {"reasoning_tokens": 100},
            },
            Usage(input=5, output=101, reasoning=100),
        ),
        ({"prompt_tokens": None, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(output=2)),
    ],
)
def test_chat_usage_under_the_vendors_own_names(usage: dict[str, object], expected: Usage) -> None:
    for place in ({"usage": usage}, {"x_groq": {"usage": usage}}):
        assert decode(CHAT, chat_chunk({"content": "a"}, "stop", **place))[1].usage == expected


def test_chat_reasoning_sent_in_two_fields_counts_once() -> None:
    detail = {"type": "reasoning.text", "index": 0, "text": "a"}
    deltas, answer = decode(
        CHAT,
        chat_chunk({"reasoning": "a", "reasoning_content": "a", "reasoning_details": [detail]}),
        chat_chunk({"reasoning": "b", "reasoning_details": [{**detail, "text": "b", "signature": "s"}]}),
        chat_chunk({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "e"}]}),
        chat_chunk({"content": "x"}, "stop"),
    )
    assert deltas == [ReasoningDelta("a"), ReasoningDelta("b"), TextDelta("x")]
    [part] = [part for part in answer.message.parts if isinstance(part, ReasoningPart)]
    assert (part.text, part.kind) == ("ab", "reasoning_details")
    assert json.loads(part.opaque) == [
        {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "e"},
    ]


def test_chat_content_as_mistral_sends_it() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    deltas, _ = decode(CHAT, chat_chunk({"content": [thinking, {"type": "text", "text": "Hi"}]}, "stop"))
    assert deltas == [ReasoningDelta("Hm"), TextDelta("Hi")]


def test_chat_parallel_calls_interleaved() -> None:
    deltas, answer = decode(
        CHAT,
        call_delta(0, "", id="a", name="read"),
        call_delta(1, "", id="b", name="list"),
        call_delta(0, '{"x"'),
        call_delta(1, "{}"),
        call_delta(0, ":1}"),
        chat_chunk({}, "tool_calls"),
        "[DONE]",
    )
    assert deltas == [CallStarted(call_id="a", name="read"), CallStarted(call_id="b", name="list")]
    assert calls_of(answer) == [("a", "read", '{"x":1}'), ("b", "list", "{}")]
    assert answer.message.finish is FinishReason.TOOL_CALLS


ONE = [("a", "read", '{"x":1}')]
TWO = [("a", "read", '{"x":1}'), ("b", "read", '{"x":2}')]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param(
            [call_delta(0, '{"x"', id="a", name="read"), call_delta(0, ":1}", id="a", name="read")],
            ONE,
            id="id and name in every delta",
        ),
        pytest.param(
            [call_delta(0, '{"x"', id="a", name="read"), call_delta(0, ":1}", id="z")], ONE, id="a new id every delta"
        ),
        pytest.param(
            [call_delta(0, '{"x":1}', id="a", name="read"), call_delta(0, '{"x":1}', id="a")],
            ONE,
            id="the whole arguments once more at the end",
        ),
        pytest.param(
            [call_delta(None, '{"x":1}', id="a", name="read"), call_delta(None, '{"x":2}', id="b", name="read")],
            TWO,
            id="no index",
        ),
        pytest.param(
            [
                call_delta(None, '{"x"', id="a", name="read"),
                call_delta(None, ":1}"),
                call_delta(None, '{"x"', id="b", name="read"),
                call_delta(None, ":2}"),
            ],
            TWO,
            id="no index, id in the first delta only",
        ),
        pytest.param(
            [call_delta(0, '{"x":1}', id="a", name="read"), call_delta(0, '{"x":2}', id="b", name="read")],
            TWO,
            id="every call has index 0",
        ),
        pytest.param([call_delta(0, None, id="a", name="read"), call_delta(0, '{"x":1}')], ONE, id="late arguments"),
        pytest.param(
            [chat_chunk({"tool_calls": [{"id": "a", "function": {"name": "read", "arguments": {"x": 1}}}]})],
            ONE,
            id="arguments as an object",
        ),
    ],
)
def test_chat_calls_of_careless_vendors(deltas: list[object], expected: list[tuple[str, str, str]]) -> None:
    assert calls_of(decode(CHAT, *deltas, chat_chunk({}, "stop"))[1]) == expected


def test_chat_calls_without_index_and_id() -> None:
    pieces = [call_delta(None, '{"x":1}', name="read"), call_delta(None, '{"x":2}', name="read")]
    calls = calls_of(decode(CHAT, *pieces, chat_chunk({}, "tool_calls"))[1])
    assert [call[1:] for call in calls] == [("read", '{"x":1}'), ("read", '{"x":2}')]
    assert calls[0][0] != calls[1][0] and all(re.fullmatch(r"call_[0-9a-f]{18}", call[0]) for call in calls)


def test_chat_calls_that_share_an_id_are_told_apart() -> None:
    pieces = [call_delta(0, "{}", id="a", name="read"), call_delta(1, "{}", id="a", name="list")]
    first, second = calls_of(decode(CHAT, *pieces, chat_chunk({}, "tool_calls"))[1])
    assert first[0] == "a" != second[0] and second[1] == "list"


def test_gemini_keeps_what_is_attached_to_a_call() -> None:
    attached = {"google": {"thought_signature": "s"}}
    _, answer = decode(CHAT, call_delta(0, "{}", id="a", name="read", extra_content=attached), chat_chunk({}, "stop"))
    [call] = answer.message.tool_calls()
    assert json.loads(call.extra) == {"extra_content": attached}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("length", FinishReason.LENGTH),
        ("max_tokens", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("eos", FinishReason.STOP),
        ("STOP", FinishReason.STOP),
        ("tool_calls", FinishReason.STOP),
        ("insufficient_system_resource", FinishReason.CUT),
        ("whatever", FinishReason.UNKNOWN),
    ],
)
def test_chat_finish_reasons(reason: str, finish: FinishReason) -> None:
    assert decode(CHAT, chat_chunk({"content": "a"}, reason))[1].message.finish is finish


def test_a_chat_stream_may_end_without_a_finish_reason() -> None:
    assert decode(CHAT, chat_chunk({"content": "a"}), "[DONE]")[1].message.finish is FinishReason.STOP


def test_a_cut_chat_stream_keeps_no_half_call() -> None:
    _, answer = decode(
        CHAT,
        chat_chunk({"content": "I read"}),
        call_delta(0, '{"x":1}', id="a", name="read"),
        call_delta(1, '{"x":', id="b", name="read"),
    )
    assert answer.message.text == "I read"
    assert calls_of(answer) == ONE
    assert answer.message.finish is FinishReason.CUT


def test_truncated_arguments_stand_as_they_came() -> None:
    _, answer = decode(CHAT, call_delta(0, '{"x":', id="a", name="read"), chat_chunk({}, "length"))
    assert calls_of(answer) == [("a", "read", '{"x":')]
    assert answer.message.finish is FinishReason.LENGTH


def test_a_whole_chat_answer_that_was_not_streamed() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"x":1}'}}
    message = {"role": "assistant", "content": "Hi", "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    whole = {"object": "chat.completion", "choices": [choice], "usage": {"prompt_tokens": 1}}
    deltas, answer = decode(CHAT, whole)
    assert deltas == [TextDelta("Hi"), CallStarted(call_id="a", name="read")]
    assert (calls_of(answer), answer.usage) == (ONE, Usage(input=1))


SPLIT = ['{"choices":[{"delta":{"content":"a\\ud83d"}}]}', '{"choices":[{"delta":{"content":"\\ude00b"}}]}']


def test_an_emoji_split_over_two_deltas() -> None:
    deltas, answer = decode(CHAT, *SPLIT, chat_chunk({}, "stop"))
    assert deltas == [TextDelta("a"), TextDelta("😀b")]
    assert answer.message.text == "a😀b"
    assert decode(CHAT, SPLIT[0], chat_chunk({}, "stop"))[1].message.text == "a\ufffd"


def test_an_emoji_split_in_arguments_and_in_claudes_text() -> None:
    halves = ['{"x":"\ud83d', '\ude00"}']
    _, answer = decode(CHAT, *(call_delta(0, half, id="a", name="read") for half in halves), chat_chunk({}, "stop"))
    assert calls_of(answer) == [("a", "read", '{"x":"😀"}')]
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    pieces = [{"type": "content_block_delta", "delta": {"type": "text_delta", "text": t}} for t in ("\ud83d", "\ude00")]
    assert decode(CLAUDE, start, *pieces)[0] == [TextDelta("😀")]


@pytest.mark.parametrize(
    ("to", "event", "code", "status", "words"),
    [
        (CHAT, {"error": {"message": "Slow down", "code": 429}}, "429", 429, "Slow down"),
        (CHAT, {"error": "boom"}, "", 0, "boom"),
        (
            CHAT,
            {"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "upstream"}}},
            "502",
            502,
            "Provider returned error: upstream",
        ),
        (CHAT, chat_chunk({}, "error"), "error", 0, "finish reason"),
        (CHAT, "<html>", "not_json", 0, "not JSON"),
        (CHAT, "[1]", "not_json", 0, "not an object"),
        (
            OPENAI,
            {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "x"}}},
            "server_error",
            0,
            "x",
        ),
        (OPENAI, {"type": "error", "code": "rate_limit_exceeded", "message": "y"}, "rate_limit_exceeded", 0, "y"),
        (OPENAI, {"type": "error", "error": {"type": "t", "message": "z"}}, "", 0, "z"),
        # The next three as llama-server sends them.
        (CHAT, {"error": {"code": 500, "message": "u", "type": "server_error"}}, "500", 500, "u"),
        (OPENAI, {"error": {"code": 500, "message": "u", "type": "server_error"}}, "500", 500, "u"),
        (CLAUDE, ("error", {"code": 500, "message": "u", "type": "server_error"}), "500", 500, "u"),
        (CLAUDE, ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "w"}}), "", 0, "w"),
    ],
)
def test_errors_inside_a_stream(to: object, event: object, code: str, status: int, words: str) -> None:
    with pytest.raises(WireError, match=words) as caught:
        decode(to, event)
    assert (caught.value.code, caught.value.status) == (code, status)


def item(kind: str, index: int, **fields: object) -> dict[str, object]:
    return {"type": kind, "output_index": index, **fields}


def test_responses_text_reasoning_calls_and_usage() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
    call = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "read"}
    text = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi"}]}
    usage = {
        "input_tokens": 10,
        "output_tokens": 8,
        "input_tokens_details": {"cached_tokens": 6},
        "output_tokens_details": {"reasoning_tokens": 5},
    }
    deltas, answer = decode(
        OPENAI,
        {"type": "response.created", "response": {"model": "gpt-x", "status": "in_progress"}},
        item("response.output_item.added", 0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
        item("response.reasoning_summary_text.delta", 0, delta="Hm."),
        item("response.output_item.done", 0, item={**thought, "encrypted_content": "E"}),
        item("response.output_item.added", 1, item={"type": "message", "id": "msg_1"}),
        item("response.output_text.delta", 1, delta="Hi"),
        item("response.output_item.done", 1, item=text),
        item("response.output_item.added", 2, item=call),
        item("response.output_item.added", 3, item={**call, "id": "fc_2", "call_id": "b"}),
        item("response.function_call_arguments.delta", 3, delta='{"x":2}'),
        item("response.function_call_arguments.delta", 2, delta='{"x"'),
        item("response.function_call_arguments.done", 2, arguments='{"x":1}'),
        item("response.output_item.done", 2, item={**call, "arguments": '{"x":1}'}),
        {"type": "response.unknown.thing", "delta": "?"},
        {"type": "response.completed", "response": {"status": "completed", "usage": usage, "output": [thought, text]}},
    )
    assert deltas == [
        ReasoningDelta("Hm."),
        TextDelta("Hi"),
        CallStarted(call_id="a", name="read"),
        CallStarted(call_id="b", name="read"),
    ]
    assert answer.message.parts == (
        ReasoningPart(text="Hm.", kind="reasoning", opaque="E", item_id="rs_1"),
        TextPart(text="Hi"),
        ToolCallPart(call_id="a", name="read", arguments='{"x":1}', item_id="fc_1"),
        ToolCallPart(call_id="b", name="read", arguments='{"x":2}', item_id="fc_2"),
    )
    assert answer.message.finish is FinishReason.TOOL_CALLS
    assert answer.usage == Usage(input=10, output=8, cache_read=6, reasoning=5)
    assert answer.served_model == "gpt-x"


def test_responses_that_bring_everything_at_the_end() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "read", "arguments": '{"x":1}'}
    text = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    final = {"object": "response", "status": "completed", "output": [text, call]}
    for event in ({"type": "response.completed", "response": final}, final):
        deltas, answer = decode(OPENAI, event)
        assert deltas == [TextDelta("Hi"), CallStarted(call_id="a", name="read")]
        assert calls_of(answer) == ONE


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", FinishReason.LENGTH), ("content_filter", FinishReason.CONTENT_FILTER)]
)
def test_incomplete_responses(reason: str, finish: FinishReason) -> None:
    response = {"status": "incomplete", "incomplete_details": {"reason": reason}}
    assert decode(OPENAI, {"type": "response.incomplete", "response": response})[1].message.finish is finish


def test_a_cut_response_keeps_only_what_is_whole() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "read"}
    _, answer = decode(
        OPENAI,
        item("response.output_text.delta", 0, delta="Hi"),
        item("response.output_item.done", 1, item={**call, "arguments": '{"x":1}'}),
        item("response.output_item.added", 2, item={**call, "call_id": "b"}),
        item("response.function_call_arguments.delta", 2, delta='{"x":'),
    )
    assert (answer.message.text, calls_of(answer), answer.message.finish) == ("Hi", ONE, FinishReason.CUT)


def block(index: int, start: dict[str, object], *deltas: dict[str, object], stop: bool = True) -> list[object]:
    events: list[object] = [{"type": "content_block_start", "index": index, "content_block": start}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, *([{"type": "content_block_stop", "index": index}] if stop else [])]


def tool_use(call_id: str, *pieces: str) -> tuple[dict[str, object], list[dict[str, object]]]:
    start = {"type": "tool_use", "id": call_id, "name": "read", "input": {}}
    return start, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def test_claude_thinking_text_calls_and_usage() -> None:
    first, second = tool_use("a", "", '{"x"', ":1}"), tool_use("b")
    begun = {"input_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 1}
    ended = {"output_tokens": 9, "input_tokens": 0, "output_tokens_details": {"thinking_tokens": 4}}
    deltas, answer = decode(
        CLAUDE,
        {"type": "message_start", "message": {"model": "claude-x", "usage": begun}},
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": ""},
            {"type": "thinking_delta", "thinking": "Hm"},
            {"type": "signature_delta", "signature": "sig"},
        ),
        *block(1, {"type": "redacted_thinking", "data": "R"}),
        *block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}),
        *block(3, first[0], *first[1]),
        *block(4, second[0], *second[1]),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": ended},
        {"type": "message_stop"},
    )
    assert deltas == [
        ReasoningDelta("Hm"),
        TextDelta("Hi"),
        CallStarted(call_id="a", name="read"),
        CallStarted(call_id="b", name="read"),
    ]
    assert answer.message.parts == (
        ReasoningPart(text="Hm", kind="thinking", signature="sig"),
        ReasoningPart(kind="redacted_thinking", opaque="R"),
        TextPart(text="Hi"),
        ToolCallPart(call_id="a", name="read", arguments='{"x":1}'),
        ToolCallPart(call_id="b", name="read", arguments="{}"),
    )
    assert answer.message.finish is FinishReason.TOOL_CALLS
    assert answer.usage == Usage(input=10, output=9, cache_read=5, cache_write=2, reasoning=4)
    assert answer.served_model == "claude-x"


def test_text_blocks_of_claude_side_by_side_are_one_text() -> None:
    def text(index: int, said: str) -> list[dict[str, object]]:
        return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": said})

    search = block(3, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    cited = [
        *text(0, "Paris has "),
        *text(1, "2 million people"),
        *text(2, ""),
        *search,
        *text(4, "And"),
        *text(5, " more."),
    ]
    deltas, answer = decode(CLAUDE, *cited, ended)
    assert answer.message.parts == (TextPart(text="Paris has 2 million people"), TextPart(text="And more."))
    assert "".join(one.text for one in deltas if isinstance(one, TextDelta)) == "Paris has 2 million peopleAnd more."


def test_a_whole_claude_answer_that_was_not_streamed() -> None:
    content = [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "a", "name": "read", "input": {"x": 1}}]
    whole = {"type": "message", "model": "c", "content": content, "stop_reason": "tool_use", "usage": {}}
    deltas, answer = decode(CLAUDE, whole)
    assert deltas == [TextDelta("Hi"), CallStarted(call_id="a", name="read")]
    assert calls_of(answer) == ONE


def test_a_cut_claude_stream_keeps_only_closed_calls() -> None:
    first, second = tool_use("a", '{"x":1}'), tool_use("b", '{"x":')
    _, answer = decode(
        CLAUDE,
        *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}, stop=False),
        *block(1, first[0], *first[1]),
        *block(2, second[0], *second[1], stop=False),
    )
    assert (answer.message.text, calls_of(answer), answer.message.finish) == ("Hi", ONE, FinishReason.CUT)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("pause_turn", FinishReason.UNKNOWN),
    ],
)
def test_claude_stop_reasons(reason: str, finish: FinishReason) -> None:
    assert decode(CLAUDE, {"type": "message_delta", "delta": {"stop_reason": reason}})[1].message.finish is finish


LIES = [(-5_000_000, 0), (10**30, MAX_CALL_TOKENS), (1e300, MAX_CALL_TOKENS), ("7", 0), (None, 0), (True, 1)]


@pytest.mark.parametrize(("lie", "counted"), LIES)
def test_no_count_is_below_zero_or_beyond_all_sense(lie: object, counted: int) -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 50, "cache_read_input_tokens": lie}}}
    deltas = [{"type": "message_delta", "delta": {}, "usage": {"output_tokens": lie}}, {"type": "message_stop"}]
    claude = decode(CLAUDE, start, *deltas)[1].usage
    assert claude == Usage(min(50 + counted, MAX_CALL_TOKENS), counted, counted)
    usage = {"input_tokens": 50, "output_tokens": lie}
    response = decode(OPENAI, {"type": "response.completed", "response": {"status": "completed", "usage": usage}})
    assert response[1].usage == Usage(50, counted)
    chat = decode(CHAT, chat_chunk({}, "stop", usage={"prompt_tokens": 50, "completion_tokens": lie}))
    assert chat[1].usage == Usage(50, counted)


@pytest.mark.parametrize(
    ("given", "cost"),
    [
        ({"cost": -3}, None),
        ({"cost": 10**400}, 1e6),
        ({"cost": "0.1"}, None),
        ({"cost": 0.5, "cost_details": {"upstream_inference_cost": 0.25}}, 0.5),
        ({"cost": 0.5, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.25}}, 0.75),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, 0.0),
    ],
)
def test_a_reported_cost_is_an_amount_and_has_all_its_parts(given: dict[str, object], cost: float | None) -> None:
    answer = decode(CHAT, chat_chunk({}, "stop", usage={"prompt_tokens": 5, **given}))[1]
    assert answer.usage == Usage(input=5, cost_usd=cost)
