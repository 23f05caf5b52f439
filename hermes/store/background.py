"""The sessions that work beside that of a chat, until their end was told there."""

import msgspec

from hermes.core.chats import BackgroundRecord, Place
from hermes.core.encoding import to_json
from hermes.store.repository import Repository, Transaction, reads, writes


class BackgroundRepository(Repository):
    """Store operations for sessions that work beside that of a chat."""

    @writes
    def begin(self, tx: Transaction, work: BackgroundRecord) -> None:
        """Record a session that works beside that of a chat."""
        tx.execute(
            "REPLACE INTO background_sessions (session_id, place, prompt) VALUES (?, ?, ?)",
            (work.session_id, to_json(work.place), work.prompt),
        )

    @writes
    def end(self, tx: Transaction, session_id: str) -> None:
        """Forget a session whose end was told in its chat."""
        tx.execute("DELETE FROM background_sessions WHERE session_id = ?", (session_id,))

    @reads
    def list_unfinished(self, tx: Transaction) -> list[BackgroundRecord]:
        """Return the sessions whose end was told nobody yet."""
        rows = tx.execute("SELECT session_id, place, prompt FROM background_sessions ORDER BY session_id")
        return [
            BackgroundRecord(
                session_id=str(row[0]), place=msgspec.json.decode(bytes(row[1]), type=Place), prompt=str(row[2])
            )
            for row in rows
        ]
