"""Messages: functions over a connection, inside the caller's transaction."""

import json
from collections.abc import Iterable, Sequence

import apsw
import msgspec

from hermes.core.errors import NotFoundError
from hermes.core.messages import Message, Role
from hermes.core.parts import ImagePart, Provenance, TextPart, ToolResultPart
from hermes.core.usage import Usage
from hermes.store.rows import CompactionRow, MessageState, StoredMessage
from hermes.store.sessions import must_have_changed
from hermes.store.turns import must_own
from hermes.util.text import clean_surrogates

_IDS = msgspec.json.Decoder(tuple[int, ...])
_BODIES = msgspec.json.Decoder(list[Message])
_FIELDS = "body, id, epoch, turn_id, state, created_at, prompt_tokens, output_tokens"
_INSERT = (
    "INSERT INTO messages"
    " (id, session_id, epoch, turn_id, role, position, created_at, prompt_tokens, output_tokens, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_COUNT = (
    "UPDATE sessions SET updated_at = ?, ended_at = NULL, end_reason = '', message_count = message_count + ?,"
    " tool_call_count = tool_call_count + ?, input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,"
    " cache_read_tokens = cache_read_tokens + ?, cache_write_tokens = cache_write_tokens + ?,"
    " reasoning_tokens = reasoning_tokens + ?,"
    " cost_usd = iif(?9 IS NULL, cost_usd, coalesce(cost_usd, 0) + ?9) WHERE id = ?"
)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Messages to be appended together. `usage` is of the call that wrote the first assistant message among them.

    With a `fence` the turn must still be this owner's. `taken` are rows of the inbox that become part of the transcript
    with this.
    """

    session_id: str
    epoch: int
    turn_id: str | None
    messages: tuple[Message, ...]
    usage: Usage | None = None
    fence: int = 0
    taken: tuple[str, ...] = ()


class Cover(msgspec.Struct, frozen=True):
    """The entry's messages are to stand for the covered ones."""

    entry: Entry
    covered: tuple[int, ...]


def encode(message: Message) -> bytes:
    """The message as it is stored: JSON, lone surrogates replaced."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(message), ensure_ascii=False, separators=(",", ":"))
        return clean_surrogates(text).encode()


def append(connection: apsw.Connection, entry: Entry, now: float, *, position: int | None = None) -> list[int]:
    """Store the messages and count them in their session; their ids, in order.

    `position` puts them where other messages stood instead of at the end.
    """
    if entry.fence and entry.turn_id is not None:
        must_own(connection, entry.turn_id, entry.fence)
    usage = entry.usage or Usage()
    calls = sum(1 for message in entry.messages for _ in message.calls())
    totals = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning, usage.cost_usd)
    connection.execute(_COUNT, (now, len(entry.messages), calls, *totals, entry.session_id))
    must_have_changed(connection, entry.session_id)
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'messages'").get or 0
    speaker = _speaker(entry)
    ids = []
    for number, message in enumerate(entry.messages):
        last += 1
        tokens = (usage.input, usage.output) if number == speaker else (None, None)
        place = last if position is None else position
        connection.execute(
            _INSERT,
            (last, entry.session_id, entry.epoch, entry.turn_id, message.role, place, now, *tokens, encode(message)),
        )
        ids.append(last)
    connection.executemany("DELETE FROM inbox WHERE id = ?", [(name,) for name in entry.taken])
    if entry.turn_id is not None:
        connection.execute("UPDATE turns SET text = '' WHERE id = ? AND text <> ''", (entry.turn_id,))
    return ids


def _speaker(entry: Entry) -> int:
    """Which of the messages the usage belongs to; -1 when there is none."""
    if entry.usage is None:
        return -1
    return next((n for n, message in enumerate(entry.messages) if message.role is Role.ASSISTANT), 0)


def read(connection: apsw.Connection, session_id: str, *, everything: bool = False) -> list[StoredMessage]:
    """The session's active messages in order; with `everything` compacted and undone ones too."""
    which = "" if everything else f"AND state = {MessageState.ACTIVE:d}"
    return _decoded(
        connection.execute(
            f"SELECT {_FIELDS} FROM messages WHERE session_id = ? {which} ORDER BY position, id", (session_id,)
        )
    )


