"""What is done now and then: what the store needs not remember is forgotten, and what it says is looked at."""

import asyncio
import contextlib

from hermes.core.errors import StoreError
from hermes.gateway.metrics import Owing, owing_of
from hermes.sessions.app import App

KEEP_SECONDS = 7 * 24 * 3600.0
"""How long the journal remembers what it has seen: longer than any platform delivers something again."""
KEEP_RUNS = 30 * 24 * 3600.0
"""How long runs that have ended, and answers of the API, are found by their ids; what was said stays in sessions."""
TIDY_SECONDS = 3600.0
MEASURE_SECONDS = 15.0


class Chores:
    """Does them from `start` on, in tasks that the caller ends. `owing` is what the store said last."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.owing = Owing()

    def start(self) -> "list[asyncio.Task[None]]":
        """Begin; the tasks."""
        return [
            asyncio.create_task(self._tidy(), name="tidy"),
            asyncio.create_task(self._measuring(), name="measuring"),
        ]

    async def measure(self) -> None:
        """Ask the store how things stand."""
        self.owing = await owing_of(self._app)

    async def _measuring(self) -> None:
        while True:
            with contextlib.suppress(StoreError):
                await self.measure()
            await asyncio.sleep(MEASURE_SECONDS)

    async def _tidy(self) -> None:
        while True:
            with contextlib.suppress(StoreError):  # it is tried again in an hour
                on = self._app.premises
                now = on.clock.now()
                while await on.store.chats.forget_chats(now - KEEP_SECONDS):
                    pass
                while await on.store.chats.forget_api(now - KEEP_RUNS):
                    pass
            await asyncio.sleep(TIDY_SECONDS)
