"""The values round-trip, and importing the package costs next to nothing."""

import subprocess
import sys

import msgspec

from hermes.core.messages import (
    ImagePart,
    Message,
    ReasoningPart,
    Role,
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


def test_importing_the_package_imports_no_library() -> None:
    code = "import sys, hermes; print(sorted({'msgspec', 'asyncio', 'httpx2', 'yaml', 'apsw'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
