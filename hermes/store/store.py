"""The store of a home: every session, message, turn and effect, and the search over them."""

import contextlib
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from hermes.core.errors import StoreError
from hermes.i18n.messages import N_
from hermes.store.database import Database
from hermes.store.ledgers import KeyRepository, SpendingRepository, has_any_key_notes
from hermes.store.messages import MessageRepository, SearchRepository
from hermes.store.schema import HERMES
from hermes.store.sessions import GoalRepository, SessionRepository, TaintedFileRepository
from hermes.store.turns import EpochRepository, InboxRepository, TurnRepository
from hermes.util.clock import Clock

if TYPE_CHECKING:
    from hermes.store.api import ApiRepository
    from hermes.store.approvals import ApprovalRepository
    from hermes.store.background import BackgroundRepository
    from hermes.store.branches import BranchRepository
    from hermes.store.chat_voices import ChatVoiceRepository
    from hermes.store.chats import ChatRepository
    from hermes.store.checkpoints import CheckpointRepository
    from hermes.store.code_runs import CodeRunRepository
    from hermes.store.compactions import CompactionRepository
    from hermes.store.erasure import ErasureRepository
    from hermes.store.imported_sessions import ImportRepository
    from hermes.store.jobs import JobRepository
    from hermes.store.outbox import OutboxRepository
    from hermes.store.people import PeopleRepository
    from hermes.store.revisions import RevisionRepository
    from hermes.store.sub_agents import SubAgentRepository
    from hermes.store.todo_lists import TodoRepository
    from hermes.store.undo import UndoRepository

DATABASE = "hermes.db"
SEARCH = "search.db"


