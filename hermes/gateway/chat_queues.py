"""Inbound events by lane: strictly in order within a chat or thread, with chats side by side."""

import asyncio
import logging
from collections.abc import Mapping

from hermes.core.chats import InboundEvent, OutboxItem, Outgoing, StoredArrival
from hermes.core.errors import BusyError, HermesError, StoreError
from hermes.core.ids import new_letter_id
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.chat_session import ChatSessionDeps, GatewayError
from hermes.gateway.router import ROWS_AT_ONCE, ChatLane, Router, is_complete, is_urgent
from hermes.i18n.messages import say, translated

_LOG = logging.getLogger(__name__)
_BUSY_PAUSE = 2.0


class LaneQueue:
    """All inbound events that are not routed yet. One task at a time works on a lane."""

    def __init__(self, deps: ChatSessionDeps, router: Router, accounts: Mapping[str, PlatformAccount]) -> None:
        self._deps = deps
        self._store = deps.app.services.store.chats
        self._router = router
        self._accounts = accounts
        self._lanes: dict[str, ChatLane] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._urgent: set[asyncio.Task[None]] = set()

    def wake_lane(self, name: str, event: InboundEvent | None = None) -> None:
        """Have a lane's events routed, where this one came in just now."""
        lane = self._lanes.setdefault(name, ChatLane())
        if event is not None:
            lane.last_event_at = asyncio.get_running_loop().time()
            if is_complete(event):
                lane.complete.set()
            if lane.is_slow and is_urgent(event):
                self._route_urgent(name, lane)
        lane.news.set()
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(self._run_lane(name, lane), name=f"lane {name}")

    async def close(self) -> None:
        """Stop routing; what is not routed stays in the journal."""
        commands = [task for lane in self._lanes.values() for task in lane.commands]
        tasks = [*self._tasks.values(), *commands, *self._urgent]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _route_urgent(self, name: str, lane: ChatLane) -> None:
        account = self._accounts.get(name.partition(":")[0])
        if account is not None:
            task = asyncio.create_task(self._router.route_urgent(account, lane, name), name=f"urgent {name}")
            self._urgent.add(task)
            task.add_done_callback(self._urgent.discard)

    async def _run_lane(self, name: str, lane: ChatLane) -> None:
        try:
            while lane.news.is_set():
                lane.news.clear()
                try:
                    await self._route_new(name, lane)
                except StoreError as error:
                    self._deps.report(f"{name}: {error}")
                    await asyncio.sleep(_BUSY_PAUSE)
                    lane.news.set()
        finally:
            del self._tasks[name]
            if not lane.observed and not lane.commands:
                self._lanes.pop(name, None)

    async def _route_new(self, name: str, lane: ChatLane) -> None:
        while rows := await self._store.new_arrivals(name, ROWS_AT_ONCE):
            account = self._accounts.get(rows[0].arrival.place.platform)
            if account is None:
                return  # it is not set up now; what was said stays in the journal
            try:
                await self._router.route_events(account, lane, rows)
                lane.last_error = ""
            except (BusyError, StoreError) as error:
                self._deps.report(f"{name}: {error}")
                await asyncio.sleep(_BUSY_PAUSE)
            except HermesError as error:
                await self._answer_failure(lane, rows[0], error)
            except Exception as error:  # noqa: BLE001 - one message must not stop what comes behind it
                _LOG.exception("a message could not be handled")
                await self._answer_failure(lane, rows[0], GatewayError(type(error).__name__))

    async def _answer_failure(self, lane: ChatLane, row: StoredArrival, error: HermesError) -> None:
        """Answer a message with an error; the same error is said once in a row."""
        self._deps.report(f"{row.arrival.place.lane}: {error}")
        await self._store.dismiss([row.id], str(error))
        if str(error) != lane.last_error:
            lane.last_error = str(error)
            key = f"note:{new_letter_id()}"
            text = say("(I cannot answer now: {why})", why=translated(str(error)))
            message = Outgoing(place=row.arrival.place, text=text, key=key)
            await self._deps.outbox.enqueue([OutboxItem(key=key, message=message)])
