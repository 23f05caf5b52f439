"""Limits how many requests run at once; the rest wait in line."""

import asyncio
from heapq import heappop, heappush
from itertools import count
from weakref import WeakKeyDictionary


class ConnectionLimit:
    """Lets at most `limit` requests run at a time.

    Those that wait are let in by the order in which their tasks first asked: a turn that has begun goes on
    before one that has not, however many requests each makes, so turns end in the order in which they came.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._numbers = count()
        self._places: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    async def acquire_slot(self) -> None:
        """Return once there is a slot, which is the caller's until it calls `release_slot`."""
        number = next(self._numbers)
        task = asyncio.current_task()
        place = number if task is None else self._places.setdefault(task, number)
        if self._free:
            self._free -= 1
            return
        let_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (place, number, let_in))
        try:
            await let_in
        except asyncio.CancelledError:
            if not let_in.cancelled():  # it was let in at the same moment
                self.release_slot()
            raise

    def release_slot(self) -> None:
        """Give the slot to the first in line."""
        while self._waiting:
            let_in = heappop(self._waiting)[2]
            if not let_in.done():
                let_in.set_result(None)
                return
        self._free += 1
