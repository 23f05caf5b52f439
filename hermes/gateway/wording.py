"""What is said in chats: an answer of a turn's end, cut into what the platform takes."""

from msgspec import Struct

from hermes.core.chats import MediaKind
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.gateway.platform import Capabilities
from hermes.gateway.text.split import split
from hermes.util.say import say, translated

SILENT = "[SILENT]"
"""What a model answers when nothing is to be said (X-60)."""


class File(Struct, frozen=True):
    """A file that goes out with an answer."""

    path: str
    kind: MediaKind = MediaKind.DOCUMENT


class Answer(Struct, frozen=True, kw_only=True):
    """What a turn's end comes to in a chat. `outcome` is its name in the journal."""

    text: str
    outcome: str
    files: tuple[File, ...] = ()


def answer_of(ended: TurnEnded) -> Answer:
    """The answer of a turn. One that did not come to its end says so, behind what there is."""
    text = ended.text.strip()
    if ended.reason.completed:
        return Answer(text="" if text == SILENT else text, outcome=ended.reason.value)
    if ended.reason is ExitReason.INTERRUPTED:
        line = say("(Stopped.)")
    else:
        why = translated(ended.error) if ended.error else ended.reason.value.replace("_", " ")
        line = say("(This did not come to its end: {why})", why=why)
    return Answer(text=f"{text}\n\n{line}" if text else line, outcome=ended.reason.value)


def pieces(text: str, can: Capabilities) -> list[str]:
    """A text as messages that the platform takes; none for a text of nothing."""
    if not text.strip():
        return []
    return split(text, can.limit, can.measure)
