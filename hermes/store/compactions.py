"""Compactions: messages that replace others, where the originals are kept, and how a compaction is undone.

The originals stay in their session as compacted, or move
to an archive: a session of its own that has ended with the reason `compression` and is the parent of the one that goes
on. Nobody continues an archive; queries about the session include its archives.
"""

import json
import re
from collections.abc import Sequence

import msgspec

from hermes.core.encoding import to_json
from hermes.core.frame import EpochFrame
from hermes.core.ids import new_session_id
from hermes.store import sessions
from hermes.store.messages import (
    TranscriptEntry,
    append_entry,
    filter_owned,
    note_changes,
    remove_messages,
    set_message_state,
)
from hermes.store.records import ARCHIVED, CompactionRow, MessageState, NewSession, SessionRow
from hermes.store.repository import Repository, Transaction, as_method, reads, writes
from hermes.store.turns import TurnOwner, begin_epoch, require_owner

_IDS = msgspec.json.Decoder(tuple[int, ...])
_NUMBERED = re.compile(r"(.*) \((\d{1,6})\)", re.DOTALL)


class CompactionCover(msgspec.Struct, frozen=True):
    """Messages (the entry's) that are to replace the covered ones."""

    entry: TranscriptEntry
    covered: tuple[int, ...]


def replace_covered(tx: Transaction, entry: TranscriptEntry, covered: Sequence[int]) -> list[int]:
    """Replace the covered messages by the entry's, at the place of the last of them; return the new ids.

    Undone by `set_message_state`: the covered ones active, the new ones undone.
    """
    set_message_state(tx, entry.session_id, covered, MessageState.COMPACTED)
    position = tx.execute(
        "SELECT max(position) FROM messages WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(covered)),)
    ).get
    return append_entry(tx, entry, position=position)


def record_compaction(
    tx: Transaction,
    session_id: str,
    epoch: int,
    changes: Sequence[CompactionCover],
    made: Sequence[int],
    memo: bytes,
) -> None:
    """Record a compaction, so that it can be listed and undone."""
    covered = [one for change in changes for one in change.covered]
    tx.execute(
        "INSERT INTO compactions (session_id, epoch, covered, made, memo) VALUES (?, ?, ?, ?, ?)",
        (session_id, epoch, to_json(covered).decode(), to_json(made).decode(), memo),
    )


def list_compactions(tx: Transaction, session_id: str) -> list[CompactionRow]:
    """Return the session's compactions, the oldest first."""
    rows = tx.execute(
        "SELECT epoch, covered, made, memo, undone FROM compactions WHERE session_id = ? ORDER BY epoch", (session_id,)
    )
    return [
        CompactionRow(epoch, _IDS.decode(covered), _IDS.decode(made), memo, bool(undone))
        for epoch, covered, made, memo, undone in rows
    ]


def archive_messages(tx: Transaction, session_id: str, name: str, covered: Sequence[int]) -> None:
    """Move covered messages to a new archive of this name, which becomes the parent of the session."""
    row = sessions.get_session(tx, session_id)
    assert row is not None
    fields = {field: getattr(row, field) for field in NewSession.__struct_fields__} | {"id": name}
    sessions.create_session(tx.at_time(row.created_at), msgspec.convert(fields, NewSession))
    sessions.end_session(tx, name, ARCHIVED)
    _move_messages(tx, covered, session_id, name)
    tx.execute(
        "UPDATE sessions SET updated_at = (SELECT max(created_at) FROM messages WHERE session_id = ?1) WHERE id = ?1",
        (name,),
    )
    tx.execute("UPDATE sessions SET parent_id = ?, title = ? WHERE id = ?", (name, _next_title(row), session_id))


def undo_last_compaction(tx: Transaction, session_id: str) -> bool:
    """Make the originals of the last active compaction active again; return False when there is none.

    Messages that were deleted since stay away.
    """
    last = next((one for one in reversed(list_compactions(tx, session_id)) if not one.undone), None)
    if last is None:
        return False
    _restore_covered(tx, session_id, last)
    set_message_state(tx, session_id, sorted(filter_owned(tx, [session_id], last.made)), MessageState.UNDONE)
    tx.execute("UPDATE compactions SET undone = 1 WHERE session_id = ? AND epoch = ?", (session_id, last.epoch))
    return True


