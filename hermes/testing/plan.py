"""From a reply to the exact bytes of its answer and the moments between them; the same for a socket and without one."""

from http import HTTPStatus
from typing import Protocol

from msgspec import Struct

from hermes.testing import wire_anthropic, wire_chat, wire_responses
from hermes.testing.answer import DefiniteAnswer, definite, encode, event
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Delivery, Ending, Fail, Reply, Say, StreamError


class _Shape(Protocol):
    """What a wire's module offers."""

    def events(self, answer: DefiniteAnswer, /) -> list[bytes]: ...
    def whole(self, answer: DefiniteAnswer, /) -> bytes: ...
    def stream_error(self, error: StreamError, /) -> bytes: ...


_WIRES: dict[str, _Shape] = {
    "chat_completions": wire_chat,
    "responses": wire_responses,
    "anthropic_messages": wire_anthropic,
}
_JSON = "application/json"


class Plan(Struct, frozen=True, kw_only=True):
    """An answer ready to be sent: its pieces go out one by one, then `ending` happens."""

    status: int
    headers: dict[str, str]
    pieces: list[bytes]
    delivery: Delivery
    hold: int | None = None
    streamed: bool = False
    """Whether the body is sent in chunks; otherwise `content-length` is announced."""
    length: int = 0
    """Bytes of the whole body, sent or not."""

    @property
    def ending(self) -> Ending:
        """How it ends."""
        return self.delivery.ending

    @property
    def at_once(self) -> bool:
        """Whether the body can go out in one write."""
        how = self.delivery
        return self.hold is None and not (how.pace or how.body_delay or how.split or how.head_pace)


def plan(reply: Reply, request: RecordedRequest) -> Plan:
    """The answer to `request`. Raises `msgspec.DecodeError` when the request's body is not JSON of the right shape."""
    how = reply.delivery
    if isinstance(reply, Fail):
        body, content_type = _failure(reply, request.wire)
        pieces, streamed, status = [body], False, reply.status
        headers = {name.lower(): value for name, value in reply.headers.items()}
    else:
        content_type, pieces, streamed = _answer(reply, request)
        status, headers = 200, {}
        if how.error is not None and not streamed:
            failed = Fail(500, message=how.error.message, type=how.error.type, code=how.error.code)
            pieces, status = [_failure(failed, request.wire)[0]], 500
    headers = {"content-type": how.content_type or content_type, "x-request-id": f"req_{request.number}", **headers}
    length = sum(map(len, pieces))
    pieces = _damaged(pieces, how, request.wire, streamed=streamed)
    return Plan(
        status=status,
        headers=headers,
        pieces=pieces,
        delivery=how,
        hold=None if how.hold_at is None else _position(how.hold_at, len(pieces)),
        streamed=streamed,
        length=length,
    )


def _answer(say: Say, request: RecordedRequest) -> tuple[str, list[bytes], bool]:
    wire = _WIRES[request.wire]
    answer = definite(say, request)
    if request.head.stream:
        return "text/event-stream; charset=utf-8", wire.events(answer), True
    return _JSON, [wire.whole(answer)], False


def _failure(fail: Fail, wire: str) -> tuple[bytes, str]:
    if isinstance(fail.body, str):
        return fail.body.encode(), "text/html" if fail.body.lstrip().startswith("<") else "text/plain"
    shape = wire_anthropic if wire == "anthropic_messages" else wire_chat
    return encode(shape.error_body(fail) if fail.body is None else fail.body), _JSON


def _position(at: int, count: int) -> int:
    return max(0, at + count) if at < 0 else min(at, count)


def _damaged(pieces: list[bytes], how: Delivery, wire: str, *, streamed: bool) -> list[bytes]:
    """The pieces with the scripted errors in them, as far as they are sent, in the scripted sizes."""
    if how.error is not None and streamed:
        pieces = [*pieces[: _position(how.error_at, len(pieces))], _stream_error(how.error, wire)]
    if how.garbage:
        where = _position(how.garbage_at, len(pieces))
        pieces = [*pieces[:where], how.garbage, *pieces[where:]]
    if how.at is not None:
        pieces = pieces[: _position(how.at, len(pieces))]
    if how.at_bytes is not None:
        pieces = [b"".join(pieces)[: how.at_bytes]]
    if how.split:
        body = b"".join(pieces)
        pieces = [body[start : start + how.split] for start in range(0, len(body), how.split)]
    return pieces


def _stream_error(error: StreamError, wire: str) -> bytes:
    """The event that reports an error; the wires with named events give a vendor's own object the name `error`."""
    if error.body is None:
        return _WIRES[wire].stream_error(error)
    return b"data: " + encode(error.body) + b"\n\n" if wire == "chat_completions" else event("error", error.body)


def head_lines(plan: Plan) -> list[bytes]:
    """The answer's head for HTTP/1.1, a line an element, the empty line included."""
    try:
        phrase = HTTPStatus(plan.status).phrase
    except ValueError:
        phrase = "Unknown"
    framing = {"transfer-encoding": "chunked"} if plan.streamed else {"content-length": str(plan.length)}
    fields = {**plan.headers, **framing}
    lines = [f"HTTP/1.1 {plan.status} {phrase}\r\n", *(f"{name}: {value}\r\n" for name, value in fields.items())]
    return [line.encode("latin-1") for line in [*lines, "\r\n"]]
