"""Write answers as Anthropic's `/messages` sends them. Source: the anthropic SDK's `RawMessageStreamEvent`s."""

import json
from collections.abc import Iterator

from hermes.testing.answer import CompleteAnswer, encode_event, to_json
from hermes.testing.script import Fail, StreamError

Block = dict[str, object]

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


def build_usage(answer: CompleteAnswer) -> dict[str, object]:
    """Build the usage object; here `input_tokens` leaves out what was read from and written to the cache."""
    used = answer.usage
    return {
        "input_tokens": used.input - used.cache_read - used.cache_write,
        "cache_creation_input_tokens": used.cache_write,
        "cache_read_input_tokens": used.cache_read,
        "output_tokens": used.output,
        "output_tokens_details": {"thinking_tokens": used.reasoning},
        "service_tier": "standard",
    }


def _parse_input(arguments: str) -> object:
    """Return the arguments as an object; invalid JSON can only be shown in a stream."""
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def _content_blocks(answer: CompleteAnswer) -> list[tuple[Block, list[Block]]]:
    """Return each content block as it begins, with its deltas."""
    say = answer.say
    blocks: list[tuple[Block, list[Block]]] = []
    if say.reasoning:
        deltas: list[Block] = [
            {"type": "thinking_delta", "thinking": part} for part in answer.split_deltas(say.reasoning)
        ]
        deltas.append({"type": "signature_delta", "signature": say.signature})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if say.redacted:
        blocks.append(({"type": "redacted_thinking", "data": say.redacted}, []))
    if say.text:
        deltas = [{"type": "text_delta", "text": part} for part in answer.split_deltas(say.text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call in answer.calls:
        pieces = ["", *answer.split_deltas(call.arguments)]
        begun: Block = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}}
        blocks.append((begun, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]))
    return blocks


def _build_message(answer: CompleteAnswer) -> Block:
    return {
        "id": f"msg_{answer.fingerprint}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": build_usage(answer),
    }


def _stream_events(answer: CompleteAnswer) -> Iterator[Block]:
    full = build_usage(answer)
    yield {"type": "message_start", "message": {**_build_message(answer), "usage": {**full, "output_tokens": 1}}}
    for index, (begun, deltas) in enumerate(_content_blocks(answer)):
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": _STOP_REASONS.get(answer.finish, answer.finish), "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": full}
    yield {"type": "message_stop"}


def encode_events(answer: CompleteAnswer) -> list[bytes]:
    """Encode the whole stream, one element an event."""
    return [encode_event(str(entry["type"]), entry) for entry in _stream_events(answer)]


def encode_whole(answer: CompleteAnswer) -> bytes:
    """Encode the answer to a request that did not ask for a stream."""
    say = answer.say
    content: list[Block] = []
    if say.reasoning:
        content.append({"type": "thinking", "thinking": say.reasoning, "signature": say.signature})
    if say.redacted:
        content.append({"type": "redacted_thinking", "data": say.redacted})
    if say.text:
        content.append({"type": "text", "text": say.text})
    content += [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": _parse_input(call.arguments)}
        for call in answer.calls
    ]
    stop = _STOP_REASONS.get(answer.finish, answer.finish)
    return to_json({**_build_message(answer), "content": content, "stop_reason": stop})


def encode_stream_error(error: StreamError) -> bytes:
    """Encode an error in the middle of a stream."""
    return encode_event("error", {"type": "error", "error": {"type": error.type, "message": error.message}})


def build_error_body(fail: Fail) -> dict[str, object]:
    """Build the body of an HTTP error."""
    kind = fail.type or _ERROR_TYPES.get(fail.status, "api_error" if fail.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": fail.message}, "request_id": "req_scripted"}


_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
