"""The work of sessions: their epochs, turns and effects, and the messages that wait for a turn."""

import os
from collections.abc import Sequence

import msgspec

from hermes.core.encoding import to_json
from hermes.core.errors import NotFoundError, StoreError, UsageError
from hermes.core.frame import EpochFrame
from hermes.core.messages import ToolResultPart
from hermes.core.outcomes import ExitReason
from hermes.core.protocols import Intent
from hermes.core.usage import Usage
from hermes.i18n.messages import N_
from hermes.store.records import EffectRow, EffectState, InboxRow, StoredEpoch, TurnRow, TurnRowState
from hermes.store.repository import Repository, Transaction, as_method, joins_next, queues, reads, writes
from hermes.store.sessions import get_session, require_changed_row
from hermes.util.localizable import pack_message, unpack_message
from hermes.util.text import clean_surrogates

_TURN = TurnRow.__struct_fields__
_SELECT_TURN = f"SELECT {', '.join(_TURN)} FROM turns"
_EFFECT = EffectRow.__struct_fields__
_SELECT_EFFECT = f"SELECT {', '.join(_EFFECT)} FROM effects"
_USAGE = msgspec.json.Decoder(Usage)
_RESULT = msgspec.json.Decoder(ToolResultPart)


class TurnOwner(msgspec.Struct, frozen=True):
    """The owner of a turn: the fence that its writes carry must be the newest."""

    turn_id: str
    fence: int


def insert_turn(tx: Transaction, session_id: str, turn_id: str, *, text: str = "") -> None:
    """Store a turn that begins in this process; `text` is kept until its first message is appended.

    Raises `NotFoundError` without its session, and `UsageError` when it has begun already.
    """
    if get_session(tx, session_id) is None:
        raise NotFoundError(N_("There is no session {session_id}.", session_id=session_id))
    tx.execute(
        "INSERT INTO turns (id, session_id, state, text, started_at, owner_pid) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO NOTHING",
        (turn_id, session_id, TurnRowState.RUNNING, clean_surrogates(text), tx.now, os.getpid()),
    )
    if tx.changes() == 0:
        raise UsageError(N_("Turn {turn_id} has begun already.", turn_id=turn_id))


def require_owner(tx: Transaction, owner: TurnOwner | None) -> None:
    """Raise `StoreError` when another process has taken over the owner's turn, which alone may go on with it."""
    if owner is None:
        return
    row = tx.execute("SELECT fence FROM turns WHERE id = ? AND state = ?", (owner.turn_id, TurnRowState.RUNNING))
    if row.get != owner.fence:
        raise StoreError(
            N_(
                "Turn {turn_id} is not this process's any more: another one went on with it, or it was deleted.",
                turn_id=owner.turn_id,
            ),
            "Close this session here; what the other process wrote is kept.",
        )


def get_turn(tx: Transaction, turn_id: str) -> TurnRow | None:
    """Return the turn of this id, or None."""
    row = tx.execute(f"{_SELECT_TURN} WHERE id = ?", (turn_id,)).fetchone()
    return None if row is None else _to_turn_row(row)


def mark_uncertain(tx: Transaction, turn_id: str) -> int:
    """Mark open calls of a dead process that may not be repeated as uncertain; return how many there are."""
    return tx.change_rows(
        "UPDATE effects SET state = ? WHERE turn_id = ? AND state = ? AND repeatable = 0",
        (EffectState.UNCERTAIN, turn_id, EffectState.INTENDED),
    )


def insert_intents(tx: Transaction, turn_id: str, intents: Sequence[Intent], *, fence: int = 0) -> None:
    """Record the calls of a batch before the first of them starts; they belong to the session's last message."""
    owner = get_turn(tx, turn_id)
    if owner is None or owner.state is not TurnRowState.RUNNING:
        raise NotFoundError(N_("Turn {turn_id} is not running.", turn_id=turn_id))
    if fence:
        require_owner(tx, TurnOwner(turn_id, fence))
    last = tx.execute("SELECT max(id) FROM messages WHERE session_id = ?", (owner.session_id,)).get
    tx.executemany(
        "INSERT INTO effects (turn_id, call_id, tool, arguments, repeatable, state, intended_at, message_id)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                turn_id,
                one.call_id,
                one.tool,
                clean_surrogates(one.arguments),
                int(one.repeatable),
                EffectState.INTENDED,
                tx.now,
                last,
            )
            for one in intents
        ],
    )


class KeptResults(msgspec.Struct, frozen=True):
    """The results of a turn that has ended with calls of its caller's; without a turn there is none."""

    turn_id: str = ""
    results: tuple[ToolResultPart, ...] = ()


