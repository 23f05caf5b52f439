"""Write answers as OpenAI's `/responses` sends them. Source: the openai SDK's `ResponseStreamEvent`s."""

from collections.abc import Iterator

from hermes.testing.answer import CREATED_AT, CompleteAnswer, CompleteCall, encode_event, to_json
from hermes.testing.script import StreamError

Item = dict[str, object]

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def build_usage(answer: CompleteAnswer) -> dict[str, object]:
    """Build the usage object."""
    used = answer.usage
    return {
        "input_tokens": used.input,
        "input_tokens_details": {"cached_tokens": used.cache_read, "cache_write_tokens": used.cache_write},
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": used.total,
    }


def _reasoning_item(answer: CompleteAnswer) -> Item:
    item: Item = {
        "id": f"rs_{answer.fingerprint}",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": answer.say.reasoning}],
    }
    if answer.encrypted:
        item["encrypted_content"] = answer.encrypted
    return item


def _message_item(answer: CompleteAnswer) -> Item:
    text = {"type": "output_text", "annotations": [], "logprobs": [], "text": answer.say.text}
    return {
        "id": f"msg_{answer.fingerprint}",
        "type": "message",
        "status": "completed",
        "content": [text],
        "role": "assistant",
    }


def _call_item(answer: CompleteAnswer, call: CompleteCall, index: int) -> Item:
    return {
        "id": f"fc_{answer.fingerprint}_{index}",
        "type": "function_call",
        "status": "completed",
        "arguments": call.arguments,
        "call_id": call.call_id,
        "name": call.name,
    }


def _output_items(answer: CompleteAnswer) -> list[Item]:
    items = [_reasoning_item(answer)] if answer.say.reasoning else []
    if answer.say.text or not answer.calls:
        items.append(_message_item(answer))
    items += [_call_item(answer, call, index) for index, call in enumerate(answer.calls)]
    return items


def _build_response(answer: CompleteAnswer, status: str, output: list[Item]) -> Item:
    reason = _INCOMPLETE.get(answer.finish) if status == "incomplete" else None
    return {
        "id": f"resp_{answer.fingerprint}",
        "object": "response",
        "created_at": CREATED_AT,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "max_output_tokens": None,
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None if status == "in_progress" else build_usage(answer),
        "metadata": {},
    }


def _final_response(answer: CompleteAnswer) -> Item:
    return _build_response(answer, "incomplete" if answer.finish in _INCOMPLETE else "completed", _output_items(answer))


def _reasoning_events(answer: CompleteAnswer, at: Item) -> Iterator[Item]:
    where = {**at, "summary_index": 0}
    text = answer.say.reasoning
    empty, full = {"type": "summary_text", "text": ""}, {"type": "summary_text", "text": text}
    yield {"type": "response.reasoning_summary_part.added", **where, "part": empty}
    for piece in answer.split_deltas(text):
        yield {"type": "response.reasoning_summary_text.delta", **where, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **where, "text": text}
    yield {"type": "response.reasoning_summary_part.done", **where, "part": full}


def _message_events(answer: CompleteAnswer, at: Item) -> Iterator[Item]:
    where = {**at, "content_index": 0}
    text = answer.say.text
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    yield {"type": "response.content_part.added", **where, "part": part}
    for piece in answer.split_deltas(text):
        yield {"type": "response.output_text.delta", **where, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **where, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **where, "part": {**part, "text": text}}


def _call_events(answer: CompleteAnswer, at: Item, arguments: str) -> Iterator[Item]:
    for piece in answer.split_deltas(arguments):
        yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
    yield {"type": "response.function_call_arguments.done", **at, "arguments": arguments}


def _item_events(answer: CompleteAnswer, item: Item, index: int) -> Iterator[Item]:
    at: Item = {"item_id": item["id"], "output_index": index}
    begun = {**item, "status": "in_progress"}
    match item["type"]:
        case "reasoning":
            begun = {"id": item["id"], "type": "reasoning", "summary": []}
            middle = _reasoning_events(answer, at)
        case "message":
            begun["content"] = []
            middle = _message_events(answer, at)
        case _:
            begun["arguments"] = ""
            middle = _call_events(answer, at, str(item["arguments"]))
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    yield from middle
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _stream_events(answer: CompleteAnswer) -> Iterator[Item]:
    started = _build_response(answer, "in_progress", [])
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for index, item in enumerate(_output_items(answer)):
        yield from _item_events(answer, item, index)
    final = _final_response(answer)
    yield {"type": f"response.{final['status']}", "response": final}


def encode_events(answer: CompleteAnswer) -> list[bytes]:
    """Encode the whole stream, one element an event."""
    numbered = ({**entry, "sequence_number": number} for number, entry in enumerate(_stream_events(answer)))
    return [encode_event(str(entry["type"]), entry) for entry in numbered]


def encode_whole(answer: CompleteAnswer) -> bytes:
    """Encode the answer to a request that did not ask for a stream."""
    return to_json(_final_response(answer))


def encode_stream_error(error: StreamError) -> bytes:
    """Encode an error in the middle of a stream: the error event, then the failed response."""
    detail = {"type": error.type, "code": error.code or error.type, "message": error.message, "param": None}
    failed = {
        "id": "resp_failed",
        "object": "response",
        "created_at": CREATED_AT,
        "status": "failed",
        "error": {"code": error.code or error.type, "message": error.message},
        "output": [],
        "usage": None,
    }
    return encode_event("error", {"type": "error", "sequence_number": 98, "error": detail}) + encode_event(
        "response.failed", {"type": "response.failed", "sequence_number": 99, "response": failed}
    )
