"""Messages, of which a transcript is made. A transcript only ever grows.

One batch of tool results is one message (role `tool`, one result part a call, in call order, then any text that joins
the conversation at that point). So every message encodes by itself, whatever comes before or after it.
"""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from hermes.core.parts import Part, Provenance, ReasoningPart, Source, TextPart, ToolCallPart, ToolResultPart


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
        """Return the author's text: text parts, joined. What Hermes put into other people's messages is left out."""
        return "\n".join(
            part.text
            for part in self.parts
            if isinstance(part, TextPart)
            and (self.synthetic or part.provenance is None or part.provenance.source is Source.PERSON)
        )

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


PERSON = Provenance(source=Source.PERSON)
PROGRAM = Provenance(source=Source.PROGRAM)


def user_message(text: str, *more: Part) -> Message:
    """Return a person's message; `more` are pictures or injected parts."""
    return Message(role=Role.USER, parts=(TextPart(text=text, provenance=PERSON), *more))


def program_message(role: Role, text: str) -> Message:
    """Return a message that Hermes itself adds to the transcript."""
    return Message(role=role, parts=(TextPart(text=text, provenance=PROGRAM),), synthetic=True)
