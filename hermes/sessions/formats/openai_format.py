"""Convert transcripts to and from the OpenAI format (role, content, tool_calls).

Used by exports, trajectories and `AIAgent`.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hermes.core.encoding import Plain, to_json
from hermes.core.errors import UsageError
from hermes.core.ids import new_call_id
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
    program_message,
    user_message,
)
from hermes.core.sub_agents import brings_reports
from hermes.i18n.messages import N_
from hermes.util.text import clean_surrogates


def to_openai(message: Message, *, hidden: bool = False) -> list[Plain]:
    """Convert one message to dicts; a batch of tool results becomes one dict per result.

    Messages that Hermes itself wrote are left out unless `hidden`.
    """
    if not hidden and (message.synthetic or brings_reports(message)):
        return []
    if hidden and not message.synthetic:
        message = msgspec.structs.replace(message, synthetic=True)  # then all of its text counts
    if message.role is Role.TOOL:
        return _tool_result_dicts(message)
    return [
        _assistant_dict(message)
        if message.role is Role.ASSISTANT
        else {"role": "user", "content": _content_value(message)}
    ]


def _tool_result_dicts(message: Message) -> list[Plain]:
    plain: list[Plain] = [
        {"role": "tool", "tool_call_id": part.call_id, "name": part.name, "content": part.text}
        for part in message.tool_results()
    ]
    return [*plain, {"role": "user", "content": message.text}] if message.text else plain


def _assistant_dict(message: Message) -> Plain:
    result: Plain = {"role": "assistant", "content": _content_value(message)}
    if message.reasoning:
        result["reasoning"] = message.reasoning
    calls = [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls()
    ]
    if calls:
        result["tool_calls"] = calls
    if message.finish is not None:
        result["finish_reason"] = message.finish.value
    return result


def _content_value(message: Message) -> object:
    """Return the content: a string, or a list when there are pictures."""
    images = [
        {"type": "image_url", "image_url": {"url": _image_url(part)}}
        for part in message.parts
        if isinstance(part, ImagePart)
    ]
    return [{"type": "text", "text": message.text}, *images] if images else message.text


def from_openai(history: Sequence[Mapping[str, object]]) -> list[Message]:
    """Convert dicts to messages, and repair their order.

    Results are joined to their calls, and neighbors of one role are joined. A result without its call is left out, a
    call without its result gets one that says so. Raises UsageError for an entry that is not a message at all.
    """
    messages: list[Message] = []
    if isinstance(history, str | bytes | Mapping) or not isinstance(history, Iterable):
        raise UsageError("The history must be a list of messages.")
    for entry in history:
        if not isinstance(entry, Mapping):
            raise UsageError(
                N_("A message of the history is a {name}, not a dict with role and content.", name=type(entry).__name__)
            )
        role = entry.get("role")
        if role == "system":
            continue
        if role == "tool":
            _append_result(messages, entry)
            continue
        if role not in ("user", "assistant"):
            raise UsageError(
                N_("A message of the history has the role {role}.", role=repr(role)),
                "Roles are user, assistant and tool.",
            )
        _complete_batch(messages)
        message = _parse_message(Role(role), entry)
        if messages and messages[-1].role is message.role:
            joined = msgspec.structs.replace(messages[-1], parts=(*messages[-1].parts, *message.parts))
            messages[-1] = joined
        elif message.parts:
            messages.append(message)
    _complete_batch(messages)
    return messages


def _parse_message(role: Role, entry: Mapping[str, object]) -> Message:
    parts = _parse_content(entry.get("content"))
    if role is Role.USER and all(isinstance(part, TextPart) for part in parts):
        return user_message("\n\n".join(part.text for part in parts if isinstance(part, TextPart)))
    if role is Role.ASSISTANT:
        parts = [*_parse_reasoning(entry.get("reasoning")), *parts, *_parse_calls(entry.get("tool_calls"))]
    return Message(role=role, parts=tuple(parts))


def _parse_reasoning(text: object) -> list[Part]:
    return [ReasoningPart(text=clean_surrogates(text))] if isinstance(text, str) and text else []


def _parse_calls(items: object) -> list[Part]:
    calls: dict[str, Part] = {}
    for item in items if isinstance(items, list) else ():
        call = _parse_call(item) if isinstance(item, Mapping) else None
        if call is not None:
            if call.call_id in calls:  # a result could not tell the two apart
                call = msgspec.structs.replace(call, call_id=new_call_id())
            calls[call.call_id] = call
    return list(calls.values())


def _parse_content(content: object) -> list[Part]:
    if isinstance(content, str):
        return [TextPart(text=clean_surrogates(content))] if content else []
    parts: list[Part] = []
    for item in content if isinstance(content, list) else ():
        if not isinstance(item, Mapping):
            continue
        if isinstance(text := item.get("text"), str):
            parts.append(TextPart(text=clean_surrogates(text)))
        picture = item.get("image_url")
        url = picture.get("url") if isinstance(picture, Mapping) else picture
        if isinstance(url, str):
            parts.append(image_from_url(url))
    return parts


def image_from_url(url: str) -> ImagePart:
    """Return a picture part for an address or a `data:` URL."""
    if url.startswith("data:") and ";base64," in url:
        head, data = url[5:].split(";base64,", 1)
        return ImagePart(media_type=head or "image/png", data=data)
    return ImagePart(url=url)


def _parse_call(item: Mapping[str, object]) -> ToolCallPart | None:
    function = item.get("function")
    if not isinstance(function, Mapping) or not isinstance(name := function.get("name"), str):
        return None
    arguments = function.get("arguments")
    raw = arguments if isinstance(arguments, str) else _encode_json(arguments or {})
    call_id = item.get("id")
    return ToolCallPart(
        call_id=call_id if isinstance(call_id, str) and call_id else new_call_id(),
        name=clean_surrogates(name),
        arguments=clean_surrogates(raw),
    )


def _encode_json(value: object) -> str:
    try:
        return to_json(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(N_("A message of the history holds what JSON cannot: {error}.", error=error)) from None


def _append_result(messages: list[Message], entry: Mapping[str, object]) -> None:
    """Append a result to its batch; drop one that no call asked for."""
    batch = messages[-1] if messages and messages[-1].role is Role.TOOL else None
    before = messages[:-1] if batch is not None else messages
    known = {part.call_id for part in batch.tool_results()} if batch is not None else set()
    wanted = {call.call_id: call for call in before[-1].tool_calls()} if before else {}
    call = wanted.get(str(entry.get("tool_call_id")))
    if call is None or call.call_id in known:
        return
    content = entry.get("content")
    text = content if isinstance(content, str) else _encode_json(content)
    result = ToolResultPart(call_id=call.call_id, name=call.name, text=clean_surrogates(text))
    if batch is None:
        messages.append(Message(role=Role.TOOL, parts=(result,)))
    else:
        messages[-1] = msgspec.structs.replace(batch, parts=(*batch.parts, result))


def _complete_batch(messages: list[Message]) -> None:
    """Give every call of the last batch a result, in call order."""
    if not messages:
        return
    batch = messages.pop() if messages[-1].role is Role.TOOL else None
    if not messages:
        return
    known = {part.call_id: part for part in batch.tool_results()} if batch is not None else {}
    calls = tuple(messages[-1].tool_calls())
    if calls:
        missing = "No result was kept for this call."
        parts = tuple(
            known.get(call.call_id)
            or ToolResultPart(call_id=call.call_id, name=call.name, text=missing, status=ToolStatus.UNCERTAIN)
            for call in calls
        )
        messages.append(Message(role=Role.TOOL, parts=parts))


def history_for_prompt(history: Sequence[Mapping[str, object]], *, keeps_open_calls: bool = False) -> list[Message]:
    """Convert dicts like `from_openai`, and end with an assistant message so that a user message may follow.

    With `keeps_open_calls` the calls that the history ends with stay open: their results come with the next message.
    """
    messages = from_openai(history)
    if keeps_open_calls and len(messages) > 1 and messages[-1].role is Role.TOOL:
        messages.pop()
    if messages and messages[-1].role is not Role.ASSISTANT:
        messages.append(program_message(Role.ASSISTANT, "(No answer was kept here.)"))
    return messages


def _image_url(part: ImagePart) -> str:
    return part.url or f"data:{part.media_type};base64,{part.data}"
