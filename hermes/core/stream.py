"""The pieces of a model's answer while it streams, and the whole answer."""

from msgspec import Struct

from hermes.core.messages import Message
from hermes.core.outcomes import FailureKind, Scope
from hermes.core.usage import Usage


class TextDelta(Struct, frozen=True, tag="text_delta"):
    """More of the answer's text."""

    text: str


class ReasoningDelta(Struct, frozen=True, tag="reasoning_delta"):
    """More of the model's reasoning."""

    text: str


class CallStarted(Struct, frozen=True, tag="call_started"):
    """The model has begun to write a tool call; its arguments are still to come."""

    call_id: str
    name: str


StreamDelta = TextDelta | ReasoningDelta | CallStarted


class Answer(Struct, frozen=True, kw_only=True):
    """A whole answer: an assistant message with its finish reason, and its usage.

    `usage` is None when the provider reported none. `served_model` is the model's name as the provider gave it.
    `repeated`: asked to go on, the model only said again what it had said, which is not in the message.
    """

    message: Message
    usage: Usage | None = None
    served_model: str = ""
    repeated: bool = False


class Failure(Struct, frozen=True, kw_only=True):
    """A model call without a whole answer, as a value: its kind, what the provider said, and which recoveries may help.

    `retryable`: the same request may work later; `rotate`: with another key; `fall_back`: with another provider or
    model; `compress`: made shorter. `retry_after` is the provider's own wish in seconds. `partial` holds what had
    arrived before the stream broke (no half-written tool call is ever in it). `usage` is what the call cost all the
    same, where the provider said so.
    """

    kind: FailureKind
    message: str
    hint: str = ""
    status: int = 0
    retryable: bool = False
    rotate: bool = False
    fall_back: bool = False
    compress: bool = False
    scope: Scope = Scope.REQUEST
    retry_after: float | None = None
    partial: Message | None = None
    usage: Usage | None = None
