"""Transcripts to and from the form everybody knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import UsageError
from hermes.core.messages import (
    ImagePart,
    Message,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    program_message,
    user_message,
)
from hermes.sessions.formats.openai_format import from_openai, history_for_prompt, to_openai

pytestmark = pytest.mark.slow

CALLS = [{"id": name, "type": "function", "function": {"name": "t", "arguments": "{}"}} for name in ("a", "b")]


def test_a_conversation_round_trips() -> None:
    messages = [
        user_message("look", ImagePart(media_type="image/png", data="aGk=")),
        Message(
            role=Role.ASSISTANT,
            parts=(
                ReasoningPart(text="hm"),
                TextPart(text="I see"),
                ToolCallPart(call_id="a", name="t", arguments="{}"),
                ToolCallPart(call_id="b", name="t", arguments='{"x": 1}'),
            ),
        ),
        Message(
            role=Role.TOOL,
            parts=(
                ToolResultPart(call_id="a", name="t", text="one"),
                ToolResultPart(call_id="b", name="t", text="two"),
            ),
        ),
        Message(role=Role.ASSISTANT, parts=(TextPart(text="done"),)),
    ]
    plain = [entry for message in messages for entry in to_openai(message)]
    again = from_openai(plain)
    assert [message.role for message in again] == [message.role for message in messages]
    assert [entry for message in again for entry in to_openai(message)] == plain


def test_what_hermes_wrote_itself_is_hidden_unless_asked_for() -> None:
    note = program_message(Role.ASSISTANT, "(stopped)")
    assert to_openai(note) == []
    assert to_openai(note, hidden=True) == [{"role": "assistant", "content": "(stopped)"}]


def test_results_are_put_in_call_order_and_missing_ones_are_said() -> None:
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "b", "content": "second"},
        {"role": "tool", "tool_call_id": "b", "content": "a repeat"},
        {"role": "tool", "tool_call_id": "zzz", "content": "an orphan"},
    ]
    batch = from_openai(history)[-1]
    assert [(part.call_id, part.text) for part in batch.tool_results()] == [
        ("a", "No result was kept for this call."),
        ("b", "second"),
    ]
    assert history_for_prompt(history)[-1].role is Role.ASSISTANT


def test_an_entry_that_is_no_message_is_refused() -> None:
    with pytest.raises(UsageError, match="role"):
        from_openai([{"role": "wizard", "content": "x"}])


ENTRIES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant", "tool"]),
        "content": st.one_of(
            st.none(), st.text(max_size=8), st.lists(st.fixed_dictionaries({"text": st.text(max_size=4)}))
        ),
    },
    optional={
        "tool_calls": st.one_of(
            st.none(), st.lists(st.sampled_from(CALLS), max_size=3, unique_by=lambda call: str(call["id"]))
        ),
        "tool_call_id": st.sampled_from(["a", "b", "c"]),
    },
)


@given(st.lists(ENTRIES, max_size=8))
def test_any_history_becomes_a_legal_one(history: list[dict[str, object]]) -> None:
    messages = history_for_prompt(history)
    open_calls: list[str] = []
    previous = None
    for message in messages:
        if message.role is Role.TOOL:
            assert [part.call_id for part in message.tool_results()] == open_calls
        else:
            assert message.role is not previous or previous is None
            assert not open_calls or previous is Role.TOOL
        open_calls = [call.call_id for call in message.tool_calls()]
        previous = message.role
    assert not messages or messages[-1].role is Role.ASSISTANT
    assert not open_calls