def clear_results(tx: Transaction, turn_id: str) -> None:
    """Clear the arguments and results of a turn's finished effects, which stand in the transcript."""
    tx.execute(
        "UPDATE effects SET arguments = '', result = NULL WHERE turn_id = ? AND state = ?",
        (turn_id, EffectState.DONE),
    )


class TurnRepository(Repository):
    """Turns and their effects."""

    get = reads(as_method(get_turn))
    mark_uncertain = writes(as_method(mark_uncertain))
    begin = writes(as_method(insert_turn))

    @writes
    def adopt(self, tx: Transaction, turn_id: str) -> int:
        """Take over a turn whose owner died; return the fence that its writes carry from now on.

        Its open calls are deleted where they may be repeated, and marked as uncertain where not.
        """
        tx.execute(
            "UPDATE turns SET fence = fence + 1, owner_pid = ? WHERE id = ? AND state = ?",
            (os.getpid(), turn_id, TurnRowState.RUNNING),
        )
        if tx.changes() == 0:
            raise NotFoundError(N_("Turn {turn_id} is not running.", turn_id=turn_id))
        tx.execute(
            "DELETE FROM effects WHERE turn_id = ? AND state = ? AND repeatable = 1", (turn_id, EffectState.INTENDED)
        )
        mark_uncertain(tx, turn_id)
        fence = tx.execute("SELECT fence FROM turns WHERE id = ?", (turn_id,)).get
        assert isinstance(fence, int)
        return fence

    @queues
    def mark_stopping(self, tx: Transaction, owner: TurnOwner) -> None:
        """Record that the person asked for the turn to stop; a turn that another process owns by now is left alone."""
        tx.execute("UPDATE turns SET stopping = 1 WHERE id = ? AND fence = ?", (owner.turn_id, owner.fence))

    @writes
    def end(
        self,
        tx: Transaction,
        turn_id: str,
        reason: ExitReason,
        *,
        usage: Usage | None = None,
        calls: int = 0,
        error: str = "",
        fence: int = 0,
    ) -> None:
        """Store a turn's named end, once, and clear the arguments and results of its finished effects, which stand in
        the transcript; those of a turn that waits for its caller's results stay.

        Raises `NotFoundError` when the turn is not running. With a `fence`, here and below, raises `StoreError` when
        another process has taken over the turn.
        """
        if fence:
            require_owner(tx, TurnOwner(turn_id, fence))
        tx.execute(
            "UPDATE turns SET state = ?, reason = ?, error = ?, calls = ?, usage = ?, ended_at = ?"
            " WHERE id = ? AND state = ?",
            (
                TurnRowState.ENDED,
                reason,
                clean_surrogates(error),
                calls,
                to_json(usage or Usage()),
                tx.now,
                turn_id,
                TurnRowState.RUNNING,
            ),
        )
        if tx.changes() == 0:
            raise NotFoundError(N_("Turn {turn_id} is not running.", turn_id=turn_id))
        if reason is not ExitReason.CALLER_TOOLS:  # else the results do not stand in the transcript yet
            clear_results(tx, turn_id)
        tx.execute("DELETE FROM code_runs WHERE turn_id = ?", (turn_id,))

    @reads
    def list_open(self, tx: Transaction, session_id: str) -> list[TurnRow]:
        """Return the session's turns that have not ended, the oldest first."""
        rows = tx.execute(
            f"{_SELECT_TURN} WHERE session_id = ? AND state = ? ORDER BY started_at, rowid",
            (session_id, TurnRowState.RUNNING),
        )
        return [_to_turn_row(row) for row in rows]

    @reads
    def get_newest(self, tx: Transaction, session_id: str) -> TurnRow | None:
        """Return the session's newest turn, or None."""
        row = tx.execute(
            f"{_SELECT_TURN} WHERE session_id = ? ORDER BY started_at DESC, rowid DESC LIMIT 1", (session_id,)
        ).fetchone()
        return None if row is None else _to_turn_row(row)

    record_intents = writes(as_method(insert_intents))
    record_intents_with_next = joins_next(as_method(insert_intents))

    @joins_next
    def record_result(self, tx: Transaction, turn_id: str, result: ToolResultPart, *, fence: int = 0) -> None:
        """Record the result of a call, in one transaction with the next write.

        An id that a model uses again in one turn means its oldest open call.
        """
        if fence:
            require_owner(tx, TurnOwner(turn_id, fence))
        body = to_json(msgspec.structs.replace(result, text=clean_surrogates(result.text)))
        tx.execute(
            "UPDATE effects SET state = ?, result = ?, done_at = ? WHERE id ="
            " (SELECT min(id) FROM effects WHERE turn_id = ? AND call_id = ? AND state <> ?)",
            (EffectState.DONE, body, tx.now, turn_id, result.call_id, EffectState.DONE),
        )
        if tx.changes() == 0:
            raise NotFoundError(
                N_("Turn {turn_id} has no open call {call_id}.", turn_id=turn_id, call_id=result.call_id)
            )

    @writes
    def keep_results(self, tx: Transaction, turn_id: str, results: Sequence[ToolResultPart], *, fence: int = 0) -> None:
        """Keep the results of calls that had no intent, such as refused ones; those of others are recorded already."""
        if fence:
            require_owner(tx, TurnOwner(turn_id, fence))
        session = tx.execute("SELECT session_id FROM turns WHERE id = ?", (turn_id,)).get
        last = tx.execute("SELECT max(id) FROM messages WHERE session_id = ?", (session,)).get
        for one in results:
            body = to_json(msgspec.structs.replace(one, text=clean_surrogates(one.text)))
            tx.execute(
                "INSERT INTO effects"
                " (turn_id, call_id, tool, arguments, repeatable, state, intended_at, done_at, message_id, result)"
                " SELECT ?1, ?2, ?3, '', 0, ?4, ?5, ?5, ?6, ?7"
                " WHERE NOT EXISTS (SELECT 1 FROM effects WHERE turn_id = ?1 AND call_id = ?2 AND message_id = ?6)",
                (turn_id, one.call_id, one.name, EffectState.DONE, tx.now, last, body),
            )

    @reads
    def read_kept_results(self, tx: Transaction, session_id: str) -> KeptResults:
        """Return the results of the session's last batch, where its turn has ended with calls of its caller's."""
        found = tx.execute(
            "SELECT id, reason FROM turns WHERE session_id = ? ORDER BY started_at DESC, rowid DESC LIMIT 1",
            (session_id,),
        ).fetchone()
        if found is None or found[1] != ExitReason.CALLER_TOOLS:
            return KeptResults()
        last = tx.execute("SELECT max(id) FROM messages WHERE session_id = ?", (session_id,)).get
        rows = tx.execute(f"{_SELECT_EFFECT} WHERE turn_id = ? AND message_id = ? ORDER BY id", (found[0], last))
        effects = [_to_effect_row(row) for row in rows]
        return KeptResults(str(found[0]), tuple(one.result for one in effects if one.result is not None))

    clear_kept_results = queues(as_method(clear_results))

    @reads
    def list_effects(self, tx: Transaction, turn_id: str) -> list[EffectRow]:
        """Return the turn's effects in the order of their intents."""
        rows = tx.execute(f"{_SELECT_EFFECT} WHERE turn_id = ? ORDER BY id", (turn_id,))
        return [_to_effect_row(row) for row in rows]