def dissolve_compactions(tx: Transaction, session_id: str, since: int) -> None:
    """Undo every compaction that was made after the message `since`, and delete what it made.

    Any of it may hold that message's words: pins quote, and a model that writes a summary has seen the newest messages.
    Those that were undone before leave nothing behind either.
    """
    for one in reversed(list_compactions(tx, session_id)):
        if max(one.made, default=0) < since:
            continue
        if not one.undone:
            _restore_covered(tx, session_id, one)
        remove_messages(tx, session_id, one.made)
        tx.execute("DELETE FROM compactions WHERE session_id = ? AND epoch = ?", (session_id, one.epoch))


def drop_archive(tx: Transaction, row: SessionRow) -> None:
    """Delete an archive. The session after it gets the archive's parent, and its title where it was
    numbered from it.
    """
    tx.execute(
        "UPDATE sessions SET parent_id = ?1, title = iif(title = ?2, ?3, title) WHERE parent_id = ?4",
        (row.parent_id, _next_title(row), row.title, row.id),
    )
    tx.execute("DELETE FROM sessions WHERE id = ?", (row.id,))


def strip_title_number(title: str) -> str:
    """Return a title without the number that a compression gave it."""
    numbered = _NUMBERED.fullmatch(title)
    return numbered[1] if numbered is not None else title


class CompactionRepository(Repository):
    """The compactions of sessions, all or nothing each."""

    list_all = reads(as_method(list_compactions))

    @writes
    def apply(
        self,
        tx: Transaction,
        changes: Sequence[CompactionCover],
        frame: EpochFrame,
        reason: str,
        *,
        memo: bytes = b"",
        owner: TurnOwner | None = None,
        archive: bool = False,
    ) -> int:
        """Compact several places of one session and record it, so that `undo_last` can take it back; return the
        epoch's number.

        With `archive` the covered messages move to a session of their own, which becomes the parent of this one.
        """
        session_id = changes[0].entry.session_id
        require_owner(tx, owner)
        made = [one for change in changes for one in replace_covered(tx, change.entry, change.covered)]
        epoch = begin_epoch(tx, session_id, frame, reason)
        record_compaction(tx, session_id, epoch, changes, made, memo)
        if archive:
            covered = [one for change in changes for one in change.covered]
            archive_messages(tx, session_id, new_session_id(tx.now), covered)
        return epoch

    @writes
    def undo_last(self, tx: Transaction, session_id: str, frame: EpochFrame, reason: str) -> int | None:
        """Restore the originals of the last compaction, all or nothing, and begin the epoch that sends them.

        Returns the epoch's number, or None when there is no compaction to undo.
        """
        if not undo_last_compaction(tx, session_id):
            return None
        return begin_epoch(tx, session_id, frame, reason)


def _restore_covered(tx: Transaction, session_id: str, one: CompactionRow) -> None:
    """Make the messages that a compaction covered the session's own and active again. An empty archive is deleted."""
    for name in sessions.list_lineage(tx, session_id)[1:]:
        held = filter_owned(tx, [name], one.covered)
        if held:
            _move_messages(tx, sorted(held), name, session_id)
            row = sessions.get_session(tx, name)
            if row is not None and row.message_count == 0:
                drop_archive(tx, row)
    set_message_state(tx, session_id, sorted(filter_owned(tx, [session_id], one.covered)), MessageState.ACTIVE)


def _move_messages(tx: Transaction, ids: Sequence[int], source: str, target: str) -> None:
    """Move messages from one session to another."""
    listed = json.dumps(list(ids))
    tx.execute("UPDATE messages SET session_id = ? WHERE id IN (SELECT value FROM json_each(?))", (target, listed))
    count = tx.changes()
    for name, more in ((source, -count), (target, count)):
        tx.execute("UPDATE sessions SET message_count = message_count + ? WHERE id = ?", (more, name))
    note_changes(tx, listed, erase=False)


def _next_title(row: SessionRow) -> str:
    """Return the title of the session that continues another."""
    if not row.title:
        return ""
    numbered = _NUMBERED.fullmatch(row.title)
    return f"{numbered[1]} ({int(numbered[2]) + 1})" if numbered is not None else f"{row.title} (2)"
