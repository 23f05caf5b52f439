"""The outbox: messages to chats, sent in order until the platform has them or they are given up.

Everything that is sent is a row first (`store/outbox.py`). A row is `attempting` while the platform has it: one
that is found so after a restart may have arrived, and is treated as the platform allows (`Resend`).
"""

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from hermes.core.chats import Delivery, DeliveryState, OutboxItem
from hermes.core.errors import StoreError
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.platform import PlatformError, Resend, SendError, SendFault
from hermes.gateway.telemetry import Telemetry
from hermes.i18n.messages import tr
from hermes.sessions.app import App
from hermes.util.cancellation import cancel_tasks

_LOG = logging.getLogger(__name__)
MAX_CONCURRENT_SENDS = 16
"""Messages that one account sends at once, each to another chat."""
SEND_SECONDS = 120.0
"""How long the platform may take with one message, large files included."""
GIVE_UP_SECONDS = 24 * 3600.0
"""Seconds after which an unsent message is given up."""
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 300.0
_STORE_PAUSE = 10.0
_ROWS_AT_ONCE = 32
_PERMANENT_FAULTS = frozenset({SendFault.FORBIDDEN, SendFault.NOT_FOUND})


class SendState(StrEnum):
    """The outcome of sending a message, as far as it is known within some seconds."""

    DELIVERED = "delivered"
    STORED = "stored"
    """It is retried until it is delivered or given up."""
    REFUSED = "refused"


class SendOutcome(Struct, frozen=True):
    """What became of messages, and why where they were not delivered."""

    state: SendState
    why: str = ""


