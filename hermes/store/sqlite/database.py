"""One SQLite file of one process: a writer thread with group commit, and a reader beside it."""

import contextlib
import time
from asyncio import Future
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from hermes.core.errors import HermesError
from hermes.store.sqlite.connection import connect, explain, transaction, use_wal
from hermes.store.sqlite.migrations import Schema, migrate
from hermes.store.sqlite.worker import Job, Outcome, Worker

GROUP_OPS = 256
GROUP_SECONDS = 0.010

T = TypeVar("T")
Op = Callable[[apsw.Connection], T]


class _Lane(Worker[apsw.Connection]):
    """A thread with a connection of its own to the file."""

    def __init__(self, name: str, path: Path, vfs: str | None) -> None:
        super().__init__(name)
        self._path = path
        self._vfs = vfs

    def explained(self, resource: apsw.Connection, error: Exception) -> Exception:
        """SQLite's errors in plain words."""
        return explain(error, self._path, resource.system_errno) if isinstance(error, apsw.Error) else error

    def release(self, resource: apsw.Connection) -> None:
        """Close the connection; the last one of all moves the log into the file."""
        with contextlib.suppress(apsw.Error):  # what was committed stands in the log
            resource.close()


class _Reader(_Lane):
    """Runs each job in a read transaction, so that several queries see one state."""

    def open(self) -> apsw.Connection:
        """Connect; nothing is written through this connection."""
        try:
            connection = connect(self._path, create=False, vfs=self._vfs)
            connection.execute("PRAGMA query_only = ON").fetchall()
        except apsw.Error as error:
            raise explain(error, self._path) from error
        return connection

    def perform(self, resource: apsw.Connection, work: Callable[[apsw.Connection], object]) -> object:
        """Run one job on one state of the database."""
        with transaction(resource, "DEFERRED"):
            return work(resource)


class _Writer(_Lane):
    """Runs what is queued in groups: one transaction, one fsync for as many jobs as have come."""

    def __init__(self, path: Path, vfs: str | None, schema: Schema) -> None:
        super().__init__("hermes-writer", path, vfs)
        self._schema = schema
        self._held: Job[apsw.Connection] | None = None

    def open(self) -> apsw.Connection:
        """Connect, choose the journal and bring the schema up to date."""
        connection: apsw.Connection | None = None
        try:
            connection = connect(self._path, create=True, vfs=self._vfs)
            migrate(connection, self._path, self._schema, lambda: use_wal(connection, synchronous="FULL"))
        except (apsw.Error, HermesError) as error:
            number = connection.system_errno if connection is not None else 0
            if connection is not None:
                self.release(connection)
            if isinstance(error, apsw.Error):
                raise explain(error, self._path, number) from error
            raise
        return connection

    def serve(self, resource: apsw.Connection, job: Job[apsw.Connection]) -> bool:
        """Run `job` and those behind it; a job that must be alone ends the group and comes after it."""
        ended = False
        following: Job[apsw.Connection] | None = job
        while following is not None:
            if following.alone:
                self._post([self.attempt(resource, following)])
                break
            outcomes, ended = self._group(resource, following)
            self._post(outcomes)
            following, self._held = self._held, None
        return ended

    def _group(self, connection: apsw.Connection, job: Job[apsw.Connection]) -> tuple[list[Outcome], bool]:
        """Run `job` and what is queued behind it in one transaction; the outcomes, and whether the end was met."""
        taken, outcomes, ended = [job], list[Outcome](), False
        try:
            connection.execute("BEGIN IMMEDIATE")
            deadline = time.monotonic() + GROUP_SECONDS
            while True:
                self._in_savepoint(connection, taken[-1], outcomes)
                if self._queue.empty() or len(taken) >= GROUP_OPS or time.monotonic() >= deadline:
                    break
                following, ended = self._next()
                if following is None:
                    break
                taken.append(following)
            connection.execute("COMMIT")
        except apsw.Error as error:
            failure = self._roll_back(connection, error, outcomes)
            if not outcomes:  # BEGIN was refused: those behind would wait just as long for the same
                ended = self._take_all(taken)
            own = {id(one.future): one.error for one in outcomes}
            outcomes = [Outcome(one.future, None, own.get(id(one.future)) or failure) for one in taken]
        return outcomes, ended

    def _roll_back(self, connection: apsw.Connection, error: apsw.Error, outcomes: list[Outcome]) -> Exception:
        """Undo the group after `error`; what its waiters are told."""
        failure: Exception = explain(error, self._path, connection.system_errno)
        if connection.in_transaction:
            with contextlib.suppress(apsw.Error):
                connection.execute("ROLLBACK")
        elif outcomes and outcomes[-1].error is not None:  # SQLite itself has rolled back: no room, I/O error
            failure = outcomes[-1].error
        return failure

    def _in_savepoint(self, connection: apsw.Connection, job: Job[apsw.Connection], outcomes: list[Outcome]) -> None:
        """Run one job of a group so that it fails alone. Raises `apsw.Error` when the whole group has failed."""
        connection.execute("SAVEPOINT job")
        outcomes.append(self.attempt(connection, job))
        if outcomes[-1].error is not None:
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")

    def _next(self) -> tuple[Job[apsw.Connection] | None, bool]:
        """The next job of the group, if there is one, and whether the queue's end was met."""
        following = self._queue.get()
        if following is not None and following.alone:
            self._held = following
            return None, False
        return following, following is None

    def _take_all(self, taken: list[Job[apsw.Connection]]) -> bool:
        while not self._queue.empty():
            following, ended = self._next()
            if following is None:
                return ended
            taken.append(following)
        return False


class Database:
    """The file at `path`. Writes are strictly in order and durable when their future resolves; reads run beside them.

    A read sees every write that was awaited before it, not one that is only submitted.
    """

    def __init__(self, path: Path, writer: _Writer, reader: _Reader) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader

    @classmethod
    async def open(cls, path: Path, schema: Schema, *, vfs: str | None = None) -> "Database":
        """Open or create the file, its folder (mode 0700) too, and bring its schema up to date.

        Raises `StoreError`: unreadable, damaged, not ours, or written by a newer program. `vfs` names one of SQLite's
        ways to reach a file, for file systems without shared memory or locks.
        """
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise explain(apsw.CantOpenError(str(error)), path, error.errno or 0) from error
        database = cls(path, _Writer(path, vfs, schema), _Reader("hermes-reader", path, vfs))
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(database.close)
            await database.write_alone(lambda _connection: None)
            undo.pop_all()
        return database

    def submit(self, op: Op[T]) -> Future[T]:
        """Queue a write and go on. The future gives what `op` returns once it is on disk.

        `op` runs in the writer's thread inside a transaction that it must not end, in the order of submission. One that
        raises fails alone; where the commit fails, the whole group does. Raises `BusyError` when the queue is full.
        """
        return self._writer.submit(op)

    async def write(self, op: Op[T]) -> T:
        """Run a write and wait until it is on disk. Cancelling the wait does not undo it."""
        return await self._writer.run(op)

    async def write_alone(self, op: Op[T]) -> T:
        """Run `op` in the writer's thread outside any transaction, after all that was queued before."""
        return await self._writer.run(op, alone=True)

    async def read(self, op: Op[T]) -> T:
        """Run a read in the reader's thread, on one state of the database."""
        return await self._reader.run(op)

    async def close(self) -> None:
        """Finish every queued write and read, then close."""
        await self._reader.close()
        await self._writer.close()
