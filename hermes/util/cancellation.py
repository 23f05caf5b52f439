"""Waiting for something that may be cancelled, without losing track of which of the two was cancelled."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


async def finished(task: "asyncio.Task[T]") -> None:
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


async def unbroken(work: Coroutine[object, object, T]) -> T:
    """Do short work to its end, whatever cancellations come meanwhile; they have no further effect."""
    task = asyncio.create_task(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()


async def whole(work: Coroutine[object, object, T]) -> T:
    """Do short work to its end; a cancellation that comes meanwhile is raised again behind it."""
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
