"""A `Say` made definite for one request: every id, count and piece of text that the wires render."""

import json
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from hermes.core.usage import Usage
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Say

CREATED = 1_760_000_000
"""The creation time that every answer claims; fixed, so that answers are the same in every run."""


class DefiniteCall(Struct, frozen=True):
    """A call with its id and raw arguments."""

    call_id: str
    name: str
    arguments: str
    extra: Mapping[str, object] = {}


class DefiniteAnswer(Struct, frozen=True, kw_only=True):
    """Everything a wire needs to write the answer. `fingerprint` follows from the request's body alone."""

    say: Say
    calls: tuple[DefiniteCall, ...]
    usage: Usage
    finish: str
    fingerprint: str
    model: str
    report_usage: bool
    encrypted: str

    def deltas(self, text: str) -> Iterator[str]:
        """The text in pieces of the scripted length."""
        size = max(1, self.say.chunk)
        return (text[start : start + size] for start in range(0, len(text), size))


def definite(say: Say, request: RecordedRequest) -> DefiniteAnswer:
    """Fill in what the script left open. Call ids follow from the request's body and the call's position."""
    prefix = "toolu" if request.wire == "anthropic_messages" else "call"
    calls = tuple(
        DefiniteCall(
            call.call_id if call.call_id is not None else f"{prefix}_{request.fingerprint}_{index}",
            call.name,
            call.arguments if isinstance(call.arguments, str) else encode(call.arguments).decode(),
            call.extra,
        )
        for index, call in enumerate(say.calls)
    )
    options = request.head.stream_options or {}
    return DefiniteAnswer(
        say=say,
        calls=calls,
        usage=say.usage or _estimate(say, calls, request.size),
        finish=say.finish or ("tool_calls" if calls else "stop"),
        fingerprint=request.fingerprint,
        model=request.head.model or "mock-model",
        report_usage=bool(options.get("include_usage")),
        encrypted=say.signature if b'"reasoning.encrypted_content"' in request.body else "",
    )


def _estimate(say: Say, calls: tuple[DefiniteCall, ...], size: int) -> Usage:
    """Four bytes a token, which is near enough for English and JSON."""
    written = len(say.text) + len(say.reasoning) + sum(len(call.name) + len(call.arguments) for call in calls)
    return Usage(
        input=size // 4 + 1,
        output=written // 4 + 1,
        reasoning=len(say.reasoning) // 4,
    )


def encode(value: object) -> bytes:
    """JSON. Text with a lone surrogate, which UTF-8 has no bytes for, is written with escapes as vendors do."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def event(name: str, data: Mapping[str, object]) -> bytes:
    """One server-sent event with a name."""
    return b"event: " + name.encode() + b"\ndata: " + encode(data) + b"\n\n"
