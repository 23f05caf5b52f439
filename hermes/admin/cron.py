"""The administration of scheduled jobs, shared by every front-end, and the scheduler that runs them.

Jobs and instants as plain values, for output.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import msgspec
from msgspec import Struct

from hermes.admin.home_services import open_home_services
from hermes.config.chat_targets import LOCAL, TargetBook
from hermes.config.environment import merge_dotenv
from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import HermesError
from hermes.core.events import Event, TurnEnded
from hermes.core.messages import ImagePart, TextPart
from hermes.core.usage import NANO_PER_USD
from hermes.cron.execution import JobRunDeps
from hermes.cron.job import CronJob, parse_job
from hermes.cron.jobs import PERSON_AUTHOR, JobAuthor, JobRequest, parse_job_request
from hermes.cron.runner import JobDelivery, JobPrompt, JobRunOutcome, NoJobDelivery
from hermes.cron.scheduler import JobScheduler
from hermes.i18n.messages import N_, tr_plural
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.features.cron_deps import CronDeps, build_jobs, is_gateway_running
from hermes.sessions.features.skills import build_skills, load_skill_parts
from hermes.sessions.options import SessionOptions
from hermes.sessions.secrets import build_redactor
from hermes.store.jobs import InstantRow, JobRow
from hermes.util.clock import Clock
from hermes.util.process_identity import identify_this_process


class JobView(Struct, frozen=True, kw_only=True):
    """A job as it is listed; times are in seconds since the epoch."""

    id: str
    name: str
    state: str
    schedule: str
    zone: str
    means: str
    next_at: float | None
    begun: int
    made_at: float
    spec: dict[str, object]
    delivers_to: tuple[str, ...] = ()
    """Where its output goes, in words of people: a file only where it is empty."""
    new_chats: tuple[str, ...] = ()
    """Its targets from which nobody wrote yet: nobody can tell whether they exist."""


def to_job_view(job: CronJob, book: TargetBook) -> JobView:
    """Return the job with all its fields."""
    targets = [one for one in job.spec.deliver if one != LOCAL]
    row = job.row
    return JobView(
        id=row.id,
        name=row.name,
        state=str(row.state),
        schedule=row.schedule,
        zone=row.zone,
        means=job.schedule.describe(),
        next_at=row.next_at,
        begun=row.begun,
        made_at=row.made_at,
        spec=msgspec.json.decode(row.spec),
        delivers_to=tuple(book.describe_target(one, job.spec.origin) for one in targets),
        new_chats=tuple(one for one in targets if book.is_new_chat(one)),
    )


def to_instant_view(row: InstantRow, name: str) -> dict[str, object]:
    """Return an instant's outcome as plain values."""
    return {
        "job": name,
        "job_id": row.job_id,
        "at": row.at,
        "through": row.through,
        "instants": row.instants,
        "state": str(row.state),
        "reason": row.reason,
        "by_hand": row.by_hand,
        "began_at": row.began_at,
        "ended_at": row.ended_at,
        "session_id": row.session_id,
        "cost_usd": row.nano / NANO_PER_USD,
        "output": row.output,
        "delivery": str(row.delivery),
        "delivery_why": row.delivery_why,
    }


PLATFORM = "cron"
"""The source of such sessions. They have no `cronjob` tool."""


_CHECK_SECONDS = 5.0
"""Seconds between checks whether a run is still active."""


class SessionOpener(Protocol):
    """The part of an `App` that a run needs."""

    async def open_session(self) -> SessionActor:
        """Open a fresh session."""
        ...


OpenApp = Callable[[SessionOptions], AbstractAsyncContextManager[SessionOpener]]
"""Opens an App with these options. Leaving the context ends all that it started."""


