"""The scheduler: runs jobs when they are due. Any number of processes may do this on one store: each instant runs once.

One tick accounts for what is due, settles what dead processes left, begins what waits for a run, and delivers pending
output. An idle one reads a row of indexes.
"""

import asyncio
import logging

from msgspec import structs

from hermes.core.errors import BusyError, HermesError
from hermes.cron.delivery import JobDeliveryQueue
from hermes.cron.due import plan_due
from hermes.cron.execution import LEASE, JobExecution, JobRunDeps
from hermes.cron.job import CronJob, try_parse_job
from hermes.i18n.messages import N_
from hermes.store.jobs import MAX_HISTORY, CursorAdvance, InstantEnd, InstantRow, InstantState, JobRow, PendingJobs
from hermes.util.process_identity import is_alive

MAX_TICK_SECONDS = 15.0
"""Seconds between ticks at most: so soon a clock change, or a change by another process, is noticed."""
MAX_RUNNING = 4
_RETRY_UNREADABLE = 3_600.0
"""Seconds after which a job that cannot be read is tried again."""
_MAX_ATTEMPTS = 3
"""The number of times an instant of a repeatable job is begun."""
_BATCH_SIZE = 100
"""The number of jobs that are handled in one go."""
_LOG = logging.getLogger(__name__)


