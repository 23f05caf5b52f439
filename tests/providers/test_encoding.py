"""Request bodies, asserted whole, and the promises every wire makes about them."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.core.messages import (
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
    user_message,
)
from hermes.llm.lineage import Lineage
from hermes.providers.encoding import encode_call_arguments
from hermes.providers.wire import load_wire
from tests.providers.canonical_prefix import prefix_elements
from tests.providers.wire_scenes import (
    PICTURE,
    TOOLS,
    WIRES,
    body,
    called,
    elements,
    endpoint,
    frame,
    origin,
    transcript,
)

CHAT, OPENAI, CLAUDE = endpoint("custom"), endpoint("openai"), endpoint("anthropic")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def test_a_chat_request_whole() -> None:
    sent = body(CHAT, *transcript(CHAT), temperature=0.5, max_tokens=99, reasoning_effort="low")
    function = {"name": "read_file", "description": "Read a file.", "parameters": SCHEMA}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    label = {"type": "text", "text": "[picture from the result of shot, call call_2]"}
    call = {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}
    broken = {"name": "read_file", "arguments": '{"_raw":"{\\"path\\": \\"b"}'}
    assert sent == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "max_tokens": 99,
        "reasoning_effort": "low",
        "tools": [{"type": "function", "function": function}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Look."}, picture]},
            {"role": "assistant", "content": "I look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "42"},
            {"role": "tool", "tool_call_id": "call_2", "content": ""},
            {"role": "user", "content": [label, picture, {"type": "text", "text": "And hurry."}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "functions.read:0", "type": "function", "function": broken}],
            },
            {"role": "tool", "tool_call_id": "functions.read:0", "content": "x"},
            {"role": "assistant", "content": ""},
            {"role": "assistant", "content": "stopped \ufffd here"},
            {"role": "user", "content": "下一个"},
        ],
    }


def said(text: str) -> dict[str, object]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def test_a_responses_request_whole() -> None:
    sent = body(OPENAI, *transcript(OPENAI), max_tokens=99, reasoning_effort="high")
    call = {"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": '{"path": "a"}'}
    picture = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}
    label = {"type": "input_text", "text": "[picture from the result of shot, call call_2]"}
    tool = {"type": "function", "name": "read_file", "description": "Read a file.", "parameters": SCHEMA}
    assert sent == {
        "model": "m",
        "stream": True,
        "store": False,
        "max_output_tokens": 99,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "auto"},
        "instructions": "Be brief.",
        "tools": [{**tool, "strict": False}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Look."}, picture]},
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "Hm."}],
                "encrypted_content": '[{"type":"x"}]',
            },
            said("I look."),
            call,
            {"type": "function_call_output", "call_id": "call_1", "output": "42"},
            {"type": "function_call_output", "call_id": "call_2", "output": ""},
            {"role": "user", "content": [label, picture, {"type": "input_text", "text": "And hurry."}]},
            {**call, "call_id": "functions.read:0", "arguments": '{"_raw":"{\\"path\\": \\"b"}'},
            {"type": "function_call_output", "call_id": "functions.read:0", "output": "x"},
            said(""),
            said("stopped \ufffd here"),
            {"role": "user", "content": "下一个"},
        ],
    }


def test_an_anthropic_request_whole() -> None:
    sent = body(CLAUDE, *transcript(CLAUDE), reasoning_effort="high")
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    odd_id = sent["messages"][3]["content"][0]["id"]
    assert odd_id.startswith("call_") and odd_id.replace("_", "").isalnum()
    assert sent == {
        "model": "m",
        "stream": True,
        "max_tokens": 32_000,
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "read_file", "description": "Read a file.", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look."}, picture]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "a"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "42"}]},
                    {"type": "tool_result", "tool_use_id": "call_2", "content": [picture], "is_error": True},
                    {"type": "text", "text": "And hurry."},
                ],
            },
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": odd_id, "name": "read_file", "input": {"_raw": '{"path": "b'}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": odd_id, "content": [{"type": "text", "text": "x"}]}],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "(no text)"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "stopped \ufffd here"}]},
            {"role": "user", "content": [{"type": "text", "text": "下一个"}]},
        ],
    }


def test_older_claude_models_think_by_budget() -> None:
    to = endpoint("anthropic", model="claude-sonnet-4-5-20250929")
    sent = body(to, user_message("hi"), reasoning_effort="high", max_tokens=1000)
    assert (sent["thinking"], sent["max_tokens"]) == ({"type": "enabled", "budget_tokens": 16_384}, 20_480)


def test_the_last_answer_is_asked_for_without_calls_where_that_keeps_the_prefix() -> None:
    assert body(CHAT, user_message("hi"), final=True)["tool_choice"] == "none"
    assert body(OPENAI, user_message("hi"), final=True)["tool_choice"] == "none"
    assert "tool_choice" not in body(CLAUDE, user_message("hi"), final=True)
    with_tools, without = body(CHAT, user_message("hi"), final=True), body(CHAT, user_message("hi"))
    assert with_tools.pop("tool_choice") and with_tools == without


def test_a_model_without_reasoning_is_not_asked_for_any() -> None:
    sent = body(endpoint("openai", model="gpt-4o"), user_message("hi"), reasoning_effort="high")
    assert "include" not in sent and "reasoning" not in sent


@pytest.mark.parametrize(
    ("provider", "reasoning", "expected"),
    [
        ("custom", ReasoningPart(text="Hm.", kind="reasoning_content"), {}),
        ("deepseek", ReasoningPart(text="Hm.", kind="reasoning_content"), {"reasoning_content": "Hm."}),
        ("openrouter", ReasoningPart(text="Hm.", opaque='[{"a":1}]'), {"reasoning_details": [{"a": 1}]}),
        ("openrouter", ReasoningPart(text="Hm.", kind="reasoning"), {"reasoning": "Hm."}),
    ],
)
def test_chat_reasoning_goes_back_as_the_record_says(
    provider: str, reasoning: ReasoningPart, expected: dict[str, object]
) -> None:
    to = endpoint(provider)
    [element] = elements(to, called(to, "{}", reasoning))
    assert {key: value for key, value in element.items() if key.startswith("reasoning")} == expected


def test_reasoning_goes_only_to_the_model_that_wrote_it() -> None:
    thought = ReasoningPart(text="Hm.", kind="thinking", signature="s", opaque='["Hm."]')
    for provider in ("openrouter", "openai", "anthropic"):
        to, other = endpoint(provider), endpoint(provider, model="other")
        assert b"Hm." in load_wire(to.wire).encode_message(called(to, "{}", thought), to)
        assert b"Hm." not in load_wire(to.wire).encode_message(called(other, "{}", thought), to)
    deepseek = endpoint("deepseek")
    [element] = elements(deepseek, called(endpoint("kimi"), "{}", thought))
    assert element["reasoning_content"] == " "


def test_reasoning_that_nothing_follows_is_no_item() -> None:
    alone = Message(role=Role.ASSISTANT, parts=(ReasoningPart(text="Hm.", opaque="e"),), origin=origin(OPENAI))
    assert elements(OPENAI, alone) == [said("")]


def test_what_the_provider_attached_to_a_call_goes_back_to_it_alone() -> None:
    gemini = endpoint("gemini")
    extra = '{"extra_content":{"google":{"thought_signature":"s"}}}'
    call = ToolCallPart(call_id="c", name="t", arguments="{}", extra=extra)
    message = Message(role=Role.ASSISTANT, parts=(call,), origin=origin(gemini))
    [own], [other] = elements(gemini, message), elements(CHAT, message)
    assert own["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}
    assert set(other["tool_calls"][0]) == {"id", "type", "function"}


def test_mistral_gets_nine_letters_the_same_in_call_and_result() -> None:
    to = endpoint("mistral")
    result = Message(role=Role.TOOL, parts=(ToolResultPart(call_id="call_1", name="t", text="x"),))
    [asked, answered] = elements(to, called(to), result)
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"]
    assert len(answered["tool_call_id"]) == 9


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("", {}),
        ("  ", {}),
        ('{"a":1}', {"a": 1}),
        ('{"a":1', {"_raw": '{"a":1'}),
        ("[1]", {"_raw": "[1]"}),
        ('"x"', {"_raw": '"x"'}),
        ('{"a":NaN}', {"_raw": '{"a":NaN}'}),
        ('{"a":"\\ud83d"}', {"a": "\ufffd"}),
        ('{"a":"\ud83d"}', {"a": "\ufffd"}),
        ('{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
        ("{bad \udc00", {"_raw": "{bad \ufffd"}),
    ],
)
def test_stored_arguments_are_always_a_valid_object(written: str, sent: object) -> None:
    assert msgspec.json.decode(bytes(encode_call_arguments(written))) == sent


anything = st.text(st.characters(), max_size=20)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, text=anything),
    st.builds(ImagePart, data=st.just("aGk=")),
    st.builds(ReasoningPart, text=anything, kind=st.just("thinking"), signature=st.text("ab"), opaque=anything),
    st.builds(ToolCallPart, call_id=anything, name=anything, arguments=anything, extra=anything),
    st.builds(
        ToolResultPart,
        call_id=anything,
        name=anything,
        text=anything,
        status=st.sampled_from(ToolStatus),
        images=st.just((PICTURE,)) | st.just(()),
    ),
)
messages = st.builds(
    Message,
    role=st.sampled_from(Role),
    parts=st.lists(parts, max_size=4).map(tuple),
    synthetic=st.booleans(),
    origin=st.sampled_from([None, origin(CHAT), origin(OPENAI), origin(CLAUDE), origin(endpoint("openrouter"))]),
)


@pytest.mark.parametrize("provider", ["custom", "openrouter", "deepseek", "mistral", "openai", "anthropic"])
@settings(max_examples=40, deadline=None)
@given(turns=st.lists(st.lists(messages, min_size=1, max_size=3), min_size=1, max_size=4))
def test_every_request_begins_with_the_one_before(provider: str, turns: list[list[Message]]) -> None:
    to = endpoint(provider)
    growing = Lineage(frame(to), to)
    before: list[bytes] = []
    for turn in turns:
        growing.append_messages(turn)
        now = prefix_elements(growing.build_body())
        assert now[: len(before)] == before
        before = now
    anew = Lineage(frame(to), to)
    fixed = len(prefix_elements(anew.build_body()))
    for message in (message for turn in turns for message in turn):
        alone = Lineage(frame(to), to)
        alone.append_messages([message])
        assert prefix_elements(alone.build_body())[fixed:] == [json_canonical(item) for item in elements(to, message)]
        anew.append_messages([message])
    assert anew.build_body() == growing.build_body()
    assert prefix_elements(growing.build_body(final=True)) == before


def json_canonical(element: dict[str, object]) -> bytes:
    return prefix_elements(json.dumps({"messages": [element]}).encode())[1]


def test_cache_marks_and_plain_texts_do_not_count_in_the_canonical_form() -> None:
    marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    one = {"system": [marked], "messages": [{"role": "user", "content": [marked]}]}
    two = {"system": "x", "messages": [{"content": "x", "role": "user"}]}
    assert prefix_elements(json.dumps(one).encode()) == prefix_elements(json.dumps(two).encode())


@pytest.mark.slow
@pytest.mark.parametrize("name", WIRES)
def test_the_official_packages_accept_what_is_sent(name: str) -> None:
    to = endpoint(WIRES[name])
    sent = body(to, *transcript(to), reasoning_effort="low")
    for message in sent.get("messages", sent.get("input")):
        if message.get("type") in ("reasoning", "message"):
            # The types demand what answers carry; the service refuses an id when nothing is stored.
            message |= {"id": "rs_1", "status": "completed"}
            for content in message.get("content", []):
                content["annotations"] = []
        _element_type(name).validate_python(message)
    for tool in sent["tools"]:
        _tool_type(name).validate_python(tool)
    assert len(sent["tools"]) == len(TOOLS)


def _element_type(name: str) -> "object":
    from pydantic import TypeAdapter

    if name == "anthropic_messages":
        from anthropic.types import MessageParam

        return TypeAdapter(MessageParam)
    if name == "responses":
        from openai.types.responses import ResponseInputItemParam

        return TypeAdapter(ResponseInputItemParam)
    from openai.types.chat import ChatCompletionMessageParam

    return TypeAdapter(ChatCompletionMessageParam)


def _tool_type(name: str) -> "object":
    from pydantic import TypeAdapter

    if name == "anthropic_messages":
        from anthropic.types import ToolParam

        return TypeAdapter(ToolParam)
    if name == "responses":
        from openai.types.responses import FunctionToolParam

        return TypeAdapter(FunctionToolParam)
    from openai.types.chat import ChatCompletionFunctionToolParam

    return TypeAdapter(ChatCompletionFunctionToolParam)
