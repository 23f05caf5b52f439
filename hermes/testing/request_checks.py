"""Check requests as vendors do, so that a test notices an illegal request without a real vendor.

Only rules seen in vendors' own error messages are checked; each function yields one sentence a problem.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from hermes.testing.conversation import as_list, as_object
from hermes.testing.recorded import JsonObject, RecordedRequest

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def find_problems(request: RecordedRequest) -> list[str]:
    """Return why the vendor would refuse this request with a 400; empty if it would not."""
    found = list(_check_tools(request.tool_names))
    match request.wire:
        case "chat_completions":
            found += _check_chat(request.json)
        case "responses":
            found += _check_responses(request.json)
        case _:
            found += _check_anthropic(request.json)
    return found


def _check_tools(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if not _TOOL_NAME.fullmatch(name):
            yield f"tools: name {name!r} does not match ^[a-zA-Z0-9_-]{{1,128}}$"
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."


def _check_chat(body: JsonObject) -> Iterator[str]:
    if not as_list(body.get("messages")):
        yield "[] is too short - 'messages'"
    open_calls: set[str] = set()
    for index, entry in enumerate(as_list(body.get("messages"))):
        message = as_object(entry)
        if message.get("role") == "tool":
            call_id = str(message.get("tool_call_id"))
            if call_id not in open_calls:
                yield (
                    f"messages[{index}]: messages with role 'tool' must be a response to a preceding message "
                    "with 'tool_calls'."
                )
            open_calls.discard(call_id)
            continue
        if open_calls:
            yield f"messages[{index}]: tool_call_ids without response messages: {sorted(open_calls)}"
        open_calls = {str(as_object(call).get("id")) for call in as_list(message.get("tool_calls"))}
        if message.get("role") == "assistant" and not open_calls and message.get("content") is None:
            yield f"messages[{index}]: content or tool_calls must be set"
    if open_calls:
        yield f"tool_call_ids without response messages: {sorted(open_calls)}"


def _check_responses(body: JsonObject) -> Iterator[str]:
    if not body.get("input"):
        yield "One of input, prompt or previous_response_id must be provided."
    open_calls: set[str] = set()
    for index, entry in enumerate(as_list(body.get("input"))):
        item = as_object(entry)
        call_id = str(item.get("call_id"))
        if item.get("type") == "function_call":
            open_calls.add(call_id)
        elif item.get("type") == "function_call_output":
            if call_id not in open_calls:
                yield f"input[{index}]: No tool call found for function call output with call_id {call_id}."
            open_calls.discard(call_id)
    for call_id in sorted(open_calls):
        yield f"No tool output found for function call {call_id}."


def _check_anthropic(body: JsonObject) -> Iterator[str]:
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens: Field required"
    messages = [as_object(message) for message in as_list(body.get("messages"))]
    if not messages or messages[0].get("role") != "user":
        yield "messages: first message must use the user role"
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        blocks = [as_object(block) for block in as_list(message.get("content"))]
        yield from (f"messages.{index}: {problem}" for problem in _check_anthropic_message(message, blocks, open_calls))
        open_calls = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
    if open_calls:
        yield f"`tool_use` ids were found without `tool_result` blocks immediately after: {open_calls}"


def _check_anthropic_message(
    message: Mapping[str, object], blocks: Sequence[Mapping[str, object]], open_calls: Sequence[str]
) -> Iterator[str]:
    if message.get("role") not in {"user", "assistant"}:
        yield "role must be user or assistant"
    if not message.get("content"):
        yield "all messages must have non-empty content"
    answered = [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
    if sorted(answered) != sorted(open_calls):
        yield f"`tool_use` ids and `tool_result` blocks do not match: {open_calls} asked, {answered} answered"
    for block in blocks:
        yield from _check_anthropic_block(block)


def _check_anthropic_block(block: Mapping[str, object]) -> Iterator[str]:
    match block.get("type"):
        case "text" if not block.get("text"):
            yield "text: text content blocks must be non-empty"
        case "tool_use" if not isinstance(block.get("input"), dict):
            yield "tool_use.input: Input should be a valid dictionary"
        case "thinking" if not block.get("signature"):
            yield "thinking.signature: Field required"
