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
from hermes.store.rows import EffectRow, EffectState, TurnRow, TurnState
from hermes.store.sessions import get
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


class Owner(msgspec.Struct, frozen=True):
    """Whose turn it is: the number that its writes carry must be the newest."""

    turn_id: str
    fence: int


def fresh(turn_id: str, session_id: str, now: float, *, text: str = "") -> TurnRow:
    """A turn of this process that begins now."""
    return TurnRow(
        id=turn_id,
        session_id=session_id,
        state=TurnState.RUNNING,
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


def begin(connection: apsw.Connection, turn: TurnRow) -> None:
    """Store a turn that begins."""
    if get(connection, turn.session_id) is None:
        raise NotFoundError(f"There is no session {turn.session_id}.")
    connection.execute(
        "INSERT INTO turns (id, session_id, state, text, started_at, owner_pid) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO NOTHING",
        (turn.id, turn.session_id, turn.state, clean_surrogates(turn.text), turn.started_at, turn.owner_pid),
    )
    if connection.changes() == 0:
        raise UsageError(f"Turn {turn.id} has begun already.")


def must_own(connection: apsw.Connection, turn_id: str, fence: int) -> None:
    """Raise `StoreError` when another process has taken the turn over: what is done from here on is its business."""
    row = connection.execute("SELECT fence FROM turns WHERE id = ? AND state = ?", (turn_id, TurnState.RUNNING))
    if row.get != fence:
        raise StoreError(
            f"Turn {turn_id} is not this process's any more: another one went on with it, or it was deleted.",
            "Close this session here; what the other process wrote is kept.",
        )


def adopt(connection: apsw.Connection, turn_id: str, pid: int) -> int:
    """Take over a turn whose owner died; the new fence. Its open calls are forgotten where they may be repeated, and
    uncertain where not."""
    connection.execute(
        "UPDATE turns SET fence = fence + 1, owner_pid = ? WHERE id = ? AND state = ?",
        (pid, turn_id, TurnState.RUNNING),
    )
    if connection.changes() == 0:
        raise NotFoundError(f"Turn {turn_id} is not running.")
    connection.execute(
        "DELETE FROM effects WHERE turn_id = ? AND state = ? AND repeatable = 1", (turn_id, EffectState.INTENDED)
    )
    doubt(connection, turn_id)
    fence = connection.execute("SELECT fence FROM turns WHERE id = ?", (turn_id,)).get
    assert isinstance(fence, int)
    return fence


def mark_stopping(connection: apsw.Connection, owner: Owner) -> None:
    """Note that the person asked for the turn to stop; a turn that is another process's by now is left alone."""
    connection.execute("UPDATE turns SET stopping = 1 WHERE id = ? AND fence = ?", (owner.turn_id, owner.fence))


def end(connection: apsw.Connection, turn_id: str, how: TurnEnd, now: float, fence: int = 0) -> None:
    """End a turn once; the arguments and results of its finished effects stand in the transcript and are let go."""
    if fence:
        must_own(connection, turn_id, fence)
    connection.execute(
        "UPDATE turns SET state = ?, reason = ?, error = ?, calls = ?, usage = ?, ended_at = ?"
        " WHERE id = ? AND state = ?",
        (
            TurnState.ENDED,
            how.reason,
            clean_surrogates(how.error),
            how.calls,
            msgspec.json.encode(how.usage),
            now,
            turn_id,
            TurnState.RUNNING,
        ),
    )
    if connection.changes() == 0:
        raise NotFoundError(f"Turn {turn_id} is not running.")
    connection.execute(
        "UPDATE effects SET arguments = '', result = NULL WHERE turn_id = ? AND state = ?", (turn_id, EffectState.DONE)
    )


def get_turn(connection: apsw.Connection, turn_id: str) -> TurnRow | None:
    """The turn of this id."""
    row = connection.execute(f"{_SELECT_TURN} WHERE id = ?", (turn_id,)).fetchone()
    return None if row is None else _turn(row)


def running(connection: apsw.Connection, session_id: str) -> list[TurnRow]:
    """The session's turns that have not ended, the oldest first."""
    rows = connection.execute(
        f"{_SELECT_TURN} WHERE session_id = ? AND state = ? ORDER BY started_at, rowid", (session_id, TurnState.RUNNING)
    )
    return [_turn(row) for row in rows]


def _turn(values: tuple[object, ...]) -> TurnRow:
    fields = dict(zip(_TURN, values, strict=True))
    usage = fields.pop("usage")
    row = msgspec.convert(fields | {"usage": {}, "stopping": bool(fields["stopping"])}, TurnRow)
    return msgspec.structs.replace(row, usage=_USAGE.decode(usage)) if isinstance(usage, bytes) else row


def intend(connection: apsw.Connection, turn_id: str, intents: Sequence[Intent], now: float, fence: int = 0) -> None:
    """Record the calls of a batch before the first of them starts; they belong to the session's last message."""
    owner = get_turn(connection, turn_id)
    if owner is None or owner.state is not TurnState.RUNNING:
        raise NotFoundError(f"Turn {turn_id} is not running.")
    if fence:
        must_own(connection, turn_id, fence)
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


def done(connection: apsw.Connection, turn_id: str, result: ToolResultPart, now: float, fence: int = 0) -> None:
    """Record what a call gave back. An id that a model uses again in one turn means its oldest open call."""
    if fence:
        must_own(connection, turn_id, fence)
    body = msgspec.json.encode(msgspec.structs.replace(result, text=clean_surrogates(result.text)))
    connection.execute(
        "UPDATE effects SET state = ?, result = ?, done_at = ? WHERE id ="
        " (SELECT min(id) FROM effects WHERE turn_id = ? AND call_id = ? AND state <> ?)",
        (EffectState.DONE, body, now, turn_id, result.call_id, EffectState.DONE),
    )
    if connection.changes() == 0:
        raise NotFoundError(f"Turn {turn_id} has no open call {result.call_id}.")


def doubt(connection: apsw.Connection, turn_id: str) -> int:
    """Mark what a dead process had under way and nobody may repeat as uncertain; how many calls that are."""
    connection.execute(
        "UPDATE effects SET state = ? WHERE turn_id = ? AND state = ? AND repeatable = 0",
        (EffectState.UNCERTAIN, turn_id, EffectState.INTENDED),
    )
    return connection.changes()


def effects(connection: apsw.Connection, turn_id: str) -> list[EffectRow]:
    """The turn's effects in the order of their intents."""
    rows = connection.execute(f"{_SELECT_EFFECT} WHERE turn_id = ? ORDER BY id", (turn_id,))
    return [_effect(row) for row in rows]


def _effect(values: tuple[object, ...]) -> EffectRow:
    fields = dict(zip(_EFFECT, values, strict=True))
    result = fields.pop("result")
    row = msgspec.convert(fields | {"result": None, "repeatable": bool(fields["repeatable"])}, EffectRow)
    return msgspec.structs.replace(row, result=_RESULT.decode(result)) if isinstance(result, bytes) else row
