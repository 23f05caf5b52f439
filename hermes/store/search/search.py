"""Full-text search over everything that was said: newest first, or best first among the newest hits."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import apsw

from hermes.store.connection import explain_error
from hermes.store.database import ThreadWorker, transaction
from hermes.store.records import IndexReport, SearchHit, SearchQuery
from hermes.store.search.index import DAMAGED, IndexFile
from hermes.store.search.query import IndexQuery


class SearchIndex(ThreadWorker[IndexFile]):
    """The search index with a thread of its own. It follows the store: every search first indexes what is new."""

    def __init__(self, path: Path, store_path: Path, *, vfs: str | None = None) -> None:
        super().__init__("hermes-search")
        self._path = path
        self._store_path = store_path
        self._vfs = vfs
        self._stop = threading.Event()

    async def find_messages(self, search: SearchQuery, redact: Callable[[str], str] = str) -> list[SearchHit]:
        """Return the messages that match the search; none when no word of the query is found anywhere. Snippets are cut
        out of texts that went through `redact`.
        """

        def run_query(index: IndexFile) -> list[SearchHit]:
            index.catch_up(self._stop.is_set)
            with transaction(index.connection, "DEFERRED"):
                return IndexQuery(index.connection, index.list_shards(), search, redact).find_hits()

        return await self.run(run_query)

    async def update_index(self) -> IndexReport:
        """Index what is new and tidy the file; return a report of how much that was."""

        return await self.run(self._run_update)

    def schedule_update(self) -> asyncio.Future[IndexReport]:
        """Update the index without waiting; an error shows at the next search."""
        future = self.submit(self._run_update)
        future.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return future

    def _run_update(self, index: IndexFile) -> IndexReport:
        report = index.catch_up(self._stop.is_set)
        index.tidy_shards(self._stop.is_set)
        index.connection.release_memory()  # nobody may search for days; the cache is for who does
        return report

    async def erase_deleted(self) -> None:
        """Remove every trace of deleted and redacted messages from the index's files."""
        await self.run(IndexFile.erase_deleted)

    async def close(self) -> None:
        """Stop indexing after the batch under way, and close the file."""
        self._stop.set()
        await super().close()

    def open_resource(self) -> IndexFile:
        """Open the index, or recreate it when it is damaged."""
        try:
            return IndexFile(self._path, self._store_path, vfs=self._vfs)
        except apsw.Error as error:
            raise explain_error(error, self._path) from error

    def perform_work(self, resource: IndexFile, work: Callable[[IndexFile], object]) -> object:
        """Run one job; a damaged index is rebuilt once and the job run again."""
        try:
            return work(resource)
        except DAMAGED:
            resource.rebuild_file()
            return work(resource)

    def explain_error(self, resource: IndexFile, error: Exception) -> Exception:
        """Return SQLite's errors in plain words."""
        return (
            explain_error(error, self._path, resource.connection.system_errno)
            if isinstance(error, apsw.Error)
            else error
        )

    def release_resource(self, resource: IndexFile) -> None:
        """Close the file."""
        resource.close()
