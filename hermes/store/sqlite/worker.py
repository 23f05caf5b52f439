"""A thread that owns one resource which must stay in one thread, and runs jobs on it in order."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar, cast

from hermes.core.errors import BusyError, HermesError, StoreError

CAPACITY = 8192
"""The number of jobs that may wait in one queue."""

T = TypeVar("T")
R = TypeVar("R")


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
        self._queue: SimpleQueue[WorkerJob[R] | None] = SimpleQueue()
        self._waiting = 0
        self._room: asyncio.Event = asyncio.Event()
        self._closed = False
        self._ended = asyncio.Event()
        self._open_error: Exception | None = None
        self._thread = threading.Thread(target=self._run_thread, name=name, daemon=True)
        self._started = False

    def submit(self, work: Callable[[R], T], *, alone: bool = False) -> asyncio.Future[T]:
        """Queue `work` behind what is queued already. Raises `BusyError` when the queue is full."""
        if self._closed:
            raise StoreError("The store is closed.")
        if self._waiting >= CAPACITY:
            raise BusyError("The database cannot keep up with what is written.", "Try again in a moment.")
        if not self._started:
            self._started = True
            self._thread.start()
        self._waiting += 1
        future: asyncio.Future[object] = self._loop.create_future()
        self._queue.put(WorkerJob(work, future, alone))
        return cast("asyncio.Future[T]", future)

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
        while (job := self._queue.get()) is not None:
            if resource is None:
                self._post_outcomes([WorkerOutcome(job.future, None, self._open_error)])
            elif self.serve_job(resource, job):
                break
        if resource is not None:
            self.release_resource(resource)
        self._call_in_loop(self._ended.set)

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
