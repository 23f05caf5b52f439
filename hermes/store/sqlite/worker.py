"""A thread that owns one thing that must stay in one thread, and runs jobs on it in order."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar, cast

from hermes.core.errors import BusyError, HermesError, StoreError

CAPACITY = 8192
"""Jobs that may wait in one queue."""

T = TypeVar("T")
R = TypeVar("R")


class Job(NamedTuple, Generic[R]):
    """Something to be done to the resource; `alone` keeps it out of a group of others."""

    work: Callable[[R], object]
    future: asyncio.Future[object]
    alone: bool = False


class Outcome(NamedTuple):
    """What became of a job; settled in the event loop."""

    future: asyncio.Future[object]
    value: object
    error: Exception | None


class Worker(Generic[R]):
    """The thread. Jobs are handed in from one event loop; each one's future is resolved there.

    A cancelled waiter does not undo its job. Subclasses say how jobs are run.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Job[R] | None] = SimpleQueue()
        self._waiting = 0
        self._room: asyncio.Event = asyncio.Event()
        self._closed = False
        self._ended = asyncio.Event()
        self._broken: Exception | None = None
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
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
        self._queue.put(Job(work, future, alone))
        return cast("asyncio.Future[T]", future)

    async def run(self, work: Callable[[R], T], *, alone: bool = False) -> T:
        """Queue `work` as soon as there is room, and wait for what it gives."""
        while self._waiting >= CAPACITY // 2 and not self._closed:
            self._room.clear()
            await self._room.wait()
        return await self.submit(work, alone=alone)

    @property
    def closed(self) -> bool:
        """Whether no more jobs are taken."""
        return self._closed

    async def close(self) -> None:
        """Finish what is queued, then let the resource go. Can be called more than once."""
        self._closed = True
        self._room.set()
        if self._started and not self._ended.is_set():
            self._queue.put(None)
            await self._ended.wait()
            self._thread.join()

    def _main(self) -> None:
        resource: R | None = None
        try:
            resource = self.open()
        except (HermesError, OSError) as error:  # every job gets this error as its own
            self._broken = error
        while (job := self._queue.get()) is not None:
            if resource is None:
                self._post([Outcome(job.future, None, self._broken)])
            elif self.serve(resource, job):
                break
        if resource is not None:
            self.release(resource)
        self._tell(self._ended.set)

    def _post(self, outcomes: list[Outcome]) -> None:
        self._tell(self._settle, outcomes)

    def _tell(self, callback: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it everybody who waited
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _settle(self, outcomes: list[Outcome]) -> None:
        self._waiting -= len(outcomes)
        self._room.set()
        for future, value, error in outcomes:
            if future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def open(self) -> R:
        """Get the resource, in its thread; a `HermesError` or `OSError` here becomes the error of every job."""
        raise NotImplementedError

    def serve(self, resource: R, job: Job[R]) -> bool:
        """Run `job` (and more from the queue, if it pays) and post the outcomes; True when the queue's end was met."""
        self._post([self.attempt(resource, job)])
        return False

    def attempt(self, resource: R, job: Job[R]) -> Outcome:
        """Run one job; its error is the waiter's."""
        try:
            return Outcome(job.future, self.perform(resource, job.work), None)
        except Exception as error:  # noqa: BLE001 - handed to the one who waits
            return Outcome(job.future, None, self.explained(resource, error))

    def perform(self, resource: R, work: Callable[[R], object]) -> object:
        """Do the work."""
        return work(resource)

    def explained(self, resource: R, error: Exception) -> Exception:
        """The error as the one who waits is to see it."""
        raise NotImplementedError

    def release(self, resource: R) -> None:
        """Let the resource go, in its thread."""
        raise NotImplementedError
