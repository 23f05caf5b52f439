"""What chats have chosen about voices: a row for each chat or thread that has."""

from hermes.store.repository import Repository, Transaction, reads, writes


class ChatVoiceRepository(Repository):
    """Store operations for the voices of chats, by their lanes."""

    @reads
    def get_mode(self, tx: Transaction, lane: str) -> str:
        """Return what a chat has chosen; empty where it has not."""
        found = tx.execute("SELECT mode FROM chat_voices WHERE lane = ?", (lane,)).get
        return str(found or "")

    @writes
    def set_mode(self, tx: Transaction, lane: str, mode: str) -> None:
        """Store what a chat has chosen."""
        tx.execute(
            "INSERT INTO chat_voices (lane, mode) VALUES (?, ?) ON CONFLICT DO UPDATE SET mode = excluded.mode",
            (lane, mode),
        )

    @writes
    def mark_told(self, tx: Transaction, lane: str) -> bool:
        """Store that a chat was told that nothing can hear it; return whether it had not been told before."""
        return tx.change_any(
            "INSERT INTO chat_voices (lane, is_told) VALUES (?, 1)"
            " ON CONFLICT DO UPDATE SET is_told = 1 WHERE is_told = 0",
            (lane,),
        )