def around(connection: apsw.Connection, session_id: str, message_id: int, count: int) -> list[StoredMessage]:
    """A message, compacted or not, with up to `count` before it and after it; empty when the session has no such."""
    position = connection.execute(
        "SELECT position FROM messages WHERE id = ? AND session_id = ?", (message_id, session_id)
    ).get
    if position is None:
        return []
    shown = (
        f"SELECT {_FIELDS} FROM messages WHERE session_id = ? AND state <> {MessageState.UNDONE:d} AND (position, id)"
    )
    at = (session_id, position, message_id)
    before = connection.execute(f"{shown} <= (?, ?) ORDER BY position DESC, id DESC LIMIT ?", (*at, count + 1))
    earlier = _decoded(before)[::-1]
    return earlier + _decoded(connection.execute(f"{shown} > (?, ?) ORDER BY position, id LIMIT ?", (*at, count)))


def ends(connection: apsw.Connection, session_id: str, count: int) -> tuple[list[StoredMessage], list[StoredMessage]]:
    """The first and the last messages of a session that are not results, up to `count` of each, none twice."""
    shown = (
        f"SELECT {_FIELDS} FROM messages WHERE session_id = ? AND state <> {MessageState.UNDONE:d} AND role <> 'tool'"
        " AND instr(body, '\"synthetic\":true') = 0 ORDER BY position"
    )
    first = _decoded(connection.execute(f"{shown}, id LIMIT ?", (session_id, count)))
    last = _decoded(connection.execute(f"{shown} DESC, id DESC LIMIT ?", (session_id, count)))
    known = {row.id for row in first}
    return first, [row for row in reversed(last) if row.id not in known]


def strangers(connection: apsw.Connection, session_id: str) -> list[Provenance]:
    """Where text in a session came from that nobody vouched for, each once; the newest 200 such messages count."""
    rows = connection.execute(
        f"SELECT {_FIELDS} FROM messages WHERE session_id = ? AND state <> {MessageState.UNDONE:d}"
        ' AND (instr(body, \'"source":"web"\') OR instr(body, \'"source":"mcp"\')'
        ' OR instr(body, \'"source":"other"\') OR instr(body, \'"source":"file"\')) ORDER BY id DESC LIMIT 200',
        (session_id,),
    )
    parts = [part for row in _decoded(rows) for part in row.message.parts]
    origins = [part.provenance for part in parts if isinstance(part, TextPart | ImagePart | ToolResultPart)]
    return list(dict.fromkeys(origin for origin in origins if origin is not None and origin.untrusted))


def _decoded(cursor: apsw.Cursor) -> list[StoredMessage]:
    """Rows of `_FIELDS` as messages."""
    rows = list(cursor)
    messages = _BODIES.decode(b"[" + b",".join([row[0] for row in rows]) + b"]")
    states = tuple(MessageState)
    return [
        StoredMessage(identity, epoch, turn_id, states[state], created_at, prompt, output, message)
        for (_, identity, epoch, turn_id, state, created_at, prompt, output), message in zip(
            rows, messages, strict=True
        )
    ]


def set_state(connection: apsw.Connection, session_id: str, ids: Sequence[int], state: MessageState) -> None:
    """Make messages active, compacted or undone. Raises `NotFoundError` when one of them is not the session's."""
    known = _listed(connection, session_id, ids)
    if len(known) != len(set(ids)):
        raise NotFoundError(f"Session {session_id} has no message {min(set(ids) - known)}.")
    listed = json.dumps(sorted(known))
    connection.execute(
        "UPDATE messages SET state = ? WHERE id IN (SELECT value FROM json_each(?))", (int(state), listed)
    )
    _changed(connection, listed, erase=False)


def compact(connection: apsw.Connection, entry: Entry, covered: Sequence[int], now: float) -> list[int]:
    """Let the entry's messages stand for the covered ones, at the place of the last of these.

    Undone by `set_state`: the covered ones active, the new ones undone.
    """
    set_state(connection, entry.session_id, covered, MessageState.COMPACTED)
    position = connection.execute(
        "SELECT max(position) FROM messages WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(covered)),)
    ).get
    return append(connection, entry, now, position=position)


