"""Creating and changing jobs, which are checked before they are stored.

A job without a target goes to the chat in which it is made, else to the only home chat, else to a file alone.
"""

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from hermes.config.chat_targets import HOME, LOCAL, ORIGIN, TargetBook
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.core.usage import is_amount
from hermes.cron.job import CatchUp, CronJob, JobSpec, Overlap, parse_job
from hermes.cron.job_phrases import split_job
from hermes.cron.output import JobOutputs
from hermes.cron.quiet_hours import parse_quiet_hours
from hermes.cron.schedule import Schedule
from hermes.cron.scripts import JobScripts
from hermes.i18n.messages import N_
from hermes.store.jobs import JobRepository, JobRow, JobState
from hermes.util.clock import Clock
from hermes.util.text import clean_surrogates, to_one_line

MAX_TARGETS = 8


def check_targets(texts: Sequence[str], book: TargetBook, *, origin: str) -> tuple[str, ...]:
    """Return the targets, each once. Raises UsageError and NotFoundError for those that reach nobody."""
    found = tuple(dict.fromkeys(book.check_target(one, origin=origin) for one in texts if one.strip()))
    if len(found) > MAX_TARGETS:
        raise UsageError(N_("A job has at most {n} targets.", n=MAX_TARGETS))
    return found or (LOCAL,)


def list_delivery_targets(spec: JobSpec) -> tuple[str, ...]:
    """Return the targets beyond this machine to which a job's output goes, each once."""
    named = (spec.origin if one == ORIGIN else one for one in spec.deliver)
    return tuple(dict.fromkeys(one for one in named if one and one != LOCAL))


MAX_PROMPT = 20_000
"""The number of characters that a prompt may have."""
_NAME = re.compile(r"\w[\w .,+@-]{0,63}")
_MAX_NAMED = 16


class JobRequest(Struct, frozen=True, kw_only=True):
    """A job as requested, or the changes of one: what is not given stays as it is."""

    name: str | UnsetType = UNSET
    schedule: str | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    deliver: tuple[str, ...] | UnsetType = UNSET
    skills: tuple[str, ...] | UnsetType = UNSET
    model: str | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    toolsets: tuple[str, ...] | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    script: str | UnsetType = UNSET
    only_if: str | UnsetType = UNSET
    quiet_hours: str | UnsetType = UNSET
    no_agent: bool | UnsetType = UNSET
    context_from: tuple[str, ...] | UnsetType = UNSET
    """Names or ids of jobs."""
    repeat: int | UnsetType | None = UNSET
    max_cost: float | UnsetType | None = UNSET
    grace: float | UnsetType | None = UNSET
    catch_up: CatchUp | UnsetType = UNSET
    catch_up_limit: int | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    jitter: int | UnsetType = UNSET
    repeatable: bool | UnsetType = UNSET
    quiet: bool | UnsetType = UNSET


class JobAuthor(Struct, frozen=True, kw_only=True):
    """Who makes or changes a job: a person or a model, with the untrusted sources of the conversation, and the chat."""

    by: Literal["person", "model"] = "person"
    sources: tuple[str, ...] = ()
    origin: str = ""


PERSON_AUTHOR = JobAuthor()


class CronJobDeps(Struct, frozen=True, kw_only=True):
    """The dependencies of `CronJobs`. `get_machine_zone` raises ConfigError where the zone cannot be told."""

    store: JobRepository
    clock: Clock
    scripts: JobScripts
    outputs: JobOutputs
    load_targets: Callable[[], Awaitable[TargetBook]]
    """Loads what can be a target now."""
    get_machine_zone: Callable[[], str]
    check_toolsets: Callable[[Sequence[str]], None]
    """Raises UsageError for an unknown tool set."""
    check_skills: Callable[[Sequence[str]], None]
    """Raises NotFoundError for an unknown skill."""
    on_change: Callable[[], None] = lambda: None
    """Called whenever a job was changed."""


