"""A request's conversation in one form for every wire, for models that react to it and for checks."""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct


class StepRole(StrEnum):
    """Whose step it is."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class SentCall(Struct, frozen=True):
    """A tool call as the request repeats it."""

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
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """The value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The value if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def text_of(content: object) -> str:
    """The text of a message's content: a string, or the text blocks of a list, joined by newlines."""
    if isinstance(content, str):
        return content
    texts = (as_object(block).get("text") for block in as_list(content))
    return "\n".join(text for text in texts if isinstance(text, str))


def read_conversation(wire: str, body: Mapping[str, object]) -> list[Step]:
    """The steps of a request on `wire`, the system prompt first."""
    if wire == "responses":
        return list(_responses(body))
    if wire == "anthropic_messages":
        return list(_anthropic(body))
    return list(_chat(body))


def _role(name: object) -> StepRole:
    if name == "developer":
        return StepRole.SYSTEM
    return next((role for role in StepRole if role == name), StepRole.USER)


def _chat(body: Mapping[str, object]) -> Iterable[Step]:
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
            _role(message.get("role")),
            text_of(message.get("content")),
            tuple(calls),
            as_text(message.get("tool_call_id")),
        )


def _responses(body: Mapping[str, object]) -> Iterable[Step]:
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
            yield Step(StepRole.TOOL, text_of(item.get("output")), call_id=call_id)
        else:
            yield Step(_role(item.get("role")), text_of(item.get("content")))
    if calls:
        yield Step(StepRole.ASSISTANT, calls=tuple(calls))


def _anthropic(body: Mapping[str, object]) -> Iterable[Step]:
    if system := text_of(body.get("system")):
        yield Step(StepRole.SYSTEM, system)
    for item in as_list(body.get("messages")):
        message = as_object(item)
        content = message.get("content")
        blocks = [as_object(block) for block in as_list(content)]
        for block in blocks:
            if block.get("type") == "tool_result":
                yield Step(StepRole.TOOL, text_of(block.get("content")), call_id=as_text(block.get("tool_use_id")))
        calls = tuple(
            SentCall(as_text(block.get("id")), as_text(block.get("name")), json.dumps(block.get("input")))
            for block in blocks
            if block.get("type") == "tool_use"
        )
        if not blocks or any(block.get("type") != "tool_result" for block in blocks):
            yield Step(_role(message.get("role")), text_of(content), calls)
