"""Compactions: messages that stand for others, where the originals are kept, and how it is taken back.

Functions over a connection, inside the caller's transaction. The originals stay in their session as compacted, or move
to an archive: a session of its own that has ended with the reason `compression` and is the parent of the one that
goes on. Nobody goes on with an archive; what is asked of the session is answered from its archives too.
"""

import json
import re
from collections.abc import Sequence

import apsw
import msgspec

from hermes.store import sessions
from hermes.store.rows import ARCHIVED, CompactionRow, MessageState, NewSession, SessionRow
from hermes.store.transcript import Entry, append, note_changes, own, remove, set_state

_IDS = msgspec.json.Decoder(tuple[int, ...])
_NUMBERED = re.compile(r"(.*) \((\d{1,6})\)", re.DOTALL)


class Cover(msgspec.Struct, frozen=True):
    """The entry's messages are to stand for the covered ones."""

    entry: Entry
    covered: tuple[int, ...]


def compact(connection: apsw.Connection, entry: Entry, covered: Sequence[int], now: float) -> list[int]:
    """Let the entry's messages stand for the covered ones, at the place of the last of these.

    Undone by `set_state`: the covered ones active, the new ones undone.
    """
    set_state(connection, entry.session_id, covered, MessageState.COMPACTED)
    position = connection.execute(
        "SELECT max(position) FROM messages WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(covered)),)
    ).get
    return append(connection, entry, now, position=position)


def remember(
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


def archive(connection: apsw.Connection, session_id: str, name: str, covered: Sequence[int], now: float) -> None:
    """Move covered messages to a new archive of that name, from which the session goes on."""
    row = sessions.get(connection, session_id)
    assert row is not None
    kept = {field: getattr(row, field) for field in NewSession.__struct_fields__} | {"id": name}
    sessions.create(connection, msgspec.convert(kept, NewSession), row.created_at)
    sessions.end(connection, name, ARCHIVED, now)
    _move(connection, covered, session_id, name)
    connection.execute(
        "UPDATE sessions SET updated_at = (SELECT max(created_at) FROM messages WHERE session_id = ?1) WHERE id = ?1",
        (name,),
    )
    connection.execute("UPDATE sessions SET parent_id = ?, title = ? WHERE id = ?", (name, _next(row), session_id))


def undo_last(connection: apsw.Connection, session_id: str) -> bool:
    """Let the originals of the last compaction that stands be active again; False when there is none.

    Messages that were deleted since stay away.
    """
    last = next((one for one in reversed(read(connection, session_id)) if not one.undone), None)
    if last is None:
        return False
    _restore(connection, session_id, last)
    set_state(connection, session_id, sorted(own(connection, [session_id], last.made)), MessageState.UNDONE)
    connection.execute("UPDATE compactions SET undone = 1 WHERE session_id = ? AND epoch = ?", (session_id, last.epoch))
    return True


def dissolve(connection: apsw.Connection, session_id: str, since: int) -> None:
    """Take back every compaction that was made after the message `since`, and delete what it made.

    Any of it may hold that message's words: pins quote, and a model that writes a summary has seen the newest messages.
    Those that were undone before leave nothing behind either.
    """
    for one in reversed(read(connection, session_id)):
        if max(one.made, default=0) < since:
            continue
        if not one.undone:
            _restore(connection, session_id, one)
        remove(connection, session_id, one.made)
        connection.execute("DELETE FROM compactions WHERE session_id = ? AND epoch = ?", (session_id, one.epoch))


def drop_archive(connection: apsw.Connection, row: SessionRow) -> None:
    """Delete an archive; what goes on from it goes on from its parent, under its title where it was numbered by it."""
    connection.execute(
        "UPDATE sessions SET parent_id = ?1, title = iif(title = ?2, ?3, title) WHERE parent_id = ?4",
        (row.parent_id, _next(row), row.title, row.id),
    )
    connection.execute("DELETE FROM sessions WHERE id = ?", (row.id,))


def unnumbered(title: str) -> str:
    """A title without the number that a compression has given it."""
    numbered = _NUMBERED.fullmatch(title)
    return numbered[1] if numbered is not None else title


def _restore(connection: apsw.Connection, session_id: str, one: CompactionRow) -> None:
    """Let what a compaction covered be the session's own and active again. An archive that is empty then goes."""
    for name in sessions.lineage(connection, session_id)[1:]:
        held = own(connection, [name], one.covered)
        if held:
            _move(connection, sorted(held), name, session_id)
            row = sessions.get(connection, name)
            if row is not None and row.message_count == 0:
                drop_archive(connection, row)
    set_state(connection, session_id, sorted(own(connection, [session_id], one.covered)), MessageState.ACTIVE)


def _move(connection: apsw.Connection, ids: Sequence[int], source: str, target: str) -> None:
    """Let messages of one session be another's."""
    listed = json.dumps(list(ids))
    connection.execute(
        "UPDATE messages SET session_id = ? WHERE id IN (SELECT value FROM json_each(?))", (target, listed)
    )
    count = connection.changes()
    for name, more in ((source, -count), (target, count)):
        connection.execute("UPDATE sessions SET message_count = message_count + ? WHERE id = ?", (more, name))
    note_changes(connection, listed, erase=False)


def _next(row: SessionRow) -> str:
    """The title of what goes on from a session."""
    if not row.title:
        return ""
    numbered = _NUMBERED.fullmatch(row.title)
    return f"{numbered[1]} ({int(numbered[2]) + 1})" if numbered is not None else f"{row.title} (2)"
