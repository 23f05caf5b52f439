"""Marks of files that were written while untrusted content stood in a conversation."""

from asyncio import Future

import apsw
import msgspec

from hermes.store.access import StoreAccess

_ROW = tuple[str, bytes, tuple[str, ...]]
MAX_MARKS = 10_000
"""The number of marks that are kept; beyond it the oldest are deleted."""


class MarkAccess(StoreAccess):
    """Store operations for marked files: (path, hash of the content, sources)."""

    async def list_marked_files(self) -> list[tuple[str, bytes, tuple[str, ...]]]:
        """Return all marks."""
        rows = await self._database.read(
            lambda connection: connection.execute("SELECT path, digest, sources FROM marked_files").fetchall()
        )
        return [
            msgspec.convert((path, digest, msgspec.json.decode(str(sources))), _ROW) for path, digest, sources in rows
        ]

    def mark_file(self, path: str, digest: bytes, sources: tuple[str, ...]) -> Future[None]:
        """Queue a mark behind all earlier writes; it replaces an older one of the path."""
        row = (path, digest, msgspec.json.encode(sources).decode(), self._clock.now())

        def insert_mark(connection: apsw.Connection) -> None:
            connection.execute("REPLACE INTO marked_files (path, digest, sources, at) VALUES (?, ?, ?, ?)", row)
            connection.execute(
                "DELETE FROM marked_files WHERE path IN"
                " (SELECT path FROM marked_files ORDER BY at DESC, path LIMIT -1 OFFSET ?)",
                (MAX_MARKS,),
            )

        return self._database.submit(insert_mark)

    async def trust_files(self, folder: str) -> int:
        """Delete the marks of a folder and all below it; return how many there were."""

        def delete_marks(connection: apsw.Connection) -> int:
            below = folder.rstrip("/") + "/"
            connection.execute(
                "DELETE FROM marked_files WHERE path = ?1 OR substr(path, 1, length(?2)) = ?2", (folder, below)
            )
            return connection.changes()

        return await self._database.write(delete_marks)
