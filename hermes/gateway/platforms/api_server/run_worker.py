"""Sees runs to their ends: work that stands in the store, which goes on over restarts and over sessions that break."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
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
from hermes.gateway.platforms.api_server.run_events import Log
from hermes.gateway.platforms.api_server.turns import Speech, Turn, Turns
from hermes.gateway.request_sessions import Front, Wish
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound

_LOG = logging.getLogger(__name__)
_KEPT = 256
"""Runs that have ended whose events are still held."""
_LISTEN_SECONDS = 3_600.0
_PAUSES = (0.5, 2.0, 10.0, 0.0)
"""Seconds before a run is gone on with whose session broke, time after time."""
_SHOWN = ToolStarted | ToolEnded | Refused | ApprovalAsked | ApprovalAnswered | Notice | Queued


class End(Struct, frozen=True):
    """How a run ended: completed, stopped or failed, and by which reason of a turn."""

    state: str
    reason: str
    error: str = ""
    usage: Usage | None = None


class Plan(Struct, frozen=True):
    """How a run is worked on: its session, what it counts as while it is, and whether somebody can be asked."""

    wish: Wish
    seat: AbstractContextManager[None]
    asks: bool = False


class Run:
    """A run while it is at work, and for a while behind that."""

    def __init__(self, run_id: str) -> None:
        self.log = Log(run_id)
        self.turn: Turn | None = None
        self.asked: dict[str, ApprovalAsked] = {}
        """What it asks, and nobody has answered."""
        self.stopped = False

    @property
    def begun(self) -> bool:
        """Whether its turn has begun."""
        return self.turn is not None and bool(self.turn.turn_id)

    def stop(self) -> None:
        """Stop it, now or as soon as it begins."""
        self.stopped = True
        if self.turn is not None:
            self.turn.stop()

    def hear(self, event: Event) -> None:
        """Note what happens."""
        if isinstance(event, ApprovalAsked):
            self.asked[event.approval_id] = event
        elif isinstance(event, ApprovalAnswered):
            self.asked.pop(event.approval_id, None)
        if isinstance(event, _SHOWN):
            self.log.add(f"run.{event.__struct_config__.tag}", event)


class Worker:
    """The runs at work. `plan` says how one is worked on, None where nobody may any more; `settle` is done with each
    when its end is known and before it is noted, again after a kill between the two."""

    def __init__(
        self,
        front: Front,
        turns: Turns,
        plan: Callable[[RunRow], Plan | None],
        settle: Callable[[RunRow, End], Awaitable[None]],
    ) -> None:
        self._front = front
        self._turns = turns
        self._plan = plan
        self._settle = settle
        self._store = front.app.premises.store
        self._chats = self._store.chats
        self._live: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: deque[str] = deque()
        self._ending = False

    def live(self, run_id: str) -> Run | None:
        """A run at work, or one that has ended just now."""
        return self._live.get(run_id)

    async def recover(self, account: str) -> None:
        """Go on with the runs of an account that the process before left."""
        self._ending = False
        for row in await self._chats.open_runs():
            if row.owner.startswith(f"{account}:") and row.id not in self._live:
                self.start(row)

    def start(self, row: RunRow) -> None:
        """See a run to its end from now on."""
        live = self._live[row.id] = Run(row.id)
        task = asyncio.create_task(self._work(live, row), name=f"run {row.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self) -> None:
        """Begin nothing again: the gateway ends."""
        self._ending = True

    async def close(self) -> None:
        """Stop waiting for runs: they go on at the next start."""
        self._ending = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _work(self, live: Run, row: RunRow) -> None:
        """See a run to its end, and note that. A session that broke is opened again."""
        end = End("failed", ExitReason.LOCAL_ERROR.value, "The run could not go on.")
        for pause in _PAUSES:
            try:
                end = await self._tried(live, row)
                break
            except (_AgainError, StoreError) as error:
                end = structs.replace(end, error=str(error))
            except HermesError as error:
                end = structs.replace(end, error=str(error))
                break
            if self._ending:
                return  # it goes on at the next start
            await asyncio.sleep(pause)
        live.asked.clear()
        usage = msgspec.json.encode(end.usage) if end.usage is not None else None
        now = self._front.app.premises.clock.now()
        ended = structs.replace(
            await self._chats.run(row.owner, row.id) or row,
            state=end.state,
            reason=end.reason,
            error=end.error,
            usage=usage,
            ended_at=now,
        )
        for pause in _PAUSES:
            try:
                await self._settle(ended, end)
                await self._chats.end_run(row.id, end.state, reason=end.reason, error=end.error, usage=usage)
                break
            except StoreError as error:
                _LOG.warning("the end of the run %s could not be noted: %s", row.id, error)
            await asyncio.sleep(pause)
        live.log.close()
        self._over.append(row.id)
        while len(self._over) > _KEPT:
            self._live.pop(self._over.popleft(), None)

    async def _tried(self, live: Run, row: RunRow) -> End:
        fresh, plan = await self._chats.run(row.owner, row.id), self._plan(row)
        if fresh is None or plan is None:
            raise NotFoundError("Whose run it is, or its session, is not there any more.")
        if fresh.ended_at is not None:
            return End(fresh.state, fresh.reason, fresh.error)
        known = await self._store.turn(fresh.turn_id) if fresh.turn_id else None
        if known is not None and known.ended_at is not None:
            return _end_of(ExitReason(known.reason), known.error, known.usage)

        async def post(actor: SessionActor) -> "asyncio.Future[TurnEnded]":
            return await self._said(actor, row, begun=known is not None)

        with plan.seat:
            live.turn = await self._turns.begin(plan.wish, post, asks=plan.asks)
            if live.stopped:
                live.turn.stop()
            ended = await _heard(live, live.turn)
        return _end_of(ended.reason, ended.error, ended.usage)

    async def _said(self, actor: SessionActor, row: RunRow, *, begun: bool) -> "asyncio.Future[TurnEnded]":
        """The end of the turn that answers a run's words: one that a process left, one that waits, or a fresh one."""
        known = actor.resume("" if begun else row.letter_id)
        if known is not None:
            return known
        if begun:
            raise _AgainError("The turn of this run is gone on with elsewhere.")
        for letter in await self._store.inbox(row.session_id):
            if letter.id == row.letter_id:
                return actor.forward(row.letter_id, Inbound.decode(letter.body))
        raise _AgainError("What this run says to its session is not there any more.")


class _AgainError(HermesError):
    """It is tried once more."""


async def _heard(live: Run, turn: Turn) -> TurnEnded:
    """Take what happens into the log, to the end."""
    speech = Speech(turn)
    async for piece in speech.pieces(_LISTEN_SECONDS):
        if isinstance(piece, str):
            live.log.add("run.text_delta", {"text": piece})
        elif piece is not None:
            live.hear(piece)
    assert speech.ended is not None
    return speech.ended


def _end_of(reason: ExitReason, error: str, usage: Usage | None) -> End:
    state = "completed" if reason.completed else "stopped" if reason is ExitReason.INTERRUPTED else "failed"
    return End(state, reason.value, error, usage)
