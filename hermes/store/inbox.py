"""Messages that wait for a session."""

from hermes.store.records import InboxRow
from hermes.store.repository import Repository, Transaction, as_method, queues, reads


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

    @reads
    def list_waiting(self, tx: Transaction, session_id: str) -> list[InboxRow]:
        """Return the waiting messages, in the order in which they were sent."""
        rows = tx.execute(
            "SELECT id, body, posted_at FROM inbox WHERE session_id = ? ORDER BY place, number", (session_id,)
        )
        return [InboxRow(str(name), bytes(body), float(at)) for name, body, at in rows]
