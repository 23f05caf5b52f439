"""Messages, of which a transcript is made, and their parts, each of which can say where it came from.

A transcript only ever grows. One batch of tool results is one message (role `tool`, one result part a call, in call
order, then any text that joins the conversation at that point). So every message encodes by itself, whatever comes
before or after it.
"""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct


class Source(StrEnum):
    """The source of a piece of text; what may be done with the text later depends on it."""

    PERSON = "person"
    MODEL = "model"
    PROGRAM = "program"
    TOOL = "tool"
    FILE = "file"
    WEB = "web"
    MCP = "mcp"
    OTHER = "other"


_UNTRUSTED_SOURCES = frozenset({Source.WEB, Source.MCP, Source.OTHER, Source.FILE})


class Provenance(Struct, frozen=True, omit_defaults=True):
    """The origin of a part: its kind, and the tool, path or URL that it came through.

    `vouched` is true when the person trusts this origin, as with files of a trusted project.
    """

    source: Source
    label: str = ""
    vouched: bool = False

    @property
    def is_untrusted(self) -> bool:
        """Return whether it is untrusted content: it comes from outside and the person does not trust its origin."""
        return self.source in _UNTRUSTED_SOURCES and not self.vouched


class TextPart(Struct, frozen=True, omit_defaults=True, tag="text"):
    """Plain text. In a user's message a part from `Source.PROGRAM` was added by Hermes and is hidden from views."""

    text: str
    provenance: Provenance | None = None


PICTURE_PREFIX = "picture:"
"""What the name of a picture in a conversation begins with."""


class ImagePart(Struct, frozen=True, omit_defaults=True, tag="image"):
    """A picture: base64 `data` with its media type, or a `url` that the provider fetches."""

    media_type: str = "image/png"
    data: str = ""
    url: str = ""
    provenance: Provenance | None = None

    @property
    def reference(self) -> str:
        """Return what names it to a tool: its address, or `picture:` with a hash of what it shows."""
        if not self.data:
            return self.url
        from hashlib import blake2b

        return PICTURE_PREFIX + blake2b(self.data.encode(), digest_size=8).hexdigest()


class ReasoningPart(Struct, frozen=True, omit_defaults=True, tag="reasoning"):
    """A model's reasoning. `signature` and `opaque` are the provider's own, replayed untouched or not at all.

    `kind` names the shape the provider gave it in (for instance `thinking`, `redacted_thinking`, `reasoning`,
    `reasoning_content`), so that the same API format can give it back in the same shape. `item_id` is the provider's
    id.
    """

    text: str = ""
    kind: str = ""
    signature: str = ""
    opaque: str = ""
    item_id: str = ""


class ToolCallPart(Struct, frozen=True, omit_defaults=True, tag="call"):
    """A call as the model wrote it; `arguments` is the raw JSON text. What clearly means one object, though it is not
    valid JSON, was made one before the call was stored; it is never repaired later.

    `extra` is a JSON object that the provider attached to the call and wants back (empty when there is none);
    `item_id` is the provider's own id of the item, apart from the id that joins a call to its result.
    """

    call_id: str
    name: str
    arguments: str
    extra: str = ""
    item_id: str = ""


class ToolStatus(StrEnum):
    """The status with which a call ended."""

    OK = "ok"
    ERROR = "error"
    INVALID = "invalid"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"
    UNCERTAIN = "uncertain"


class ToolResultPart(Struct, frozen=True, omit_defaults=True, tag="result"):
    """The result of a tool call, as the model is shown it."""

    call_id: str
    name: str
    text: str
    status: ToolStatus = ToolStatus.OK
    images: tuple[ImagePart, ...] = ()
    provenance: Provenance | None = None


Part = TextPart | ImagePart | ReasoningPart | ToolCallPart | ToolResultPart


class Role(StrEnum):
    """The role of a message's author."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class FinishReason(StrEnum):
    """The reason why a model stopped, in one vocabulary for every API format."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    CUT = "cut"
    UNKNOWN = "unknown"


class Origin(Struct, frozen=True, omit_defaults=True):
    """The model that wrote an assistant message; its reasoning is replayed only to that same model."""

    provider: str
    model: str
    wire: str


class Message(Struct, frozen=True, omit_defaults=True):
    """One step of a conversation.

    `synthetic` marks what Hermes itself wrote to keep the transcript legal or the model going (a closing note, a
    continuation request); such messages are sent to the model and hidden from views.
    """

    role: Role
    parts: tuple[Part, ...]
    synthetic: bool = False
    finish: FinishReason | None = None
    origin: Origin | None = None

    @property
    def text(self) -> str:
        """Return the author's text: text parts, joined. What Hermes put into other people's messages is left out.

        An answer that a hook has changed is the answer still, also where its text then comes from a plug-in.
        """
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart) and self._is_own_text(part))

    def _is_own_text(self, part: TextPart) -> bool:
        if self.synthetic or part.provenance is None:
            return True
        source = part.provenance.source
        return source is not Source.PROGRAM if self.role is Role.ASSISTANT else source is Source.PERSON

    @property
    def reasoning(self) -> str:
        """Return the readable reasoning of the message, joined."""
        return "\n".join(part.text for part in self.parts if isinstance(part, ReasoningPart) and part.text)

    def tool_calls(self) -> Iterator[ToolCallPart]:
        """Return the tool calls of the message, in the model's order."""
        return (part for part in self.parts if isinstance(part, ToolCallPart))

    def tool_results(self) -> Iterator[ToolResultPart]:
        """Return the tool results of the message, in call order."""
        return (part for part in self.parts if isinstance(part, ToolResultPart))

    def images(self) -> Iterator[ImagePart]:
        """Return the pictures of the message, those in tool results too."""
        for part in self.parts:
            if isinstance(part, ImagePart):
                yield part
            elif isinstance(part, ToolResultPart):
                yield from part.images


PERSON = Provenance(source=Source.PERSON)
PROGRAM = Provenance(source=Source.PROGRAM)


def user_message(text: str, *more: Part) -> Message:
    """Return a person's message; `more` are pictures or injected parts."""
    return Message(role=Role.USER, parts=(TextPart(text=text, provenance=PERSON), *more))


def program_message(role: Role, text: str) -> Message:
    """Return a message that Hermes itself adds to the transcript."""
    return Message(role=role, parts=(TextPart(text=text, provenance=PROGRAM),), synthetic=True)
