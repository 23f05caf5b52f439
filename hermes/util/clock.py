"""Time as a dependency, so that tests can control it."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic time and sleeping, all in seconds."""

    def now(self) -> float:
        """Return the seconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards; only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; cancellable at any moment."""
        ...


class SystemClock:
    """The machine's own clock."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)
