"""Full-text search over everything that was ever said: newest first, or best first among the newest hits."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import apsw

from hermes.store.rows import Hit, IndexReport, Search
from hermes.store.search.index import DAMAGED, IndexFile
from hermes.store.search.query import Finder
from hermes.store.sqlite.connection import explain, transaction
from hermes.store.sqlite.worker import Worker


class SearchIndex(Worker[IndexFile]):
    """The index with a thread of its own. It follows the store: every search first takes in what is new."""

    def __init__(self, path: Path, store_path: Path, *, vfs: str | None = None) -> None:
        super().__init__("hermes-search")
        self._path = path
        self._store_path = store_path
        self._vfs = vfs
        self._stop = threading.Event()

    async def find(self, search: Search) -> list[Hit]:
        """The messages that the search means. With no word of the query found anywhere, none."""

        def work(index: IndexFile) -> list[Hit]:
            index.catch_up(self._stop.is_set)
            with transaction(index.connection, "DEFERRED"):
                return Finder(index.connection, index.shards(), search).hits()

        return await self.run(work)

    async def follow(self) -> IndexReport:
        """Take in what is new and put the file in order; the report tells how much that was."""

        return await self.run(self._follow)

    def follow_soon(self) -> asyncio.Future[IndexReport]:
        """Do the same without anybody waiting; what goes wrong shows at the next search."""
        future = self.submit(self._follow)
        future.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return future

    def _follow(self, index: IndexFile) -> IndexReport:
        report = index.catch_up(self._stop.is_set)
        index.tidy(self._stop.is_set)
        index.connection.release_memory()  # nobody may search for days; the cache is for who does
        return report

    async def erase(self) -> None:
        """Leave nothing of deleted and redacted messages in the index's files."""
        await self.run(IndexFile.erase)

    async def close(self) -> None:
        """Stop catching up after the batch under way, and close the file."""
        self._stop.set()
        await super().close()

    def open(self) -> IndexFile:
        """Open the index, or make it anew when it is damaged."""
        try:
            return IndexFile(self._path, self._store_path, vfs=self._vfs)
        except apsw.Error as error:
            raise explain(error, self._path) from error

    def perform(self, resource: IndexFile, work: Callable[[IndexFile], object]) -> object:
        """Run one job; a damaged index is made anew once and the job run again."""
        try:
            return work(resource)
        except DAMAGED:
            resource.heal()
            return work(resource)

    def explained(self, resource: IndexFile, error: Exception) -> Exception:
        """SQLite's errors in plain words."""
        return explain(error, self._path, resource.connection.system_errno) if isinstance(error, apsw.Error) else error

    def release(self, resource: IndexFile) -> None:
        """Close the file."""
        resource.close()
