"""So many at once, and the rest wait in line."""

import asyncio
from heapq import heappop, heappush
from itertools import count
from weakref import WeakKeyDictionary


class Room:
    """Lets at most `most` in at a time. Who waits is let in by the order in which its task first asked: a turn that has
    begun goes on before one that has not, however many requests each makes, so turns end in the order of their coming.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._numbers = count()
        self._places: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    async def enter(self) -> None:
        """Return once there is room, which is the caller's until it calls `leave`."""
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
                self.leave()
            raise

    def leave(self) -> None:
        """Give the room to who is first in line."""
        while self._waiting:
            let_in = heappop(self._waiting)[2]
            if not let_in.done():
                let_in.set_result(None)
                return
        self._free += 1
