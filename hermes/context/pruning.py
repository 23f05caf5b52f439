"""The cheap first step: results of tools that are old are cleared, without asking any model."""

from collections.abc import Sequence

from msgspec import structs

from hermes.context.engine import Change
from hermes.context.pointing import Lookup
from hermes.core.messages import Message, Role
from hermes.core.parts import ToolResultPart
from hermes.store.rows import StoredMessage
from hermes.util.text import head_and_tail

SHORT = 200
"""Characters of a result that is left as it is."""
CLEARED = "[Old tool output cleared to save context space]"


def pruned(rows: Sequence[StoredMessage], lookup: Lookup) -> tuple[Change, ...]:
    """The rows whose results are cleared, each with what stands for it."""
    return tuple(
        Change((row.id,), _cleared(row, lookup), row.turn_id)
        for row in rows
        if row.message.role is Role.TOOL and any(_old(result) for result in row.message.results())
    )


def shortened(rows: Sequence[StoredMessage], limit: int, lookup: Lookup) -> tuple[Change, ...]:
    """The rows whose results are longer than so many characters, with their beginnings and ends alone."""
    return tuple(
        Change((row.id,), _shorter(row.message, limit, lookup.one(row.id)), row.turn_id)
        for row in rows
        if row.message.role is Role.TOOL and any(len(result.text) > limit for result in row.message.results())
    )


def is_cleared(text: str) -> bool:
    """Whether a result was cleared before."""
    return text.startswith(CLEARED)


def _old(result: ToolResultPart) -> bool:
    return len(result.text) > SHORT and not is_cleared(result.text)


def _cleared(row: StoredMessage, lookup: Lookup) -> Message:
    """The message without its results. Where they came from stays: what was said of them still stands there."""
    note = f"{CLEARED} ({lookup.one(row.id)})"
    parts = tuple(
        structs.replace(part, text=note, images=()) if isinstance(part, ToolResultPart) and _old(part) else part
        for part in row.message.parts
    )
    return structs.replace(row.message, parts=parts)


def _shorter(message: Message, limit: int, where: str) -> Message:
    note = f"\n[shortened; {where}]"
    parts = tuple(
        structs.replace(part, text=head_and_tail(part.text, limit) + note)
        if isinstance(part, ToolResultPart) and len(part.text) > limit
        else part
        for part in message.parts
    )
    return structs.replace(message, parts=parts)
