"""Thoughts in tags, in the content of an answer: split wherever the stream is cut, and never out of a text."""

import json
from collections.abc import Sequence

import pytest

from hermes.core.messages import FinishReason
from hermes.core.stream import Answer, ReasoningDelta, StreamDelta, TextDelta
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.think_tags import ThinkTagSplitter
from hermes.providers.wire import ServerEvent, load_wire

SPLIT = [
    ("<think>hm\nwell</think>\n\nYes.", "hm\nwell", "Yes."),
    ("  \n<think>hm</think>Yes.", "hm", "Yes."),
    ("<think>\n\n</think>\n\nYes.", "", "Yes."),
    ("<thinking>hm</thinking> Yes.", "hm", "Yes."),
    ("<reasoning>\nhm</reasoning>\nYes.", "hm", "Yes."),
    ("[THINK]hm[/THINK]Yes.", "hm", "Yes."),
    ("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.", "hm", "Yes."),
    ("<|channel|>final<|message|>Yes.", "", "Yes."),
    ("<|channel>thought\nhm<channel|>Yes.", "hm", "Yes."),
    (
        "<think>a < b, </thin</think>\nUse `<think>` tags: <think>x</think>",
        "a < b, </thin",
        "Use `<think>` tags: <think>x</think>",
    ),
    ("<think>hm</think>", "hm", ""),
]
WHOLE = [
    "Use <think>x</think> in prompts.",
    "```\n<think>x</think>\n```\nis how it looks.",
    "`<think>` opens it and `</think>` closes it.",
    "<think> and </think> are tags.",
    "<think>, </think>: tags.",
    "<think> is a tag that models write",
    "<thin> lines",
    "</think> closes a thought",
    "<",
    "a </think> b",
    " \n ",
]


def decoded(
    content: str, size: int, *, model: str = "m", finish: str = "stop", more: Sequence[object] = ()
) -> tuple[Answer, list[StreamDelta]]:
    to = resolve_endpoint(ModelChoice(model=model, base_url="http://127.0.0.1:1/v1"), {})
    decoder = load_wire("chat_completions").create_decoder(to)
    deltas: list[StreamDelta] = []
    pieces: list[object] = [{"content": content[at : at + size]} for at in range(0, len(content), size)]
    for delta in [*pieces, *more]:
        deltas += decoder.feed(ServerEvent("", json.dumps({"choices": [{"delta": delta}]})))
    if finish:
        deltas += decoder.feed(ServerEvent("", json.dumps({"choices": [{"delta": {}, "finish_reason": finish}]})))
        deltas += decoder.feed(ServerEvent("", "[DONE]"))
    return decoder.build_answer(), deltas


def shown(deltas: Sequence[StreamDelta]) -> str:
    return "".join(one.text for one in deltas if isinstance(one, TextDelta))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("content", "thought", "text"), SPLIT)
def test_what_an_answer_begins_with_is_a_thought(content: str, thought: str, text: str, size: int) -> None:
    answer, deltas = decoded(content, size)
    assert (answer.message.reasoning.strip(), answer.message.text) == (thought.strip(), text)
    assert shown(deltas) == text
    assert "".join(one.text for one in deltas if isinstance(one, ReasoningDelta)) == answer.message.reasoning


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("content", WHOLE)
def test_an_answer_about_tags_comes_out_whole(content: str, size: int) -> None:
    answer, deltas = decoded(content, size)
    assert (answer.message.text, answer.message.reasoning) == (content, "")
    assert shown(deltas) == content


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_thought_that_the_template_opened(size: int) -> None:
    answer, deltas = decoded("Okay, so\n</think>\n\nYes.", size, model="deepseek-r1:14b")
    assert (answer.message.reasoning, answer.message.text, shown(deltas)) == ("Okay, so\n", "Yes.", "Yes.")
    answer, deltas = decoded("Just an answer.", size, model="Qwen/QwQ-32B")
    assert (answer.message.reasoning, answer.message.text, shown(deltas)) == ("", "Just an answer.", "Just an answer.")
    answer, _ = decoded("It is cut", size, model="qwq", finish="length")
    assert (answer.message.text, answer.message.finish) == ("It is cut", FinishReason.LENGTH)


def test_a_thought_that_is_cut_off_stays_one() -> None:
    for finish in ("length", ""):
        answer, deltas = decoded("<think>hm, and so", 4, finish=finish)
        assert (answer.message.reasoning, answer.message.text, shown(deltas)) == ("hm, and so", "", "")


def test_a_thought_beside_calls_stays_one() -> None:
    call = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    answer, deltas = decoded("<think>I look", 4, finish="tool_calls", more=[call])
    assert (answer.message.reasoning, answer.message.text, shown(deltas)) == ("I look", "", "")
    assert [one.name for one in answer.message.tool_calls()] == ["f"]


def test_a_server_that_tells_thoughts_apart_is_believed() -> None:
    to = resolve_endpoint(ModelChoice(model="deepseek-r1", base_url="http://127.0.0.1:1/v1"), {})
    decoder = load_wire("chat_completions").create_decoder(to)
    message = {"reasoning_content": "hm", "content": "<think>x</think> is\nhow", "role": "assistant"}
    body = {"object": "chat.completion", "choices": [{"message": message, "finish_reason": "stop"}]}
    decoder.feed(ServerEvent("", json.dumps(body)))
    answer = decoder.build_answer().message
    assert (answer.reasoning, answer.text) == ("hm", "<think>x</think> is\nhow")


@pytest.mark.parametrize(
    ("pieces", "thought", "text"),
    [
        ([" "] * 300_000 + ["<think>hm</think>Yes."], "", " " * 300_000 + "<think>hm</think>Yes."),
        (["<think>", *"ab" * 100_000, "</think>", *"\n" * 100_000, "Yes."], "ab" * 100_000, "Yes."),
    ],
    ids=["blanks before", "blanks behind"],
)
def test_an_answer_in_very_many_pieces_is_split_in_no_more_than_moments(
    pieces: list[str], thought: str, text: str
) -> None:
    splitter = ThinkTagSplitter()
    split = [splitter.feed(piece) for piece in pieces] + [splitter.close()]
    assert "".join(one for one, _ in split) == thought and "".join(one for _, one in split) == text
