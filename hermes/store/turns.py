"""Turns and their effects: functions over a connection, inside the caller's transaction."""

import os
from collections.abc import Sequence

import apsw
import msgspec

from hermes.core.errors import NotFoundError, StoreError, UsageError
from hermes.core.outcomes import ExitReason
from hermes.core.parts import ToolResultPart
from hermes.core.protocols import Intent
from hermes.core.usage import Usage
from hermes.store.records import EffectRow, EffectState, TurnRow, TurnRowState
from hermes.store.sessions import get_session
from hermes.util.text import clean_surrogates

_TURN = TurnRow.__struct_fields__
_SELECT_TURN = f"SELECT {', '.join(_TURN)} FROM turns"
_EFFECT = EffectRow.__struct_fields__
_SELECT_EFFECT = f"SELECT {', '.join(_EFFECT)} FROM effects"
_USAGE = msgspec.json.Decoder(Usage)
_RESULT = msgspec.json.Decoder(ToolResultPart)


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended."""

    reason: ExitReason
    error: str = ""
    calls: int = 0
    usage: Usage = Usage()


class TurnOwner(msgspec.Struct, frozen=True):
    """The owner of a turn: the fence that its writes carry must be the newest."""

    turn_id: str
    fence: int


def make_turn_row(turn_id: str, session_id: str, now: float, *, text: str = "") -> TurnRow:
    """Return the row of a turn that begins now in this process."""
    return TurnRow(
        id=turn_id,
        session_id=session_id,
        state=TurnRowState.RUNNING,
        text=text,
        started_at=now,
        ended_at=None,
        reason="",
        error="",
        calls=0,
        usage=Usage(),
        owner_pid=os.getpid(),
        fence=1,
    )


def insert_turn(connection: apsw.Connection, turn: TurnRow) -> None:
    """Store a turn that begins. Raises `NotFoundError` without its session, and
    `UsageError` when it has begun already.
    """
    if get_session(connection, turn.session_id) is None:
        raise NotFoundError(f"There is no session {turn.session_id}.")
    connection.execute(
        "INSERT INTO turns (id, session_id, state, text, started_at, owner_pid) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO NOTHING",
        (turn.id, turn.session_id, turn.state, clean_surrogates(turn.text), turn.started_at, turn.owner_pid),
    )
    if connection.changes() == 0:
        raise UsageError(f"Turn {turn.id} has begun already.")


def require_owner(connection: apsw.Connection, turn_id: str, fence: int) -> None:
    """Raise `StoreError` when another process has taken over the turn, which alone may go on with it."""
    row = connection.execute("SELECT fence FROM turns WHERE id = ? AND state = ?", (turn_id, TurnRowState.RUNNING))
    if row.get != fence:
        raise StoreError(
            f"Turn {turn_id} is not this process's any more: another one went on with it, or it was deleted.",
            "Close this session here; what the other process wrote is kept.",
        )


def adopt_turn(connection: apsw.Connection, turn_id: str, pid: int) -> int:
    """Take over a turn whose owner died; return the new fence.

    Its open calls are deleted where they may be repeated, and marked as uncertain where not.
    """
    connection.execute(
        "UPDATE turns SET fence = fence + 1, owner_pid = ? WHERE id = ? AND state = ?",
        (pid, turn_id, TurnRowState.RUNNING),
    )
    if connection.changes() == 0:
        raise NotFoundError(f"Turn {turn_id} is not running.")
    connection.execute(
        "DELETE FROM effects WHERE turn_id = ? AND state = ? AND repeatable = 1", (turn_id, EffectState.INTENDED)
    )
    mark_uncertain(connection, turn_id)
    fence = connection.execute("SELECT fence FROM turns WHERE id = ?", (turn_id,)).get
    assert isinstance(fence, int)
    return fence


def mark_stopping(connection: apsw.Connection, owner: TurnOwner) -> None:
    """Record that the person asked for the turn to stop; a turn that another process owns by now is left alone."""
    connection.execute("UPDATE turns SET stopping = 1 WHERE id = ? AND fence = ?", (owner.turn_id, owner.fence))


def end_turn(connection: apsw.Connection, turn_id: str, how: TurnEnd, now: float, fence: int = 0) -> None:
    """End a turn once, and clear the arguments and results of its finished effects, which stand in the transcript."""
    if fence:
        require_owner(connection, turn_id, fence)
    connection.execute(
        "UPDATE turns SET state = ?, reason = ?, error = ?, calls = ?, usage = ?, ended_at = ?"
        " WHERE id = ? AND state = ?",
        (
            TurnRowState.ENDED,
            how.reason,
            clean_surrogates(how.error),
            how.calls,
            msgspec.json.encode(how.usage),
            now,
            turn_id,
            TurnRowState.RUNNING,
        ),
    )
    if connection.changes() == 0:
        raise NotFoundError(f"Turn {turn_id} is not running.")
    connection.execute(
        "UPDATE effects SET arguments = '', result = NULL WHERE turn_id = ? AND state = ?", (turn_id, EffectState.DONE)
    )


def get_turn(connection: apsw.Connection, turn_id: str) -> TurnRow | None:
    """Return the turn of this id, or None."""
    row = connection.execute(f"{_SELECT_TURN} WHERE id = ?", (turn_id,)).fetchone()
    return None if row is None else _to_turn_row(row)


def list_running_turns(connection: apsw.Connection, session_id: str) -> list[TurnRow]:
    """Return the session's turns that have not ended, the oldest first."""
    rows = connection.execute(
        f"{_SELECT_TURN} WHERE session_id = ? AND state = ? ORDER BY started_at, rowid",
        (session_id, TurnRowState.RUNNING),
    )
    return [_to_turn_row(row) for row in rows]


