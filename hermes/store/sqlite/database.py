"""One SQLite file in one process: a writer thread with group commit, and a reader thread beside it."""

import contextlib
import time
from asyncio import Future
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from hermes.core.errors import HermesError
from hermes.store.sqlite.connection import enable_wal, explain_error, open_connection, transaction
from hermes.store.sqlite.migrations import DatabaseSchema, migrate_schema
from hermes.store.sqlite.worker import ThreadWorker, WorkerJob, WorkerOutcome

GROUP_OPS = 256
GROUP_SECONDS = 0.010

T = TypeVar("T")
DatabaseOp = Callable[[apsw.Connection], T]


class _ConnectionThread(ThreadWorker[apsw.Connection]):
    """A thread with its own connection to the file."""

    def __init__(self, name: str, path: Path, vfs: str | None) -> None:
        super().__init__(name)
        self._path = path
        self._vfs = vfs

    def explain_error(self, resource: apsw.Connection, error: Exception) -> Exception:
        """Return SQLite's errors in plain words."""
        return explain_error(error, self._path, resource.system_errno) if isinstance(error, apsw.Error) else error

    def release_resource(self, resource: apsw.Connection) -> None:
        """Close the connection. Closing the last one of all moves the log into the file."""
        with contextlib.suppress(apsw.Error):  # what was committed stands in the log
            resource.close()


class _ReaderThread(_ConnectionThread):
    """A thread that runs each job in a read transaction, so that several queries see one state."""

    def open_resource(self) -> apsw.Connection:
        """Connect read-only."""
        try:
            connection = open_connection(self._path, create=False, vfs=self._vfs)
            connection.execute("PRAGMA query_only = ON").fetchall()
        except apsw.Error as error:
            raise explain_error(error, self._path) from error
        return connection

    def perform_work(self, resource: apsw.Connection, work: Callable[[apsw.Connection], object]) -> object:
        """Run one job on one state of the database."""
        with transaction(resource, "DEFERRED"):
            return work(resource)


class _WriterThread(_ConnectionThread):
    """A thread that runs queued jobs in groups: one transaction and one fsync for as many jobs as have come."""

    def __init__(self, path: Path, vfs: str | None, schema: DatabaseSchema) -> None:
        super().__init__("hermes-writer", path, vfs)
        self._schema = schema
        self._postponed: WorkerJob[apsw.Connection] | None = None

    def open_resource(self) -> apsw.Connection:
        """Connect, choose the journal mode and bring the schema up to date."""
        connection: apsw.Connection | None = None
        try:
            connection = open_connection(self._path, create=True, vfs=self._vfs)
            migrate_schema(connection, self._path, self._schema, lambda: enable_wal(connection, synchronous="FULL"))
        except (apsw.Error, HermesError) as error:
            number = connection.system_errno if connection is not None else 0
            if connection is not None:
                self.release_resource(connection)
            if isinstance(error, apsw.Error):
                raise explain_error(error, self._path, number) from error
            raise
        return connection

    def serve_job(self, resource: apsw.Connection, job: WorkerJob[apsw.Connection]) -> bool:
        """Run `job` and those behind it. A job that must be alone ends the group and runs after it."""
        ended = False
        following: WorkerJob[apsw.Connection] | None = job
        while following is not None:
            if following.alone:
                self._post_outcomes([self.attempt_job(resource, following)])
                break
            outcomes, ended = self._run_group(resource, following)
            self._post_outcomes(outcomes)
            following, self._postponed = self._postponed, None
        return ended

    def _run_group(
        self, connection: apsw.Connection, job: WorkerJob[apsw.Connection]
    ) -> tuple[list[WorkerOutcome], bool]:
        """Run `job` and what is queued behind it in one transaction; return the outcomes, and whether the queue's end
        was met.
        """
        group, outcomes, ended = [job], list[WorkerOutcome](), False
        try:
            connection.execute("BEGIN IMMEDIATE")
            deadline = time.monotonic() + GROUP_SECONDS
            while True:
                self._run_in_savepoint(connection, group[-1], outcomes)
                if self._queue.empty() or len(group) >= GROUP_OPS or time.monotonic() >= deadline:
                    break
                following, ended = self._take_next()
                if following is None:
                    break
                group.append(following)
            connection.execute("COMMIT")
        except apsw.Error as error:
            failure = self._roll_back(connection, error, outcomes)
            if not outcomes:  # BEGIN was refused: those behind would wait just as long for the same
                ended = self._take_remaining(group)
            own = {id(one.future): one.error for one in outcomes}
            outcomes = [WorkerOutcome(one.future, None, own.get(id(one.future)) or failure) for one in group]
        return outcomes, ended

    def _roll_back(self, connection: apsw.Connection, error: apsw.Error, outcomes: list[WorkerOutcome]) -> Exception:
        """Undo the group after `error`; return the error that its waiters get."""
        failure: Exception = explain_error(error, self._path, connection.system_errno)
        if connection.in_transaction:
            with contextlib.suppress(apsw.Error):
                connection.execute("ROLLBACK")
        elif outcomes and outcomes[-1].error is not None:  # SQLite itself has rolled back: no room, I/O error
            failure = outcomes[-1].error
        return failure

    def _run_in_savepoint(
        self, connection: apsw.Connection, job: WorkerJob[apsw.Connection], outcomes: list[WorkerOutcome]
    ) -> None:
        """Run one job of a group so that it fails alone. Raises `apsw.Error` when the whole group has failed."""
        connection.execute("SAVEPOINT job")
        outcomes.append(self.attempt_job(connection, job))
        if outcomes[-1].error is not None:
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")

    def _take_next(self) -> tuple[WorkerJob[apsw.Connection] | None, bool]:
        """Return the next job of the group, or None, and whether the queue's end was met."""
        following = self._queue.get()
        if following is not None and following.alone:
            self._postponed = following
            return None, False
        return following, following is None

    def _take_remaining(self, taken: list[WorkerJob[apsw.Connection]]) -> bool:
        while not self._queue.empty():
            following, ended = self._take_next()
            if following is None:
                return ended
            taken.append(following)
        return False


