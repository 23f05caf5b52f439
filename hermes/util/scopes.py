"""Waiting for something that may be cancelled, without losing track of which of the two was cancelled."""

import asyncio
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
