"""The values round-trip, and importing the package costs next to nothing."""

import subprocess
import sys

import msgspec

from hermes.core.messages import (
    ImagePart,
    Message,
    Provenance,
    ReasoningPart,
    Role,
    Source,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    program_message,
    user_message,
)


def test_messages_round_trip() -> None:
    messages = [
        user_message("hi", ImagePart(data="aGk=")),
        Message(
            role=Role.ASSISTANT,
            parts=(ReasoningPart(text="hm"), ToolCallPart(call_id="c", name="t", arguments='{"a": 1}')),
        ),
        Message(role=Role.TOOL, parts=(ToolResultPart(call_id="c", name="t", text="ok"),)),
        program_message(Role.ASSISTANT, "stopped"),
    ]
    assert msgspec.json.decode(msgspec.json.encode(messages), type=list[Message]) == messages


def test_injected_text_is_hidden_from_views() -> None:
    message = user_message("hi", *program_message(Role.USER, "today is Friday").parts)
    assert message.text == "hi"


def test_an_answer_that_a_plug_in_has_changed_is_the_answer() -> None:
    changed = TextPart(text="shorter", provenance=Provenance(Source.OTHER, "other:plugin:one"))
    note = TextPart(text="stopped", provenance=Provenance(Source.PROGRAM))
    assert Message(role=Role.ASSISTANT, parts=(changed, note)).text == "shorter"
    assert Message(role=Role.USER, parts=(TextPart(text="hi"), changed, note)).text == "hi"


def test_importing_the_package_imports_no_library() -> None:
    code = "import sys, hermes; print(sorted({'msgspec', 'asyncio', 'httpx2', 'yaml', 'apsw'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