def remember_compaction(
    connection: apsw.Connection,
    session_id: str,
    epoch: int,
    changes: Sequence[Cover],
    made: Sequence[int],
    memo: bytes,
) -> None:
    """Remember what was done."""
    covered = [one for change in changes for one in change.covered]
    connection.execute(
        "INSERT INTO compactions (session_id, epoch, covered, made, memo) VALUES (?, ?, ?, ?, ?)",
        (session_id, epoch, msgspec.json.encode(covered).decode(), msgspec.json.encode(made).decode(), memo),
    )


def read_compactions(connection: apsw.Connection, session_id: str) -> list[CompactionRow]:
    """The session's compactions, the oldest first."""
    rows = connection.execute(
        "SELECT epoch, covered, made, memo, undone FROM compactions WHERE session_id = ? ORDER BY epoch", (session_id,)
    )
    return [
        CompactionRow(epoch, _IDS.decode(covered), _IDS.decode(made), memo, bool(undone))
        for epoch, covered, made, memo, undone in rows
    ]


def undo_last_compaction(connection: apsw.Connection, session_id: str) -> bool:
    """Let the originals of the last compaction that stands be active again; False when there is none.

    Messages that were deleted since stay away.
    """
    last = next((one for one in reversed(read_compactions(connection, session_id)) if not one.undone), None)
    if last is None:
        return False
    there = {row[0] for row in connection.execute("SELECT id FROM messages WHERE session_id = ?", (session_id,))}
    covered, made = ([one for one in ids if one in there] for ids in (last.covered, last.made))
    set_state(connection, session_id, made, MessageState.UNDONE)
    set_state(connection, session_id, covered, MessageState.ACTIVE)
    connection.execute("UPDATE compactions SET undone = 1 WHERE session_id = ? AND epoch = ?", (session_id, last.epoch))
    return True


def replace(connection: apsw.Connection, session_id: str, message_id: int, message: Message) -> None:
    """Put another message in the place of one, for redaction: the old words are to vanish from every file."""
    _forget_effects(connection, json.dumps([message_id]))
    connection.execute(
        "UPDATE messages SET body = ?, role = ? WHERE id = ? AND session_id = ?",
        (encode(message), message.role, message_id, session_id),
    )
    if connection.changes() == 0:
        raise NotFoundError(f"Session {session_id} has no message {message_id}.")
    _changed(connection, json.dumps([message_id]), erase=True)


def delete(connection: apsw.Connection, session_id: str, ids: Sequence[int]) -> int:
    """Delete messages, with what the effect journal holds of their calls; how many there were."""
    listed = json.dumps(sorted(_listed(connection, session_id, ids)))
    _forget_effects(connection, listed)
    _changed(connection, listed, erase=True)
    connection.execute("DELETE FROM messages WHERE id IN (SELECT value FROM json_each(?))", (listed,))
    gone = connection.changes()
    connection.execute("UPDATE sessions SET message_count = message_count - ? WHERE id = ?", (gone, session_id))
    return gone


def delete_session(connection: apsw.Connection, session_id: str) -> int:
    """Delete a session and all that belongs to it; how many messages it had. `NotFoundError` when there is none."""
    connection.execute(
        "INSERT INTO changes (message_id, erase) SELECT id, 1 FROM messages WHERE session_id = ?", (session_id,)
    )
    gone = connection.changes()
    connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    must_have_changed(connection, session_id)
    return gone


def _listed(connection: apsw.Connection, session_id: str, ids: Iterable[int]) -> set[int]:
    rows = connection.execute(
        "SELECT id FROM messages WHERE session_id = ? AND id IN (SELECT value FROM json_each(?))",
        (session_id, json.dumps(list(ids))),
    )
    return {row[0] for row in rows}


def _changed(connection: apsw.Connection, listed: str, *, erase: bool) -> None:
    connection.execute(
        "INSERT INTO changes (message_id, erase) SELECT value, ? FROM json_each(?)", (int(erase), listed)
    )


def _forget_effects(connection: apsw.Connection, listed: str) -> None:
    """Empty the journal of the turns that these messages belong to; running turns may still hold their words."""
    connection.execute(
        "UPDATE effects SET arguments = '', result = NULL WHERE turn_id IN"
        " (SELECT turn_id FROM messages WHERE id IN (SELECT value FROM json_each(?)))",
        (listed,),
    )
