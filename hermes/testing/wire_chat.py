"""Write answers as an OpenAI-style `/chat/completions` sends them.

Source: the openai SDK's `ChatCompletionChunk`; `reasoning_content` as DeepSeek and others stream it.
"""

from hermes.testing.answer import CREATED_AT, CompleteAnswer, to_json
from hermes.testing.script import Fail, StreamError


def build_usage(answer: CompleteAnswer) -> dict[str, object]:
    """Build the usage object."""
    used = answer.usage
    counts: dict[str, object] = {
        "prompt_tokens": used.input,
        "completion_tokens": used.output,
        "total_tokens": used.total,
        "prompt_tokens_details": {"cached_tokens": used.cache_read, "cache_write_tokens": used.cache_write},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
    }
    if used.cost_usd is not None:
        counts["cost"] = used.cost_usd
    return counts


def encode_events(answer: CompleteAnswer) -> list[bytes]:
    """Encode the whole stream, one element an event."""
    about = to_json(
        {
            "id": f"chatcmpl-{answer.fingerprint}",
            "object": "chat.completion.chunk",
            "created": CREATED_AT,
            "model": answer.model,
            "system_fingerprint": "fp_scripted",
        }
    )[:-1]
    head = b"data: " + about + b',"choices":[{"index":0,"delta":'
    no_usage = b',"usage":null' if answer.report_usage else b""
    tail = b',"logprobs":null,"finish_reason":null}]' + no_usage + b"}\n\n"

    def encode_chunk(delta: dict[str, object]) -> bytes:
        return head + to_json(delta) + tail

    say = answer.say
    out = [encode_chunk({"role": "assistant", "content": "", "refusal": None})]
    out += [encode_chunk({say.reasoning_field: piece}) for piece in answer.split_deltas(say.reasoning)]
    out += [encode_chunk({"content": piece}) for piece in answer.split_deltas(say.text)]
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        first = {"index": index, "id": call.call_id, "type": "function", "function": function, **call.extra}
        out.append(encode_chunk({"tool_calls": [first]}))
        for piece in answer.split_deltas(call.arguments):
            out.append(encode_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    finish = b'{},"logprobs":null,"finish_reason":' + to_json(answer.finish) + b"}]" + no_usage + b"}\n\n"
    out.append(head + finish)
    if answer.report_usage:
        out.append(b"data: " + about + b',"choices":[],"usage":' + to_json(build_usage(answer)) + b"}\n\n")
    out.append(b"data: [DONE]\n\n")
    return out


def encode_whole(answer: CompleteAnswer) -> bytes:
    """Encode the answer to a request that did not ask for a stream."""
    say = answer.say
    message: dict[str, object] = {"role": "assistant", "content": say.text or None, "refusal": None}
    if say.reasoning:
        message[say.reasoning_field] = say.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                **call.extra,
            }
            for call in answer.calls
        ]
    return to_json(
        {
            "id": f"chatcmpl-{answer.fingerprint}",
            "object": "chat.completion",
            "created": CREATED_AT,
            "model": answer.model,
            "system_fingerprint": "fp_scripted",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}],
            "usage": build_usage(answer),
        }
    )


def encode_stream_error(error: StreamError) -> bytes:
    """Encode an error in the middle of a stream, as OpenAI and OpenRouter send it."""
    body = {"message": error.message, "type": error.type, "param": None, "code": error.code}
    return b"data: " + to_json({"error": body}) + b"\n\n"


def build_error_body(fail: Fail) -> dict[str, object]:
    """Build the body of an HTTP error."""
    kind = fail.type or _ERROR_TYPES.get(fail.status, "server_error" if fail.status >= 500 else "invalid_request_error")
    return {"error": {"message": fail.message, "type": kind, "param": None, "code": fail.code}}


_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
