"""The numbered events of a run, for programs that listen now, come late, or reconnect."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator

import msgspec

MAX_EVENTS = 4_096
"""Events of a run that are kept; clients are told how many older ones they missed."""
MAX_BYTES = 4_000_000
_PROCESS_ID = os.urandom(4).hex()
"""Marks the ids of this process's events, as each process numbers them from 1."""


class RunEventLog:
    """The events of one run. `closed`: nothing more will happen."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._last_number = 0
        self._changed = asyncio.Event()
        self.closed = False

    def add_event(self, kind: str, body: object) -> None:
        """Append an event."""
        self._last_number += 1
        data = msgspec.json.encode({"type": kind, "run_id": self._run_id, "data": body})
        event = b"id: %b-%d\nevent: %b\ndata: %b\n\n" % (_PROCESS_ID.encode(), self._last_number, kind.encode(), data)
        self._events.append((self._last_number, event))
        self._bytes += len(event)
        while len(self._events) > MAX_EVENTS or (self._bytes > MAX_BYTES and len(self._events) > 1):
            self._bytes -= len(self._events.popleft()[1])
        self._wake_listeners()

    def close(self) -> None:
        """Append nothing more."""
        self.closed = True
        self._wake_listeners()

    async def follow_events(self, last_id: str, pause: float) -> AsyncGenerator[bytes | None, None]:
        """Yield every event after that id, to the end; None whenever nothing happened for so many seconds."""
        at = _parse_event_id(last_id)
        while True:
            first = self._events[0][0] if self._events else self._last_number + 1
            if at + 1 < first:
                yield b'event: run.gap\ndata: {"type":"run.gap","missed":%d}\n\n' % (first - at - 1)
                at = first - 1
            ready = [event for number, event in self._events if number > at]
            if ready:
                at = self._last_number
                yield b"".join(ready)
                continue
            if self.closed:
                return
            news = self._changed
            try:
                async with asyncio.timeout(pause):
                    await news.wait()
            except TimeoutError:
                yield None

    def _wake_listeners(self) -> None:
        """Wake every listener; later ones wait for the next event."""
        news, self._changed = self._changed, asyncio.Event()
        news.set()


def _parse_event_id(event_id: str) -> int:
    """Return the number of an event of this process; 0 for any other id."""
    boot, _, number = event_id.partition("-")
    return int(number) if boot == _PROCESS_ID and number.isascii() and number.isdigit() and len(number) < 12 else 0
