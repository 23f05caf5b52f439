"""The scheduler: runs jobs when they are due. Any number of processes may do this on one store: each instant runs once.

One tick accounts for what is due, settles what dead processes left, begins what waits for a run, and delivers pending
output. An idle one reads a row of indexes.

Delivery of jobs' output to people: answers, failures, missed instants. It is retried until delivered.

Planning of due instants: which run, which are missed, and why. Pure.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from hermes.core.errors import BusyError, HermesError
from hermes.cron.execution import LEASE, JobExecution, JobRunDeps
from hermes.cron.job import CatchUp, CronJob, try_parse_job
from hermes.cron.jobs import list_delivery_targets
from hermes.cron.runner import can_reach_all
from hermes.i18n.formats import format_time
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.store.jobs import (
    MAX_HISTORY,
    CursorAdvance,
    InstantEnd,
    InstantRow,
    InstantState,
    JobDeliveryState,
    JobRow,
    NewInstant,
    PendingJobs,
)
from hermes.util.process_identity import is_alive
from hermes.util.text import strip_control_characters, to_one_line

GIVE_UP_AFTER = 7 * 86_400.0
"""Seconds after which an unreachable delivery is given up."""


_DELIVERY_BATCH_SIZE = 200


class JobDeliveryQueue:
    """Delivers pending output. `is_abandoned` returns whether the process that wanted to deliver a row is gone."""

    def __init__(self, deps: JobRunDeps, is_abandoned: Callable[[InstantRow], bool]) -> None:
        self._deps = deps
        self._is_abandoned = is_abandoned

    async def deliver_pending(self, job: CronJob | None = None) -> None:
        """Deliver what this process can; of one job, or of all."""
        missed: dict[str, list[tuple[CronJob, InstantRow]]] = {}
        for one in [job] if job is not None else await self._list_jobs():
            places = list_delivery_targets(one.spec)
            rows = await self._deps.store.list_undelivered_instants(one.id, _DELIVERY_BATCH_SIZE)
            if not await can_reach_all(self._deps.delivery, places):
                await self._give_up_old(rows)
                continue
            for row in rows:
                if not await self._claim_row(row):
                    continue
                if row.state is not InstantState.MISSED or not places:
                    await self._deliver_answer(one, row, places)
                    continue
                for place in places:
                    missed.setdefault(place, []).append((one, row))
        await self._deliver_missed(missed)

    async def _list_jobs(self) -> list[CronJob]:
        return [job for row in await self._deps.store.list_undelivered() if (job := try_parse_job(row)) is not None]

    async def _give_up_old(self, rows: Sequence[InstantRow]) -> None:
        """Give up what could not be delivered for a week: it would be no news."""
        before = self._deps.clock.now() - GIVE_UP_AFTER
        for row in rows:
            if (row.ended_at or row.at) < before:
                await self._settle_row(row, N_("nobody reached the platform for a week"))

    async def _claim_row(self, row: InstantRow) -> bool:
        if row.owner and row.owner != self._deps.owner and not self._is_abandoned(row):
            return False
        owner, until = self._deps.owner, self._deps.clock.now() + LEASE
        return await self._deps.store.claim_delivery(row, owner=owner, until=until)

    async def _deliver_answer(self, job: CronJob, row: InstantRow, places: Sequence[str]) -> None:
        text = await asyncio.to_thread(self._deps.outputs.read_output, row.output) if places else ""
        if text is None:
            await self._settle_row(row, N_("the file with its words is gone"))
            return
        wrong = [
            await self._send_text(place, text, f"cron:{job.id}:{row.at}:{place}", row.session_id) for place in places
        ]
        await self._settle_row(row, "; ".join(filter(None, wrong)))

    async def _deliver_missed(self, missed: dict[str, list[tuple[CronJob, InstantRow]]]) -> None:
        """Send everything that was missed as one message to each place."""
        failed: dict[tuple[str, float], str] = {}
        for place, found in missed.items():
            text = format_missed(found)
            first = found[0][1]
            wrong = await self._send_text(place, text, f"cron:missed:{first.job_id}:{first.at}:{place}")
            failed |= {(row.job_id, row.at): wrong for _, row in found if wrong}
        for row in {(row.job_id, row.at): row for found in missed.values() for _, row in found}.values():
            await self._settle_row(row, failed.get((row.job_id, row.at), ""))

    async def _send_text(self, place: str, text: str, key: str, session_id: str = "") -> str:
        """Send a text; return why that failed, empty when it was sent."""
        try:
            await self._deps.delivery.deliver(place, text, (), key=key, session_id=session_id)
        except HermesError as error:
            _LOG.warning("what a job said could not be delivered to %s: %s", place, error)
            return to_one_line(strip_control_characters(f"{place}: {error}"), 300)
        return ""

    async def _settle_row(self, row: InstantRow, wrong: str) -> None:
        delivery = JobDeliveryState.FAILED if wrong else JobDeliveryState.DELIVERED
        await self._deps.store.settle_delivery(row.job_id, (row.at,), delivery, wrong)


def format_missed(found: Sequence[tuple[CronJob, InstantRow]]) -> str:
    """Return a text of what was missed, a line for each job."""
    lines = [tr("These jobs were missed, because no gateway was running:")]
    by_job: dict[str, list[InstantRow]] = {}
    names = {job.id: job.name for job, _ in found}
    for _, row in found:
        by_job.setdefault(row.job_id, []).append(row)
    for job_id, rows in by_job.items():
        count = sum(row.instants for row in rows)
        first, last = format_time(rows[0].at), format_time(max(row.through for row in rows))
        when = first if count == 1 else tr("{first} to {last}", first=first, last=last)
        times = tr_plural("{n} time", "{n} times", count)
        lines.append(tr("- {name}: {times} ({when})", name=names[job_id], times=times, when=when))
    return "\n".join(lines)


MAX_STEP = 1_000
"""The number of instants handled in one step; where there are more, all but the newest become one row."""


_HELD_BACK = 100
"""The number of newest instants of a full step that wait for the next one: they may be among those that run."""


ONCE_GRACE = 120.0


_MIN_GRACE, _MAX_GRACE = 120.0, 7_200.0


class DuePlan(Struct, frozen=True):
    """Rows for the due instants, the job's cursor after them, and whether there may be more at once."""

    rows: tuple[NewInstant, ...]
    next_at: float | None
    more: bool = False


