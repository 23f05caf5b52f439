"""The order in which sub-agents of a session begin: only so many at once, and the first of a call before the others."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from hermes.sessions.sub_agents.run import SubAgentRun
from hermes.store.sub_agents import ReportDelivery, SubAgentRow
from hermes.util.cancellation import cancel_tasks

_LOG = logging.getLogger(__name__)
_LEADER_SECONDS = 20.0
"""Seconds that the others of a call wait at most for the first answer of the first one to begin."""


class SubAgentBatch:
    """The sub-agents of one call."""

    def __init__(self, rows: Sequence[SubAgentRow], runs: Sequence[SubAgentRun], at_once: int = 0) -> None:
        self.at_once = at_once
        """How many of them work at the same time whatever others do, and none before another; 0: as all others."""
        self.rows = tuple(rows)
        self.runs = tuple(runs)
        self.is_orphaned = False
        """Whether the call that waited for it is over, so that nobody wants its reports."""
        self.wakes = True
        """Whether its reports wake the parent."""
        self._leads_until = 0.0
        """Until when the others wait for the first one, by the loop's clock; 0 before that has begun to work."""

    @property
    def is_awaited(self) -> bool:
        """Whether a call of the parent's waits for it."""
        return self.rows[0].delivery is ReportDelivery.AWAITED

    @property
    def has_ended(self) -> bool:
        """Whether all of them have ended, and whoever waits was told."""
        return all(run.ended.is_set() for run in self.runs)

    def stop(self) -> None:
        """Stop all of them; a second time gives their running tools no time."""
        for run in self.runs:
            if not run.ended.is_set():
                run.stop()

    async def wait(self) -> None:
        """Wait until all of them have ended."""
        for run in self.runs:
            await run.ended.wait()

    def note_beginning(self, run: SubAgentRun, until: float) -> None:
        """Note that one of them begins; the first makes the others wait, until then at most."""
        if run is self.runs[0]:
            self._leads_until = until

    def may_begin(self, run: SubAgentRun, now: float) -> bool:
        """Return whether one of them may begin: the first, and the others once its answer has begun, since a provider's
        cache then holds the prompt that they share.
        """
        leader = self.runs[0]
        if self.at_once or run is leader or leader.has_begun_answering or leader.ended.is_set() or run.is_stopping:
            return True
        return bool(self._leads_until) and now >= self._leads_until


class SubAgentQueue:
    """The sub-agents of one session that wait or work."""

    def __init__(self, find_limit: Callable[[], int], report_failure: Callable[[BaseException], None]) -> None:
        self.batches: list[SubAgentBatch] = []
        self.finished = asyncio.Event()
        """Set while none works and every report is delivered."""
        self.finished.set()
        self._find_limit = find_limit
        self._report_failure = report_failure
        self._waiting: deque[tuple[SubAgentBatch, SubAgentRun]] = deque()
        self._tasks: dict[SubAgentRun, asyncio.Task[None]] = {}
        self._is_closed = False
        self.is_held = False
        """Whether none begins for now, since nobody follows the session yet."""

    @property
    def runs(self) -> list[SubAgentRun]:
        """Those that wait or work."""
        return [run for batch in self.batches for run in batch.runs if not run.ended.is_set()]

    def add(self, batch: SubAgentBatch) -> None:
        """Queue the sub-agents of a call, without those that have ended."""
        self.batches.append(batch)
        self.finished.clear()
        for run in batch.runs:
            if run.row.ended_at is not None:
                run.state = run.row.state
                run.ended.set()
                continue
            run.on_begun.append(self.begin_next)
            self._waiting.append((batch, run))
        self.begin_next()

    def remove(self, batch: SubAgentBatch) -> None:
        """Forget a call whose reports are delivered."""
        if batch in self.batches:
            self.batches.remove(batch)
        if not self.batches:
            self.finished.set()

    def begin_next(self) -> None:
        """Begin as many of the waiting as there are places for; those that are to be stopped need none, nor do those
        that a person has asked for.
        """
        if self._is_closed or self.is_held:
            return
        now = asyncio.get_running_loop().time()
        places = {one: one.at_once - self._count_working(one) for one in self.batches if one.at_once}
        shared = self._find_limit() - sum(self._count_working(one) for one in self.batches if not one.at_once)
        held: list[tuple[SubAgentBatch, SubAgentRun]] = []
        while self._waiting:
            batch, run = self._waiting.popleft()
            if not run.is_stopping and (places.get(batch, shared) <= 0 or not batch.may_begin(run, now)):
                held.append((batch, run))
                continue
            if batch in places:
                places[batch] -= 1
            else:
                shared -= 1
            self._begin(batch, run, now)
        self._waiting.extend(held)

    def _count_working(self, batch: SubAgentBatch) -> int:
        return sum(run in self._tasks for run in batch.runs)

    async def close(self) -> None:
        """Begin nothing more, and leave those that work as they are."""
        self._is_closed = True
        self._waiting.clear()
        await cancel_tasks(self._tasks.values())

    def _begin(self, batch: SubAgentBatch, run: SubAgentRun, now: float) -> None:
        batch.note_beginning(run, now + _LEADER_SECONDS)
        if run is batch.runs[0] and len(batch.runs) > 1:
            asyncio.get_running_loop().call_later(_LEADER_SECONDS, self.begin_next)
        task = self._tasks[run] = asyncio.create_task(run.work(), name=f"sub-agent {run.row.session_id}")
        task.add_done_callback(partial(self._on_task_done, run))

    def _on_task_done(self, run: SubAgentRun, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(run, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("the end of sub-agent %s could not be stored", run.row.session_id, exc_info=error)
            run.ended.set()  # whoever waits goes on; its row stays open, and the next process settles it
            self._report_failure(error)
        self._forget_undelivered()
        self.begin_next()

    def _forget_undelivered(self) -> None:
        """Forget calls whose reports could not be delivered, so that nobody waits for that; the next process can."""
        for batch in [*self.batches]:
            if (batch.is_orphaned or not batch.is_awaited) and batch.has_ended:
                self.remove(batch)
