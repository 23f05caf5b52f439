"""Periodic maintenance: old rows of the store are deleted, and its backlog is measured."""

import asyncio
import contextlib

from hermes.core.errors import StoreError
from hermes.gateway.metrics import BacklogCounts, read_backlog
from hermes.sessions.app import App

JOURNAL_SECONDS = 7 * 24 * 3600.0
"""How long the journal remembers inbound events: longer than any platform redelivers one."""
RUN_SECONDS = 30 * 24 * 3600.0
"""How long ended runs and API responses are found by their ids; their messages stay in sessions."""
TIDY_SECONDS = 3600.0
MEASURE_SECONDS = 15.0


class Maintenance:
    """Runs the maintenance tasks from `start` on; the caller ends the tasks. `backlog` is the newest measurement."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.backlog = BacklogCounts()

    def start(self) -> "list[asyncio.Task[None]]":
        """Start the tasks and return them."""
        return [
            asyncio.create_task(self._delete_old_rows(), name="tidy"),
            asyncio.create_task(self._measure_loop(), name="measuring"),
        ]

    async def measure_backlog(self) -> None:
        """Read the backlog from the store."""
        self.backlog = await read_backlog(self._app)

    async def _measure_loop(self) -> None:
        while True:
            with contextlib.suppress(StoreError):
                await self.measure_backlog()
            await asyncio.sleep(MEASURE_SECONDS)

    async def _delete_old_rows(self) -> None:
        while True:
            with contextlib.suppress(StoreError):  # it is tried again in an hour
                services = self._app.services
                now = services.clock.now()
                while await services.store.chats.forget_chats(now - JOURNAL_SECONDS):
                    pass
                while await services.store.chats.forget_api(now - RUN_SECONDS):
                    pass
            await asyncio.sleep(TIDY_SECONDS)
