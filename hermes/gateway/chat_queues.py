"""What is said in each chat, looked at strictly in order there, chat by chat side by side."""

import asyncio
import logging
from collections.abc import Mapping

from hermes.core.chats import Arrival, Outgoing, Owed, StoredArrival
from hermes.core.errors import BusyError, HermesError, StoreError
from hermes.core.ids import new_letter_id
from hermes.gateway.accounts import Account
from hermes.gateway.chat_session import GatewayError, Ground
from hermes.gateway.router import LOOK, Lane, Reception, is_prompt, is_urgent
from hermes.i18n.messages import say, translated

_LOG = logging.getLogger(__name__)
_BUSY_PAUSE = 2.0


class Lanes:
    """Everything that has come in and that nobody has looked at yet. One lane is looked at by one task at a time."""

    def __init__(self, ground: Ground, reception: Reception, accounts: Mapping[str, Account]) -> None:
        self._ground = ground
        self._store = ground.app.premises.store.chats
        self._reception = reception
        self._accounts = accounts
        self._lanes: dict[str, Lane] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._urgent: set[asyncio.Task[None]] = set()

    def wake(self, name: str, arrival: Arrival | None = None) -> None:
        """Have somebody look at a lane, where this was said just now."""
        lane = self._lanes.setdefault(name, Lane())
        if arrival is not None:
            lane.arrived_at = asyncio.get_running_loop().time()
            if is_prompt(arrival):
                lane.hurry.set()
            if lane.stuck and is_urgent(arrival):
                self._hurry(name, lane)
        lane.news.set()
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(self._run(name, lane), name=f"lane {name}")

    async def close(self) -> None:
        """Look at nothing more; what was not looked at stays in the journal."""
        commands = [task for lane in self._lanes.values() for task in lane.commands]
        tasks = [*self._tasks.values(), *commands, *self._urgent]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _hurry(self, name: str, lane: Lane) -> None:
        account = self._accounts.get(name.partition(":")[0])
        if account is not None:
            task = asyncio.create_task(self._reception.urgent(account, lane, name), name=f"urgent {name}")
            self._urgent.add(task)
            task.add_done_callback(self._urgent.discard)

    async def _run(self, name: str, lane: Lane) -> None:
        try:
            while lane.news.is_set():
                lane.news.clear()
                try:
                    await self._look(name, lane)
                except StoreError as error:
                    self._ground.report(f"{name}: {error}")
                    await asyncio.sleep(_BUSY_PAUSE)
                    lane.news.set()
        finally:
            del self._tasks[name]
            if not lane.seen and not lane.commands:
                self._lanes.pop(name, None)

    async def _look(self, name: str, lane: Lane) -> None:
        while rows := await self._store.new_arrivals(name, LOOK):
            account = self._accounts.get(rows[0].arrival.place.platform)
            if account is None:
                return  # it is not set up now; what was said stays in the journal
            try:
                await self._reception.handle(account, lane, rows)
                lane.told = ""
            except (BusyError, StoreError) as error:
                self._ground.report(f"{name}: {error}")
                await asyncio.sleep(_BUSY_PAUSE)
            except HermesError as error:
                await self._fail(lane, rows[0], error)
            except Exception as error:  # noqa: BLE001 - one message must not stop what comes behind it
                _LOG.exception("a message could not be handled")
                await self._fail(lane, rows[0], GatewayError(type(error).__name__))

    async def _fail(self, lane: Lane, row: StoredArrival, error: HermesError) -> None:
        """A message gets an error for an answer; the same error is said once in a row."""
        self._ground.report(f"{row.arrival.place.lane}: {error}")
        await self._store.dismiss([row.id], str(error))
        if str(error) != lane.told:
            lane.told = str(error)
            key = f"note:{new_letter_id()}"
            text = say("(I cannot answer now: {why})", why=translated(str(error)))
            message = Outgoing(place=row.arrival.place, text=text, key=key)
            await self._ground.outbox.owe([Owed(key=key, message=message)])
