"""Turn a `Say` into a complete answer to one request: with every id, count and piece of
text that the API formats need.
"""

import json
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from hermes.core.usage import Usage
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Say

CREATED_AT = 1_760_000_000
"""The creation time in every answer; fixed, so that answers are the same in every run."""


class CompleteCall(Struct, frozen=True):
    """A tool call with its id and raw arguments."""

    call_id: str
    name: str
    arguments: str
    extra: Mapping[str, object] = {}


class CompleteAnswer(Struct, frozen=True, kw_only=True):
    """Everything that an API format needs to write the answer.

    `fingerprint` follows from the request's body alone.
    """

    say: Say
    calls: tuple[CompleteCall, ...]
    usage: Usage
    finish: str
    fingerprint: str
    model: str
    report_usage: bool
    encrypted: str

    def split_deltas(self, text: str) -> Iterator[str]:
        """Split a text into pieces of the scripted length."""
        size = max(1, self.say.chunk)
        return (text[start : start + size] for start in range(0, len(text), size))


def complete_answer(say: Say, request: RecordedRequest) -> CompleteAnswer:
    """Fill in what the script left open. Call ids follow from the request's body and the call's position."""
    prefix = "toolu" if request.wire == "anthropic_messages" else "call"
    calls = tuple(
        CompleteCall(
            call.call_id if call.call_id is not None else f"{prefix}_{request.fingerprint}_{index}",
            call.name,
            call.arguments if isinstance(call.arguments, str) else to_json(call.arguments).decode(),
            call.extra,
        )
        for index, call in enumerate(say.calls)
    )
    options = request.head.stream_options or {}
    return CompleteAnswer(
        say=say,
        calls=calls,
        usage=say.usage or _estimate_usage(say, calls, request.size),
        finish=say.finish or ("tool_calls" if calls else "stop"),
        fingerprint=request.fingerprint,
        model=request.head.model or "mock-model",
        report_usage=bool(options.get("include_usage")),
        encrypted=say.signature if b'"reasoning.encrypted_content"' in request.body else "",
    )


def _estimate_usage(say: Say, calls: tuple[CompleteCall, ...], size: int) -> Usage:
    """Estimate the usage at four bytes a token, which is near enough for English and JSON."""
    written = len(say.text) + len(say.reasoning) + sum(len(call.name) + len(call.arguments) for call in calls)
    return Usage(
        input=size // 4 + 1,
        output=written // 4 + 1,
        reasoning=len(say.reasoning) // 4,
    )


def to_json(value: object) -> bytes:
    """Encode JSON. A lone surrogate, which UTF-8 has no bytes for, is escaped as vendors do."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def encode_event(name: str, data: Mapping[str, object]) -> bytes:
    """Encode a server-sent event with a name."""
    return b"event: " + name.encode() + b"\ndata: " + to_json(data) + b"\n\n"
