"""What is owed to chats, sent in the order in which it is owed there, until the platform has it or never will.

Everything that is sent is a row first (`store/chats.py`). A row says `attempting` while the platform has it: one that
is found so after a restart may have arrived, and is treated as the platform allows (`Resend`).
"""

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence

from msgspec import structs

from hermes.core.chats import Delivery, DeliveryState, Owed
from hermes.core.errors import StoreError
from hermes.gateway.accounts import Account
from hermes.gateway.platform import Fault, PlatformError, Resend, SendError
from hermes.gateway.telemetry import Watch
from hermes.i18n.messages import say
from hermes.sessions.app import App

_LOG = logging.getLogger(__name__)
AT_ONCE = 16
"""Messages that are sent at once on one account, each to another chat."""
SEND_SECONDS = 120.0
"""How long the platform may take with one message, a large file among them."""
PATIENCE = 24 * 3600.0
"""Seconds after which what cannot be sent is given up."""
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 300.0
_STORE_PAUSE = 10.0
_LOOK = 32
_HOPELESS = frozenset({Fault.FORBIDDEN, Fault.NOT_FOUND})


class Outbox:
    """Sends what is owed."""

    def __init__(self, app: App, accounts: Mapping[str, Account], watch: Watch) -> None:
        self._store = app.premises.store.chats
        self._clock = app.premises.clock
        self._accounts = accounts
        self._watch = watch
        self._report = watch.report
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._news: dict[str, asyncio.Event] = {}
        self._room: dict[str, asyncio.Semaphore] = {}
        self._paused: dict[str, float] = {}
        """By account, until when (of the loop's clock) the platform wants nothing sent."""
        self.sent = 0
        self.failed = 0

    async def start(self, platform: str) -> None:
        """Send what an account owes from before."""
        for lane in await self._store.owing_lanes(platform):
            self.wake(lane)

    async def owe(self, owed: Sequence[Owed], *, answered: str = "", outcome: str = "answered") -> None:
        """Write down what is owed from now on, and have it sent; `answered` as in the store."""
        await self._store.owe(owed, answered=answered, outcome=outcome)
        for lane in {one.message.place.lane for one in owed}:
            self.wake(lane)

    def wake(self, lane: str) -> None:
        """Have somebody look at what a lane owes."""
        self._news.setdefault(lane, asyncio.Event()).set()
        if lane not in self._lanes:
            self._lanes[lane] = asyncio.create_task(self._run(lane), name=f"outbox {lane}")

    def busy(self, lane: str) -> bool:
        """Whether something is about to be sent in a lane."""
        return lane in self._lanes

    async def settled(self, seconds: float) -> bool:
        """Wait until nothing is about to be sent; False when that takes longer."""
        try:
            async with asyncio.timeout(seconds):
                while self._lanes:
                    await asyncio.wait(self._lanes.values())
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Stop; what is owed stays owed."""
        tasks = list(self._lanes.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, lane: str) -> None:
        news = self._news[lane]
        try:
            while news.is_set():
                news.clear()
                try:
                    await self._send_all(lane)
                except StoreError as error:  # what was begun is known by its row, which is read anew
                    self._report(f"{lane}: {error}")
                    await asyncio.sleep(_STORE_PAUSE)
                    news.set()
        finally:
            del self._lanes[lane], self._news[lane]

    async def _send_all(self, lane: str) -> None:
        while rows := await self._store.due(lane, _LOOK):
            for row in rows:
                account = self._accounts.get(row.message.place.platform)
                if account is None:
                    return  # it is not set up now; it stays owed until it is, or is given up
                if not await self._sent(account, row):
                    return

    async def _sent(self, account: Account, row: Delivery) -> bool:
        """Send one message, however often that takes; False when it must wait for the account to be had."""
        while True:
            await self._wait(account, row)
            if self._clock.now() - row.made_at > PATIENCE:
                await self._give_up(row, say("It could not be sent for a day: {why}", why=account.why or "…"))
                return True
            ended = await self._attempt(account, row)
            if ended is None:
                return True
            row = ended

    async def _wait(self, account: Account, row: Delivery) -> None:
        loop = asyncio.get_running_loop()
        while True:
            until = self._paused.get(account.name, 0.0) - loop.time()
            wait = max(until, row.next_at - self._clock.now())
            if wait <= 0:
                return
            await asyncio.sleep(min(wait, 60.0))

    async def _attempt(self, account: Account, row: Delivery) -> Delivery | None:
        """One attempt; None when the row has ended, else the row as it is to be tried again."""
        room = self._room.setdefault(account.name, asyncio.Semaphore(AT_ONCE))
        try:
            async with room, asyncio.timeout(SEND_SECONDS):
                state, shown = await self._put(account, row)
            await self._end(row, state, shown)
            return None
        except SendError as error:
            return await self._after(account, row, error)
        except (PlatformError, OSError, TimeoutError) as error:
            fault = SendError(Fault.TRANSIENT, str(error) or type(error).__name__, uncertain=not _unsent(error))
            return await self._after(account, row, fault)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a platform's mistake must not hold up what comes behind it
            _LOG.exception("a message could not be sent")
            return await self._after(account, row, SendError(Fault.UNKNOWN, type(error).__name__, uncertain=True))

    async def _put(self, account: Account, row: Delivery) -> tuple[DeliveryState, str]:
        """Send or change a message; how certain it is that it is there once, and its id."""
        platform, message = account.platform, row.message
        known = row.message_id
        again = row.state is DeliveryState.ATTEMPTING and not known
        if again and account.can.resend is not Resend.BLIND:
            known = await self._known(account, row)
        await self._store.attempting(row.id)
        if known and (row.message_id or row.first is not None):
            await platform.edit(message, known)
            return DeliveryState.DELIVERED, known
        if known:
            return DeliveryState.DELIVERED, known
        if not again or account.can.resend is not Resend.BLIND:
            return DeliveryState.DELIVERED, await platform.send(message)
        message = structs.replace(message, text=_marked(message.text))
        return DeliveryState.UNCERTAIN, await platform.send(message)

    async def _known(self, account: Account, row: Delivery) -> str:
        """The id of what may be on the platform already; empty when it is not. What was shown while it was written is
        looked for as it was shown first."""
        wanted = structs.replace(row.first or row.message, since=row.made_at)
        if account.can.resend is Resend.CHECK:
            found = await account.platform.find_sent(wanted) or ""
        else:
            found = await account.platform.send(wanted)  # the same key once more: the platform shows it once
        if found:
            await self._store.shown(row.id, found)
        return found

    async def _after(self, account: Account, row: Delivery, error: SendError) -> Delivery | None:
        """What is to be done about a message that was not taken."""
        doubtful = error.uncertain or row.state is DeliveryState.ATTEMPTING
        state = DeliveryState.ATTEMPTING if doubtful else DeliveryState.PENDING
        attempts = row.attempts + 1
        pause = min(_FIRST_PAUSE * 2 ** min(attempts, 12), _LONGEST_PAUSE) * random.uniform(0.75, 1.25)
        message = row.message
        match error.fault:
            case Fault.RATE_LIMITED:
                pause = error.retry_after if error.retry_after is not None else pause
                self._paused[account.name] = asyncio.get_running_loop().time() + min(pause, 5.0)
            case Fault.BAD_FORMAT if not message.plain:
                message, pause = structs.replace(message, plain=True), 0.0
            case Fault.NOT_FOUND if row.message_id:
                # What was to be changed is gone: it is sent anew.
                await self._store.shown(row.id, "")
                row, pause = structs.replace(row, message_id=""), 0.0
            case _ if error.fault in _HOPELESS or (error.fault is not Fault.TRANSIENT and attempts >= 5):
                await self._give_up(row, str(error))
                return None
            case _:
                pass
        until = self._clock.now() + pause
        await self._store.postpone(row.id, until, str(error), message, state)
        return structs.replace(row, message=message, state=state, attempts=attempts, next_at=until)

    async def _end(self, row: Delivery, state: DeliveryState, message_id: str) -> None:
        while True:  # nobody else knows that it is there: tried from the start it would be there twice
            try:
                await self._store.settle_delivery(row.id, state, message_id=message_id)
                break
            except StoreError as error:
                self._report(f"{row.lane}: {error}")
                await asyncio.sleep(_STORE_PAUSE)
        self.sent += 1
        self._over(row, state)

    def _over(self, row: Delivery, state: DeliveryState) -> None:
        self._watch.delivered(row.message.place.platform, row.lane, state, self._clock.now() - row.made_at)

    async def _give_up(self, row: Delivery, why: str) -> None:
        await self._store.settle_delivery(row.id, DeliveryState.FAILED, error=why)
        self.failed += 1
        self._over(row, DeliveryState.FAILED)
        self._report(f"{row.lane.rstrip(':')}: a message could not be delivered: {why}")


def _unsent(error: Exception) -> bool:
    """Whether an error says that nothing can have arrived."""
    return isinstance(error, PlatformError | ConnectionRefusedError)


def _marked(text: str) -> str:
    """A text that may have arrived before, and says so."""
    return f"↻ {text}" if text else text
