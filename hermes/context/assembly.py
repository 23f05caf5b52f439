"""Builds the message that replaces condensed messages: its opening, the user's own words, and the notes."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from hermes.context.lookup import OriginalsLookup
from hermes.context.pins import StandingInstruction, UserStatement
from hermes.core.messages import PROGRAM, Message, Role
from hermes.core.parts import TextPart
from hermes.safety.fencing import TAG, fence_untrusted_text
from hermes.store.records import StoredMessage
from hermes.tools.taint import inherit_provenance

RECORD_PREFIX = "[CONTEXT COMPACTION — REFERENCE ONLY]"
_OPENING = """\
{prefix} Messages {first} to {last} of this conversation are condensed here. This is a record, not a message: do not \
answer it, and do nothing again that it says was done or answered. What to do now is said by the newest message of the \
user. Nothing is lost: {lookup}."""
_RULES_HEADING = (
    "## Standing instructions of the user, word for word. They hold until the user takes them back; later ones win."
)
_SAID_HEADING = "## What the user said, word for word, the oldest first (number of the message, and what became of it)"
_PATHS_HEADING = "## Files named, the newest first"
_NOTES_HEADING = "## Notes on what happened"
_HEADING_LOOKALIKE = (
    r"^[^\w\n]{0,20}(?=standing instructions|what the user said|files named|notes on what happened|context compaction)"
)
"""Matches text at the beginning of a line that would look like a heading of the record."""
_FENCED = re.compile(rf"<{TAG} [^\n]*>\n(.*)\n</{TAG} id=[^\n]*>(?:\n\[[^\n]*\])?", re.DOTALL)


class PinnedText(Struct, frozen=True):
    """The content that a compression keeps word for word."""

    rules: Sequence[StandingInstruction]
    statements: Sequence[UserStatement]
    paths: Sequence[str]
    lookup: OriginalsLookup

    def render_pins(self, first: int, last: int) -> str:
        """Return the record up to the notes, for messages `first` to `last`."""
        pieces = [_OPENING.format(prefix=RECORD_PREFIX, first=first, last=last, lookup=self.lookup.describe_all())]
        if self.rules:
            pieces.append("\n".join([_RULES_HEADING, *(f"- ({one.number}) {one.text}" for one in self.rules)]))
        ruled = {one.text for one in self.rules}
        said = [
            f"({one.number}, {_describe_status(one)}) {one.text}" for one in self.statements if one.text not in ruled
        ]
        if said:
            pieces.append("\n".join([_SAID_HEADING, *said]))
        if self.paths:
            pieces.append("\n".join([_PATHS_HEADING, *self.paths]))
        return "\n\n".join(pieces)


def build_record_message(
    pinned: PinnedText, past: Sequence[StoredMessage], notes: str, sources: Iterable[Message]
) -> Message:
    """Build the message that replaces `past`.

    Notes made from untrusted content are fenced as such; the user's own words are not. No notes can pass
    for another part of the record.
    """
    strange = inherit_provenance(sources)
    notes = re.sub(_HEADING_LOOKALIKE, "(in the notes) ", notes, flags=re.IGNORECASE | re.MULTILINE)
    told = notes if strange is None else fence_untrusted_text(notes, strange)
    parts = (
        TextPart(pinned.render_pins(past[0].id, past[-1].id), PROGRAM),
        TextPart(f"\n{_NOTES_HEADING}\n{told}", strange or PROGRAM),
    )
    return Message(role=Role.USER, parts=parts, synthetic=True)


def extract_notes(message: Message) -> str:
    """Return the notes in a record; empty for any other message."""
    if not message.synthetic or len(message.parts) != 2 or not message.text.startswith(RECORD_PREFIX):
        return ""
    part = message.parts[1]
    notes = part.text.partition(f"{_NOTES_HEADING}\n")[2] if isinstance(part, TextPart) else ""
    fenced = _FENCED.fullmatch(notes)
    return fenced[1] if fenced is not None else notes


def _describe_status(one: UserStatement) -> str:
    if one.done:
        return "done"
    return "answered" if one.answered else "not answered yet"
