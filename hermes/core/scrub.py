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

_TEXTS: dict[type, tuple[str, ...]] = {
    TurnStarted: ("text",),
    TurnResumed: ("text",),
    Queued: ("text",),
    FellBack: ("reason",),
    Retrying: ("reason", "message"),
    ToolStarted: ("name", "arguments", "summary"),
    ToolEnded: ("name", "preview"),
    ApprovalAsked: ("subject", "reason", "cwd", "session_covers", "always_covers"),
    Refused: ("subject", "reason", "pattern"),
    Notice: ("text",),
    TurnEnded: ("error",),
    TextDelta: ("text",),
    ReasoningDelta: ("text",),
}


def plain(text: str) -> str:
    """No redaction."""
    return text


def scrubbed(event: Event, redact: Redact) -> Event:
    """The event, with its texts redacted; the same object when there is nothing to take out."""
    if isinstance(event, MessageAppended):
        message = scrubbed_message(event.message, redact)
        return event if message is event.message else structs.replace(event, message=message)
    changed = {}
    for name in _TEXTS.get(type(event), ()):
        text = getattr(event, name)
        if isinstance(text, str) and text and (clean := redact(text)) is not text:
            changed[name] = clean
    return structs.replace(event, **changed) if changed else event


def scrubbed_message(message: Message, redact: Redact) -> Message:
    """The message, with every text in it redacted; the same object when there is nothing to take out."""
    parts = tuple(_part(part, redact) for part in message.parts)
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return structs.replace(message, parts=parts)


def _part(part: Part, redact: Redact) -> Part:
    match part:
        case TextPart() | ToolResultPart():
            text, origin = redact(part.text), _origin(part.provenance, redact)
            same = text is part.text and origin is part.provenance
            part = part if same else structs.replace(part, text=text, provenance=origin)
            if isinstance(part, ToolResultPart) and (name := redact(part.name)) is not part.name:
                part = structs.replace(part, name=name)
            return part
        case ToolCallPart():
            name, arguments = redact(part.name), redact(part.arguments)
            same = name is part.name and arguments is part.arguments
            return part if same else structs.replace(part, name=name, arguments=arguments)
        case ReasoningPart():
            text = redact(part.text) if part.text else part.text
            # A signature is for the text as it was: without it the reasoning is shown, and not replayed.
            return part if text is part.text else structs.replace(part, text=text, signature="", opaque="")
        case ImagePart():
            url = redact(part.url) if part.url else part.url
            return part if url is part.url else structs.replace(part, url=url)


def _origin(origin: Provenance | None, redact: Redact) -> Provenance | None:
    if origin is None or (label := redact(origin.label)) is origin.label:
        return origin
    return structs.replace(origin, label=label)
