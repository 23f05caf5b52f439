"""Jobs on a clock: the verbs about them that every front-end shares, and what runs them."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from msgspec import to_builtins

from hermes.config.environment import with_dotenv
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.errors import HermesError
from hermes.core.events import Event, TurnEnded
from hermes.core.parts import ImagePart, TextPart
from hermes.cron.execution import Means
from hermes.cron.job import Job, job_of
from hermes.cron.jobs import THE_PERSON, Maker, Wish, wish_of
from hermes.cron.runner import Courier, NoCourier, Outcome, Prompt
from hermes.cron.scheduler import Scheduler
from hermes.cron.views import instant_shown, job_shown
from hermes.i18n.messages import phrase, say_many
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.sessions.app import App
from hermes.sessions.features.cron_deps import CronBase, gateway_running, jobs_of
from hermes.sessions.features.skills import skills_of, told
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.options import Options
from hermes.sessions.secrets import redactor_for
from hermes.store.jobs import JobRow
from hermes.store.store import Store
from hermes.util.clock import Clock, SystemClock
from hermes.util.process_identity import this_process

PLATFORM = "cron"
"""The source of such sessions. They have no `cronjob` tool."""


_LOOK = 5.0
"""Seconds between looks at whether a run still gives signs of life."""


class Opens(Protocol):
    """What a run needs of an `App`."""

    async def open_session(self) -> SessionActor:
        """A fresh session."""
        ...


OpenApp = Callable[[Options], AbstractAsyncContextManager[Opens]]
"""Opens a Hermes with these choices. Leaving it ends all that it started."""


class SessionRunner:
    """Runs each job in a Hermes of its own, so that its model, tool sets, folder and cap are its own, too."""

    def __init__(self, open_app: OpenApp, clock: Clock, *, cwd: str) -> None:
        self._open_app = open_app
        self._clock = clock
        self._cwd = cwd
        self._live: dict[str, SessionActor] = {}

    async def run(self, job: Job, instant: float, prompt: Prompt) -> Outcome:
        """Answer the prompt. Raises HermesError when the session cannot be opened."""
        spec = job.spec
        options = Options(
            model=spec.model,
            provider=spec.provider,
            enabled_toolsets=spec.toolsets or None,
            max_cost=spec.max_cost,
            platform=PLATFORM,
            cwd=spec.cwd or self._cwd,
        )
        async with self._open_app(options) as app:
            actor = await app.open_session()
            self._live[job.id] = actor
            try:
                return await self._answered(actor, job, prompt, options.cwd)
            finally:
                del self._live[job.id]

    def stop(self, job_id: str) -> None:
        """Stop the job's running turn."""
        actor = self._live.get(job_id)
        if actor is not None:
            actor.stop()

    async def _answered(self, actor: SessionActor, job: Job, prompt: Prompt, cwd: str) -> Outcome:
        async def brought(_: Inbound) -> Sequence[ImagePart | TextPart]:
            return prompt.parts

        actor.bringing.bringers.insert(0, brought)
        life = _Life(self._clock)
        unsubscribe = actor.subscribe(life.sign)
        posted = actor.post(Inbound(text=prompt.text, cwd=cwd))
        watch = asyncio.create_task(life.ebbs(job.spec.idle_seconds, actor), name=f"life of {job.name}")
        try:
            ended = await posted
        finally:
            watch.cancel()
            await asyncio.wait({watch})
            unsubscribe()
        return _outcome(actor, ended, idle=life.gone, seconds=job.spec.idle_seconds)


class _Life:
    """When a session gave its last sign of life."""

    def __init__(self, clock: Clock) -> None:
        self.gone = False
        self._clock = clock
        self._last = clock.monotonic()

    def sign(self, _: Event) -> None:
        """Something happened."""
        self._last = self._clock.monotonic()

    async def ebbs(self, seconds: float, actor: SessionActor) -> None:
        """Stop the session's turn once nothing has happened for so long."""
        while self._clock.monotonic() - self._last < seconds:
            await self._clock.sleep(min(_LOOK, seconds))
        self.gone = True
        actor.stop()


def _outcome(actor: SessionActor, ended: TurnEnded, *, idle: bool, seconds: float) -> Outcome:
    ok = ended.reason.completed
    reason = ""
    if idle:
        ok, reason = False, phrase("there was no sign of life for {n} seconds", n=round(seconds))
    elif not ok:
        reason = ended.error or str(ended.reason)
    elif actor.approvals.unasked:
        count = actor.approvals.unasked
        reason = say_many(
            "{n} call was refused, since nobody could be asked",
            "{n} calls were refused, since nobody could be asked",
            count,
        )
    return Outcome(ok=ok, text=ended.text, reason=reason, session_id=actor.session_id, nano=ended.cost.nano)


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


def desk_of(app: App) -> CronDesk:
    """What the person can do with jobs, where Hermes is open already."""
    on = app.premises
    base = CronBase(
        home=on.home,
        settings=on.settings,
        process=on.environ,
        store=on.store,
        redactor=on.redactor,
        clock=on.clock,
    )
    return CronDesk(base, lambda options: App(on.environ, options, clock=on.clock))


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
        yield CronDesk(base, lambda options: App(environ, options, clock=clock))
    finally:
        await store.close()
