"""The store of a home: every session, message, turn and effect, and the search over them."""

import contextlib
import os
from asyncio import Future
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from hermes.core.errors import StoreError
from hermes.core.messages import Message, Role
from hermes.store import erasure
from hermes.store.access import SessionAccess, TranscriptAccess, TurnAccess
from hermes.store.approvals import ApprovalAccess
from hermes.store.branches import BranchAccess
from hermes.store.checkpoints import CheckpointAccess
from hermes.store.goals import GoalAccess
from hermes.store.jobs import JobAccess
from hermes.store.keys import KeyAccess, has_any_key_notes
from hermes.store.ledger import SpendAccess
from hermes.store.records import IndexReport, SearchHit, SearchQuery
from hermes.store.revisions import RevisionAccess
from hermes.store.schema import HERMES
from hermes.store.sqlite.database import Database
from hermes.store.tainted_files import MarkAccess
from hermes.store.transcript import TranscriptEntry
from hermes.store.undo import UndoAccess
from hermes.util.clock import Clock

if TYPE_CHECKING:
    from hermes.store.chats import ChatStore
    from hermes.store.search.search import SearchIndex

DATABASE = "hermes.db"
SEARCH = "search.db"
INDEX_EVERY = 512
"""The index is updated whenever a message's id passes a multiple of this, so no search has much to do."""


