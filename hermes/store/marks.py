"""Files that were written while strangers' words stood in a conversation."""

from asyncio import Future

import apsw
import msgspec

from hermes.store.access import Access

_ROW = tuple[str, bytes, tuple[str, ...]]
MOST = 10_000
"""Marks that are kept; with more of them the oldest go."""


class MarkAccess(Access):
    """The verbs about marked files: (path, hash of the content, sources)."""

    async def marked_files(self) -> list[tuple[str, bytes, tuple[str, ...]]]:
        """All marks."""
        rows = await self._database.read(
            lambda connection: connection.execute("SELECT path, digest, sources FROM marked_files").fetchall()
        )
        return [
            msgspec.convert((path, digest, msgspec.json.decode(str(sources))), _ROW) for path, digest, sources in rows
        ]

    def mark_file(self, path: str, digest: bytes, sources: tuple[str, ...]) -> Future[None]:
        """Queue a mark behind every write before; it takes the place of an older one of the path."""
        row = (path, digest, msgspec.json.encode(sources).decode(), self._clock.now())

        def work(connection: apsw.Connection) -> None:
            connection.execute("REPLACE INTO marked_files (path, digest, sources, at) VALUES (?, ?, ?, ?)", row)
            connection.execute(
                "DELETE FROM marked_files WHERE path IN"
                " (SELECT path FROM marked_files ORDER BY at DESC, path LIMIT -1 OFFSET ?)",
                (MOST,),
            )

        return self._database.submit(work)

    async def vouch_files(self, folder: str) -> int:
        """Forget the marks of a folder and all below it; how many there were."""

        def work(connection: apsw.Connection) -> int:
            below = folder.rstrip("/") + "/"
            connection.execute(
                "DELETE FROM marked_files WHERE path = ?1 OR substr(path, 1, length(?2)) = ?2", (folder, below)
            )
            return connection.changes()

        return await self._database.write(work)