class CronJobs:
    """Operations on jobs, for people and for models. They raise UsageError, NotFoundError and BusyError."""

    def __init__(self, deps: CronJobDeps) -> None:
        self._deps = deps

    async def list_jobs(self) -> list[JobRow]:
        """Return every job, in the order in which they were made."""
        return await self._deps.store.list_all()

    async def load_targets(self) -> TargetBook:
        """Return what can be a target of a job now."""
        return await self._deps.load_targets()

    async def find_job(self, name: str) -> CronJob:
        """Return the job of this name or id, or the only one whose id begins so."""
        found = await self._deps.store.find(name.strip()) if name.strip() else []
        if len(found) == 1:
            return parse_job(found[0])
        if found:
            raise UsageError(N_("Several jobs begin with {name!r}.", name=name[:80]), N_("Give the whole id."))
        raise NotFoundError(N_("There is no job {name!r}.", name=name[:80]), N_("`hermes cron list` shows them."))

    def split_job(self, words: Sequence[str], zone: str = "") -> tuple[str, str]:
        """Return the schedule and the task of a job that was typed in these words, without quotes too."""
        return split_job(words, zone or self._deps.get_machine_zone(), self._deps.clock.now())

    async def create_job(self, request: JobRequest, author: JobAuthor = PERSON_AUTHOR) -> CronJob:
        """Create a job."""
        if not request.schedule:
            raise UsageError(N_("A job needs a schedule."), N_("For instance `every 2h`, or `0 9 * * 1-5`."))
        now = self._deps.clock.now()
        job_id = secrets.token_hex(6)
        zone = request.zone or self._deps.get_machine_zone()
        spec = await self._build_spec(JobSpec(made_by=author.by, sources=author.sources, origin=author.origin), request)
        schedule = Schedule.parse(request.schedule, zone, now)
        name = _clean_name(request.name or _derive_name(spec) or job_id)
        blank = JobRow(
            id=job_id,
            name=name if request.name else await self._find_free_name(name),
            state=JobState.ACTIVE,
            schedule=schedule.text,
            zone=zone,
            anchor=now,
            spec=spec.encode(),
            version=1,
            next_at=None,
            wake_at=None,
            begun=0,
            made_at=now,
        )
        job = CronJob(_start_cursor(CronJob(blank, spec, schedule), now), spec, schedule)
        await self._deps.store.add(job.row)
        self._deps.on_change()
        return job

    async def edit_job(self, name: str, request: JobRequest, author: JobAuthor = PERSON_AUTHOR) -> CronJob:
        """Change a job. A new schedule or zone counts from now on, and restarts a job that is done.

        What a model changes is a model's from then on, with the sources of before and of now.
        """
        job, now = await self.find_job(name), self._deps.clock.now()
        spec = job.spec
        if author.by == "model":
            spec = structs.replace(
                spec, made_by="model", sources=tuple(dict.fromkeys((*spec.sources, *author.sources)))
            )
        elif request.prompt:
            spec = structs.replace(spec, made_by="person", sources=())
        spec = await self._build_spec(spec, request, job.id)
        row = structs.replace(job.row, spec=spec.encode())
        if request.name:
            row = structs.replace(row, name=_clean_name(request.name))
        if request.schedule or request.zone:
            zone = request.zone or row.zone
            schedule = Schedule.parse(request.schedule or row.schedule, zone, now)
            state = JobState.ACTIVE if row.state is JobState.DONE else row.state
            row = structs.replace(row, schedule=schedule.text, zone=zone, anchor=now, state=state, begun=0)
            row = _start_cursor(CronJob(row, spec, schedule), now)
        elif row.next_at is not None:
            row = structs.replace(row, wake_at=row.next_at + CronJob(row, spec, job.schedule).offset)
        return await self._store_change(row)

    async def pause_job(self, name: str) -> CronJob:
        """Pause a job: nothing is due until it is resumed. A run goes on to its end."""
        row = (await self.find_job(name)).row
        if row.state is JobState.DONE:
            raise UsageError(N_("The job {name} is done.", name=row.name))
        return await self._store_change(structs.replace(row, state=JobState.PAUSED, next_at=None, wake_at=None))

    async def resume_job(self, name: str) -> CronJob:
        """Resume a job from now on. What was accounted for while the clock was ahead counts no more."""
        job, now = await self.find_job(name), self._deps.clock.now()
        if job.row.state is JobState.DONE:
            raise UsageError(
                N_("The job {name} is done.", name=job.name), N_("`hermes cron edit` gives it a new schedule.")
            )
        row = _start_cursor(job, now)
        return await self._store_change(structs.replace(row, state=JobState.ACTIVE), forget_after=now)

    async def remove_job(self, name: str) -> CronJob:
        """Delete a job with its history and its files. Raises BusyError while it runs."""
        job = await self.find_job(name)
        now = self._deps.clock.now()
        if any(row.job_id == job.id and row.until > now for row in await self._deps.store.list_open_instants()):
            raise BusyError(N_("The job {name} runs now.", name=job.name), N_("`hermes cron stop` ends that."))
        await self._deps.store.remove(job.id)
        self._deps.outputs.remove_outputs(job.id)
        self._deps.on_change()
        return job

    async def stop_job(self, name: str) -> int:
        """Stop a job's run and what waits behind it; return the number of instants. The
        run ends within some seconds.
        """
        job = await self.find_job(name)
        stopped = await self._deps.store.request_stop(job.id, N_("somebody stopped it"))
        self._deps.on_change()
        return stopped

    async def make_due_now(self, job: CronJob) -> float:
        """Make a job due once, whatever its schedule says, for whichever process runs jobs; return the instant of its
        row.
        """
        at = await self._deps.store.add_manual_instant(job.id, round(self._deps.clock.now(), 3))
        self._deps.on_change()
        return at

    async def _store_change(self, row: JobRow, *, forget_after: float | None = None) -> CronJob:
        if not await self._deps.store.update(row, forget_after=forget_after):
            raise BusyError(N_("The job {name} was changed meanwhile.", name=row.name), N_("Try again."))
        self._deps.on_change()
        return parse_job(structs.replace(row, version=row.version + 1))

    async def _build_spec(self, spec: JobSpec, request: JobRequest, job_id: str = "") -> JobSpec:
        """Return the task with the requested changes, checked."""
        given = {
            name: value for name in JobSpec.__struct_fields__ if (value := getattr(request, name, UNSET)) is not UNSET
        }
        if isinstance(request.context_from, tuple):
            given["context_from"] = await self._resolve_ids(request.context_from, job_id)
        if isinstance(request.deliver, tuple):
            given["deliver"] = check_targets(request.deliver, await self._deps.load_targets(), origin=spec.origin)
        elif not job_id and (spec.origin or (await self._deps.load_targets()).has_one_home):
            given["deliver"] = (ORIGIN if spec.origin else HOME,)
        spec = structs.replace(spec, **given)
        spec = structs.replace(spec, prompt=clean_surrogates(spec.prompt).strip())
        self._check_spec(spec)
        return spec

    def _check_spec(self, spec: JobSpec) -> None:
        if len(spec.prompt) > MAX_PROMPT:
            raise UsageError(N_("A prompt has at most {n} characters.", n=MAX_PROMPT))
        if spec.no_agent and not spec.script:
            raise UsageError(N_("A job without a model needs a script."))
        if not (spec.prompt or spec.script or spec.skills):
            raise UsageError(N_("A job needs a prompt, a skill or a script."))
        for script in filter(None, (spec.script, spec.only_if)):
            self._deps.scripts.check_script(script)
        if spec.quiet_hours:
            parse_quiet_hours(spec.quiet_hours)
        if len(spec.skills) > _MAX_NAMED or len(spec.context_from) > _MAX_NAMED:
            raise UsageError(N_("A job names at most {n} skills, and as many jobs.", n=_MAX_NAMED))
        self._deps.check_toolsets(spec.toolsets)
        self._deps.check_skills(spec.skills)
        _check_numbers(spec)

    async def _resolve_ids(self, names: Sequence[str], job_id: str) -> tuple[str, ...]:
        found = [(await self.find_job(name)).id for name in names]
        if job_id and job_id in found:
            raise UsageError(N_("A job cannot build on itself."))
        return tuple(dict.fromkeys(found))

    async def _find_free_name(self, name: str) -> str:
        """Return a name like this one that no job has."""
        taken = {row.name.lower() for row in await self._deps.store.list_all()}
        numbered = (f"{name[:58]} {number}" for number in range(2, len(taken) + 3))
        return name if name.lower() not in taken else next(one for one in numbered if one.lower() not in taken)


