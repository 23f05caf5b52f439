"""Compactions: messages that replace others, where the originals are kept, and how a compaction is undone.

Functions over a connection, inside the caller's transaction. The originals stay in their session as compacted, or move
to an archive: a session of its own that has ended with the reason `compression` and is the parent of the one that goes
on. Nobody continues an archive; queries about the session include its archives.
"""

import json
import re
from collections.abc import Sequence

import apsw
import msgspec

from hermes.store import sessions
from hermes.store.records import ARCHIVED, CompactionRow, MessageState, NewSession, SessionRow
from hermes.store.transcript import (
    TranscriptEntry,
    append_entry,
    filter_owned,
    note_changes,
    remove_messages,
    set_message_state,
)

_IDS = msgspec.json.Decoder(tuple[int, ...])
_NUMBERED = re.compile(r"(.*) \((\d{1,6})\)", re.DOTALL)


class CompactionCover(msgspec.Struct, frozen=True):
    """Messages (the entry's) that are to replace the covered ones."""

    entry: TranscriptEntry
    covered: tuple[int, ...]


def replace_covered(
    connection: apsw.Connection, entry: TranscriptEntry, covered: Sequence[int], now: float
) -> list[int]:
    """Replace the covered messages by the entry's, at the place of the last of them; return the new ids.

    Undone by `set_message_state`: the covered ones active, the new ones undone.
    """
    set_message_state(connection, entry.session_id, covered, MessageState.COMPACTED)
    position = connection.execute(
        "SELECT max(position) FROM messages WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(covered)),)
    ).get
    return append_entry(connection, entry, now, position=position)


def record_compaction(
    connection: apsw.Connection,
    session_id: str,
    epoch: int,
    changes: Sequence[CompactionCover],
    made: Sequence[int],
    memo: bytes,
) -> None:
    """Record a compaction, so that it can be listed and undone."""
    covered = [one for change in changes for one in change.covered]
    connection.execute(
        "INSERT INTO compactions (session_id, epoch, covered, made, memo) VALUES (?, ?, ?, ?, ?)",
        (session_id, epoch, msgspec.json.encode(covered).decode(), msgspec.json.encode(made).decode(), memo),
    )


def list_compactions(connection: apsw.Connection, session_id: str) -> list[CompactionRow]:
    """Return the session's compactions, the oldest first."""
    rows = connection.execute(
        "SELECT epoch, covered, made, memo, undone FROM compactions WHERE session_id = ? ORDER BY epoch", (session_id,)
    )
    return [
        CompactionRow(epoch, _IDS.decode(covered), _IDS.decode(made), memo, bool(undone))
        for epoch, covered, made, memo, undone in rows
    ]


def archive_messages(
    connection: apsw.Connection, session_id: str, name: str, covered: Sequence[int], now: float
) -> None:
    """Move covered messages to a new archive of this name, which becomes the parent of the session."""
    row = sessions.get_session(connection, session_id)
    assert row is not None
    fields = {field: getattr(row, field) for field in NewSession.__struct_fields__} | {"id": name}
    sessions.create_session(connection, msgspec.convert(fields, NewSession), row.created_at)
    sessions.end_session(connection, name, ARCHIVED, now)
    _move_messages(connection, covered, session_id, name)
    connection.execute(
        "UPDATE sessions SET updated_at = (SELECT max(created_at) FROM messages WHERE session_id = ?1) WHERE id = ?1",
        (name,),
    )
    connection.execute(
        "UPDATE sessions SET parent_id = ?, title = ? WHERE id = ?", (name, _next_title(row), session_id)
    )


def undo_last_compaction(connection: apsw.Connection, session_id: str) -> bool:
    """Make the originals of the last active compaction active again; return False when there is none.

    Messages that were deleted since stay away.
    """
    last = next((one for one in reversed(list_compactions(connection, session_id)) if not one.undone), None)
    if last is None:
        return False
    _restore_covered(connection, session_id, last)
    set_message_state(
        connection, session_id, sorted(filter_owned(connection, [session_id], last.made)), MessageState.UNDONE
    )
    connection.execute("UPDATE compactions SET undone = 1 WHERE session_id = ? AND epoch = ?", (session_id, last.epoch))
    return True


def dissolve_compactions(connection: apsw.Connection, session_id: str, since: int) -> None:
    """Undo every compaction that was made after the message `since`, and delete what it made.

    Any of it may hold that message's words: pins quote, and a model that writes a summary has seen the newest messages.
    Those that were undone before leave nothing behind either.
    """
    for one in reversed(list_compactions(connection, session_id)):
        if max(one.made, default=0) < since:
            continue
        if not one.undone:
            _restore_covered(connection, session_id, one)
        remove_messages(connection, session_id, one.made)
        connection.execute("DELETE FROM compactions WHERE session_id = ? AND epoch = ?", (session_id, one.epoch))


def drop_archive(connection: apsw.Connection, row: SessionRow) -> None:
    """Delete an archive. The session after it gets the archive's parent, and its title where it was
    numbered from it.
    """
    connection.execute(
        "UPDATE sessions SET parent_id = ?1, title = iif(title = ?2, ?3, title) WHERE parent_id = ?4",
        (row.parent_id, _next_title(row), row.title, row.id),
    )
    connection.execute("DELETE FROM sessions WHERE id = ?", (row.id,))


def strip_title_number(title: str) -> str:
    """Return a title without the number that a compression gave it."""
    numbered = _NUMBERED.fullmatch(title)
    return numbered[1] if numbered is not None else title


def _restore_covered(connection: apsw.Connection, session_id: str, one: CompactionRow) -> None:
    """Make the messages that a compaction covered the session's own and active again. An empty archive is deleted."""
    for name in sessions.list_lineage(connection, session_id)[1:]:
        held = filter_owned(connection, [name], one.covered)
        if held:
            _move_messages(connection, sorted(held), name, session_id)
            row = sessions.get_session(connection, name)
            if row is not None and row.message_count == 0:
                drop_archive(connection, row)
    set_message_state(
        connection, session_id, sorted(filter_owned(connection, [session_id], one.covered)), MessageState.ACTIVE
    )


def _move_messages(connection: apsw.Connection, ids: Sequence[int], source: str, target: str) -> None:
    """Move messages from one session to another."""
    listed = json.dumps(list(ids))
    connection.execute(
        "UPDATE messages SET session_id = ? WHERE id IN (SELECT value FROM json_each(?))", (target, listed)
    )
    count = connection.changes()
    for name, more in ((source, -count), (target, count)):
        connection.execute("UPDATE sessions SET message_count = message_count + ? WHERE id = ?", (more, name))
    note_changes(connection, listed, erase=False)


def _next_title(row: SessionRow) -> str:
    """Return the title of the session that continues another."""
    if not row.title:
        return ""
    numbered = _NUMBERED.fullmatch(row.title)
    return f"{numbered[1]} ({int(numbered[2]) + 1})" if numbered is not None else f"{row.title} (2)"
