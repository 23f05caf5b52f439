"""Replies of a scripted model and their delivery: plain values, so that a test reads like a conversation.

For instance:

    ScriptedModel([Say(calls=(Call("read_file", {"path": "a"}),)), Say("It says hello.")])
    ScriptedModel([Fail(429, headers={"retry-after": "1"}), Say("ok", delivery=ReplyDelivery(pace=0.01))])
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from hermes.core.usage import Usage
from hermes.testing.recorded import RecordedRequest


class Ending(StrEnum):
    """How a body ends."""

    WHOLE = "whole"
    STOP = "stop"
    """The body ends properly, though its last events are missing."""
    CUT = "cut"
    """The connection is closed in the middle of the body."""
    RESET = "reset"
    """The connection is reset (RST) in the middle of the body."""
    HANG = "hang"
    """Nothing more comes until the client closes."""


class StreamError(Struct, frozen=True, kw_only=True):
    """An error that the provider reports inside the stream, in the wire's own shape; nothing follows it.

    `body`, where it is given, is the whole object to send instead: any vendor's.
    """

    message: str = "The server had an error while processing your request"
    type: str = "server_error"
    code: str | None = None
    body: Mapping[str, object] | None = None


class ReplyDelivery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a reply is sent. Times are seconds; positions count server-sent events.

    A position may be negative and then counts from the end, as in a slice.
    """

    delay: float = 0.0
    """Pause before the first byte of the answer's head."""
    head_pace: float = 0.0
    """Pause between two lines of the head."""
    body_delay: float = 0.0
    """Pause between the head and the first byte of the body."""
    pace: float = 0.0
    """Pause between two events."""
    split: int = 0
    """Write the body in pieces of so many bytes, wherever they end."""
    ending: Ending = Ending.WHOLE
    at: int | None = None
    """Events sent before `ending` happens (None: all of them)."""
    at_bytes: int | None = None
    """Bytes of the body sent before `ending` happens (None: all of them)."""
    head: bool = True
    """False: `ending` happens before any byte, the head's included."""
    hold_at: int | None = None
    """Wait after so many events until the test calls `release()`."""
    error: StreamError | None = None
    error_at: int = 1
    garbage: bytes = b""
    """Bytes that belong to no protocol, put into the body before event `garbage_at`."""
    garbage_at: int = 1
    content_type: str = ""
    """Send this content type instead of the right one."""


PLAIN_DELIVERY = ReplyDelivery()


class Call(Struct, frozen=True):
    """A tool call.

    `arguments` given as text is sent unchanged, broken or not. `extra` is added to it on the chat wire.
    """

    name: str
    arguments: Mapping[str, object] | str = {}
    call_id: str | None = None
    extra: Mapping[str, object] = {}


class Say(Struct, frozen=True, tag_field="reply", tag="say", forbid_unknown_fields=True):
    """An answer: reasoning, then text, then calls.

    `finish` is a word of `FinishReason` or a vendor's own; empty means what fits. Without `usage` the tokens are
    estimated from lengths. `chunk` is the length of a delta in characters.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None
    finish: str = ""
    chunk: int = 24
    delivery: ReplyDelivery = PLAIN_DELIVERY
    signature: str = "c2lnbmVkIGJ5IHRoZSBzY3JpcHQ="
    """The proof of the reasoning: Anthropic's signature, the encrypted content of a Responses item."""
    redacted: str = ""
    """An Anthropic redacted_thinking block, sent before the text."""
    reasoning_field: str = "reasoning_content"
    """The chat wire's field for reasoning."""


class Fail(Struct, frozen=True, tag_field="reply", tag="fail", forbid_unknown_fields=True):
    """An HTTP error. `body` may be text, a JSON object, or None for one in the wire's own shape with `message`."""

    status: int
    body: str | Mapping[str, object] | None = None
    headers: Mapping[str, str] = {}
    message: str = "scripted failure"
    type: str = ""
    code: str | None = None
    delivery: ReplyDelivery = PLAIN_DELIVERY


Reply = Say | Fail


class ReplyModel(Protocol):
    """Chooses the reply to each request. May wait; the client closing meanwhile ends the wait."""

    def reply(self, request: RecordedRequest) -> Reply | Awaitable[Reply]:
        """Return the reply to `request`."""
        ...


class ScriptedModel:
    """Replies from a list in order, or from a function.

    A list that has run out is answered by `then`, by default with a 400 that says so (a status nobody retries).
    """

    def __init__(
        self,
        replies: Iterable[Reply] | Callable[[RecordedRequest], Reply | Awaitable[Reply]],
        *,
        then: Reply | None = None,
    ) -> None:
        self._function = replies if callable(replies) else None
        self._replies: Sequence[Reply] = () if callable(replies) else tuple(replies)
        self._then = then
        self._next = 0

    @property
    def replies_left(self) -> int:
        """How many replies of the list have not been given yet."""
        return len(self._replies) - self._next

    def reply(self, request: RecordedRequest) -> Reply | Awaitable[Reply]:
        """Return the next reply."""
        if self._function is not None:
            return self._function(request)
        if not self.replies_left:
            return self._then or Fail(400, message=f"the script has no reply for request {request.number}")
        self._next += 1
        return self._replies[self._next - 1]


class RoundsModel:
    """Asks for the same tool `rounds` times, with `{n}` in the arguments counting from 1, then answers `text`.

    Keeps no state: the round is the number of tool results in the whole request, so any number of runs may share a
    server, each in a session of its own. A request that does not offer the tool is answered with the text at once.
    """

    def __init__(self, rounds: int, *, tool: str, arguments: str, text: str = "Done.") -> None:
        self.rounds = rounds
        self.tool = tool
        self.arguments = arguments
        self.text = text

    def reply(self, request: RecordedRequest) -> Reply:
        """Return one more call, or the text."""
        done = request.result_count
        if done >= self.rounds or f'"{self.tool}"'.encode() not in request.body:
            return Say(self.text)
        return Say(calls=(Call(self.tool, self.arguments.replace("{n}", str(done + 1))),))
