"""The web sockets that pages have begun to open: by these the proxy, which sees no pages, knows
whose a connection is."""

import asyncio
import time

_WAIT_SECONDS = 1.0
"""How long a connection waits for the browser to say whose it is."""
_KEPT_SECONDS = 5.0
"""How long the browser may take to connect for a socket that it has told of."""
_BARRED_SECONDS = 10.0
_MAX_PLACES = 500


class AnnouncedSockets:
    """Sockets by their host and port. Once a page has tried one that it may not open, none to that place is opened for
    a while, since connections that come at the same time cannot be told apart.
    """

    def __init__(self) -> None:
        self._expected: dict[tuple[str, int], list[float]] = {}
        """When what is expected counts no more."""
        self._barred: dict[tuple[str, int], float] = {}
        self._news = asyncio.Event()

    def announce(self, host: str, port: int, *, is_allowed: bool) -> None:
        """Take note of a socket that a page opens."""
        now = time.monotonic()
        if is_allowed:
            self._expected.setdefault((host, port), []).append(now + _KEPT_SECONDS)
        else:
            self._barred[host, port] = now + _BARRED_SECONDS
        for places in (self._expected, self._barred):
            while len(places) > _MAX_PLACES:
                del places[next(iter(places))]
        self._news.set()
        self._news = asyncio.Event()

    async def take(self, host: str, port: int) -> bool:
        """Return whether a connection is one that a page may have, and count it as made."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while not self._is_barred(host, port):
                    if self._take_expected(host, port):
                        return True
                    await self._news.wait()
        except TimeoutError:
            pass
        return False

    def _is_barred(self, host: str, port: int) -> bool:
        return self._barred.get((host, port), 0.0) > time.monotonic()

    def _take_expected(self, host: str, port: int) -> bool:
        now = time.monotonic()
        ends = [end for end in self._expected.pop((host, port), []) if end > now]
        if len(ends) > 1:
            self._expected[host, port] = ends[1:]
        return bool(ends)