def _to_turn_row(values: tuple[object, ...]) -> TurnRow:
    fields = dict(zip(_TURN, values, strict=True))
    usage = fields.pop("usage")
    row = msgspec.convert(fields | {"usage": {}, "stopping": bool(fields["stopping"])}, TurnRow)
    return msgspec.structs.replace(row, usage=_USAGE.decode(usage)) if isinstance(usage, bytes) else row


def _to_effect_row(values: tuple[object, ...]) -> EffectRow:
    fields = dict(zip(_EFFECT, values, strict=True))
    result = fields.pop("result")
    row = msgspec.convert(fields | {"result": None, "repeatable": bool(fields["repeatable"])}, EffectRow)
    return msgspec.structs.replace(row, result=_RESULT.decode(result)) if isinstance(result, bytes) else row


def enqueue_message(tx: Transaction, session_id: str, letter_id: str, body: bytes, *, first: bool = False) -> None:
    """Store a message that waits, behind the others or (`first`) before them all."""
    tx.execute(
        "INSERT INTO inbox (id, session_id, body, posted_at, place) VALUES (?1, ?2, ?3, ?4, iif(?5,"
        " (SELECT coalesce(min(place), 0) - 1 FROM inbox WHERE session_id = ?2), 0))",
        (letter_id, session_id, body, tx.now, first),
    )


