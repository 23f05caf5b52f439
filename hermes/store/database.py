"""One SQLite file in one process: a writer thread with group commit, and a reader thread beside it.

Transactions stand here, and the steps that bring an older file to today's tables: each is applied once, after a copy of
the database was made.
"""

import asyncio
import contextlib
import os
import threading
import time
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar, cast

import apsw
from msgspec import Struct

from hermes.core.errors import BusyError, HermesError, StoreError
from hermes.i18n.messages import N_
from hermes.store.connection import enable_wal, explain_error, open_connection

CAPACITY = 8192
"""The number of jobs that may wait in one queue."""

T = TypeVar("T")
R = TypeVar("R")


@contextlib.contextmanager
def transaction(connection: apsw.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Run the statements inside in one transaction, rolled back when one of them fails."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class DatabaseSchema(Struct, frozen=True):
    """The schema of a file. Step n (counted from 1) brings version n-1 to version n; steps are never changed."""

    application_id: int
    steps: tuple[str, ...]


def migrate_schema(
    connection: apsw.Connection, path: Path, schema: DatabaseSchema, prepare: Callable[[], object]
) -> None:
    """Bring the file to the newest version. `prepare` is called once the file is known to be ours or empty.

    Safe when several processes do it at once. Raises `StoreError` for a file of another program or of a
    newer Hermes, and `apsw.Error`; the file is then as it was.
    """
    version = _read_version(connection, path, schema)
    prepare()
    if version == len(schema.steps):
        return
    if version:
        _back_up(connection, path, version)
    with transaction(connection):
        for step in schema.steps[_read_version(connection, path, schema) :]:
            connection.execute(step).fetchall()
        connection.execute(f"PRAGMA application_id = {schema.application_id}")
        connection.execute(f"PRAGMA user_version = {len(schema.steps)}")


def require_current_schema(connection: apsw.Connection, path: Path, schema: DatabaseSchema) -> None:
    """Raise `StoreError` for a file that is not of this version: it is only read, so it is not brought up to date."""
    if _read_version(connection, path, schema) != len(schema.steps):
        raise StoreError(
            N_("{path} is of an older version, and cannot be written to bring it up to date.", path=path),
            N_("Copy the home to where there is room, and name it by HERMES_HOME."),
        )


def _read_version(connection: apsw.Connection, path: Path, schema: DatabaseSchema) -> int:
    # All of it from one state: another process may be making this file at this moment.
    with contextlib.nullcontext() if connection.in_transaction else transaction(connection, "DEFERRED"):
        filled = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get is not None
        identity = connection.pragma("application_id")
        version = connection.pragma("user_version")
    if identity != schema.application_id:
        if identity or version or filled:
            raise StoreError(
                N_("{path} is a database of another program.", path=path), "Move it away, or choose another folder."
            )
        return 0
    if not isinstance(version, int) or version > len(schema.steps):
        raise StoreError(
            N_(
                "{path} was written by a newer Hermes (version {version}, this one knows {steps}).",
                path=path,
                version=version,
                steps=len(schema.steps),
            ),
            "Update Hermes, or put back a copy from the folder `backups`.",
        )
    return version


def _back_up(connection: apsw.Connection, path: Path, version: int) -> None:
    """Copy the whole database to `backups/`; an incomplete copy never carries a backup's name."""
    folder = path.parent / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    final = folder / f"{path.stem}-v{version}-{stamp}-{os.getpid()}.db"
    partial = final.with_suffix(".partial")
    try:
        connection.execute("VACUUM INTO ?", (str(partial),)).fetchall()
        partial.chmod(0o600)
        partial.rename(final)
    finally:
        partial.unlink(missing_ok=True)


class WorkerJob(NamedTuple, Generic[R]):
    """Work to be done on the resource; `alone` keeps it out of a group of others."""

    work: Callable[[R], object]
    future: asyncio.Future[object]
    alone: bool = False


class WorkerOutcome(NamedTuple):
    """The result of a job; settled in the event loop."""

    future: asyncio.Future[object]
    value: object
    error: Exception | None


class ThreadWorker(Generic[R]):
    """A thread with a queue. Jobs are handed in from one event loop; each one's future is resolved there.

    A cancelled waiter does not undo its job. Subclasses say how jobs are run.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[list[WorkerJob[R]] | None] = SimpleQueue()
        self._taken: deque[WorkerJob[R]] = deque()
        """The thread's own: jobs that came together, since each waking of it costs as much as a job."""
        self._held: list[WorkerJob[R]] = []
        self._hold_timer: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._room: asyncio.Event = asyncio.Event()
        self._closed = False
        self._ended = asyncio.Event()
        self._open_error: Exception | None = None
        self._thread = threading.Thread(target=self._run_thread, name=name, daemon=True)
        self._started = False

    def submit(self, work: Callable[[R], T], *, alone: bool = False) -> asyncio.Future[T]:
        """Queue `work` behind what is queued already. Raises `BusyError` when the queue is full."""
        job = self._make_job(work, alone)
        self._held.append(job)
        self.release_held()
        return cast("asyncio.Future[T]", job.future)

    def hold(self, work: Callable[[R], T]) -> asyncio.Future[T]:
        """Queue `work` together with the next job, or after `GROUP_SECONDS` at the latest: by then nothing more comes
        that it could share a transaction with. Raises `BusyError` when the queue is full.
        """
        job = self._make_job(work, alone=False)
        self._held.append(job)
        if self._hold_timer is None:
            self._hold_timer = self._loop.call_later(GROUP_SECONDS, self.release_held)
        return cast("asyncio.Future[T]", job.future)

    def _make_job(self, work: Callable[[R], object], alone: bool) -> WorkerJob[R]:
        if self._closed:
            raise StoreError("The store is closed.")
        if self._waiting >= CAPACITY:
            raise BusyError("The database cannot keep up with what is written.", "Try again in a moment.")
        if not self._started:
            self._started = True
            self._thread.start()
        self._waiting += 1
        return WorkerJob(work, self._loop.create_future(), alone)

    def release_held(self) -> None:
        """Queue the jobs that wait for a next one."""
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
        if self._held:
            self._queue.put(self._held)
            self._held = []

    async def run(self, work: Callable[[R], T], *, alone: bool = False) -> T:
        """Queue `work` as soon as there is room, and return its result."""
        while self._waiting >= CAPACITY // 2 and not self._closed:
            self._room.clear()
            await self._room.wait()
        return await self.submit(work, alone=alone)

    @property
    def closed(self) -> bool:
        """Whether no more jobs are accepted."""
        return self._closed

    async def close(self) -> None:
        """Finish what is queued, then release the resource. Can be called more than once."""
        self.release_held()
        self._closed = True
        self._room.set()
        if self._started and not self._ended.is_set():
            self._queue.put(None)
            await self._ended.wait()
            self._thread.join()

    def _run_thread(self) -> None:
        resource: R | None = None
        try:
            resource = self.open_resource()
        except (HermesError, OSError) as error:  # every job gets this error as its own
            self._open_error = error
        while (job := self._next_job()) is not None:
            if resource is None:
                self._post_outcomes([WorkerOutcome(job.future, None, self._open_error)])
            elif self.serve_job(resource, job):
                break
        if resource is not None:
            self.release_resource(resource)
        self._call_in_loop(self._ended.set)

    def _next_job(self) -> WorkerJob[R] | None:
        """Return the next job, when there is one; None at the queue's end."""
        if not self._taken:
            jobs = self._queue.get()
            if jobs is None:
                return None
            self._taken.extend(jobs)
        return self._taken.popleft()

    def _has_job(self) -> bool:
        """Return whether the next job, or the queue's end, is there."""
        return bool(self._taken) or not self._queue.empty()

    def _post_outcomes(self, outcomes: list[WorkerOutcome]) -> None:
        self._call_in_loop(self._settle_outcomes, outcomes)

    def _call_in_loop(self, callback: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it everybody who waited
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _settle_outcomes(self, outcomes: list[WorkerOutcome]) -> None:
        self._waiting -= len(outcomes)
        self._room.set()
        for future, value, error in outcomes:
            if future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def open_resource(self) -> R:
        """Open the resource, in its thread; a `HermesError` or `OSError` here becomes the error of every job."""
        raise NotImplementedError

    def serve_job(self, resource: R, job: WorkerJob[R]) -> bool:
        """Run `job` (and more from the queue, if it pays) and post the outcomes; return True when the queue's end was
        met.
        """
        self._post_outcomes([self.attempt_job(resource, job)])
        return False

    def attempt_job(self, resource: R, job: WorkerJob[R]) -> WorkerOutcome:
        """Run one job, and return its result or error as its outcome."""
        try:
            return WorkerOutcome(job.future, self.perform_work(resource, job.work), None)
        except Exception as error:  # noqa: BLE001 - handed to the one who waits
            return WorkerOutcome(job.future, None, self.explain_error(resource, error))

    def perform_work(self, resource: R, work: Callable[[R], object]) -> object:
        """Run the work on the resource."""
        return work(resource)

    def explain_error(self, resource: R, error: Exception) -> Exception:
        """Return the error as the waiter is to see it."""
        raise NotImplementedError

    def release_resource(self, resource: R) -> None:
        """Release the resource, in its thread."""
        raise NotImplementedError


GROUP_OPS = 256
GROUP_SECONDS = 0.010

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

    def __init__(self, path: Path, vfs: str | None, schema: DatabaseSchema, *, reads_only: bool) -> None:
        super().__init__("hermes-writer", path, vfs)
        self._schema = schema
        self._reads_only = reads_only
        self._postponed: WorkerJob[apsw.Connection] | None = None

    def open_resource(self) -> apsw.Connection:
        """Connect, choose the journal mode and bring the schema up to date."""
        connection: apsw.Connection | None = None
        try:
            connection = open_connection(self._path, create=not self._reads_only, vfs=self._vfs)
            if self._reads_only:
                require_current_schema(connection, self._path, self._schema)
            else:
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
            self._run_first(connection, job, outcomes)
            while self._has_job() and len(group) < GROUP_OPS and time.monotonic() < deadline:
                following, ended = self._take_next()
                if following is None:
                    break
                group.append(following)
                self._run_in_savepoint(connection, following, outcomes)
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

    def _run_first(
        self, connection: apsw.Connection, job: WorkerJob[apsw.Connection], outcomes: list[WorkerOutcome]
    ) -> None:
        """Run the first job of a group, which is mostly the only one: nothing stands before it, so it needs no
        savepoint to fail alone. Raises `apsw.Error` when the whole group has failed.
        """
        outcomes.append(self.attempt_job(connection, job))
        if outcomes[-1].error is not None:
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")

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
        following = self._next_job()
        if following is not None and following.alone:
            self._postponed = following
            return None, False
        return following, following is None

    def _take_remaining(self, taken: list[WorkerJob[apsw.Connection]]) -> bool:
        while self._has_job():
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
    async def open(
        cls, path: Path, schema: DatabaseSchema, *, vfs: str | None = None, reads_only: bool = False
    ) -> "Database":
        """Open or create the file, its folder (mode 0700) too, and bring its schema up to date.

        With `reads_only` nothing is created or changed, and every write fails.

        Raises `StoreError` when the file is unreadable, damaged, another program's, or written by a newer Hermes. `vfs`
        names one of SQLite's ways to reach a file, for file systems without shared memory or locks.
        """
        try:
            if not reads_only:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise explain_error(apsw.CantOpenError(str(error)), path, error.errno or 0) from error
        database = cls(
            path, _WriterThread(path, vfs, schema, reads_only=reads_only), _ReaderThread("hermes-reader", path, vfs)
        )
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

    def submit_with_next(self, op: DatabaseOp[T]) -> Future[T]:
        """Queue a write as `submit` does, to be made in one transaction with the next one, or alone when none follows
        within `GROUP_SECONDS`.
        """
        return self._writer.hold(op)

    def begin_held_writes(self) -> None:
        """Begin at once with what waits for a next write: somebody waits for it by now."""
        self._writer.release_held()

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
