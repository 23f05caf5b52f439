"""A clock that stands still until a test moves it."""

import asyncio
import heapq
from itertools import count

_SETTLE_ROUNDS = 20
"""Turns of the event loop given to woken tasks, so that what they sleep on next is known before time moves on."""


class ManualClock:
    """Implements `util.clock.Clock`. Time moves only by `advance`, or with `auto` by each sleep, which then is instant.

    `slept` lists every sleep that was asked for, in seconds.
    """

    def __init__(self, start: float = 1_760_000_000.0, *, auto: bool = False) -> None:
        self.auto = auto
        self.slept: list[float] = []
        self._start = start
        self._elapsed = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._new_sleeper = asyncio.Event()

    def now(self) -> float:
        """Return seconds since the Unix epoch, as the test set them."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Return seconds since the clock was made; `set_now` does not change them."""
        return self._elapsed

    def set_now(self, now: float) -> None:
        """Set the wall clock, as a machine's may jump; no sleeper wakes by it."""
        self._start = now - self._elapsed

    @property
    def sleepers(self) -> list[float]:
        """Seconds until each sleeper wakes, the next one first."""
        return sorted(due - self._elapsed for due, _, future in self._sleepers if not future.done())

    async def sleep(self, seconds: float) -> None:
        """Return when the test has moved time by `seconds`."""
        self.slept.append(seconds)
        if self.auto or seconds <= 0:
            self._elapsed += max(0.0, seconds)
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), future))
        self._new_sleeper.set()
        await future

    async def advance(self, seconds: float) -> None:
        """Move time, waking each sleeper at its own moment and in order; sleeps that begin meanwhile count too."""
        end = self._elapsed + seconds
        await _run_woken_tasks()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                self._elapsed = due
                future.set_result(None)
                await _run_woken_tasks()
        self._elapsed = end

    async def wait_for_sleepers(self, number: int = 1, *, timeout: float = 60.0) -> None:  # noqa: ASYNC109 - a test's limit
        """Return once so many tasks sleep on this clock. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout):
            while len(self.sleepers) < number:
                self._new_sleeper.clear()
                await self._new_sleeper.wait()


async def _run_woken_tasks() -> None:
    for _ in range(_SETTLE_ROUNDS):
        await asyncio.sleep(0)
