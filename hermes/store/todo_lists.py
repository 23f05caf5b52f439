"""The todo lists of sessions: a row for each session that has one, deleted with it."""

from hermes.store.repository import Repository, Transaction, reads, writes


class TodoRepository(Repository):
    """Store operations for todo lists, as the JSON of their items."""

    @reads
    def get(self, tx: Transaction, session_id: str) -> bytes | None:
        """Return the session's list, or None."""
        found = tx.execute("SELECT items FROM todo_lists WHERE session_id = ?", (session_id,)).get
        return found if isinstance(found, bytes) else None

    @writes
    def replace(self, tx: Transaction, session_id: str, items: bytes) -> None:
        """Store the session's list in the place of an earlier one."""
        tx.execute("REPLACE INTO todo_lists (session_id, items) VALUES (?, ?)", (session_id, items))
