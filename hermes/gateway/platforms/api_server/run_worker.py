"""The worker of runs: stored work that continues over restarts and over sessions that break.

The numbered events of a run, for programs that listen now, come late, or reconnect.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager

import msgspec
from msgspec import Struct, structs

from hermes.core.api import RunRow
from hermes.core.errors import HermesError, NotFoundError, StoreError
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Notice,
    Queued,
    Refused,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from hermes.core.outcomes import ExitReason
from hermes.core.usage import Usage
from hermes.gateway.platforms.api_server.turns import ApiTurn, ApiTurns, TurnStream
from hermes.gateway.request_sessions import GatewayFacade, SessionRequest
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage

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


_LOG = logging.getLogger(__name__)
_MAX_ENDED = 256
"""Ended runs whose events are still kept."""
_LISTEN_SECONDS = 3_600.0
_RETRY_PAUSES = (0.5, 2.0, 10.0, 0.0)
"""Seconds before each attempt to continue a run whose session broke."""
_LOGGED_EVENTS = ToolStarted | ToolEnded | Refused | ApprovalAsked | ApprovalAnswered | Notice | Queued


class RunOutcome(Struct, frozen=True):
    """The outcome of a run: completed, stopped or failed, and the turn's reason."""

    state: str
    reason: str
    error: str = ""
    usage: Usage | None = None


class RunPlan(Struct, frozen=True):
    """How a run is carried out: its session, its slot, and whether questions can be asked."""

    session_request: SessionRequest
    slot: AbstractContextManager[None]
    can_ask: bool = False


class LiveRun:
    """A run at work, and for a while after its end."""

    def __init__(self, run_id: str) -> None:
        self.event_log = RunEventLog(run_id)
        self.turn: ApiTurn | None = None
        self.open_approvals: dict[str, ApprovalAsked] = {}
        """The approval questions that nobody has answered."""
        self.stopped = False

    @property
    def has_begun(self) -> bool:
        """Whether its turn has begun."""
        return self.turn is not None and bool(self.turn.turn_id)

    def stop(self) -> None:
        """Stop the run, now or as soon as it begins."""
        self.stopped = True
        if self.turn is not None:
            self.turn.stop()

    def handle_event(self, event: Event) -> None:
        """Log an event, and note open approval questions."""
        if isinstance(event, ApprovalAsked):
            self.open_approvals[event.approval_id] = event
        elif isinstance(event, ApprovalAnswered):
            self.open_approvals.pop(event.approval_id, None)
        if isinstance(event, _LOGGED_EVENTS):
            self.event_log.add_event(f"run.{event.__struct_config__.tag}", event)


