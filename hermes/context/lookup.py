"""`context_lookup`: the originals of what was condensed, by number or by words."""

import re
from collections.abc import Collection, Sequence
from typing import Annotated

from hermes.core.errors import ToolError
from hermes.core.messages import Message
from hermes.store.rows import MessageState, StoredMessage
from hermes.store.store import Store
from hermes.tools.session import ToolContext
from hermes.tools.taint import inherited
from hermes.tools.tool import Parallel, Tool, ToolOutput, tool
from hermes.util.text import head_and_tail

_MOST = 20
"""Messages of one answer."""
_WHOLE = 30_000
_EXCERPT = 600
_AROUND = 200
_RANGE = re.compile(r"\s*#?(\d{1,15})(?:\s*(?:-|–|\.\.)\s*#?(\d{1,15}))?\s*")


def lookup_tool(store: Store, session_id: str) -> Tool:
    """The tool for one session; it sees no other."""

    @tool(
        "context_engine",
        deferred=True,
        repeatable=True,
        parallel=Parallel.SAFE,
        summary=lambda args: f"look up {args['query']}",
    )
    async def context_lookup(
        ctx: ToolContext,
        query: Annotated[str, "Numbers of messages (`57`, `57-60`, `3, 57`), or words to find."],
    ) -> ToolOutput:
        """Show earlier messages of this conversation as they were before it was condensed."""
        made = {number for one in await store.compactions(session_id) for number in one.made}
        rows = [row for row in await store.transcript(session_id, everything=True) if _original(row, made)]
        numbers = _numbers(query)
        found = _by_number(rows, numbers) if numbers else _by_words(rows, query)
        if not found:
            raise ToolError(f"This conversation has no message for {query!r}. {_extent(rows)}")
        text = "\n\n".join(f"[{row.id}] {row.message.role.value}: {shown}" for row, shown in found)
        return ToolOutput(text=text, provenance=inherited(row.message for row, _ in found))

    return context_lookup


def _original(row: StoredMessage, made: Collection[int]) -> bool:
    """Whether it was said: it was not taken back, and does not stand for others."""
    return row.state is not MessageState.UNDONE and row.id not in made


def _extent(rows: Sequence[StoredMessage]) -> str:
    return f"Its messages are {rows[0].id} to {rows[-1].id}." if rows else ""


def _numbers(query: str) -> list[tuple[int, int]]:
    """The ranges of numbers that a query consists of; empty when it is words."""
    ranges = []
    for piece in query.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            return []
        ranges.append((int(match[1]), int(match[2] or match[1])))
    return ranges


def _by_number(rows: Sequence[StoredMessage], ranges: Sequence[tuple[int, int]]) -> list[tuple[StoredMessage, str]]:
    found = [row for row in rows if any(first <= row.id <= last for first, last in ranges)][:_MOST]
    return [(row, head_and_tail(_text(row.message), _WHOLE // max(1, len(found)))) for row in found]


def _by_words(rows: Sequence[StoredMessage], query: str) -> list[tuple[StoredMessage, str]]:
    """The condensed messages with all of the words, else with most of them; the newest first. What still stands in the
    conversation needs no finding."""
    words = list(dict.fromkeys(query.lower().split()))
    scored = []
    for row in rows:
        if row.state is MessageState.ACTIVE:
            continue
        text = _text(row.message)
        low = text.lower()
        hits = [low.find(word) for word in words if word in low]
        if hits:
            scored.append((len(hits), row, text, min(hits)))
    best = max((score for score, *_ in scored), default=0)
    newest = [(row, _around(text, place)) for score, row, text, place in reversed(scored) if score == best]
    return newest[:_MOST]


def _around(text: str, place: int) -> str:
    """The part of a text that a word stands in."""
    if len(text) <= _EXCERPT:
        return text
    start = max(0, place - _AROUND)
    return f"[...] {text[start : start + _EXCERPT]} [...]"


def _text(message: Message) -> str:
    pieces = [message.text] if message.text.strip() else []
    pieces += [f"(calls {call.name} with {call.arguments})" for call in message.calls()]
    pieces += [f"(result of {result.name}: {result.text})" for result in message.results()]
    return "\n".join(pieces)
