"""Jobs on a clock: the verbs about them that every front-end shares, and what runs them."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct, to_builtins

from hermes.app.configuration import check_toolsets
from hermes.app.held import is_held
from hermes.app.openai_form import Plain
from hermes.app.secrets import redactor_for
from hermes.app.skills import catalogue_of, skills_of
from hermes.config.environment import with_dotenv
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError, HermesError
from hermes.core.parts import TextPart
from hermes.cron.execution import Means
from hermes.cron.job import Job, job_of
from hermes.cron.jobs import THE_PERSON, Grounds, Jobs, Maker, Wish, wish_of
from hermes.cron.output import Outputs
from hermes.cron.running import Courier, NoCourier
from hermes.cron.scheduler import Scheduler
from hermes.cron.scripts import Scripts
from hermes.cron.shown import instant_shown, job_shown
from hermes.safety.secrets import Redactor
from hermes.skills.command import skill_part
from hermes.store.jobs import JobRow
from hermes.store.store import Store
from hermes.util.clock import Clock, SystemClock
from hermes.util.owner import this_process
from hermes.util.say import phrase

_LOCALTIME = Path("/etc/localtime")


class CronBase(Struct, frozen=True, kw_only=True):
    """What jobs stand on in a process. `process` are the variables that it was started with."""

    home: Home
    settings: Settings
    process: Mapping[str, str]
    store: Store
    redactor: Redactor
    clock: Clock

    @property
    def environ(self) -> dict[str, str]:
        """The variables with those of the home's `.env`."""
        return with_dotenv(self.process, self.home.env_file)

    @property
    def outputs(self) -> Outputs:
        """What jobs said."""
        return Outputs(self.home.root / "cron" / "output")

    @property
    def scripts(self) -> Scripts:
        """What may run before a job. They get no variable of `.env`."""
        return Scripts(self.home.root / "scripts", self.process, self.redactor.redact)


def jobs_of(base: CronBase, *, changed: Callable[[], None] = lambda: None) -> Jobs:
    """The verbs that make and change jobs; `changed` is told whenever one was."""

    def known_sets(names: Sequence[str]) -> None:
        check_toolsets(base.settings, tuple(names))

    def known_skills(names: Sequence[str]) -> None:
        if names:
            catalogue = catalogue_of(base.home, base.settings, base.environ)
            for name in names:
                catalogue.find(name)

    return Jobs(
        Grounds(
            store=base.store,
            clock=base.clock,
            scripts=base.scripts,
            outputs=base.outputs,
            platforms=platform_names(),
            zone=partial(machine_zone, base.settings, base.process),
            toolsets=known_sets,
            skills=known_skills,
            changed=changed,
        )
    )


def scheduler_of(base: CronBase, courier: Courier, *, cwd: str) -> Scheduler:
    """Who lets jobs run in this process; in `cwd`, where a job names no folder."""
    from hermes.app.cron_runs import SessionRunner

    async def parts(names: Sequence[str]) -> Sequence[TextPart]:
        skills = skills_of(base.home, base.settings, base.environ, base.store)
        found = []
        for name in names:
            found.append(skill_part(await skills.find(name), await skills.body(name)))
            await skills.used(name)
        return found

    means = Means(
        store=base.store,
        clock=base.clock,
        runner=SessionRunner(base.process, base.clock, cwd=cwd),
        courier=courier,
        outputs=base.outputs,
        scripts=base.scripts,
        skills=parts,
        owner=f"{this_process()} {secrets.token_hex(4)}",
    )
    return Scheduler(means, most_running=base.settings.cron.max_running)


def gateway_running(home: Home) -> bool:
    """Whether a gateway runs, which is who runs jobs."""
    return is_held(home.locks / "gateway.lock")


def platform_names() -> tuple[str, ...]:
    """The platforms that there are, told by their files; nothing is imported."""
    folder = Path(__file__).parent.parent / "gateway" / "platforms"
    if not folder.is_dir():
        return ()
    names = (entry.name.removesuffix(".py") for entry in folder.iterdir() if entry.suffix == ".py" or entry.is_dir())
    return tuple(sorted(name for name in names if not name.startswith(("_", "."))))


def machine_zone(settings: Settings, environ: Mapping[str, str]) -> str:
    """The zone of jobs that name none. Raises ConfigError where nobody can tell it."""
    link = os.path.realpath(_LOCALTIME).rpartition("/zoneinfo/")[2]
    for name in (settings.cron.timezone, environ.get("TZ", "").lstrip(":"), link.removeprefix("posix/")):
        if name and not name.startswith("/"):
            try:
                ZoneInfo(name)
            except (ValueError, OSError):
                continue
            return name
    if datetime.now().astimezone().utcoffset() == datetime.now(UTC).utcoffset():
        return "UTC"
    raise ConfigError(
        phrase("Nobody can tell this machine's time zone."),
        phrase("Name one: `--zone`, or `cron.timezone` in config.yaml, such as Europe/Berlin."),
    )


class CronDesk:
    """What a person can do with jobs: plain rows for a front-end to show."""

    def __init__(self, base: CronBase) -> None:
        self.base = base
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
        return scheduler_of(self.base, NoCourier(), cwd=self.base.process.get("HOME") or "/")

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


@asynccontextmanager
async def open_cron(environ: Mapping[str, str], clock: Clock | None = None) -> AsyncIterator[CronDesk]:
    """The desk of this home, for a front-end that has no session. Makes the home when there is none."""
    home = locate_home(environ)
    home.check()
    settings = load_settings(home).settings
    home.ensure()
    redactor = await asyncio.to_thread(redactor_for, with_dotenv(environ, home.env_file), home, settings)
    store = await Store.open(home.root, clock or SystemClock())
    try:
        base = CronBase(
            home=home,
            settings=settings,
            process=environ,
            store=store,
            redactor=redactor,
            clock=clock or SystemClock(),
        )
        yield CronDesk(base)
    finally:
        await store.close()
