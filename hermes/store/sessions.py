"""Sessions and epochs: functions over a connection, inside the caller's transaction."""

import apsw
import msgspec

from hermes.core.errors import NotFoundError, UsageError
from hermes.core.frame import EpochFrame
from hermes.store.records import ARCHIVED, NewSession, SessionRow, StoredEpoch
from hermes.util.text import clean_surrogates

_COLUMNS = SessionRow.__struct_fields__
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM sessions"
_FRAME = msgspec.json.Decoder(EpochFrame)
_UNREADABLE_FRAME = EpochFrame(provider="", model="", wire="", encoder_version=0, system="")


def _to_row(values: tuple[object, ...]) -> SessionRow:
    return msgspec.convert(dict(zip(_COLUMNS, values, strict=True)), SessionRow)


def create_session(connection: apsw.Connection, session: NewSession, now: float) -> None:
    """Store a new session; `UsageError` when the id is taken, `NotFoundError` when the parent is unknown."""
    if session.parent_id is not None and get_session(connection, session.parent_id) is None:
        raise NotFoundError(f"There is no session {session.parent_id}.")
    values = [
        clean_surrogates(value) if isinstance(value, str) else value for value in msgspec.structs.astuple(session)
    ]
    names = NewSession.__struct_fields__
    marks = ", ".join("?" * (len(names) + 2))
    connection.execute(
        f"INSERT INTO sessions ({', '.join(names)}, created_at, updated_at) VALUES ({marks})"
        " ON CONFLICT (id) DO NOTHING",
        (*values, now, now),
    )
    if connection.changes() == 0:
        raise UsageError(f"There is a session {session.id} already.")


def get_session(connection: apsw.Connection, session_id: str) -> SessionRow | None:
    """Return the session of exactly this id, or None."""
    row = connection.execute(f"{_SELECT} WHERE id = ?", (session_id,)).fetchone()
    return None if row is None else _to_row(row)


def list_lineage(connection: apsw.Connection, session_id: str, schema: str = "main") -> list[str]:
    """Return the ids of the session and of the archives that its compressions left, the newest first."""
    rows = connection.execute(
        f"WITH RECURSIVE line (id, parent_id) AS (SELECT id, parent_id FROM {schema}.sessions WHERE id = ?1"
        f" UNION SELECT one.id, one.parent_id FROM {schema}.sessions AS one JOIN line ON one.id = line.parent_id"
        " WHERE one.end_reason = ?2) SELECT id FROM line",
        (session_id, ARCHIVED),
    )
    return [row[0] for row in rows]


def find_tip(connection: apsw.Connection, session_id: str) -> str:
    """Return the session in which an archive's conversation goes on; any other session's id is returned as it is."""
    found = connection.execute(
        "WITH RECURSIVE line (id, end_reason) AS (SELECT id, end_reason FROM sessions WHERE id = ?1"
        " UNION SELECT one.id, one.end_reason FROM sessions AS one JOIN line ON one.parent_id = line.id"
        " WHERE line.end_reason = ?2) SELECT id FROM line WHERE end_reason <> ?2 LIMIT 1",
        (session_id, ARCHIVED),
    ).get
    return session_id if found is None else str(found)


def find_sessions(connection: apsw.Connection, text: str, limit: int) -> list[SessionRow]:
    """Return sessions whose id begins with `text` or whose title equals it, the one used last first."""
    text = clean_surrogates(text)
    if not text:
        return []
    rows = connection.execute(
        f"{_SELECT} WHERE (id >= ?1 AND id < ?1 || char(1114111)) OR title = ?1"
        " ORDER BY updated_at DESC, id DESC LIMIT ?2",
        (text, limit),
    )
    return [_to_row(row) for row in rows]


def list_sessions(
    connection: apsw.Connection,
    limit: int,
    *,
    before: str | None = None,
    source: str | None = None,
    person: str | None = None,
) -> list[SessionRow]:
    """Return sessions that have messages, by last use, newest first.

    `before` is the last id of the page before; `person` limits to one person's sessions: empty means the
    owner's, None all.
    """
    wanted, values = ["message_count > 0"], list[str | int]()
    if before is not None:
        wanted.append("(updated_at, id) < (SELECT updated_at, id FROM sessions WHERE id = ?)")
        values.append(before)
    if source is not None:
        wanted.append("source = ?")
        values.append(source)
    if person is not None:
        wanted.append("user_id = ?")
        values.append(person)
    where = " AND ".join(wanted)
    rows = connection.execute(f"{_SELECT} WHERE {where} ORDER BY updated_at DESC, id DESC LIMIT ?", (*values, limit))
    return [_to_row(row) for row in rows]


