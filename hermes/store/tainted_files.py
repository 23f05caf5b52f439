"""Marks of files that were written while untrusted content stood in a conversation."""

import msgspec

from hermes.store.repository import Repository, Transaction, queues, reads, writes

_ROW = tuple[str, bytes, tuple[str, ...]]
MAX_MARKS = 10_000
"""The number of marks that are kept; beyond it the oldest are deleted."""


class TaintedFileRepository(Repository):
    """Store operations for marked files: (path, hash of the content, sources)."""

    @reads
    def list_all(self, tx: Transaction) -> list[tuple[str, bytes, tuple[str, ...]]]:
        """Return all marks."""
        rows = tx.execute("SELECT path, digest, sources FROM marked_files").fetchall()
        return [
            msgspec.convert((path, digest, msgspec.json.decode(str(sources))), _ROW) for path, digest, sources in rows
        ]

    @queues
    def mark(self, tx: Transaction, path: str, digest: bytes, sources: tuple[str, ...]) -> None:
        """Queue a mark behind all earlier writes; it replaces an older one of the path."""
        row = (path, digest, msgspec.json.encode(sources).decode(), tx.now)

        tx.execute("REPLACE INTO marked_files (path, digest, sources, at) VALUES (?, ?, ?, ?)", row)
        tx.execute(
            "DELETE FROM marked_files WHERE path IN"
            " (SELECT path FROM marked_files ORDER BY at DESC, path LIMIT -1 OFFSET ?)",
            (MAX_MARKS,),
        )

    @writes
    def trust(self, tx: Transaction, folder: str) -> int:
        """Delete the marks of a folder and all below it; return how many there were."""
        below = folder.rstrip("/") + "/"
        return tx.change_rows(
            "DELETE FROM marked_files WHERE path = ?1 OR substr(path, 1, length(?2)) = ?2", (folder, below)
        )
