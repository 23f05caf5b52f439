"""What happened in a run, numbered, for programs that listen now, come late, or come again."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator

import msgspec

MOST_EVENTS = 4_096
"""Events of a run that are held; of older ones is said how many there were."""
MOST_BYTES = 4_000_000
_BOOT = os.urandom(4).hex()
"""Events are numbered anew by each process: an id of another one is known by this."""


class Log:
    """One run's events. `closed`: nothing more will happen."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._number = 0
        self._news = asyncio.Event()
        self.closed = False

    def add(self, kind: str, body: object) -> None:
        """Something has happened."""
        self._number += 1
        data = msgspec.json.encode({"type": kind, "run_id": self._run_id, "data": body})
        event = b"id: %b-%d\nevent: %b\ndata: %b\n\n" % (_BOOT.encode(), self._number, kind.encode(), data)
        self._events.append((self._number, event))
        self._bytes += len(event)
        while len(self._events) > MOST_EVENTS or (self._bytes > MOST_BYTES and len(self._events) > 1):
            self._bytes -= len(self._events.popleft()[1])
        self._tell()

    def close(self) -> None:
        """Nothing more will happen."""
        self.closed = True
        self._tell()

    async def follow(self, last_id: str, pause: float) -> AsyncGenerator[bytes | None, None]:
        """Every event behind that id, to the end; None whenever nothing happened for so many seconds."""
        at = _number_of(last_id)
        while True:
            first = self._events[0][0] if self._events else self._number + 1
            if at + 1 < first:
                yield b'event: run.gap\ndata: {"type":"run.gap","missed":%d}\n\n' % (first - at - 1)
                at = first - 1
            ready = [event for number, event in self._events if number > at]
            if ready:
                at = self._number
                yield b"".join(ready)
                continue
            if self.closed:
                return
            news = self._news
            try:
                async with asyncio.timeout(pause):
                    await news.wait()
            except TimeoutError:
                yield None

    def _tell(self) -> None:
        """Wake everybody who listens; those who come later wait for the next news."""
        news, self._news = self._news, asyncio.Event()
        news.set()


def _number_of(event_id: str) -> int:
    """The number of an event of this process; 0 for any other id."""
    boot, _, number = event_id.partition("-")
    return int(number) if boot == _BOOT and number.isascii() and number.isdigit() and len(number) < 12 else 0
