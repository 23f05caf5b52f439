"""Messages and events with a function applied to every text in them that a person, a model or a disk will get."""

from collections.abc import Callable

from msgspec import structs

from hermes.core.events import (
    ApprovalAsked,
    Event,
    FellBack,
    MessageAppended,
    Notice,
    Queued,
    Refused,
    Retrying,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from hermes.core.messages import Message
from hermes.core.parts import ImagePart, Part, Provenance, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from hermes.core.stream import ReasoningDelta, TextDelta

Redact = Callable[[str], str]
"""Takes secrets out of a text; a text without any comes back as it is."""

_EVENT_TEXT_FIELDS: dict[type, tuple[str, ...]] = {
    TurnStarted: ("text",),
    TurnResumed: ("text",),
    Queued: ("text",),
    FellBack: ("reason",),
    Retrying: ("reason", "message"),
    ToolStarted: ("name", "arguments", "summary"),
    ToolEnded: ("name", "preview"),
    ApprovalAsked: ("subject", "reason", "cwd", "once_covers", "session_covers", "always_covers", "no_covers"),
    Refused: ("subject", "reason", "pattern"),
    Notice: ("text",),
    TurnEnded: ("text", "error"),
    TextDelta: ("text",),
    ReasoningDelta: ("text",),
}

_PART_TEXT_FIELDS: dict[type, tuple[str, ...]] = {
    TextPart: ("text",),
    ImagePart: ("url",),
    ReasoningPart: ("text",),
    ToolCallPart: ("name", "arguments"),
    ToolResultPart: ("name", "text"),
}


def no_redaction(text: str) -> str:
    """Return the text as it is: no redaction."""
    return text


def redact_event(event: Event, redact: Redact) -> Event:
    """Return the event, with its texts redacted; the same object when there is nothing to take out."""
    if isinstance(event, MessageAppended):
        message = redact_message(event.message, redact)
        return event if message is event.message else structs.replace(event, message=message)
    changed = {}
    for name in _EVENT_TEXT_FIELDS.get(type(event), ()):
        text = getattr(event, name)
        if isinstance(text, str) and text and (clean := redact(text)) is not text:
            changed[name] = clean
    return structs.replace(event, **changed) if changed else event


def redact_message(message: Message, redact: Redact) -> Message:
    """Return the message, with every text in it redacted; the same object when there is nothing to take out."""
    parts = tuple(_redact_part(part, redact) for part in message.parts)
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return structs.replace(message, parts=parts)


def _redact_part(part: Part, redact: Redact) -> Part:
    """Return the part with its texts redacted; the same object when there is nothing to redact."""
    changed = {}
    for name in _PART_TEXT_FIELDS[type(part)]:
        text = getattr(part, name)
        if text and (clean := redact(text)) is not text:
            changed[name] = clean
    origin = None if isinstance(part, ReasoningPart | ToolCallPart) else part.provenance
    if (known := _redact_provenance(origin, redact)) is not origin:
        return structs.replace(part, **changed, provenance=known)
    if changed and isinstance(part, ReasoningPart):
        # A signature is for the text as it was: without it the reasoning is shown, and not replayed.
        return structs.replace(part, **changed, signature="", opaque="")
    return structs.replace(part, **changed) if changed else part


def _redact_provenance(origin: Provenance | None, redact: Redact) -> Provenance | None:
    """Return the provenance with its label redacted; the same object when there is nothing to redact."""
    if origin is None or not origin.label or (label := redact(origin.label)) is origin.label:
        return origin
    return structs.replace(origin, label=label)
