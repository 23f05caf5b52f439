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
from hermes.store.keys import KeyAccess, any_key_notes
from hermes.store.ledger import SpendAccess
from hermes.store.marks import MarkAccess
from hermes.store.revisions import RevisionAccess
from hermes.store.rows import Hit, IndexReport, Search
from hermes.store.schema import HERMES
from hermes.store.sqlite.database import Database
from hermes.store.transcript import Entry
from hermes.store.undo import UndoAccess
from hermes.util.clock import Clock

if TYPE_CHECKING:
    from hermes.store.chats import ChatStore
    from hermes.store.search.search import SearchIndex

DATABASE = "hermes.db"
SEARCH = "search.db"
FOLLOW_EVERY = 512
"""The index is brought up to date whenever a message's id passes a multiple of this, so no search has much to do."""


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
        self._identity = _identity(database.path)
        self._index_path = database.path.with_name(SEARCH)
        self._index: SearchIndex | None = None
        self._chats: ChatStore | None = None
        self._following: Future[IndexReport] | None = None
        self._closed = False

    @classmethod
    async def open(cls, folder: Path, clock: Clock, *, vfs: str | None = None) -> "Store":
        """Open the store in `folder`, making what is not there. Raises `StoreError` when it cannot be used.

        What a process that died while deleting has left is cleaned away first.
        """
        database = await Database.open(folder / DATABASE, HERMES, vfs=vfs)
        store = cls(database, clock, vfs)
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(store.close)
            owed, store.has_key_notes = await database.write_alone(
                lambda connection: (_purge_is_owed(connection), any_key_notes(connection))
            )
            if owed:
                with contextlib.suppress(StoreError):  # locked, or no room for the copy: it stays owed
                    await store.purge()
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
        """What belongs to chats: what came in, what is owed, the people there."""
        if self._chats is None:
            from hermes.store.chats import ChatStore

            self._chats = ChatStore(self._database, self._clock)
        return self._chats

    def check_place(self) -> None:
        """Raise `StoreError` when the database is no longer where it was opened: what is written then has no name."""
        if _identity(self._database.path) != self._identity:
            raise StoreError(
                f"{self._database.path} was removed or replaced while Hermes ran.",
                "What was said since then is not kept. Start Hermes again.",
            )

    async def integrity_check(self) -> list[str]:
        """What is wrong with the database, a line each; empty when nothing is."""

        def work(connection: apsw.Connection) -> list[str]:
            lines = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            orphans = [f"orphan row in {row[0]}" for row in connection.execute("PRAGMA foreign_key_check")]
            return [line for line in lines if line != "ok"] + orphans

        return await self._database.read(work)

    def put(self, entry: Entry) -> Future[list[int]]:
        """As `TranscriptAccess.put`; now and then the search index takes in what is new, in its own thread."""
        future = super().put(entry)
        future.add_done_callback(self._follow_now_and_then)
        return future

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        offset: int = 0,
        newest: bool = True,
        session: str | None = None,
        roles: Sequence[Role] | None = None,
    ) -> list[Hit]:
        """Messages that contain every word of `query`, the newest first, or with `newest` off the best first.

        Words match with other endings; where no message has all words, the best with some of them are given. Nothing
        in `query` is syntax. `find` takes more limits.
        """
        return await self.find(
            Search(query=query, limit=limit, offset=offset, newest=newest, session=session, roles=tuple(roles or ()))
        )

    async def find(self, search: Search) -> list[Hit]:
        """`search`, with every limit there is."""
        return await self._search_index().find(search)

    async def follow(self) -> IndexReport:
        """Bring the search index up to date now, and in order."""
        return await self._search_index().follow()

    async def delete_session(self, session_id: str, *, purge: bool = True) -> int:
        """Delete a session with all that belongs to it, what its compressions archived too; how many messages it had.

        With `purge` its words stand in no file when this returns. Who deletes several passes False and calls `purge`
        at the end; should that not happen, the next opening does it.
        """
        now = self._clock.now()
        return await self._erase(lambda connection: erasure.delete_session(connection, session_id, now), purge=purge)

    async def delete_messages(self, session_id: str, ids: Sequence[int], *, purge: bool = True) -> int:
        """Delete messages of a session, words and all; how many there were. `purge` as in `delete_session`.

        Compressions that were made since are taken back, here and when a message is redacted: what they made goes, and
        an epoch begins by name.
        """
        now = self._clock.now()
        return await self._erase(lambda connection: erasure.delete(connection, session_id, ids, now), purge=purge)

    async def redact_message(self, session_id: str, message_id: int, message: Message, *, purge: bool = True) -> None:
        """Put `message` in the place of a stored one, whose words go. `purge` as in `delete_session`."""

        now = self._clock.now()

        def work(connection: apsw.Connection) -> int:
            erasure.replace(connection, session_id, message_id, message, now)
            return 1

        await self._erase(work, purge=purge)

    async def purge(self) -> None:
        """Write both files anew, without a trace of what was deleted, and empty their logs.

        SQLite's `secure_delete` is not enough: pages that were split or merged can keep old copies in their gaps. Takes
        about as long as copying the files. Raises `StoreError` when another program holds an old state for too long;
        the purge then stays owed.
        """
        if self._index_path.exists():
            await self._search_index().erase()
        await self._database.write_alone(_rewrite)
        await self._database.write(_purge_is_done)

    async def _erase(self, work: Callable[[apsw.Connection], int], *, purge: bool) -> int:
        def marked(connection: apsw.Connection) -> int:
            count = work(connection)
            connection.execute("REPLACE INTO meta (key, value) VALUES ('purge', 'owed')")
            return count

        count = await self._database.write(marked)
        if purge:
            await self.purge()
        return count

    def _search_index(self) -> "SearchIndex":
        """The index; neither its code nor its file is touched before it is wanted."""
        if self._closed:
            raise StoreError("The store is closed.")
        if self._index is None:
            from hermes.store.search.search import SearchIndex

            self._index = SearchIndex(self._index_path, self._database.path, vfs=self._vfs)
        return self._index

    def _follow_now_and_then(self, appended: Future[list[int]]) -> None:
        if appended.cancelled() or appended.exception() is not None:
            return
        ids = appended.result()
        passed = bool(ids) and (ids[0] - 1) // FOLLOW_EVERY != ids[-1] // FOLLOW_EVERY
        if passed and (self._following is None or self._following.done()) and not self._closed:
            self._following = self._search_index().follow_soon()


def _identity(file: Path) -> tuple[int, int] | None:
    """What tells this file from another one of the same name; None when there is none."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _purge_is_owed(connection: apsw.Connection) -> bool:
    return connection.execute("SELECT 1 FROM meta WHERE key = 'purge'").get is not None


def _purge_is_done(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM meta WHERE key = 'purge'")


def _rewrite(connection: apsw.Connection) -> None:
    connection.execute("VACUUM").fetchall()
    connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_TRUNCATE)