def list_idle_sessions(connection: apsw.Connection, before: float) -> list[SessionRow]:
    """Return sessions in which nothing was said since `before`, the oldest first; archives belong to the
    session that continues them.
    """
    rows = connection.execute(
        f"{_SELECT} WHERE updated_at < ? AND end_reason <> ? ORDER BY updated_at", (before, ARCHIVED)
    )
    return [_to_row(row) for row in rows]


def sum_sessions(connection: apsw.Connection, by: str) -> list[tuple[str, int, int, int]]:
    """Return, by a column, the numbers of sessions with messages, of their messages and their tokens."""
    rows = connection.execute(
        f"SELECT {by}, count(*), total(message_count), total(input_tokens + output_tokens) FROM sessions"
        " WHERE message_count > 0 AND end_reason <> ? GROUP BY 1 ORDER BY 2 DESC, 1",
        (ARCHIVED,),
    )
    return [(str(row[0]), int(row[1]), int(row[2]), int(row[3])) for row in rows]


def rename_session(connection: apsw.Connection, session_id: str, title: str) -> None:
    """Set the session's title."""
    connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (clean_surrogates(title), session_id))
    require_changed_row(connection, session_id)


def replace_title(connection: apsw.Connection, session_id: str, title: str, expected: str) -> bool:
    """Set the session's title when it still is `expected`; return whether it was."""
    connection.execute(
        "UPDATE sessions SET title = ? WHERE id = ? AND title = ?", (clean_surrogates(title), session_id, expected)
    )
    return connection.changes() > 0


def end_session(connection: apsw.Connection, session_id: str, reason: str, now: float) -> None:
    """Mark the session as ended. Appending to it reopens it."""
    connection.execute("UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ?", (now, reason, session_id))
    require_changed_row(connection, session_id)


def drop_empty_session(connection: apsw.Connection, session_id: str) -> bool:
    """Delete the session when nothing was ever said in it, not even in a lost turn; return whether it was deleted."""
    connection.execute(
        "DELETE FROM sessions WHERE id = ?1 AND message_count = 0"
        " AND NOT EXISTS (SELECT 1 FROM turns WHERE session_id = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = ?1)",
        (session_id,),
    )
    return connection.changes() > 0


def require_changed_row(connection: apsw.Connection, session_id: str) -> None:
    """Raise `NotFoundError` when the last statement changed no row."""
    if connection.changes() == 0:
        raise NotFoundError(f"There is no session {session_id}.", "`hermes sessions list` shows those there are.")


def begin_epoch(connection: apsw.Connection, session_id: str, frame: EpochFrame, reason: str, now: float) -> int:
    """Begin the session's next epoch, end the one that is open, and return the new number (from 1)."""
    connection.execute(
        "UPDATE sessions SET provider = ?, model = ? WHERE id = ?", (frame.provider, frame.model, session_id)
    )
    require_changed_row(connection, session_id)
    connection.execute(
        "UPDATE epochs SET ended_at = ?, end_reason = ? WHERE session_id = ? AND ended_at IS NULL",
        (now, reason, session_id),
    )
    last = connection.execute("SELECT coalesce(max(number), 0) FROM epochs WHERE session_id = ?", (session_id,)).get
    number = msgspec.convert(last, int) + 1
    connection.execute(
        "INSERT INTO epochs (session_id, number, frame, began_at, begin_reason) VALUES (?, ?, ?, ?, ?)",
        (session_id, number, msgspec.json.encode(frame.stored_frame), now, reason),
    )
    return number


def end_epoch(connection: apsw.Connection, session_id: str, number: int, reason: str, now: float) -> None:
    """End an epoch. Ending one that has ended changes nothing."""
    connection.execute(
        "UPDATE epochs SET ended_at = ?, end_reason = ? WHERE session_id = ? AND number = ? AND ended_at IS NULL",
        (now, reason, session_id, number),
    )


def list_epochs(connection: apsw.Connection, session_id: str) -> list[StoredEpoch]:
    """Return all epochs of a session, in order."""
    rows = connection.execute(
        "SELECT session_id, number, frame, began_at, begin_reason, ended_at, end_reason FROM epochs"
        " WHERE session_id = ? ORDER BY number",
        (session_id,),
    )
    return [
        StoredEpoch(
            session_id=row[0],
            number=row[1],
            frame=_decode_frame(row[2]),
            began_at=row[3],
            begin_reason=row[4],
            ended_at=row[5],
            end_reason=row[6],
        )
        for row in rows
    ]


def _decode_frame(stored: bytes) -> EpochFrame:
    """Return the frame, or one without a provider when the stored one cannot be read: a
    session's words are worth more.
    """
    try:
        return _FRAME.decode(stored)
    except msgspec.MsgspecError:
        return _UNREADABLE_FRAME


def get_open_epoch(connection: apsw.Connection, session_id: str) -> StoredEpoch | None:
    """Return the session's open epoch, or None."""
    return next((epoch for epoch in reversed(list_epochs(connection, session_id)) if epoch.ended_at is None), None)