def take_messages(tx: Transaction, turn_id: str | None, letter_ids: tuple[str, ...]) -> None:
    """Remove messages that have become part of the transcript from the inbox, and mark their chat events as
    answered by this turn.
    """
    if letter_ids:
        tx.executemany("DELETE FROM inbox WHERE id = ?", [(name,) for name in letter_ids])
        tx.executemany(
            "UPDATE arrivals SET turn_id = ? WHERE letter_id = ? AND state = 'posted'",
            [(turn_id, name) for name in letter_ids],
        )
        tx.executemany(
            "UPDATE api_runs SET turn_id = ?, state = 'running' WHERE letter_id = ? AND ended_at IS NULL",
            [(turn_id or "", name) for name in letter_ids],
        )


class InboxRepository(Repository):
    """The messages that wait for a session."""

    enqueue = queues(as_method(enqueue_message))

    @writes
    def withdraw(self, tx: Transaction, session_id: str, letter_id: str) -> None:
        """Remove a message that waits, and that its person has taken back."""
        tx.execute("DELETE FROM inbox WHERE session_id = ? AND id = ?", (session_id, letter_id))

    @reads
    def list_waiting(self, tx: Transaction, session_id: str) -> list[InboxRow]:
        """Return the waiting messages, in the order in which they were sent."""
        rows = tx.execute(
            "SELECT id, body, posted_at FROM inbox WHERE session_id = ? ORDER BY place, number", (session_id,)
        )
        return [InboxRow(str(name), bytes(body), float(at)) for name, body, at in rows]


_FRAME = msgspec.json.Decoder(EpochFrame)
_UNREADABLE_FRAME = EpochFrame(provider="", model="", wire="", encoder_version=0, system="")


def begin_epoch(tx: Transaction, session_id: str, frame: EpochFrame, reason: str) -> int:
    """Begin the session's next epoch, end the one that is open, and return the new number (from 1)."""
    tx.execute("UPDATE sessions SET provider = ?, model = ? WHERE id = ?", (frame.provider, frame.model, session_id))
    require_changed_row(tx, session_id)
    tx.execute(
        "UPDATE epochs SET ended_at = ?, end_reason = ? WHERE session_id = ? AND ended_at IS NULL",
        (tx.now, pack_message(reason), session_id),
    )
    last = tx.execute("SELECT coalesce(max(number), 0) FROM epochs WHERE session_id = ?", (session_id,)).get
    number = msgspec.convert(last, int) + 1
    tx.execute(
        "INSERT INTO epochs (session_id, number, frame, began_at, begin_reason) VALUES (?, ?, ?, ?, ?)",
        (session_id, number, to_json(frame.stored_frame), tx.now, pack_message(reason)),
    )
    return number


def list_epochs(tx: Transaction, session_id: str) -> list[StoredEpoch]:
    """Return all epochs of a session, in order."""
    rows = tx.execute(
        "SELECT session_id, number, frame, began_at, begin_reason, ended_at, end_reason FROM epochs"
        " WHERE session_id = ? ORDER BY number",
        (session_id,),
    )
    return [
        StoredEpoch(
            session_id=owner,
            number=number,
            frame=_decode_frame(frame),
            began_at=began_at,
            begin_reason=unpack_message(begin_reason),
            ended_at=ended_at,
            end_reason=unpack_message(end_reason),
        )
        for owner, number, frame, began_at, begin_reason, ended_at, end_reason in rows
    ]


def _decode_frame(stored: bytes) -> EpochFrame:
    """Return the frame, or one without a provider when the stored one cannot be read: a
    session's words are worth more.
    """
    try:
        return _FRAME.decode(stored)
    except msgspec.MsgspecError:
        return _UNREADABLE_FRAME


def get_open_epoch(tx: Transaction, session_id: str) -> StoredEpoch | None:
    """Return the session's open epoch, or None."""
    return next((epoch for epoch in reversed(list_epochs(tx, session_id)) if epoch.ended_at is None), None)


class EpochRepository(Repository):
    """The epochs of sessions. Methods that name a session raise `NotFoundError` when there is none."""

    get_open = reads(as_method(get_open_epoch))

    @writes
    def begin(
        self, tx: Transaction, session_id: str, frame: EpochFrame, reason: str, owner: TurnOwner | None = None
    ) -> int:
        """Begin the session's next epoch, end the one that is open, and return the new number (from 1).

        With an `owner` it raises `StoreError` when another process has taken over the turn.
        """
        require_owner(tx, owner)
        return begin_epoch(tx, session_id, frame, reason)

    @writes
    def end(self, tx: Transaction, session_id: str, number: int, reason: str) -> None:
        """End an epoch. Ending one that has ended changes nothing."""
        tx.execute(
            "UPDATE epochs SET ended_at = ?, end_reason = ? WHERE session_id = ? AND number = ? AND ended_at IS NULL",
            (tx.now, reason, session_id, number),
        )
