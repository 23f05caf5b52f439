"""The cheap first step of a compression: old tool results are cleared, without asking any model."""

from collections.abc import Sequence

from msgspec import structs

from hermes.context.engine import MessageReplacement
from hermes.context.lookup import OriginalsLookup
from hermes.core.messages import Message, Role
from hermes.core.parts import ToolResultPart
from hermes.store.records import StoredMessage
from hermes.util.text import truncate_middle

SHORT_RESULT = 200
"""Characters up to which a result is left as it is."""
CLEARED_MARK = "[Old tool output cleared to save context space]"


def clear_old_results(rows: Sequence[StoredMessage], lookup: OriginalsLookup) -> tuple[MessageReplacement, ...]:
    """Return the rows whose results are cleared, each with its replacement."""
    return tuple(
        MessageReplacement((row.id,), _clear_results(row, lookup), row.turn_id)
        for row in rows
        if row.message.role is Role.TOOL and any(_is_clearable(result) for result in row.message.tool_results())
    )


def shorten_long_results(
    rows: Sequence[StoredMessage], limit: int, lookup: OriginalsLookup
) -> tuple[MessageReplacement, ...]:
    """Return the rows with results over `limit` characters, each with only their beginnings and ends."""
    return tuple(
        MessageReplacement(
            (row.id,), _shorten_results(row.message, limit, lookup.describe_message(row.id)), row.turn_id
        )
        for row in rows
        if row.message.role is Role.TOOL and any(len(result.text) > limit for result in row.message.tool_results())
    )


def is_cleared(text: str) -> bool:
    """Return whether a result was cleared before."""
    return text.startswith(CLEARED_MARK)


def _is_clearable(result: ToolResultPart) -> bool:
    return len(result.text) > SHORT_RESULT and not is_cleared(result.text)


def _clear_results(row: StoredMessage, lookup: OriginalsLookup) -> Message:
    """Return the message without its results. Their provenance stays: what was said about them is still there."""
    note = f"{CLEARED_MARK} ({lookup.describe_message(row.id)})"
    parts = tuple(
        structs.replace(part, text=note, images=())
        if isinstance(part, ToolResultPart) and _is_clearable(part)
        else part
        for part in row.message.parts
    )
    return structs.replace(row.message, parts=parts)


def _shorten_results(message: Message, limit: int, where: str) -> Message:
    note = f"\n[shortened; {where}]"
    parts = tuple(
        structs.replace(part, text=truncate_middle(part.text, limit) + note)
        if isinstance(part, ToolResultPart) and len(part.text) > limit
        else part
        for part in message.parts
    )
    return structs.replace(message, parts=parts)
