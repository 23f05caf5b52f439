"""Read a request's conversation into one form for every API format, for models that react to it and for checks."""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct


class StepRole(StrEnum):
    """The role of a step."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


_ROLES = {**{role.value: role for role in StepRole}, "developer": StepRole.SYSTEM}


class SentCall(Struct, frozen=True):
    """A tool call as the request repeats it to the model."""

    call_id: str
    name: str
    arguments: str


class Step(Struct, frozen=True):
    """A message, or one tool result. `call_id` belongs to a tool's step, `calls` to the assistant's."""

    role: StepRole
    text: str = ""
    calls: tuple[SentCall, ...] = ()
    call_id: str = ""


def as_object(value: object) -> Mapping[str, object]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Return the value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return the value if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def content_text(content: object) -> str:
    """Return the text of a message's content: a string, or the text blocks of a list, joined by newlines."""
    if isinstance(content, str):
        return content
    texts = (as_object(block).get("text") for block in as_list(content))
    return "\n".join(text for text in texts if isinstance(text, str))


def read_conversation(wire: str, body: Mapping[str, object]) -> list[Step]:
    """Return the steps of a request on `wire`, the system prompt first."""
    if wire == "responses":
        return list(_read_responses(body))
    if wire == "anthropic_messages":
        return list(_read_anthropic(body))
    return list(_read_chat(body))


def _parse_role(name: object) -> StepRole:
    return _ROLES.get(name, StepRole.USER) if isinstance(name, str) else StepRole.USER


def _read_chat(body: Mapping[str, object]) -> Iterable[Step]:
    for item in as_list(body.get("messages")):
        message = as_object(item)
        calls = []
        for entry in as_list(message.get("tool_calls")):
            function = as_object(as_object(entry).get("function"))
            calls.append(
                SentCall(
                    as_text(as_object(entry).get("id")),
                    as_text(function.get("name")),
                    as_text(function.get("arguments")),
                )
            )
        yield Step(
            _parse_role(message.get("role")),
            content_text(message.get("content")),
            tuple(calls),
            as_text(message.get("tool_call_id")),
        )


def _read_responses(body: Mapping[str, object]) -> Iterable[Step]:
    if instructions := as_text(body.get("instructions")):
        yield Step(StepRole.SYSTEM, instructions)
    sent = body.get("input")
    if isinstance(sent, str):
        yield Step(StepRole.USER, sent)
    calls: list[SentCall] = []
    for entry in as_list(sent):
        item = as_object(entry)
        call_id = as_text(item.get("call_id"))
        match item.get("type", "message"):
            case "function_call":
                calls.append(SentCall(call_id, as_text(item.get("name")), as_text(item.get("arguments"))))
                continue
            case "reasoning":
                continue
            case _ if calls:
                yield Step(StepRole.ASSISTANT, calls=tuple(calls))
                calls.clear()
        if item.get("type") == "function_call_output":
            yield Step(StepRole.TOOL, content_text(item.get("output")), call_id=call_id)
        else:
            yield Step(_parse_role(item.get("role")), content_text(item.get("content")))
    if calls:
        yield Step(StepRole.ASSISTANT, calls=tuple(calls))


def _read_anthropic(body: Mapping[str, object]) -> Iterable[Step]:
    if system := content_text(body.get("system")):
        yield Step(StepRole.SYSTEM, system)
    for item in as_list(body.get("messages")):
        message = as_object(item)
        content = message.get("content")
        blocks = [as_object(block) for block in as_list(content)]
        for block in blocks:
            if block.get("type") == "tool_result":
                yield Step(StepRole.TOOL, content_text(block.get("content")), call_id=as_text(block.get("tool_use_id")))
        calls = tuple(
            SentCall(as_text(block.get("id")), as_text(block.get("name")), json.dumps(block.get("input")))
            for block in blocks
            if block.get("type") == "tool_use"
        )
        if not blocks or any(block.get("type") != "tool_result" for block in blocks):
            yield Step(_parse_role(message.get("role")), content_text(content), calls)