def _to_turn_row(values: tuple[object, ...]) -> TurnRow:
    fields = dict(zip(_TURN, values, strict=True))
    usage = fields.pop("usage")
    row = msgspec.convert(fields | {"usage": {}, "stopping": bool(fields["stopping"])}, TurnRow)
    return msgspec.structs.replace(row, usage=_USAGE.decode(usage)) if isinstance(usage, bytes) else row


def record_intents(
    connection: apsw.Connection, turn_id: str, intents: Sequence[Intent], now: float, fence: int = 0
) -> None:
    """Record the calls of a batch before the first of them starts; they belong to the session's last message."""
    owner = get_turn(connection, turn_id)
    if owner is None or owner.state is not TurnRowState.RUNNING:
        raise NotFoundError(f"Turn {turn_id} is not running.")
    if fence:
        require_owner(connection, turn_id, fence)
    last = connection.execute("SELECT max(id) FROM messages WHERE session_id = ?", (owner.session_id,)).get
    connection.executemany(
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
                now,
                last,
            )
            for one in intents
        ],
    )


def record_result(
    connection: apsw.Connection, turn_id: str, result: ToolResultPart, now: float, fence: int = 0
) -> None:
    """Record the result of a call. An id that a model uses again in one turn means its oldest open call."""
    if fence:
        require_owner(connection, turn_id, fence)
    body = msgspec.json.encode(msgspec.structs.replace(result, text=clean_surrogates(result.text)))
    connection.execute(
        "UPDATE effects SET state = ?, result = ?, done_at = ? WHERE id ="
        " (SELECT min(id) FROM effects WHERE turn_id = ? AND call_id = ? AND state <> ?)",
        (EffectState.DONE, body, now, turn_id, result.call_id, EffectState.DONE),
    )
    if connection.changes() == 0:
        raise NotFoundError(f"Turn {turn_id} has no open call {result.call_id}.")


def mark_uncertain(connection: apsw.Connection, turn_id: str) -> int:
    """Mark open calls of a dead process that may not be repeated as uncertain; return how many there are."""
    connection.execute(
        "UPDATE effects SET state = ? WHERE turn_id = ? AND state = ? AND repeatable = 0",
        (EffectState.UNCERTAIN, turn_id, EffectState.INTENDED),
    )
    return connection.changes()


def list_effects(connection: apsw.Connection, turn_id: str) -> list[EffectRow]:
    """Return the turn's effects in the order of their intents."""
    rows = connection.execute(f"{_SELECT_EFFECT} WHERE turn_id = ? ORDER BY id", (turn_id,))
    return [_to_effect_row(row) for row in rows]


def _to_effect_row(values: tuple[object, ...]) -> EffectRow:
    fields = dict(zip(_EFFECT, values, strict=True))
    result = fields.pop("result")
    row = msgspec.convert(fields | {"result": None, "repeatable": bool(fields["repeatable"])}, EffectRow)
    return msgspec.structs.replace(row, result=_RESULT.decode(result)) if isinstance(result, bytes) else row