class Store(
    SessionAccess,
    TranscriptAccess,
    TurnAccess,
    SpendAccess,
    KeyAccess,
    ApprovalAccess,
    RevisionAccess,
    MarkAccess,
    UndoAccess,
    BranchAccess,
    CheckpointAccess,
    GoalAccess,
    JobAccess,
):
    """One folder's `hermes.db` and `search.db`, used from one event loop; any number of processes may have it open.

    A write is on disk when it returns; a read sees every write that was awaited before. Methods raise `StoreError`
    (`StoreFullError` where there is no room), with nothing half done; the store can be used on.
    """

    def __init__(self, database: Database, clock: Clock, vfs: str | None) -> None:
        super().__init__(database, clock)
        self._vfs = vfs
        self._identity = _read_identity(database.path)
        self._index_path = database.path.with_name(SEARCH)
        self._index: SearchIndex | None = None
        self._chats: ChatStore | None = None
        self._index_update: Future[IndexReport] | None = None
        self._closed = False

    @classmethod
    async def open(cls, folder: Path, clock: Clock, *, vfs: str | None = None) -> "Store":
        """Open the store in `folder`, creating what is missing. Raises `StoreError` when it cannot be used.

        A purge that a process left unfinished is completed first.
        """
        database = await Database.open(folder / DATABASE, HERMES, vfs=vfs)
        store = cls(database, clock, vfs)
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(store.close)
            owed, store.has_key_notes = await database.write_alone(
                lambda connection: (_is_purge_pending(connection), has_any_key_notes(connection))
            )
            if owed:
                with contextlib.suppress(StoreError):  # locked, or no room for the copy: it stays owed
                    await store.purge_files()
            undo.pop_all()
        return store

    async def close(self) -> None:
        """Finish every queued write, then close the files."""
        self._closed = True
        if self._index is not None:
            await self._index.close()
        await self._database.close()

    @property
    def chats(self) -> "ChatStore":
        """The part of the store that serves chats: inbound events, outbox, people."""
        if self._chats is None:
            from hermes.store.chats import ChatStore

            self._chats = ChatStore(self._database, self._clock)
        return self._chats

    def check_file_identity(self) -> None:
        """Raise `StoreError` when the database was removed or replaced since it was opened: what is written then is
        lost.
        """
        if _read_identity(self._database.path) != self._identity:
            raise StoreError(
                f"{self._database.path} was removed or replaced while Hermes ran.",
                "What was said since then is not kept. Start Hermes again.",
            )

    async def check_integrity(self) -> list[str]:
        """Return what is wrong with the database, a line each; empty when nothing is."""

        def run_checks(connection: apsw.Connection) -> list[str]:
            lines = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            orphans = [f"orphan row in {row[0]}" for row in connection.execute("PRAGMA foreign_key_check")]
            return [line for line in lines if line != "ok"] + orphans

        return await self._database.read(run_checks)

    def append_entry(self, entry: TranscriptEntry) -> Future[list[int]]:
        """Queue an entry as `TranscriptAccess.append_entry` does; from time to time the search index is updated in its
        own thread.
        """
        future = super().append_entry(entry)
        future.add_done_callback(self._schedule_index_update)
        return future

    async def search_messages(
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
        in `query` is syntax. `find_messages` takes more limits.
        """
        return await self.find_messages(
            SearchQuery(
                query=query, limit=limit, offset=offset, newest=newest, session=session, roles=tuple(roles or ())
            )
        )

    async def find_messages(self, search: SearchQuery) -> list[SearchHit]:
        """Return the messages that match a search with every limit there is."""
        return await self._search_index().find_messages(search)

    async def update_search_index(self) -> IndexReport:
        """Update and tidy the search index now."""
        return await self._search_index().update_index()

    async def delete_session(self, session_id: str, *, purge: bool = True) -> int:
        """Delete a session with all that belongs to it, its archives too; return how many messages it had.

        With `purge` its words stand in no file when this returns. Who deletes several passes False and calls
        `purge_files` at the end; should that not happen, the next opening does it.
        """
        now = self._clock.now()
        return await self._run_erasure(
            lambda connection: erasure.delete_session(connection, session_id, now), purge=purge
        )

    async def delete_messages(self, session_id: str, ids: Sequence[int], *, purge: bool = True) -> int:
        """Delete messages of a session, words and all; return how many there were. `purge` as in `delete_session`.

        Compressions that were made since are undone, here and when a message is redacted: what they made is
        deleted, and an epoch begins by name.
        """
        now = self._clock.now()
        return await self._run_erasure(
            lambda connection: erasure.delete_messages(connection, session_id, ids, now), purge=purge
        )

    async def redact_message(self, session_id: str, message_id: int, message: Message, *, purge: bool = True) -> None:
        """Replace a stored message by `message` and erase its words. `purge` as in `delete_session`."""

        now = self._clock.now()

        def replace_words(connection: apsw.Connection) -> int:
            erasure.replace_message(connection, session_id, message_id, message, now)
            return 1

        await self._run_erasure(replace_words, purge=purge)

    async def purge_files(self) -> None:
        """Rewrite both files without a trace of what was deleted, and empty their logs.

        SQLite's `secure_delete` is not enough: pages that were split or merged can keep old copies in their
        gaps. Takes about as long as copying the files. Raises `StoreError` when another program holds an old
        state for too long; the purge then stays pending.
        """
        if self._index_path.exists():
            await self._search_index().erase_deleted()
        await self._database.write_alone(_vacuum_database)
        await self._database.write(_clear_purge_mark)

    async def _run_erasure(self, work: Callable[[apsw.Connection], int], *, purge: bool) -> int:
        def erase_and_mark(connection: apsw.Connection) -> int:
            count = work(connection)
            connection.execute("REPLACE INTO meta (key, value) VALUES ('purge', 'owed')")
            return count

        count = await self._database.write(erase_and_mark)
        if purge:
            await self.purge_files()
        return count

    def _search_index(self) -> "SearchIndex":
        """Return the index; neither its code nor its file is loaded before it is needed."""
        if self._closed:
            raise StoreError("The store is closed.")
        if self._index is None:
            from hermes.store.search.search import SearchIndex

            self._index = SearchIndex(self._index_path, self._database.path, vfs=self._vfs)
        return self._index

    def _schedule_index_update(self, appended: Future[list[int]]) -> None:
        if appended.cancelled() or appended.exception() is not None:
            return
        ids = appended.result()
        passed = bool(ids) and (ids[0] - 1) // INDEX_EVERY != ids[-1] // INDEX_EVERY
        if passed and (self._index_update is None or self._index_update.done()) and not self._closed:
            self._index_update = self._search_index().schedule_update()


def _read_identity(file: Path) -> tuple[int, int] | None:
    """Return what tells this file from another one of the same name, or None when there is none."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_purge_pending(connection: apsw.Connection) -> bool:
    return connection.execute("SELECT 1 FROM meta WHERE key = 'purge'").get is not None


def _clear_purge_mark(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM meta WHERE key = 'purge'")


def _vacuum_database(connection: apsw.Connection) -> None:
    connection.execute("VACUUM").fetchall()
    connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_TRUNCATE)