class Database:
    """The database file at `path`. Writes are strictly in order and durable when their future resolves; reads
    run beside them.

    A read sees every write that was awaited before it, not one that is only submitted.
    """

    def __init__(self, path: Path, writer: _WriterThread, reader: _ReaderThread) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader

    @classmethod
    async def open(cls, path: Path, schema: DatabaseSchema, *, vfs: str | None = None) -> "Database":
        """Open or create the file, its folder (mode 0700) too, and bring its schema up to date.

        Raises `StoreError` when the file is unreadable, damaged, another program's, or written by a newer Hermes. `vfs`
        names one of SQLite's ways to reach a file, for file systems without shared memory or locks.
        """
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise explain_error(apsw.CantOpenError(str(error)), path, error.errno or 0) from error
        database = cls(path, _WriterThread(path, vfs, schema), _ReaderThread("hermes-reader", path, vfs))
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(database.close)
            await database.write_alone(lambda _connection: None)
            undo.pop_all()
        return database

    def submit(self, op: DatabaseOp[T]) -> Future[T]:
        """Queue a write and return at once. The future gives what `op` returns once it is on disk.

        `op` runs in the writer's thread inside a transaction that it must not end, in the order of submission. One that
        raises fails alone; where the commit fails, the whole group does. Raises `BusyError` when the queue is full.
        """
        return self._writer.submit(op)

    async def write(self, op: DatabaseOp[T]) -> T:
        """Run a write and wait until it is on disk. Cancelling the wait does not undo it."""
        return await self._writer.run(op)

    async def write_alone(self, op: DatabaseOp[T]) -> T:
        """Run `op` in the writer's thread outside any transaction, after all that was queued before."""
        return await self._writer.run(op, alone=True)

    async def read(self, op: DatabaseOp[T]) -> T:
        """Run a read in the reader's thread, on one state of the database."""
        return await self._reader.run(op)

    async def close(self) -> None:
        """Finish every queued write and read, then close."""
        await self._reader.close()
        await self._writer.close()
