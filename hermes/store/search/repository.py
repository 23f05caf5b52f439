"""Search over everything that was said. Neither the code of the index nor its file is loaded before it is needed."""

from asyncio import Future
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.core.errors import StoreError
from hermes.core.messages import Role
from hermes.store.records import IndexReport, SearchHit, SearchQuery

if TYPE_CHECKING:
    from hermes.store.search.search import SearchIndex

INDEX_EVERY = 512
"""The index is updated whenever a message's id passes a multiple of this, so no search has much to do."""


class SearchRepository:
    """The search index of a store, in a file of its own beside it."""

    def __init__(self, path: Path, store_path: Path, *, vfs: str | None) -> None:
        self._path = path
        self._store_path = store_path
        self._vfs = vfs
        self._index: SearchIndex | None = None
        self._update: Future[IndexReport] | None = None
        self._closed = False

    async def find(
        self,
        query: str,
        *,
        limit: int = 20,
        offset: int = 0,
        newest: bool = True,
        session: str | None = None,
        roles: Sequence[Role] | None = None,
    ) -> list[SearchHit]:
        """Return messages that contain every word of `query`, the newest first, or with `newest` off the best first.

        Words match with other endings; where no message has all words, the best with some of them are returned. Nothing
        in `query` is syntax. `run_query` takes more limits.
        """
        return await self.run_query(
            SearchQuery(
                query=query, limit=limit, offset=offset, newest=newest, session=session, roles=tuple(roles or ())
            )
        )

    async def run_query(self, search: SearchQuery) -> list[SearchHit]:
        """Return the messages that match a search with every limit there is."""
        return await self._open_index().find_messages(search)

    async def update_index(self) -> IndexReport:
        """Update and tidy the search index now."""
        return await self._open_index().update_index()

    def follow_append(self, appended: Future[list[int]]) -> None:
        """Update the index in its own thread, from time to time, when messages were appended."""
        if appended.cancelled() or appended.exception() is not None:
            return
        ids = appended.result()
        passed = bool(ids) and (ids[0] - 1) // INDEX_EVERY != ids[-1] // INDEX_EVERY
        if passed and (self._update is None or self._update.done()) and not self._closed:
            self._update = self._open_index().schedule_update()

    async def erase_deleted(self) -> None:
        """Remove every trace of deleted and redacted messages from the index's files, if there are any."""
        if self._path.exists():
            await self._open_index().erase_deleted()

    async def close(self) -> None:
        """Stop indexing, and close the file."""
        self._closed = True
        if self._index is not None:
            await self._index.close()

    def _open_index(self) -> "SearchIndex":
        if self._closed:
            raise StoreError("The store is closed.")
        if self._index is None:
            from hermes.store.search.search import SearchIndex

            self._index = SearchIndex(self._path, self._store_path, vfs=self._vfs)
        return self._index