class JobScheduler:
    """Runs due jobs. `run` ticks until it is cancelled, which ends the runs too; or call `tick` by hand, and
    `close` at the end.
    """

    def __init__(self, deps: JobRunDeps, *, most_running: int = MAX_RUNNING, keep: int = MAX_HISTORY) -> None:
        self._deps = deps
        self._most = most_running
        self._keep = keep
        self._running: dict[tuple[str, float], asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._deliveries = JobDeliveryQueue(deps, self._is_abandoned)

    def notify_changed(self) -> None:
        """Wake the scheduler: a job was made or changed in this process."""
        self._wake.set()

    @property
    def running(self) -> int:
        """The number of jobs that this process runs now."""
        return len(self._running)

    async def run(self) -> None:
        """Tick whenever something is due, until cancelled."""
        try:
            while True:
                self._wake.clear()
                pause = MAX_TICK_SECONDS
                try:
                    glance = await self.tick()
                    if glance.wake_at is not None:
                        pause = min(MAX_TICK_SECONDS, max(0.0, glance.wake_at - self._deps.clock.now()))
                except HermesError as error:
                    _LOG.error("jobs could not be looked at: %s", error)
                await self._sleep_until_news(pause)
        finally:
            await self.close()

    async def tick(self) -> PendingJobs:
        """Do all that is to do now; return what there is to wait for."""
        store = self._deps.store
        glance = await store.check_pending_jobs()
        if glance.wake_at is not None and glance.wake_at <= self._deps.clock.now():
            await self._account_due()
            glance = await store.check_pending_jobs()
        if glance.open:
            await self._settle_abandoned()
            await self._begin_waiting()
        if glance.owed:
            await self._deliveries.deliver_pending()
        return glance

    async def run_until_empty(self) -> None:
        """Tick and wait until nothing runs here any more and nothing follows from what ran. Not beside `run`."""
        self._wake.set()
        while self._running or self._wake.is_set():
            self._wake.clear()
            if self._running:
                await asyncio.wait(set(self._running.values()))
            await self.tick()

    async def idle(self) -> None:
        """Wait until nothing runs here."""
        while self._running:
            await asyncio.wait(set(self._running.values()))

    async def close(self) -> None:
        """End all runs by name."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def run_now(self, job: CronJob) -> InstantRow:
        """Run a job once, now and in this process, whatever its schedule says; return its row in the end.

        Raises BusyError when it runs already.
        """
        store, now = self._deps.store, self._deps.clock.now()
        at = await store.add_manual_instant(job.id, round(now, 3))
        task = await self._begin_run(job, at)
        if task is None:
            await store.skip_instant(job.id, at, N_("an earlier run was still going on"))
            raise BusyError(N_("The job {name} runs already.", name=job.name), N_("`hermes cron stop` ends its run."))
        await asyncio.wait({task})
        await self._deliveries.deliver_pending(job)
        row = await store.get_instant(job.id, at)
        assert row is not None
        return row

    async def _account_due(self) -> None:
        """Give every due instant its row."""
        deps = self._deps
        now = deps.clock.now()
        seen: set[str] = set()
        while rows := [row for row in await deps.store.list_due_jobs(now, _BATCH_SIZE) if row.id not in seen]:
            seen.update(row.id for row in rows)
            await asyncio.gather(*(self._catch_up_job(row, now) for row in rows))

    async def _catch_up_job(self, row: JobRow, now: float) -> None:
        step: JobRow | None = row
        while step is not None:
            step = await self._advance_job(step, now)

    async def _advance_job(self, row: JobRow, now: float) -> JobRow | None:
        """Advance a job's cursor by one step; return the job's row when there is more to do, else None."""
        job = try_parse_job(row)
        try:
            found = plan_due(job, now) if job is not None else None
        except (ValueError, OverflowError) as error:  # an instant beyond the calendar
            _LOG.error("the job %s cannot be planned: %s", row.name, error)
            found = None
        if job is None or found is None:
            await self._deps.store.update_job(structs.replace(row, wake_at=now + _RETRY_UNREADABLE))
            return None
        wake = None if found.next_at is None else found.next_at + job.offset
        step = CursorAdvance(
            job_id=row.id,
            version=row.version,
            expecting=row.next_at or 0.0,
            rows=found.rows,
            next_at=found.next_at,
            wake_at=wake,
            overlap=job.spec.overlap,
            repeat=job.spec.repeat,
            keep=self._keep,
        )
        moved = await self._deps.store.advance_cursor(step)
        return structs.replace(row, next_at=found.next_at, wake_at=wake) if moved and found.more else None

    async def _settle_abandoned(self) -> None:
        """Settle instants whose process died: they have failed, or wait for a run again."""
        store = self._deps.store
        for row in await store.list_open_instants():
            if row.state is not InstantState.CLAIMED or not self._is_abandoned(row):
                continue
            job = await self._load_job(row.job_id)
            if job is None:
                end = InstantEnd(state=InstantState.FAILED, reason=N_("the process ended"))
                await store.end_instant(row.job_id, row.at, fence=row.fence, end=end)
            elif job.spec.repeatable and row.fence < _MAX_ATTEMPTS:
                await store.release_instant(row.job_id, row.at, fence=row.fence)
            else:
                await JobExecution(self._deps, job, row.at, row.fence).end_lost()

    async def _begin_waiting(self) -> None:
        """Begin waiting instants, as far as there is room."""
        rows = await self._deps.store.list_open_instants()
        busy = {row.job_id for row in rows if row.state is InstantState.CLAIMED}
        first: dict[str, InstantRow] = {}
        for row in rows:
            if row.state is InstantState.DUE and row.job_id not in busy:
                first.setdefault(row.job_id, row)
        room = max(0, self._most - len(self._running))
        await asyncio.gather(*(self._begin_instant(row) for row in list(first.values())[:room]))

    async def _begin_instant(self, row: InstantRow) -> None:
        job = await self._load_job(row.job_id)
        if job is not None:
            await self._begin_run(job, row.at)

    async def _begin_run(self, job: CronJob, at: float) -> "asyncio.Task[None] | None":
        deps = self._deps
        fence = await deps.store.claim_instant(job.id, at, owner=deps.owner, until=deps.clock.now() + LEASE)
        if fence is None:
            return None
        execution = JobExecution(deps, job, at, fence)
        task = asyncio.create_task(execution.run(), name=f"instant of {job.name}")
        self._running[job.id, at] = task
        task.add_done_callback(lambda done: self._on_run_end(job, at, done))
        await asyncio.sleep(0)  # a task that is cancelled before its first step could not say how it ended
        return task

    def _on_run_end(self, job: CronJob, at: float, task: "asyncio.Task[None]") -> None:
        del self._running[job.id, at]
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("the end of the job %s could not be written", job.name, exc_info=error)
        self._wake.set()

    def _is_abandoned(self, row: InstantRow) -> bool:
        """Return whether the process that has claimed a row is gone. Its lease counts only where it is not
        seen to run.
        """
        now = self._deps.clock.now()
        if now < row.until <= now + LEASE:  # what is further off than any lease was written by another clock
            return False
        if row.owner == self._deps.owner:
            return (row.job_id, row.at) not in self._running
        return not is_alive(row.owner.partition(" ")[0])

    async def _load_job(self, job_id: str) -> CronJob | None:
        row = await self._deps.store.get_job(job_id)
        return try_parse_job(row) if row is not None else None

    async def _sleep_until_news(self, seconds: float) -> None:
        """Sleep, or less when the scheduler is woken."""
        waiting = {
            asyncio.create_task(self._deps.clock.sleep(seconds), name="jobs sleep"),
            asyncio.create_task(self._wake.wait(), name="jobs news"),
        }
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