def plan_due(job: CronJob, now: float) -> DuePlan:
    """Plan a job's due instants at `now`; its cursor must be set."""
    assert job.row.next_at is not None
    due: list[float] = []
    following: float | None = job.row.next_at
    while following is not None and following + job.offset <= now and len(due) < MAX_STEP:
        due.append(following)
        following = job.schedule.next_after(following)
    if len(due) == MAX_STEP and following is not None and following + job.offset <= now:
        old, rest = due[:-_HELD_BACK], due[-_HELD_BACK]
        late = now - old[-1] - job.offset > get_grace(job, old[-1])
        must_tell = late and not job.spec.quiet
        row = NewInstant(
            at=old[0],
            through=old[-1],
            instants=len(old),
            state=InstantState.MISSED,
            reason=_explain_absent() if late else _explain_replaced(),
            owed=must_tell,
        )
        return DuePlan((row,), rest, more=True)
    return DuePlan(tuple(_make_rows(job, due, now)), following)


def _make_rows(job: CronJob, due: list[float], now: float) -> list[NewInstant]:
    if not due:
        return []
    late = [at for at in due if now - at - job.offset > get_grace(job, at)]
    chosen = _choose_instants(job, due, late)
    if job.spec.repeat is not None:
        chosen = chosen[: max(0, job.spec.repeat - job.row.begun)]
    wanted, lost = set(chosen), set(late)
    rows = []
    for at in due:
        if at in wanted:
            rows.append(NewInstant(at=at, state=InstantState.DUE))
        else:
            absent = at in lost
            reason = _explain_absent() if absent else _explain_replaced()
            rows.append(NewInstant(at=at, state=InstantState.MISSED, reason=reason, owed=absent and not job.spec.quiet))
    return rows


def _choose_instants(job: CronJob, due: list[float], late: list[float]) -> list[float]:
    """Return the instants that are run."""
    if job.spec.catch_up is CatchUp.ALL:
        return due[-max(1, min(job.spec.catch_up_limit, _HELD_BACK)) :]
    newest = due[-1:]
    return newest if job.spec.catch_up is CatchUp.LAST or newest[0] not in late else []


def get_grace(job: CronJob, at: float) -> float:
    """Return the seconds by which the run of an instant may be late."""
    if job.spec.grace is not None:
        return job.spec.grace
    following = job.schedule.next_after(at)
    if following is None:
        return ONCE_GRACE
    return min(max((following - at) / 2, _MIN_GRACE), _MAX_GRACE)


def _explain_absent() -> str:
    return N_("nobody was there to run it in time")


def _explain_replaced() -> str:
    return N_("coalesced: a later instant runs in its place")


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
        """Wake the scheduler: a job was made or changed in this process, or another one has output to deliver."""
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
        glance = await store.check_pending()
        if glance.wake_at is not None and glance.wake_at <= self._deps.clock.now():
            await self._account_due()
            glance = await store.check_pending()
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
        while rows := [row for row in await deps.store.list_due(now, _BATCH_SIZE) if row.id not in seen]:
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
            await self._deps.store.update(structs.replace(row, wake_at=now + _RETRY_UNREADABLE))
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
        row = await self._deps.store.get(job_id)
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
