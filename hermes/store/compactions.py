"""Compactions, remembered so that each can be undone: functions over a connection, inside the caller's transaction."""

from collections.abc import Sequence

import apsw
import msgspec

from hermes.store import transcript
from hermes.store.rows import CompactionRow, MessageState
from hermes.store.transcript import Entry

_IDS = msgspec.json.Decoder(tuple[int, ...])


class Cover(msgspec.Struct, frozen=True):
    """The entry's messages are to stand for the covered ones."""

    entry: Entry
    covered: tuple[int, ...]


def put(
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


def read(connection: apsw.Connection, session_id: str) -> list[CompactionRow]:
    """The session's compactions, the oldest first."""
    rows = connection.execute(
        "SELECT epoch, covered, made, memo, undone FROM compactions WHERE session_id = ? ORDER BY epoch", (session_id,)
    )
    return [
        CompactionRow(epoch, _IDS.decode(covered), _IDS.decode(made), memo, bool(undone))
        for epoch, covered, made, memo, undone in rows
    ]


def undo_last(connection: apsw.Connection, session_id: str) -> bool:
    """Let the originals of the last compaction that stands be active again; False when there is none.

    Messages that were deleted since stay away.
    """
    last = next((one for one in reversed(read(connection, session_id)) if not one.undone), None)
    if last is None:
        return False
    there = {row[0] for row in connection.execute("SELECT id FROM messages WHERE session_id = ?", (session_id,))}
    covered, made = ([one for one in ids if one in there] for ids in (last.covered, last.made))
    transcript.set_state(connection, session_id, made, MessageState.UNDONE)
    transcript.set_state(connection, session_id, covered, MessageState.ACTIVE)
    connection.execute("UPDATE compactions SET undone = 1 WHERE session_id = ? AND epoch = ?", (session_id, last.epoch))
    return True
