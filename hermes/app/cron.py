"""Jobs on a clock: the verbs about them that every front-end shares, and what runs them."""

import asyncio
import secrets
from collections.abc import Sequence

from msgspec import to_builtins

from hermes.app.cron_base import CronBase, gateway_running, jobs_of
from hermes.app.cron_runs import OpenApp, SessionRunner
from hermes.app.openai_form import Plain
from hermes.app.skills import skills_of, told
from hermes.core.errors import HermesError
from hermes.core.parts import TextPart
from hermes.cron.execution import Means
from hermes.cron.job import Job, job_of
from hermes.cron.jobs import THE_PERSON, Maker, Wish, wish_of
from hermes.cron.running import Courier, NoCourier
from hermes.cron.scheduler import Scheduler
from hermes.cron.shown import instant_shown, job_shown
from hermes.store.jobs import JobRow
from hermes.util.owner import this_process


def scheduler_of(base: CronBase, courier: Courier, open_app: OpenApp, *, cwd: str) -> Scheduler:
    """Who lets jobs run in this process; in `cwd`, where a job names no folder.

    `open_app` opens a Hermes for a run: `lambda options: App(environ, options)`.
    """

    async def parts(names: Sequence[str]) -> Sequence[TextPart]:
        return await told(skills_of(base.home, base.settings, base.environ, base.store), names)

    means = Means(
        store=base.store,
        clock=base.clock,
        runner=SessionRunner(open_app, base.clock, cwd=cwd),
        courier=courier,
        outputs=base.outputs,
        scripts=base.scripts,
        skills=parts,
        owner=f"{this_process()} {secrets.token_hex(4)}",
    )
    return Scheduler(means, most_running=base.settings.cron.max_running)


class CronDesk:
    """What a person can do with jobs: plain rows for a front-end to show."""

    def __init__(self, base: CronBase, open_app: OpenApp) -> None:
        self.base = base
        self._open_app = open_app
        self.jobs = jobs_of(base)

    @staticmethod
    def wish(**values: object) -> Wish:
        """A wish of what is given by name. Raises UsageError for a value of a wrong kind."""
        return wish_of(values)

    async def rows(self) -> list[Plain]:
        """Every job; of one that cannot be read, why."""
        return [_row(row) for row in await self.jobs.all()]

    async def row(self, name: str) -> Plain:
        """One job."""
        return _plain(await self.jobs.find(name))

    async def add(self, wish: Wish, maker: Maker = THE_PERSON) -> Plain:
        """Make one."""
        return _plain(await self.jobs.make(wish, maker))

    async def edit(self, name: str, wish: Wish) -> Plain:
        """Change one."""
        return _plain(await self.jobs.edit(name, wish))

    async def moved(self, verb: str, name: str) -> Plain:
        """Pause, resume or remove one."""
        verbs = {"pause": self.jobs.pause, "resume": self.jobs.resume, "remove": self.jobs.remove}
        return _plain(await verbs[verb](name))

    async def stop(self, name: str) -> int:
        """Stop its run; how many instants that were."""
        return await self.jobs.stop(name)

    async def history(self, name: str | None, limit: int) -> list[Plain]:
        """What became of a job's instants, or of all jobs', the newest first."""
        job_id = (await self.jobs.find(name)).id if name else None
        names = {row.id: row.name for row in await self.jobs.all()}
        rows = await self.base.store.job_history(job_id, limit)
        return [instant_shown(row, names.get(row.job_id, row.job_id)) for row in rows]

    async def run(self, name: str) -> Plain:
        """Run one now, in this process; how that ended, with what it said."""
        job = await self.jobs.find(name)
        scheduler = self.scheduler()
        try:
            row = await scheduler.run_now(job)
        finally:
            await scheduler.close()
        text = await asyncio.to_thread(self.base.outputs.read, row.output) if row.output else ""
        return instant_shown(row, job.name) | {"text": text or ""}

    async def run_elsewhere(self, name: str) -> Plain:
        """Have it run by the process that runs jobs; the job."""
        job = await self.jobs.find(name)
        await self.jobs.due_now(job)
        return _plain(job)

    async def tick(self) -> int:
        """Do once what a gateway does all the time, and wait for what was begun; how many runs that were."""
        scheduler = self.scheduler()
        try:
            await scheduler.tick()
            count = scheduler.running
            await scheduler.drain()
        finally:
            await scheduler.close()
        return count

    def scheduler(self) -> Scheduler:
        """A scheduler for this process, which reaches no platform."""
        return scheduler_of(self.base, NoCourier(), self._open_app, cwd=self.base.process.get("HOME") or "/")

    @property
    def served(self) -> bool:
        """Whether a process runs jobs now."""
        return gateway_running(self.base.home)


def _row(row: JobRow) -> Plain:
    try:
        return _plain(job_of(row))
    except HermesError as error:
        return {"id": row.id, "name": row.name, "state": "unreadable", "wrong": str(error)}


def _plain(job: Job) -> Plain:
    row: Plain = to_builtins(job_shown(job))
    return row | {"wrong": ""}