class RunWorker:
    """The runs at work. `plan` returns how one is carried out, None where that is not allowed any more;
    `settle` is called with each outcome before it is stored, again after a kill between the two.
    """

    def __init__(
        self,
        gateway: GatewayFacade,
        turns: ApiTurns,
        plan: Callable[[RunRow], RunPlan | None],
        settle: Callable[[RunRow, RunOutcome], Awaitable[None]],
    ) -> None:
        self._gateway = gateway
        self._turns = turns
        self._plan = plan
        self._settle = settle
        self._store = gateway.app.services.store
        self._live: dict[str, LiveRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended_ids: deque[str] = deque()
        self._ending = False

    def find_live(self, run_id: str) -> LiveRun | None:
        """Return a run at work, or one that has ended recently."""
        return self._live.get(run_id)

    async def recover_account(self, account: str) -> None:
        """Continue the runs of an account that the process before left."""
        self._ending = False
        for row in await self._store.api.list_open_runs():
            if row.owner.startswith(f"{account}:") and row.id not in self._live:
                self.start_run(row)

    def start_run(self, row: RunRow) -> None:
        """Carry out a run from now on."""
        live = self._live[row.id] = LiveRun(row.id)
        task = asyncio.create_task(self._carry_out(live, row), name=f"run {row.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def begin_shutdown(self) -> None:
        """Retry nothing from now on: the gateway ends."""
        self._ending = True

    async def close(self) -> None:
        """Stop waiting for runs: they continue at the next start."""
        self._ending = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _carry_out(self, live: LiveRun, row: RunRow) -> None:
        """Carry out a run, and store its outcome. A session that broke is reopened."""
        end = RunOutcome("failed", ExitReason.LOCAL_ERROR.value, "The run could not go on.")
        for pause in _RETRY_PAUSES:
            try:
                end = await self._attempt_run(live, row)
                break
            except (_RetryRunError, StoreError) as error:
                end = structs.replace(end, error=str(error))
            except HermesError as error:
                end = structs.replace(end, error=str(error))
                break
            if self._ending:
                return  # it goes on at the next start
            await asyncio.sleep(pause)
        live.open_approvals.clear()
        usage = msgspec.json.encode(end.usage) if end.usage is not None else None
        now = self._gateway.app.services.clock.now()
        ended = structs.replace(
            await self._store.api.get_run(row.owner, row.id) or row,
            state=end.state,
            reason=end.reason,
            error=end.error,
            usage=usage,
            ended_at=now,
        )
        for pause in _RETRY_PAUSES:
            try:
                await self._settle(ended, end)
                await self._store.api.end_run(row.id, end.state, reason=end.reason, error=end.error, usage=usage)
                break
            except StoreError as error:
                _LOG.warning("the end of the run %s could not be noted: %s", row.id, error)
            await asyncio.sleep(pause)
        live.event_log.close()
        self._ended_ids.append(row.id)
        while len(self._ended_ids) > _MAX_ENDED:
            self._live.pop(self._ended_ids.popleft(), None)

    async def _attempt_run(self, live: LiveRun, row: RunRow) -> RunOutcome:
        fresh, plan = await self._store.api.get_run(row.owner, row.id), self._plan(row)
        if fresh is None or plan is None:
            raise NotFoundError("Whose run it is, or its session, is not there any more.")
        if fresh.ended_at is not None:
            return RunOutcome(fresh.state, fresh.reason, fresh.error)
        known = await self._store.turns.get(fresh.turn_id) if fresh.turn_id else None
        if known is not None and known.ended_at is not None:
            return _outcome_from_turn(ExitReason(known.reason), known.error, known.usage)

        async def post_message(actor: SessionActor) -> "asyncio.Future[TurnEnded]":
            return await self._find_turn(actor, row, begun=known is not None)

        with plan.slot:
            live.turn = await self._turns.begin_turn(plan.session_request, post_message, can_ask=plan.can_ask)
            if live.stopped:
                live.turn.stop()
            ended = await _log_turn(live, live.turn)
        return _outcome_from_turn(ended.reason, ended.error, ended.usage)

    async def _find_turn(self, actor: SessionActor, row: RunRow, *, begun: bool) -> "asyncio.Future[TurnEnded]":
        """Return the future of the turn that answers a run's message: one that a process left, one that waits, or a
        fresh one.
        """
        known = actor.resume("" if begun else row.letter_id)
        if known is not None:
            return known
        if begun:
            raise _RetryRunError("The turn of this run is gone on with elsewhere.")
        for message in await self._store.inbox.list_waiting(row.session_id):
            if message.id == row.letter_id:
                return actor.forward(row.letter_id, InboundMessage.decode(message.body))
        raise _RetryRunError("What this run says to its session is not there any more.")


class _RetryRunError(HermesError):
    """The run is to be attempted again."""


async def _log_turn(live: LiveRun, turn: ApiTurn) -> TurnEnded:
    """Log the events of a turn to its end, and return it."""
    turn_stream = TurnStream(turn)
    async for piece in turn_stream.iter_pieces(_LISTEN_SECONDS):
        if isinstance(piece, str):
            live.event_log.add_event("run.text_delta", {"text": piece})
        elif piece is not None:
            live.handle_event(piece)
    assert turn_stream.ended is not None
    return turn_stream.ended


def _outcome_from_turn(reason: ExitReason, error: str, usage: Usage | None) -> RunOutcome:
    state = "completed" if reason.is_completed else "stopped" if reason is ExitReason.INTERRUPTED else "failed"
    return RunOutcome(state, reason.value, error, usage)
