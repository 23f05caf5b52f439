"""Helpers for waiting on tasks under cancellation, without losing track of which side was cancelled."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable
from typing import TypeVar

T = TypeVar("T")


async def wait_for_task(task: "asyncio.Task[T]") -> None:
    """Wait until the task has ended, however it ends; its result or error stays in the task.

    Cancelling the waiter cancels the task and waits for it, so that nothing outlives its owner.
    """
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        while not task.done():
            await asyncio.wait({task})
        raise


async def cancel_tasks(tasks: "Iterable[asyncio.Task[object]]") -> None:
    """Cancel the tasks, and wait until all have ended, however they end."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)


async def run_ignoring_cancellation(work: Coroutine[object, object, T]) -> T:
    """Run short work to its end and return its result; cancellations that come meanwhile have no effect."""
    task = asyncio.create_task(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()


async def run_to_completion(work: Coroutine[object, object, T]) -> T:
    """Run short work to its end; a cancellation that comes meanwhile is raised again afterwards."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result