class Outbox:
    """Sends the messages that are due, and retries them until they are delivered or given up."""

    def __init__(self, app: App, accounts: Mapping[str, PlatformAccount], telemetry: Telemetry) -> None:
        self._store = app.services.store
        self._clock = app.services.clock
        self._accounts = accounts
        self._telemetry = telemetry
        self._report = telemetry.report_line
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._wake_events: dict[str, asyncio.Event] = {}
        self._send_slots: dict[str, asyncio.Semaphore] = {}
        self._paused: dict[str, float] = {}
        """By account, the time on the loop's clock until which its platform asked to send nothing."""
        self._awaited: dict[str, asyncio.Future[str]] = {}
        """By key, what waits for the end of a delivery: empty when it was delivered, else why it was not."""
        self.sent = 0
        self.failed = 0

    async def start_account(self, platform: str) -> None:
        """Send what is left in an account's outbox from before."""
        for lane in await self._store.outbox.list_pending_lanes(platform):
            self.wake_lane(lane)

    async def enqueue(self, items: Sequence[OutboxItem], *, answered: str = "", outcome: str = "answered") -> None:
        """Store messages to send, and send them; `answered` as in the store."""
        await self._store.outbox.enqueue(items, answered=answered, outcome=outcome)
        for lane in {one.message.place.lane for one in items}:
            self.wake_lane(lane)

    async def enqueue_and_wait(self, items: Sequence[OutboxItem], seconds: float) -> SendOutcome:
        """Send messages, and wait at most so long until the platform has taken or refused all of them."""
        loop = asyncio.get_running_loop()
        ends = {one.key: loop.create_future() for one in items}
        self._awaited |= ends
        try:
            await self.enqueue(items)
            await asyncio.wait(ends.values(), timeout=seconds)
        finally:
            for key in ends:
                del self._awaited[key]
        refused = [one.result() for one in ends.values() if one.done() and one.result()]
        if refused:
            return SendOutcome(SendState.REFUSED, refused[0])
        waiting = [one.message.place.platform for one in items if not ends[one.key].done()]
        why = next((self._accounts[name].last_problem for name in waiting if name in self._accounts), "")
        return SendOutcome(SendState.STORED if waiting else SendState.DELIVERED, why)

    def wake_lane(self, lane: str) -> None:
        """Have the due messages of a lane sent."""
        self._wake_events.setdefault(lane, asyncio.Event()).set()
        if lane not in self._lanes:
            self._lanes[lane] = asyncio.create_task(self._run_lane(lane), name=f"outbox {lane}")

    async def flush_lane(self, lane: str, seconds: float) -> None:
        """Send what waits in a lane, which another process may have stored, and wait at most so long for it."""
        self.wake_lane(lane)
        await asyncio.wait({self._lanes[lane]}, timeout=seconds)

    def is_sending(self, lane: str) -> bool:
        """Return whether something is about to be sent in a lane."""
        return lane in self._lanes

    async def wait_until_idle(self, seconds: float) -> bool:
        """Wait until nothing is about to be sent; return False when that takes longer."""
        try:
            async with asyncio.timeout(seconds):
                while self._lanes:
                    await asyncio.wait(self._lanes.values())
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Stop sending; unsent messages stay in the outbox."""
        await cancel_tasks(self._lanes.values())

    async def _run_lane(self, lane: str) -> None:
        news = self._wake_events[lane]
        try:
            while news.is_set():
                news.clear()
                try:
                    await self._send_due(lane)
                except StoreError as error:  # what was begun is known by its row, which is read again
                    self._report(f"{lane}: {error}")
                    await asyncio.sleep(_STORE_PAUSE)
                    news.set()
        finally:
            del self._lanes[lane], self._wake_events[lane]

    async def _send_due(self, lane: str) -> None:
        are_more = True
        while are_more:
            rows = await self._store.outbox.list_due(lane, _ROWS_AT_ONCE)
            for row in rows:
                account = self._accounts.get(row.message.place.platform)
                if account is None:
                    return  # it is not set up now; the row waits until the account is back, or is given up
                await self._send_row(account, row)
            are_more = len(rows) == _ROWS_AT_ONCE  # what has come in meanwhile has woken the lane

    async def _send_row(self, account: PlatformAccount, row: Delivery) -> None:
        """Send one message, with its retries, or give it up."""
        left: Delivery | None = row
        while left is not None:
            await self._wait_until_due(account, left)
            if self._clock.now() - left.made_at > GIVE_UP_SECONDS:
                await self._give_up(left, tr("It could not be sent for a day: {why}", why=account.last_problem or "…"))
                return
            left = await self._attempt_send(account, left)

    async def _wait_until_due(self, account: PlatformAccount, row: Delivery) -> None:
        loop = asyncio.get_running_loop()
        while True:
            until = self._paused.get(account.name, 0.0) - loop.time()
            wait = max(until, row.next_at - self._clock.now())
            if wait <= 0:
                return
            await asyncio.sleep(min(wait, 60.0))

    async def _attempt_send(self, account: PlatformAccount, row: Delivery) -> Delivery | None:
        """Make one attempt; return None when the row has ended, else the row as it is to be retried."""
        room = self._send_slots.setdefault(account.name, asyncio.Semaphore(MAX_CONCURRENT_SENDS))
        try:
            async with room, asyncio.timeout(SEND_SECONDS):
                state, shown = await self._send_or_edit(account, row)
            await self._record_delivery(row, state, shown)
            return None
        except SendError as error:
            return await self._handle_failure(account, row, error)
        except (PlatformError, OSError, TimeoutError) as error:
            fault = SendError(SendFault.TRANSIENT, str(error) or type(error).__name__, uncertain=not _is_unsent(error))
            return await self._handle_failure(account, row, fault)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a platform's mistake must not hold up what comes behind it
            _LOG.exception("a message could not be sent")
            return await self._handle_failure(
                account, row, SendError(SendFault.UNKNOWN, type(error).__name__, uncertain=True)
            )

    async def _send_or_edit(self, account: PlatformAccount, row: Delivery) -> tuple[DeliveryState, str]:
        """Send or edit a message; return how certain it is that it is there once, and its id."""
        platform, message = account.platform, row.message
        known = row.message_id
        again = row.state is DeliveryState.ATTEMPTING and not known
        if again and account.can.resend is not Resend.BLIND:
            known = await self._find_sent_id(account, row)
        await self._store.outbox.mark_attempting(row.id)
        if known and (row.message_id or row.first is not None):
            await platform.edit(message, known)
            return DeliveryState.DELIVERED, known
        if known:
            return DeliveryState.DELIVERED, known
        if not again or account.can.resend is not Resend.BLIND:
            return DeliveryState.DELIVERED, await platform.send(message)
        message = structs.replace(message, text=_mark_as_resent(message.text))
        return DeliveryState.UNCERTAIN, await platform.send(message)

    async def _find_sent_id(self, account: PlatformAccount, row: Delivery) -> str:
        """Return the id of a message that may be on the platform already; empty when it is not there. A streamed
        message is looked for in the form that was shown first.
        """
        wanted = structs.replace(row.first or row.message, since=row.made_at)
        if account.can.resend is Resend.CHECK:
            found = await account.platform.find_sent(wanted) or ""
        else:
            found = await account.platform.send(wanted)  # the same key once more: the platform shows it once
        if found:
            await self._store.outbox.mark_shown(row.id, found)
        return found

    async def _handle_failure(self, account: PlatformAccount, row: Delivery, error: SendError) -> Delivery | None:
        """Retry a message that was not taken, or give it up; return the row as it is to be retried, or None."""
        doubtful = error.uncertain or row.state is DeliveryState.ATTEMPTING
        state = DeliveryState.ATTEMPTING if doubtful else DeliveryState.PENDING
        attempts = row.attempts + 1
        pause = min(_FIRST_PAUSE * 2 ** min(attempts, 12), _LONGEST_PAUSE) * random.uniform(0.75, 1.25)
        message = row.message
        match error.fault:
            case SendFault.RATE_LIMITED:
                pause = error.retry_after if error.retry_after is not None else pause
                self._paused[account.name] = asyncio.get_running_loop().time() + min(pause, 5.0)
            case SendFault.BAD_FORMAT if not message.plain:
                message, pause = structs.replace(message, plain=True), 0.0
            case SendFault.NOT_FOUND if row.message_id:
                # The message that was to be edited is gone: it is sent as a new one.
                await self._store.outbox.mark_shown(row.id, "")
                row, pause = structs.replace(row, message_id=""), 0.0
            case _ if error.fault in _PERMANENT_FAULTS or (error.fault is not SendFault.TRANSIENT and attempts >= 5):
                await self._give_up(row, str(error))
                return None
            case _:
                pass
        until = self._clock.now() + pause
        await self._store.outbox.postpone(row.id, until, str(error), message, state)
        return structs.replace(row, message=message, state=state, attempts=attempts, next_at=until)

    async def _record_delivery(self, row: Delivery, state: DeliveryState, message_id: str) -> None:
        while True:  # nobody else knows that it is there: tried from the start it would be there twice
            try:
                await self._store.outbox.settle(row.id, state, message_id=message_id)
                break
            except StoreError as error:
                self._report(f"{row.lane}: {error}")
                await asyncio.sleep(_STORE_PAUSE)
        self.sent += 1
        self._announce_end(row, "")
        self._count_delivery(row, state)

    def _count_delivery(self, row: Delivery, state: DeliveryState) -> None:
        self._telemetry.count_delivery(row.message.place.platform, row.lane, state, self._clock.now() - row.made_at)

    def _announce_end(self, row: Delivery, why: str) -> None:
        waiting = self._awaited.get(row.key)
        if waiting is not None and not waiting.done():
            waiting.set_result(why)

    async def _give_up(self, row: Delivery, why: str) -> None:
        await self._store.outbox.settle(row.id, DeliveryState.FAILED, error=why)
        self.failed += 1
        self._announce_end(row, why or tr("no reason was given"))
        self._count_delivery(row, DeliveryState.FAILED)
        self._report(f"{row.lane.rstrip(':')}: a message could not be delivered: {why}")


def _is_unsent(error: Exception) -> bool:
    """Return whether an error means that nothing can have arrived."""
    return isinstance(error, PlatformError | ConnectionRefusedError)


def _mark_as_resent(text: str) -> str:
    """Mark a text that may have arrived before."""
    return f"↻ {text}" if text else text
