"""Parts, of which messages are made. Every part can say where it came from."""

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


class ImagePart(Struct, frozen=True, omit_defaults=True, tag="image"):
    """A picture: base64 `data` with its media type, or a `url` that the provider fetches."""

    media_type: str = "image/png"
    data: str = ""
    url: str = ""
    provenance: Provenance | None = None


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
    """A call as the model wrote it; `arguments` is the raw JSON text, never repaired in place.

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
