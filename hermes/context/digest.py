"""Builds notes without a model, as a last resort: which tools were called with what result, and what was said last."""

from collections.abc import Sequence

from hermes.context.lookup import OriginalsLookup
from hermes.core.messages import Role
from hermes.store.records import StoredMessage
from hermes.util.text import to_one_line, truncate_middle

MAX_DIGEST = 8_000
"""Characters."""
_HEAD = "(Made without a model: no summary could be had."
_BEFORE = 3_000
_TEXTS = 3
_TEXT = 800
_LINE = 200


def build_digest(
    rows: Sequence[StoredMessage], previous_notes: str, lookup: OriginalsLookup, max_characters: int = MAX_DIGEST
) -> str:
    """Build a digest of these messages in at most `max_characters` characters; `previous_notes` are the
    notes so far.
    """
    max_characters = max(1_500, min(max_characters, MAX_DIGEST))
    pieces = [f"{_HEAD} What stands here is what was called and said last. {lookup.describe_all()}.)"]
    if previous_notes:
        pieces.append(f"Notes so far:\n{truncate_middle(previous_notes, min(_BEFORE, max_characters // 3))}")
    texts = [row for row in rows if row.message.role is Role.ASSISTANT and row.message.text.strip()][-_TEXTS:]
    last = [f"[{row.id}] {truncate_middle(row.message.text.strip(), min(_TEXT, max_characters // 8))}" for row in texts]
    if last:
        pieces.append("Said by the agent last:\n" + "\n".join(last))
    left = max_characters - sum(len(piece) + 2 for piece in pieces) - 40
    lines: list[str] = []
    for line in reversed(_format_calls(rows)):
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    if lines:
        pieces.append("Calls, the oldest first:\n" + "\n".join(reversed(lines)))
    return "\n\n".join(pieces)[:max_characters]


def is_digest(notes: str) -> bool:
    """Return whether notes were made without a model."""
    return notes.startswith(_HEAD)


def _format_calls(rows: Sequence[StoredMessage]) -> list[str]:
    """Format a line for each call, with its status and the beginning of its result."""
    results = {result.call_id: result for row in rows for result in row.message.tool_results()}
    lines = []
    for row in rows:
        for call in row.message.tool_calls():
            result = results.get(call.call_id)
            came = f"{result.status.value}: {to_one_line(result.text, 80)}" if result else "no result"
            lines.append(
                f"[{row.id}] " + to_one_line(f"{call.name} {to_one_line(call.arguments, 100)} -> {came}", _LINE)
            )
    return lines
