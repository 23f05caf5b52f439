"""Lets jobs run when they are due. Any number of processes may do this on one store: each instant is run once.

One tick accounts for what is due, settles what dead processes left, begins what waits for a run, and delivers what is
owed. An idle one reads a row of indexes.
"""

import asyncio
import logging

from msgspec import structs

from hermes.core.errors import BusyError, HermesError
from hermes.cron.delivery import Deliveries
from hermes.cron.due import plan
from hermes.cron.execution import LEASE, Execution, Means
from hermes.cron.job import Job, readable
from hermes.i18n.messages import phrase
from hermes.store.jobs import KEEP, Accounting, End, Glance, InstantRow, InstantState, JobRow
from hermes.util.process_identity import is_alive

POLL = 15.0
"""Seconds between ticks at most: so soon a jump of the clock is seen, and what another process has changed."""
MOST_RUNNING = 4
_LATER = 3_600.0
"""Seconds after which a job that cannot be read is looked at again."""
_TRIES = 3
"""How often an instant of a repeatable job is begun."""
_AT_ONCE = 100
"""Jobs that are looked at in one go."""
_LOG = logging.getLogger(__name__)


class Scheduler:
    """Made by whoever runs jobs. `run` ticks until it is cancelled, which ends the runs too; or `tick` by hand, and
    `close` at the end."""

    def __init__(self, means: Means, *, most_running: int = MOST_RUNNING, keep: int = KEEP) -> None:
        self._means = means
        self._most = most_running
        self._keep = keep
        self._running: dict[tuple[str, float], asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._deliveries = Deliveries(means, self._is_abandoned)

    def changed(self) -> None:
        """A job was made or changed in this process: look again at once."""
        self._news.set()

    @property
    def running(self) -> int:
        """How many jobs this process runs now."""
        return len(self._running)

    async def run(self) -> None:
        """Tick whenever something is due, until cancelled."""
        try:
            while True:
                self._news.clear()
                pause = POLL
                try:
                    glance = await self.tick()
                    if glance.wake_at is not None:
                        pause = min(POLL, max(0.0, glance.wake_at - self._means.clock.now()))
                except HermesError as error:
                    _LOG.error("jobs could not be looked at: %s", error)
                await self._pause(pause)
        finally:
            await self.close()

    async def tick(self) -> Glance:
        """Do all that is to do now; what there is to wait for."""
        store = self._means.store
        glance = await store.glance()
        if glance.wake_at is not None and glance.wake_at <= self._means.clock.now():
            await self._account()
            glance = await store.glance()
        if glance.open:
            await self._settle_abandoned()
            await self._begin()
        if glance.owed:
            await self._deliveries.deliver()
        return glance

    async def drain(self) -> None:
        """Tick and wait until nothing runs here any more and nothing follows from what ran. Not beside `run`."""
        self._news.set()
        while self._running or self._news.is_set():
            self._news.clear()
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

    async def run_now(self, job: Job) -> InstantRow:
        """Run a job once, at this moment and in this process, whatever its schedule says; its row in the end.

        Raises BusyError when it runs already.
        """
        store, now = self._means.store, self._means.clock.now()
        at = await store.add_by_hand(job.id, round(now, 3))
        task = await self._begun(job, at)
        if task is None:
            await store.skip_instant(job.id, at, phrase("an earlier run was still going on"))
            raise BusyError(
                phrase("The job {name} runs already.", name=job.name), phrase("`hermes cron stop` ends its run.")
            )
        await asyncio.wait({task})
        await self._deliveries.deliver(job)
        row = await store.instant(job.id, at)
        assert row is not None
        return row

    async def _account(self) -> None:
        """Give every instant that is due its row."""
        means = self._means
        now = means.clock.now()
        seen: set[str] = set()
        while rows := [row for row in await means.store.due_jobs(now, _AT_ONCE) if row.id not in seen]:
            seen.update(row.id for row in rows)
            await asyncio.gather(*(self._caught_up(row, now) for row in rows))

    async def _caught_up(self, row: JobRow, now: float) -> None:
        step: JobRow | None = row
        while step is not None:
            step = await self._step(step, now)

    async def _step(self, row: JobRow, now: float) -> JobRow | None:
        """One step of a job's cursor; the job as it stands then when there is more to do."""
        job = readable(row)
        try:
            found = plan(job, now) if job is not None else None
        except (ValueError, OverflowError) as error:  # an instant beyond the calendar
            _LOG.error("the job %s cannot be planned: %s", row.name, error)
            found = None
        if job is None or found is None:
            await self._means.store.change_job(structs.replace(row, wake_at=now + _LATER))
            return None
        wake = None if found.next_at is None else found.next_at + job.offset
        step = Accounting(
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
        moved = await self._means.store.account(step)
        return structs.replace(row, next_at=found.next_at, wake_at=wake) if moved and found.more else None

    async def _settle_abandoned(self) -> None:
        """Instants whose process died: they have failed, or wait for a run again."""
        store = self._means.store
        for row in await store.open_instants():
            if row.state is not InstantState.CLAIMED or not self._is_abandoned(row):
                continue
            job = await self._job(row.job_id)
            if job is None:
                end = End(state=InstantState.FAILED, reason=phrase("the process ended"))
                await store.end_instant(row.job_id, row.at, fence=row.fence, end=end)
            elif job.spec.repeatable and row.fence < _TRIES:
                await store.release_instant(row.job_id, row.at, fence=row.fence)
            else:
                await Execution(self._means, job, row.at, row.fence).lost()

    async def _begin(self) -> None:
        """Begin what waits, as far as there is room."""
        rows = await self._means.store.open_instants()
        busy = {row.job_id for row in rows if row.state is InstantState.CLAIMED}
        first: dict[str, InstantRow] = {}
        for row in rows:
            if row.state is InstantState.DUE and row.job_id not in busy:
                first.setdefault(row.job_id, row)
        room = max(0, self._most - len(self._running))
        await asyncio.gather(*(self._begun_if_there(row) for row in list(first.values())[:room]))

    async def _begun_if_there(self, row: InstantRow) -> None:
        job = await self._job(row.job_id)
        if job is not None:
            await self._begun(job, row.at)

    async def _begun(self, job: Job, at: float) -> "asyncio.Task[None] | None":
        means = self._means
        fence = await means.store.claim_instant(job.id, at, owner=means.owner, until=means.clock.now() + LEASE)
        if fence is None:
            return None
        execution = Execution(means, job, at, fence)
        task = asyncio.create_task(execution.run(), name=f"instant of {job.name}")
        self._running[job.id, at] = task
        task.add_done_callback(lambda done: self._ended(job, at, done))
        await asyncio.sleep(0)  # a task that is cancelled before its first step could not say how it ended
        return task

    def _ended(self, job: Job, at: float, task: "asyncio.Task[None]") -> None:
        del self._running[job.id, at]
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("the end of the job %s could not be written", job.name, exc_info=error)
        self._news.set()

    def _is_abandoned(self, row: InstantRow) -> bool:
        """Whether the process that has claimed a row is gone. Its lease counts only where it is not seen to run."""
        now = self._means.clock.now()
        if now < row.until <= now + LEASE:  # what is further off than any lease was written by another clock
            return False
        if row.owner == self._means.owner:
            return (row.job_id, row.at) not in self._running
        return not is_alive(row.owner.partition(" ")[0])

    async def _job(self, job_id: str) -> Job | None:
        row = await self._means.store.job(job_id)
        return readable(row) if row is not None else None

    async def _pause(self, seconds: float) -> None:
        """Sleep, or less when there is news."""
        waiting = {
            asyncio.create_task(self._means.clock.sleep(seconds), name="jobs sleep"),
            asyncio.create_task(self._news.wait(), name="jobs news"),
        }
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
