"""Messages that wait for a session: functions over a connection, inside the caller's transaction."""

import apsw

from hermes.store.records import InboxRow


def enqueue_message(connection: apsw.Connection, session_id: str, row: InboxRow, *, first: bool = False) -> None:
    """Store a message that waits, behind the others or (`first`) before them all."""
    connection.execute(
        "INSERT INTO inbox (id, session_id, body, posted_at, place) VALUES (?1, ?2, ?3, ?4, iif(?5,"
        " (SELECT coalesce(min(place), 0) - 1 FROM inbox WHERE session_id = ?2), 0))",
        (row.id, session_id, row.body, row.posted_at, first),
    )


def list_waiting(connection: apsw.Connection, session_id: str) -> list[InboxRow]:
    """Return the waiting messages, in the order in which they were sent."""
    rows = connection.execute(
        "SELECT id, body, posted_at FROM inbox WHERE session_id = ? ORDER BY place, number", (session_id,)
    )
    return [InboxRow(str(name), bytes(body), float(at)) for name, body, at in rows]


def take_messages(connection: apsw.Connection, turn_id: str | None, letter_ids: tuple[str, ...]) -> None:
    """Remove messages that have become part of the transcript from the inbox, and mark their chat events as
    answered by this turn.
    """
    if letter_ids:
        connection.executemany("DELETE FROM inbox WHERE id = ?", [(name,) for name in letter_ids])
        connection.executemany(
            "UPDATE arrivals SET turn_id = ? WHERE letter_id = ? AND state = 'posted'",
            [(turn_id, name) for name in letter_ids],
        )
        connection.executemany(
            "UPDATE api_runs SET turn_id = ?, state = 'running' WHERE letter_id = ? AND ended_at IS NULL",
            [(turn_id or "", name) for name in letter_ids],
        )