class CronSessionRunner:
    """Runs each job in an App of its own, so that it has its own model, tool sets, folder and spending limit."""

    def __init__(self, open_app: OpenApp, clock: Clock, *, cwd: str) -> None:
        self._open_app = open_app
        self._clock = clock
        self._cwd = cwd
        self._live: dict[str, SessionActor] = {}

    async def run(self, job: CronJob, instant: float, prompt: JobPrompt) -> JobRunOutcome:
        """Run the prompt in a session. Raises HermesError when the session cannot be opened."""
        spec = job.spec
        options = SessionOptions(
            model=spec.model,
            provider=spec.provider,
            enabled_toolsets=spec.toolsets or None,
            max_cost=spec.max_cost,
            platform=PLATFORM,
            unattended=True,
            cwd=spec.cwd or self._cwd,
        )
        async with self._open_app(options) as app:
            actor = await app.open_session()
            self._live[job.id] = actor
            try:
                return await self._run_turn(actor, job, prompt, options.cwd)
            finally:
                del self._live[job.id]

    def stop(self, job_id: str) -> None:
        """Stop the running turn of a job."""
        actor = self._live.get(job_id)
        if actor is not None:
            actor.stop()

    async def _run_turn(self, actor: SessionActor, job: CronJob, prompt: JobPrompt, cwd: str) -> JobRunOutcome:
        async def bring_prompt_parts(_: InboundMessage) -> Sequence[ImagePart | TextPart]:
            return prompt.parts

        actor.attachments.providers.insert(0, bring_prompt_parts)
        life = _IdleWatch(self._clock)
        unsubscribe = actor.subscribe(life.note_event)
        posted = actor.post(InboundMessage(text=prompt.text, cwd=cwd))
        watch = asyncio.create_task(life.stop_when_idle(job.spec.idle_seconds, actor), name=f"life of {job.name}")
        try:
            ended = await posted
        finally:
            watch.cancel()
            await asyncio.wait({watch})
            unsubscribe()
        return _build_outcome(actor, ended, idle=life.timed_out, seconds=job.spec.idle_seconds)


class _IdleWatch:
    """Watches when a session was last active."""

    def __init__(self, clock: Clock) -> None:
        self.timed_out = False
        self._clock = clock
        self._last = clock.monotonic()

    def note_event(self, _: Event) -> None:
        """Note that the session was active now."""
        self._last = self._clock.monotonic()

    async def stop_when_idle(self, seconds: float, actor: SessionActor) -> None:
        """Stop the session's turn once it was idle for so many seconds."""
        while self._clock.monotonic() - self._last < seconds:
            await self._clock.sleep(min(_CHECK_SECONDS, seconds))
        self.timed_out = True
        actor.stop()


def _build_outcome(actor: SessionActor, ended: TurnEnded, *, idle: bool, seconds: float) -> JobRunOutcome:
    ok = ended.reason.is_completed
    reason = ""
    if idle:
        ok, reason = False, N_("nothing happened for {n} seconds", n=round(seconds))
    elif not ok:
        reason = ended.error or str(ended.reason)
    elif actor.approvals.unasked:
        count = actor.approvals.unasked
        reason = tr_plural(
            "{n} call was refused, since nobody could be asked",
            "{n} calls were refused, since nobody could be asked",
            count,
        )
    return JobRunOutcome(ok=ok, text=ended.text, reason=reason, session_id=actor.session_id, nano=ended.cost.nano)


def build_scheduler(base: CronDeps, courier: JobDelivery, open_app: OpenApp, *, cwd: str) -> JobScheduler:
    """Build the scheduler of this process; `cwd` is the folder of jobs that name none.

    `open_app` opens a Hermes for a run: `lambda options: App(environ, options)`.
    """

    async def load_parts(names: Sequence[str]) -> Sequence[TextPart]:
        return await load_skill_parts(build_skills(base.home, base.settings, base.environ, base.store), names)

    means = JobRunDeps(
        store=base.store.jobs,
        clock=base.clock,
        runner=CronSessionRunner(open_app, base.clock, cwd=cwd),
        delivery=courier,
        outputs=base.outputs,
        scripts=base.scripts,
        load_skills=load_parts,
        owner=f"{identify_this_process()} {secrets.token_hex(4)}",
    )
    return JobScheduler(means, most_running=base.settings.cron.max_running)


