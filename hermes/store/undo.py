"""Undo and redo of turns.

The rows stay, marked as undone; search forgets them. Compactions that were made since the first of the
turns are dissolved, as any of them may hold their words: the originals are active again then.
"""

import json
from collections.abc import Sequence

import msgspec

from hermes.core.frame import EpochFrame
from hermes.core.messages import Message, Role
from hermes.store import compactions, messages
from hermes.store.records import MessageState
from hermes.store.repository import Repository, Transaction, as_method, reads, writes
from hermes.store.sessions import list_lineage
from hermes.store.turns import begin_epoch

UNDONE = "undone"
"""The reason of an epoch whose transcript lacks the last turns of the one before."""
REDONE = "redone"
"""The reason of an epoch in which they are back."""


class PastTurn(msgspec.Struct, frozen=True):
    """A turn of a conversation: its id, the id of its first message, and the person's message."""

    turn_id: str
    first: int
    opening: Message


class UndoneTurns(msgspec.Struct, frozen=True):
    """The result of an undo: the turns, the oldest first, the epoch that begins, and whether it can be redone."""

    turns: tuple[PastTurn, ...]
    epoch: int
    whole: bool


class RedoneTurns(msgspec.Struct, frozen=True):
    """The result of a redo: the number of messages, the epoch that begins, and the checkpoint that belongs to it."""

    messages: int
    epoch: int
    checkpoint_id: int | None


def list_last_turns(tx: Transaction, session_id: str, count: int) -> list[PastTurn]:
    """Return up to `count` of the session's last active turns, compacted or not, the oldest first."""
    made = [one for row in compactions.list_compactions(tx, session_id) for one in row.made]
    rows = tx.execute(
        "SELECT turn_id, min(id) FROM messages WHERE session_id IN (SELECT value FROM json_each(?1))"
        f" AND state <> {MessageState.UNDONE:d} AND turn_id IS NOT NULL"
        " AND id NOT IN (SELECT value FROM json_each(?2)) GROUP BY turn_id ORDER BY min(id) DESC LIMIT ?3",
        (json.dumps(list_lineage(tx, session_id)), json.dumps(made), count),
    ).fetchall()
    first = {row[1]: row[0] for row in reversed(rows)}
    said = {row.id: row.message for row in messages.read_messages_by_id(tx, json.dumps(list(first)))}
    return [PastTurn(turn_id, number, said[number]) for number, turn_id in first.items()]


def undo_turns(
    tx: Transaction,
    session_id: str,
    count: int,
    frame: EpochFrame,
    *,
    checkpoint_id: int | None = None,
) -> UndoneTurns | None:
    """Mark the last turns as undone and begin the epoch that goes on without them; return None when there
    is no turn.
    """
    turns = list_last_turns(tx, session_id, count)
    if not turns:
        return None
    whole = not _undo_compactions_since(tx, session_id, turns[0].first)
    rows = tx.execute(
        f"SELECT id FROM messages WHERE session_id = ? AND state <> {MessageState.UNDONE:d}"
        " AND turn_id IN (SELECT value FROM json_each(?)) ORDER BY id",
        (session_id, json.dumps([turn.turn_id for turn in turns])),
    )
    ids = [row[0] for row in rows]
    _set_states(tx, ids, MessageState.UNDONE)
    epoch = begin_epoch(tx, session_id, frame, UNDONE)
    tx.execute(
        "INSERT INTO undos (session_id, epoch, messages, whole, checkpoint_id) VALUES (?, ?, ?, ?, ?)",
        (session_id, epoch, json.dumps(ids), whole, checkpoint_id),
    )
    return UndoneTurns(tuple(turns), epoch, whole)


class UndoRepository(Repository):
    """Undo and redo of turns, all or nothing each."""

    list_last_turns = reads(as_method(list_last_turns))
    undo_turns = writes(as_method(undo_turns))

    @reads
    def list_turn_openings(self, tx: Transaction, session_id: str, turn_ids: Sequence[str]) -> dict[str, Message]:
        """Return the first messages of turns of a session, undone ones too, by turn."""
        rows = tx.execute(
            "SELECT turn_id, min(id) FROM messages WHERE session_id IN (SELECT value FROM json_each(?))"
            " AND turn_id IN (SELECT value FROM json_each(?)) AND role = ? GROUP BY turn_id",
            (json.dumps(list_lineage(tx, session_id)), json.dumps(list(turn_ids)), Role.USER),
        ).fetchall()
        said = messages.read_messages_by_id(tx, json.dumps([row[1] for row in rows]))
        by_id = {row.id: row.message for row in said}
        return {str(turn_id): by_id[msgspec.convert(number, int)] for turn_id, number in rows}

    @writes
    def redo_turns(self, tx: Transaction, session_id: str, frame: EpochFrame) -> RedoneTurns | None:
        """Make what was undone last active again, and begin the epoch that sends it; return
        None when that is not possible.
        """
        last = _find_last_undo(tx, session_id)
        if last is None:
            return None
        undone, listed, checkpoint_id = last
        ids = sorted(messages.filter_owned(tx, [session_id], listed))
        _set_states(tx, ids, MessageState.ACTIVE)
        tx.execute("UPDATE undos SET redone = 1 WHERE session_id = ? AND epoch = ?", (session_id, undone))
        epoch = begin_epoch(tx, session_id, frame, REDONE)
        return RedoneTurns(len(ids), epoch, checkpoint_id)


def _find_last_undo(tx: Transaction, session_id: str) -> tuple[int, list[int], int | None] | None:
    """Return the last undo that can be redone: its epoch, its messages, its checkpoint.

    None when there is none, when something was said since, or when a compaction was dissolved or made since.
    """
    row = tx.execute(
        "SELECT epoch, messages, whole, checkpoint_id FROM undos WHERE session_id = ? AND redone = 0"
        " ORDER BY epoch DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    if row is None or not row[2]:
        return None
    epoch, listed, _, checkpoint_id = row
    said = tx.execute(
        f"SELECT 1 FROM messages WHERE session_id = ?1 AND epoch >= ?2 AND state <> {MessageState.UNDONE:d}"
        " UNION ALL SELECT 1 FROM compactions WHERE session_id = ?1 AND epoch >= ?2 LIMIT 1",
        (session_id, epoch),
    ).get
    if said is not None:
        return None
    return int(epoch), msgspec.json.decode(listed, type=list[int]), checkpoint_id


def _undo_compactions_since(tx: Transaction, session_id: str, first: int) -> bool:
    """Undo the compactions that were made since a message; return whether there were any."""
    found = False
    while True:
        standing = [one for one in compactions.list_compactions(tx, session_id) if not one.undone]
        if not standing or max(standing[-1].made, default=0) < first:
            return found
        found = compactions.undo_last_compaction(tx, session_id)


def _set_states(tx: Transaction, ids: Sequence[int], state: MessageState) -> None:
    """Set the state of messages; the words of undone ones leave the search index's file, too."""
    listed = json.dumps(list(ids))
    tx.execute("UPDATE messages SET state = ? WHERE id IN (SELECT value FROM json_each(?))", (state, listed))
    messages.note_changes(tx, listed, erase=state is MessageState.UNDONE)
