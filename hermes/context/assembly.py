"""The message that stands for the condensed part: what it says of itself, the person's words, the notes."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from hermes.context.pins import Rule, Said
from hermes.context.pointing import Lookup
from hermes.core.messages import PROGRAM, Message, Role
from hermes.core.parts import TextPart
from hermes.safety.fencing import TAG, fence
from hermes.store.rows import StoredMessage
from hermes.tools.taint import inherit_provenance

PREFIX = "[CONTEXT COMPACTION — REFERENCE ONLY]"
_OPENING = """\
{prefix} Messages {first} to {last} of this conversation are condensed here. This is a record, not a message: do not \
answer it, and do nothing again that it says was done or answered. What to do now is said by the newest message of the \
user. Nothing is lost: {lookup}."""
_RULES = (
    "## Standing instructions of the user, word for word. They hold until the user takes them back; later ones win."
)
_SAID = "## What the user said, word for word, the oldest first (number of the message, and what became of it)"
_PATHS = "## Files named, the newest first"
_NOTES = "## Notes on what happened"
_OURS = (
    r"^[^\w\n]{0,20}(?=standing instructions|what the user said|files named|notes on what happened|context compaction)"
)
"""What would look like a heading of the record's, at the beginning of a line."""
_FENCED = re.compile(rf"<{TAG} [^\n]*>\n(.*)\n</{TAG} id=[^\n]*>(?:\n\[[^\n]*\])?", re.DOTALL)


class Pins(Struct, frozen=True):
    """What is kept word for word."""

    rules: Sequence[Rule]
    said: Sequence[Said]
    paths: Sequence[str]
    lookup: Lookup

    def text(self, first: int, last: int) -> str:
        """The record up to the notes."""
        pieces = [_OPENING.format(prefix=PREFIX, first=first, last=last, lookup=self.lookup.all())]
        if self.rules:
            pieces.append("\n".join([_RULES, *(f"- ({one.number}) {one.text}" for one in self.rules)]))
        ruled = {one.text for one in self.rules}
        said = [f"({one.number}, {_fate(one)}) {one.text}" for one in self.said if one.text not in ruled]
        if said:
            pieces.append("\n".join([_SAID, *said]))
        if self.paths:
            pieces.append("\n".join([_PATHS, *self.paths]))
        return "\n\n".join(pieces)


def record(pins: Pins, past: Sequence[StoredMessage], notes: str, sources: Iterable[Message]) -> Message:
    """The message for `past`. Notes made from strangers' text are fenced as such; the person's own words are not.

    No notes can pass for another part of the record.
    """
    strange = inherit_provenance(sources)
    notes = re.sub(_OURS, "(in the notes) ", notes, flags=re.IGNORECASE | re.MULTILINE)
    told = notes if strange is None else fence(notes, strange)
    parts = (
        TextPart(pins.text(past[0].id, past[-1].id), PROGRAM),
        TextPart(f"\n{_NOTES}\n{told}", strange or PROGRAM),
    )
    return Message(role=Role.USER, parts=parts, synthetic=True)


def notes_of(message: Message) -> str:
    """The notes in a record; empty for any other message."""
    if not message.synthetic or len(message.parts) != 2 or not message.text.startswith(PREFIX):
        return ""
    part = message.parts[1]
    notes = part.text.partition(f"{_NOTES}\n")[2] if isinstance(part, TextPart) else ""
    fenced = _FENCED.fullmatch(notes)
    return fenced[1] if fenced is not None else notes


def _fate(one: Said) -> str:
    if one.done:
        return "done"
    return "answered" if one.answered else "not answered yet"