class Store:
    """One folder's `hermes.db` and `search.db`, used from one event loop; any number of processes may have it open.

    Each subject is a repository. A write is on disk when it returns; a read sees every write that was awaited before.
    Methods raise `StoreError` (`StoreFullError` where there is no room), with nothing half done; the store can be used
    on. The code of repositories that few processes need is loaded when it is first needed.
    """

    def __init__(self, database: Database, clock: Clock, vfs: str | None) -> None:
        self._database = database
        self._clock = clock
        self._identity = _read_identity(database.path)
        self.search = SearchRepository(database.path.with_name(SEARCH), database.path, vfs=vfs)
        self.sessions = SessionRepository(database, clock)
        self.epochs = EpochRepository(database, clock)
        self.messages = MessageRepository(database, clock, self.search)
        self.inbox = InboxRepository(database, clock)
        self.turns = TurnRepository(database, clock)
        self.goals = GoalRepository(database, clock)
        self.tainted_files = TaintedFileRepository(database, clock)
        self.spending = SpendingRepository(database, clock)
        self.keys = KeyRepository(database, clock)

    @cached_property
    def chat_voices(self) -> "ChatVoiceRepository":
        """What chats have chosen about voices."""
        from hermes.store.chat_voices import ChatVoiceRepository

        return ChatVoiceRepository(self._database, self._clock)

    @cached_property
    def todo_lists(self) -> "TodoRepository":
        """The steps that models keep for their sessions."""
        from hermes.store.todo_lists import TodoRepository

        return TodoRepository(self._database, self._clock)

    @cached_property
    def code_runs(self) -> "CodeRunRepository":
        """The runs of code that call tools."""
        from hermes.store.code_runs import CodeRunRepository

        return CodeRunRepository(self._database, self._clock)

    @cached_property
    def approvals(self) -> "ApprovalRepository":
        """The questions that wait for a person, and their answers."""
        from hermes.store.approvals import ApprovalRepository

        return ApprovalRepository(self._database, self._clock)

    @cached_property
    def compactions(self) -> "CompactionRepository":
        """What compressions made of messages."""
        from hermes.store.compactions import CompactionRepository

        return CompactionRepository(self._database, self._clock)

    @cached_property
    def revisions(self) -> "RevisionRepository":
        """The changes of memory and skills."""
        from hermes.store.revisions import RevisionRepository

        return RevisionRepository(self._database, self._clock)

    @cached_property
    def checkpoints(self) -> "CheckpointRepository":
        """The checkpoints of files."""
        from hermes.store.checkpoints import CheckpointRepository

        return CheckpointRepository(self._database, self._clock)

    @cached_property
    def erasure(self) -> "ErasureRepository":
        """The erasure of words from every file."""
        from hermes.store.erasure import ErasureRepository

        return ErasureRepository(self._database, self._clock, self.search)

    @cached_property
    def undo(self) -> "UndoRepository":
        """The undo and redo of turns."""
        from hermes.store.undo import UndoRepository

        return UndoRepository(self._database, self._clock)

    @cached_property
    def jobs(self) -> "JobRepository":
        """The scheduled jobs, and what became of their instants."""
        from hermes.store.jobs import JobRepository

        return JobRepository(self._database, self._clock)

    @cached_property
    def imported_sessions(self) -> "ImportRepository":
        """The sessions that were imported from another program."""
        from hermes.store.imported_sessions import ImportRepository

        return ImportRepository(self._database, self._clock)

    @cached_property
    def branches(self) -> "BranchRepository":
        """The branches, and the tree of sessions."""
        from hermes.store.branches import BranchRepository

        return BranchRepository(self._database, self._clock)

    @cached_property
    def chats(self) -> "ChatRepository":
        """The inbound events of chats, and the session of each chat."""
        from hermes.store.chats import ChatRepository

        return ChatRepository(self._database, self._clock)

    @cached_property
    def background(self) -> "BackgroundRepository":
        """The sessions that work beside that of a chat."""
        from hermes.store.background import BackgroundRepository

        return BackgroundRepository(self._database, self._clock)

    @cached_property
    def sub_agents(self) -> "SubAgentRepository":
        """The sub-agents of sessions."""
        from hermes.store.sub_agents import SubAgentRepository

        return SubAgentRepository(self._database, self._clock)

    @cached_property
    def outbox(self) -> "OutboxRepository":
        """The messages to chats that are retried until delivered."""
        from hermes.store.outbox import OutboxRepository

        return OutboxRepository(self._database, self._clock)

    @cached_property
    def people(self) -> "PeopleRepository":
        """The people who may talk with Hermes from chats."""
        from hermes.store.people import PeopleRepository

        return PeopleRepository(self._database, self._clock)

    @cached_property
    def api(self) -> "ApiRepository":
        """The sessions, responses and runs of the API server."""
        from hermes.store.api import ApiRepository

        return ApiRepository(self._database, self._clock)

    @classmethod
    async def open(cls, folder: Path, clock: Clock, *, vfs: str | None = None, reads_only: bool = False) -> "Store":
        """Open the store in `folder`, creating what is missing. Raises `StoreError` when it cannot be used.

        With `reads_only` nothing is created or changed, and every write raises `StoreError`. A purge that a process
        left unfinished is completed first, otherwise.
        """
        database = await Database.open(folder / DATABASE, HERMES, vfs=vfs, reads_only=reads_only)
        store = cls(database, clock, vfs)
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(store.close)
            pending, store.keys.has_notes = await database.write_alone(
                lambda connection: (_is_purge_pending(connection), has_any_key_notes(connection))
            )
            if pending and not reads_only:
                with contextlib.suppress(StoreError):  # locked, or no room for the copy: it stays pending
                    await store.erasure.purge_files()
            undo.pop_all()
        return store

    async def close(self) -> None:
        """Finish every queued write, then close the files."""
        await self.search.close()
        await self._database.close()

    def check_file_identity(self) -> None:
        """Raise `StoreError` when the database was removed or replaced since it was opened: what is written then is
        lost.
        """
        if _read_identity(self._database.path) != self._identity:
            raise StoreError(
                N_("{path} was removed or replaced while Hermes ran.", path=self._database.path),
                "Messages since then are not stored. Start Hermes again.",
            )

    async def check_integrity(self) -> list[str]:
        """Return what is wrong with the database, a line each; empty when nothing is."""

        def run_checks(connection: apsw.Connection) -> list[str]:
            lines = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            orphans = [f"orphan row in {row[0]}" for row in connection.execute("PRAGMA foreign_key_check")]
            return [line for line in lines if line != "ok"] + orphans

        return await self._database.read(run_checks)


def _read_identity(file: Path) -> tuple[int, int] | None:
    """Return what tells this file from another one of the same name, or None when there is none."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_purge_pending(connection: apsw.Connection) -> bool:
    """Return whether words were erased that may still stand in a file."""
    return connection.execute("SELECT 1 FROM meta WHERE key = 'purge'").get is not None
