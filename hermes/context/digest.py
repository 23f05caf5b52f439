"""Notes without a model, as a last resort: what was called and what came of it, what was said last."""

from collections.abc import Sequence

from hermes.context.pointing import Lookup
from hermes.core.messages import Role
from hermes.store.rows import StoredMessage
from hermes.util.text import head_and_tail, one_line

MOST = 8_000
"""Characters."""
_HEAD = "(Made without a model: no summary could be had."
_BEFORE = 3_000
_TEXTS = 3
_TEXT = 800
_LINE = 200


def digest(rows: Sequence[StoredMessage], before: str, lookup: Lookup, room: int = MOST) -> str:
    """What can be said of these messages in so many characters; `before` are the notes so far."""
    room = max(1_500, min(room, MOST))
    pieces = [f"{_HEAD} What stands here is what was called and said last. {lookup.all()}.)"]
    if before:
        pieces.append(f"Notes so far:\n{head_and_tail(before, min(_BEFORE, room // 3))}")
    texts = [row for row in rows if row.message.role is Role.ASSISTANT and row.message.text.strip()][-_TEXTS:]
    last = [f"[{row.id}] {head_and_tail(row.message.text.strip(), min(_TEXT, room // 8))}" for row in texts]
    if last:
        pieces.append("Said by the agent last:\n" + "\n".join(last))
    left = room - sum(len(piece) + 2 for piece in pieces) - 40
    lines: list[str] = []
    for line in reversed(_calls(rows)):
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    if lines:
        pieces.append("Calls, the oldest first:\n" + "\n".join(reversed(lines)))
    return "\n\n".join(pieces)[:room]


def is_digest(notes: str) -> bool:
    """Whether notes were made without a model."""
    return notes.startswith(_HEAD)


def _calls(rows: Sequence[StoredMessage]) -> list[str]:
    """A line for each call, with how it ended and how its result begins."""
    results = {result.call_id: result for row in rows for result in row.message.results()}
    lines = []
    for row in rows:
        for call in row.message.calls():
            result = results.get(call.call_id)
            came = f"{result.status.value}: {one_line(result.text, 80)}" if result else "no result"
            lines.append(f"[{row.id}] " + one_line(f"{call.name} {one_line(call.arguments, 100)} -> {came}", _LINE))
    return lines