def parse_job_request(values: Mapping[str, object]) -> JobRequest:
    """Parse a request from values by name; their types are checked. Raises UsageError."""
    try:
        return msgspec.convert(values, JobRequest)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from None


def _start_cursor(job: CronJob, now: float) -> JobRow:
    """Return the job's row with its cursor at the first instant after now. Raises UsageError when there is none."""
    at = job.schedule.next_after(now)
    if at is None:
        raise UsageError(N_("{schedule!r} is never again.", schedule=job.row.schedule[:80]))
    return structs.replace(job.row, next_at=at, wake_at=at + job.offset)


def _clean_name(text: str) -> str:
    name = " ".join(text.split())
    if not _NAME.fullmatch(name):
        raise UsageError(
            N_("{name!r} cannot be a job's name.", name=name[:80]),
            N_("Use letters, digits, spaces and `.,_+@-`, 64 at most."),
        )
    return name


def _derive_name(spec: JobSpec) -> str:
    """Return a name made of the first words of the task."""
    words = re.sub(r"[^\w .,+@-]+", " ", spec.prompt or spec.script or " ".join(spec.skills))
    return to_one_line(" ".join(words.split()[:5]), 40).rstrip("… .,").lstrip(".,+@- ")


def _check_numbers(spec: JobSpec) -> None:
    """Raise UsageError for a number that is out of range."""
    wrong = (
        (spec.repeat is not None and not 1 <= spec.repeat <= 1_000_000, "repeat"),
        (spec.max_cost is not None and not is_amount(spec.max_cost), "max_cost"),
        (spec.grace is not None and not 0 <= spec.grace <= 366 * 86_400, "grace"),
        (not 1 <= spec.catch_up_limit <= 100, "catch_up_limit"),
        (not 0 <= spec.jitter <= 86_400, "jitter"),
    )
    for found, name in wrong:
        if found:
            raise UsageError(N_("{name} is out of range.", name=name))
