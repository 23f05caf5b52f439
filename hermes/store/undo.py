"""Turns that a person takes back, and brings back: functions over a connection, and the verbs about them.

The rows stay, marked as undone; the search forgets them. Compactions that were made since the first of the turns are
dissolved, as any of them may hold their words: the originals are active again then.
"""

import json
from collections.abc import Sequence

import apsw
import msgspec

from hermes.core.frame import EpochFrame
from hermes.core.messages import Message, Role
from hermes.store import compactions, sessions, transcript
from hermes.store.access import Access
from hermes.store.rows import MessageState

UNDONE = "undone"
"""Why an epoch begins whose transcript lacks the last turns of the one before."""
REDONE = "redone"
"""Why an epoch begins in which they are back."""


class PastTurn(msgspec.Struct, frozen=True):
    """A turn of a conversation: its id, the id of its first message, and what the person said."""

    turn_id: str
    first: int
    said: Message


class TakenBack(msgspec.Struct, frozen=True):
    """What was taken back: the turns, the oldest first, the epoch that begins, and whether it can be brought back."""

    turns: tuple[PastTurn, ...]
    epoch: int
    whole: bool


class BroughtBack(msgspec.Struct, frozen=True):
    """What was brought back: how many messages, the epoch that begins, and the checkpoint that belongs to it."""

    messages: int
    epoch: int
    checkpoint_id: int | None


def last_turns(connection: apsw.Connection, session_id: str, count: int) -> list[PastTurn]:
    """Up to `count` of the session's last turns that stand, condensed or not, the oldest first."""
    made = [one for row in compactions.read(connection, session_id) for one in row.made]
    rows = connection.execute(
        "SELECT turn_id, min(id) FROM messages WHERE session_id IN (SELECT value FROM json_each(?1))"
        f" AND state <> {MessageState.UNDONE:d} AND turn_id IS NOT NULL"
        " AND id NOT IN (SELECT value FROM json_each(?2)) GROUP BY turn_id ORDER BY min(id) DESC LIMIT ?3",
        (json.dumps(sessions.lineage(connection, session_id)), json.dumps(made), count),
    ).fetchall()
    first = {row[1]: row[0] for row in reversed(rows)}
    said = {row.id: row.message for row in transcript.read_some(connection, json.dumps(list(first)))}
    return [PastTurn(turn_id, number, said[number]) for number, turn_id in first.items()]


def take_back(
    connection: apsw.Connection,
    session_id: str,
    count: int,
    frame: EpochFrame,
    now: float,
    *,
    checkpoint_id: int | None = None,
) -> TakenBack | None:
    """Mark the last turns as undone and begin the epoch that goes on without them; None when there is no turn."""
    turns = last_turns(connection, session_id, count)
    if not turns:
        return None
    whole = not _dissolved(connection, session_id, turns[0].first)
    rows = connection.execute(
        f"SELECT id FROM messages WHERE session_id = ? AND state <> {MessageState.UNDONE:d}"
        " AND turn_id IN (SELECT value FROM json_each(?)) ORDER BY id",
        (session_id, json.dumps([turn.turn_id for turn in turns])),
    )
    ids = [row[0] for row in rows]
    _mark(connection, ids, MessageState.UNDONE)
    epoch = sessions.begin_epoch(connection, session_id, frame, UNDONE, now)
    connection.execute(
        "INSERT INTO undos (session_id, epoch, messages, whole, checkpoint_id) VALUES (?, ?, ?, ?, ?)",
        (session_id, epoch, json.dumps(ids), whole, checkpoint_id),
    )
    return TakenBack(tuple(turns), epoch, whole)


