"""Plan an answer: its exact bytes and the pauses between them, for a socket and without one."""

from http import HTTPStatus
from typing import Protocol

from msgspec import Struct

from hermes.testing import wire_anthropic, wire_chat, wire_responses
from hermes.testing.answer import CompleteAnswer, complete_answer, encode_event, to_json
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Ending, Fail, Reply, ReplyDelivery, Say, StreamError


class _WireModule(Protocol):
    """The functions of an API format's module."""

    def encode_events(self, answer: CompleteAnswer, /) -> list[bytes]: ...
    def encode_whole(self, answer: CompleteAnswer, /) -> bytes: ...
    def encode_stream_error(self, error: StreamError, /) -> bytes: ...


_WIRE_MODULES: dict[str, _WireModule] = {
    "chat_completions": wire_chat,
    "responses": wire_responses,
    "anthropic_messages": wire_anthropic,
}
_JSON = "application/json"


class AnswerPlan(Struct, frozen=True, kw_only=True):
    """An answer ready to be sent: its pieces go out one by one, then `ending` happens."""

    status: int
    headers: dict[str, str]
    pieces: list[bytes]
    delivery: ReplyDelivery
    hold_index: int | None = None
    streamed: bool = False
    """Whether the body is sent in chunks; otherwise `content-length` is sent."""
    length: int = 0
    """Bytes of the whole body, sent or not."""

    @property
    def ending(self) -> Ending:
        """How the body ends."""
        return self.delivery.ending

    @property
    def at_once(self) -> bool:
        """Whether the body can go out in one write."""
        how = self.delivery
        return self.hold_index is None and not (how.pace or how.body_delay or how.split or how.head_pace)


def plan_answer(reply: Reply, request: RecordedRequest) -> AnswerPlan:
    """Plan the answer to `request`.

    Raises `msgspec.DecodeError` when the request's body is not JSON of the right shape.
    """
    how = reply.delivery
    if isinstance(reply, Fail):
        body, content_type = _encode_failure(reply, request.wire)
        pieces, streamed, status = [body], False, reply.status
        headers = {name.lower(): value for name, value in reply.headers.items()}
    else:
        content_type, pieces, streamed = _encode_answer(reply, request)
        status, headers = 200, {}
        if how.error is not None and not streamed:
            failed = Fail(500, message=how.error.message, type=how.error.type, code=how.error.code)
            pieces, status = [_encode_failure(failed, request.wire)[0]], 500
    headers = {"content-type": how.content_type or content_type, "x-request-id": f"req_{request.number}", **headers}
    length = sum(map(len, pieces))
    pieces = _apply_faults(pieces, how, request.wire, streamed=streamed)
    return AnswerPlan(
        status=status,
        headers=headers,
        pieces=pieces,
        delivery=how,
        hold_index=None if how.hold_at is None else _resolve_position(how.hold_at, len(pieces)),
        streamed=streamed,
        length=length,
    )


def _encode_answer(say: Say, request: RecordedRequest) -> tuple[str, list[bytes], bool]:
    wire = _WIRE_MODULES[request.wire]
    answer = complete_answer(say, request)
    if request.head.stream:
        return "text/event-stream; charset=utf-8", wire.encode_events(answer), True
    return _JSON, [wire.encode_whole(answer)], False


def _encode_failure(fail: Fail, wire: str) -> tuple[bytes, str]:
    if isinstance(fail.body, str):
        return fail.body.encode(), "text/html" if fail.body.lstrip().startswith("<") else "text/plain"
    shape = wire_anthropic if wire == "anthropic_messages" else wire_chat
    return to_json(shape.build_error_body(fail) if fail.body is None else fail.body), _JSON


def _resolve_position(at: int, count: int) -> int:
    return max(0, at + count) if at < 0 else min(at, count)


def _apply_faults(pieces: list[bytes], how: ReplyDelivery, wire: str, *, streamed: bool) -> list[bytes]:
    """Return the pieces with the scripted errors in them, as far as they are sent, in the scripted sizes."""
    if how.error is not None and streamed:
        pieces = [*pieces[: _resolve_position(how.error_at, len(pieces))], _encode_error(how.error, wire)]
    if how.garbage:
        where = _resolve_position(how.garbage_at, len(pieces))
        pieces = [*pieces[:where], how.garbage, *pieces[where:]]
    if how.at is not None:
        pieces = pieces[: _resolve_position(how.at, len(pieces))]
    if how.at_bytes is not None:
        pieces = [b"".join(pieces)[: how.at_bytes]]
    if how.split:
        body = b"".join(pieces)
        pieces = [body[start : start + how.split] for start in range(0, len(body), how.split)]
    return pieces


def _encode_error(error: StreamError, wire: str) -> bytes:
    """Encode the event that reports an error; where events have names, a vendor's own object is named `error`."""
    if error.body is None:
        return _WIRE_MODULES[wire].encode_stream_error(error)
    return (
        b"data: " + to_json(error.body) + b"\n\n" if wire == "chat_completions" else encode_event("error", error.body)
    )


def encode_head(plan: AnswerPlan) -> list[bytes]:
    """Encode the answer's head for HTTP/1.1, a line an element, the empty line included."""
    try:
        phrase = HTTPStatus(plan.status).phrase
    except ValueError:
        phrase = "Unknown"
    framing = {"transfer-encoding": "chunked"} if plan.streamed else {"content-length": str(plan.length)}
    fields = {**plan.headers, **framing}
    lines = [f"HTTP/1.1 {plan.status} {phrase}\r\n", *(f"{name}: {value}\r\n" for name, value in fields.items())]
    return [line.encode("latin-1") for line in [*lines, "\r\n"]]