class CronAdmin:
    """The operations on scheduled jobs; they return plain rows for a front-end to show."""

    def __init__(self, base: CronDeps, open_app: OpenApp) -> None:
        self.base = base
        self._open_app = open_app
        self.jobs = build_jobs(base)

    @staticmethod
    def build_wish(**values: object) -> JobRequest:
        """Build a wish from values by name. Raises UsageError for a value of the wrong type."""
        return parse_job_request(values)

    async def list_jobs(self) -> list[Plain]:
        """List every job; for one that cannot be read, the reason."""
        book = await self.jobs.load_targets()
        return [_plain_row(row, book) for row in await self.jobs.list_jobs()]

    async def get_job(self, name: str) -> Plain:
        """Return one job."""
        return await self._view_job(await self.jobs.find_job(name))

    async def add_job(self, wish: JobRequest, maker: JobAuthor = PERSON_AUTHOR) -> Plain:
        """Create a job."""
        return await self._view_job(await self.jobs.create_job(wish, maker))

    async def edit_job(self, name: str, wish: JobRequest) -> Plain:
        """Change a job."""
        return await self._view_job(await self.jobs.edit_job(name, wish))

    async def change_state(self, verb: str, name: str) -> Plain:
        """Pause, resume or remove a job."""
        verbs = {"pause": self.jobs.pause_job, "resume": self.jobs.resume_job, "remove": self.jobs.remove_job}
        return await self._view_job(await verbs[verb](name))

    async def stop_job(self, name: str) -> int:
        """Stop the job's run; return how many scheduled instants that ended."""
        return await self.jobs.stop_job(name)

    async def list_history(self, name: str | None, limit: int) -> list[Plain]:
        """List the outcomes of a job's instants, or of all jobs', the newest first."""
        job_id = (await self.jobs.find_job(name)).id if name else None
        names = {row.id: row.name for row in await self.jobs.list_jobs()}
        rows = await self.base.store.jobs.list_history(job_id, limit)
        return [to_instant_view(row, names.get(row.job_id, row.job_id)) for row in rows]

    async def run_job(self, name: str) -> Plain:
        """Run a job now in this process; return how that ended, with its output."""
        job = await self.jobs.find_job(name)
        scheduler = self.create_scheduler()
        try:
            row = await scheduler.run_now(job)
        finally:
            await scheduler.close()
        text = await asyncio.to_thread(self.base.outputs.read_output, row.output) if row.output else ""
        return to_instant_view(row, job.name) | {"text": text or ""}

    async def request_run(self, name: str) -> Plain:
        """Request a run by the process that runs jobs; return the job."""
        job = await self.jobs.find_job(name)
        await self.jobs.make_due_now(job)
        return await self._view_job(job)

    async def run_due_jobs(self) -> int:
        """Run the due jobs once and wait for them; return how many ran."""
        scheduler = self.create_scheduler()
        try:
            await scheduler.tick()
            count = scheduler.running
            await scheduler.run_until_empty()
        finally:
            await scheduler.close()
        return count

    def create_scheduler(self) -> JobScheduler:
        """Create a scheduler for this process; it delivers to no platform."""
        return build_scheduler(self.base, NoJobDelivery(), self._open_app, cwd=self.base.process.get("HOME") or "/")

    async def _view_job(self, job: CronJob) -> Plain:
        return _plain_job(job, await self.jobs.load_targets())

    @property
    def is_served(self) -> bool:
        """Whether a process runs scheduled jobs now."""
        return is_gateway_running(self.base.home)


def _plain_row(row: JobRow, book: TargetBook) -> Plain:
    try:
        return _plain_job(parse_job(row), book)
    except HermesError as error:
        shown = JobView(
            id=row.id,
            name=row.name,
            state="unreadable",
            schedule=row.schedule,
            zone=row.zone,
            means="",
            next_at=row.next_at,
            begun=row.begun,
            made_at=row.made_at,
            spec={},
        )
        plain: Plain = to_plain(shown)
        return plain | {"wrong": str(error)}


def _plain_job(job: CronJob, book: TargetBook) -> Plain:
    row: Plain = to_plain(to_job_view(job, book))
    return row | {"wrong": ""}


def cron_admin_of_app(app: App) -> CronAdmin:
    """Return the job administration of an App that is open already."""
    services = app.services
    base = CronDeps(
        home=services.home,
        settings=services.settings,
        process=services.environ,
        store=services.store,
        redactor=services.redactor,
        clock=services.clock,
    )
    return CronAdmin(base, lambda options: App(services.environ, options, clock=services.clock))


@asynccontextmanager
async def open_cron_admin(environ: Mapping[str, str], clock: Clock | None = None) -> AsyncIterator[CronAdmin]:
    """Open the job administration of this home for a front-end without a session; creates a missing home."""
    async with open_home_services(environ, clock) as on:
        whole = merge_dotenv(environ, on.home.env_file)
        base = CronDeps(
            home=on.home,
            settings=on.settings,
            process=environ,
            store=on.store,
            redactor=await asyncio.to_thread(build_redactor, whole, on.home, on.settings),
            clock=on.clock,
        )
        yield CronAdmin(base, lambda options: App(environ, options, clock=clock))
