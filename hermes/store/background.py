"""Sessions that an older version let work beside that of a chat, until their end was told there."""

import msgspec

from hermes.core.chats import BackgroundRecord, Place
from hermes.store.repository import Repository, Transaction, reads, writes


class BackgroundRepository(Repository):
    """Store operations for them. Since version 15 of the schema they are sub-agents, and nothing is added here."""

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