def last_undo(connection: apsw.Connection, session_id: str) -> tuple[int, list[int], int | None] | None:
    """The last undo that can be taken back: its epoch, its messages, its checkpoint.

    None when there is none, when something was said since, or when a compaction was dissolved or made since.
    """
    row = connection.execute(
        "SELECT epoch, messages, whole, checkpoint_id FROM undos WHERE session_id = ? AND redone = 0"
        " ORDER BY epoch DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    if row is None or not row[2]:
        return None
    epoch, listed, _, checkpoint_id = row
    said = connection.execute(
        f"SELECT 1 FROM messages WHERE session_id = ?1 AND epoch >= ?2 AND state <> {MessageState.UNDONE:d}"
        " UNION ALL SELECT 1 FROM compactions WHERE session_id = ?1 AND epoch >= ?2 LIMIT 1",
        (session_id, epoch),
    ).get
    if said is not None:
        return None
    return int(epoch), msgspec.json.decode(listed, type=list[int]), checkpoint_id


def bring_back(connection: apsw.Connection, session_id: str, frame: EpochFrame, now: float) -> BroughtBack | None:
    """Let what was undone last be active again, and begin the epoch that sends it; None when that cannot be."""
    last = last_undo(connection, session_id)
    if last is None:
        return None
    undone, listed, checkpoint_id = last
    ids = sorted(transcript.own(connection, [session_id], listed))
    _mark(connection, ids, MessageState.ACTIVE)
    connection.execute("UPDATE undos SET redone = 1 WHERE session_id = ? AND epoch = ?", (session_id, undone))
    epoch = sessions.begin_epoch(connection, session_id, frame, REDONE, now)
    return BroughtBack(len(ids), epoch, checkpoint_id)


def _dissolved(connection: apsw.Connection, session_id: str, first: int) -> bool:
    """Take back the compactions that were made since a message; whether there were any."""
    found = False
    while True:
        standing = [one for one in compactions.read(connection, session_id) if not one.undone]
        if not standing or max(standing[-1].made, default=0) < first:
            return found
        found = compactions.undo_last(connection, session_id)


def _mark(connection: apsw.Connection, ids: Sequence[int], state: MessageState) -> None:
    """Give messages another state; the words of undone ones leave the search's file, too."""
    listed = json.dumps(list(ids))
    connection.execute("UPDATE messages SET state = ? WHERE id IN (SELECT value FROM json_each(?))", (state, listed))
    transcript.note_changes(connection, listed, erase=state is MessageState.UNDONE)


class UndoAccess(Access):
    """Taking back and bringing back, all or nothing each."""

    async def last_turns(self, session_id: str, count: int) -> list[PastTurn]:
        """Up to `count` of the session's last turns, the oldest first."""
        return await self._database.read(lambda connection: last_turns(connection, session_id, count))

    async def openings(self, session_id: str, turn_ids: Sequence[str]) -> dict[str, Message]:
        """What turns of a session began with, undone ones too, by turn."""

        def work(connection: apsw.Connection) -> dict[str, Message]:
            rows = connection.execute(
                "SELECT turn_id, min(id) FROM messages WHERE session_id IN (SELECT value FROM json_each(?))"
                " AND turn_id IN (SELECT value FROM json_each(?)) AND role = ? GROUP BY turn_id",
                (json.dumps(sessions.lineage(connection, session_id)), json.dumps(list(turn_ids)), Role.USER),
            ).fetchall()
            said = transcript.read_some(connection, json.dumps([row[1] for row in rows]))
            by_id = {row.id: row.message for row in said}
            return {str(turn_id): by_id[msgspec.convert(number, int)] for turn_id, number in rows}

        return await self._database.read(work)

    async def take_back(
        self, session_id: str, count: int, frame: EpochFrame, *, checkpoint_id: int | None = None
    ) -> TakenBack | None:
        """Mark the last turns as undone and begin the epoch that goes on without them; None when there is no turn."""
        now = self._clock.now()
        return await self._database.write(
            lambda connection: take_back(connection, session_id, count, frame, now, checkpoint_id=checkpoint_id)
        )

    async def can_bring_back(self, session_id: str) -> bool:
        """Whether `bring_back` would bring something back."""
        return await self._database.read(lambda connection: last_undo(connection, session_id) is not None)

    async def bring_back(self, session_id: str, frame: EpochFrame) -> BroughtBack | None:
        """Let what was undone last be active again, in an epoch of its own; None when that cannot be."""
        now = self._clock.now()
        return await self._database.write(lambda connection: bring_back(connection, session_id, frame, now))
