"""A scripted server that is strict by name refuses what that server refuses, with its sentence and status."""

import json

import pytest

from hermes.testing.recorded import RecordedRequest
from hermes.testing.template_rules import NAMED_RULES, TemplateRules

CALL = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
U, A, S = {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}, {"role": "system", "content": "s"}
C, T = (
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "t"},
)
EMPTY = {"role": "assistant", "content": ""}
TWO = {**C, "tool_calls": [CALL, {**CALL, "id": "c2"}]}


def asked(*messages: dict[str, object]) -> RecordedRequest:
    body = json.dumps({"model": "m", "messages": messages}).encode()
    return RecordedRequest("POST", "/v1/chat/completions", {}, body, 0)


@pytest.mark.parametrize(
    ("name", "messages", "status", "words"),
    [
        ("mistral", (S, U, C, T, U), 400, "Unexpected role 'user' after role 'tool'"),
        ("mistral", (S, U, EMPTY, U), 400, "but not none"),
        ("mistral", (U, A), 400, "Expected last role"),
        ("devstral", (S, U, U), 500, "except for tool calls and results"),
        ("gemma", (S, U), 500, "System role not supported"),
        ("gemma", (U, U), 500, "must alternate user/assistant"),
        ("ministral", (S, U, C, T), 500, "Only user and assistant roles"),
        ("llama", (S, U, TWO, T, {**T, "tool_call_id": "c2"}), 500, "single tool-calls"),
        ("qwen", (S, A, U), 500, "No user query"),
        ("qwen", (S, U, A), 400, "prefill is incompatible"),
        ("qwen", (U, S, U), 500, "must be at the beginning"),
        ("deepseek", (S, U, U), 400, "successive"),
        ("deepseek", (S, U, A, U), 400, "must be passed back"),
    ],
)
def test_what_is_refused(name: str, messages: tuple[dict[str, object], ...], status: int, words: str) -> None:
    refusal = NAMED_RULES[name].find_refusal(asked(*messages))
    assert refusal is not None and refusal.status == status
    assert words in str(refusal.body or refusal.message)


@pytest.mark.parametrize("name", sorted(set(NAMED_RULES) - {"deepseek"}))
def test_turns_of_words_are_taken(name: str) -> None:
    system = () if name == "gemma" else (S,)
    assert NAMED_RULES[name].find_refusal(asked(*system, U, A, U)) is None


def test_content_that_must_be_text() -> None:
    listed = {"role": "user", "content": [{"type": "text", "text": "u"}]}
    assert TemplateRules().find_refusal(asked(listed)) is None
    assert TemplateRules(text_only=True).find_refusal(asked(listed)) is not None
