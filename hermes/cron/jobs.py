"""Making jobs and changing them: what is wrong with one is said before it is stored."""

import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.core.money import is_amount
from hermes.cron.job import CatchUp, Job, Overlap, Spec, job_of
from hermes.cron.output import Outputs
from hermes.cron.schedule import Schedule
from hermes.cron.scripts import Scripts
from hermes.cron.targets import checked_targets
from hermes.i18n.messages import phrase
from hermes.store.jobs import JobAccess, JobRow, JobState
from hermes.util.clock import Clock
from hermes.util.text import clean_surrogates, one_line

MOST_PROMPT = 20_000
"""Characters of a prompt."""
_NAME = re.compile(r"\w[\w .,+@-]{0,63}")
_MOST_NAMED = 16


class Wish(Struct, frozen=True, kw_only=True):
    """A job as somebody wants it, or what is to change about one: what is not given stays as it is."""

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


class Maker(Struct, frozen=True, kw_only=True):
    """Who makes or changes a job: a person or a model, with the untrusted sources that stood there, and in which
    chat."""

    by: Literal["person", "model"] = "person"
    sources: tuple[str, ...] = ()
    origin: str = ""


THE_PERSON = Maker()


class Grounds(Struct, frozen=True, kw_only=True):
    """What jobs are checked against. `zone` gives the machine's zone and raises ConfigError where it cannot be told."""

    store: JobAccess
    clock: Clock
    scripts: Scripts
    outputs: Outputs
    platforms: Collection[str]
    zone: Callable[[], str]
    toolsets: Callable[[Sequence[str]], None]
    """Raises UsageError for a name that is no tool set's."""
    skills: Callable[[Sequence[str]], None]
    """Raises NotFoundError for a name that is no skill's."""
    changed: Callable[[], None] = lambda: None
    """Told whenever a job was changed."""


class Jobs:
    """The verbs about jobs, for people and for models. They raise UsageError, NotFoundError and BusyError."""

    def __init__(self, grounds: Grounds) -> None:
        self._on = grounds

    async def all(self) -> list[JobRow]:
        """Every job, in the order in which they were made."""
        return await self._on.store.jobs()

    async def find(self, name: str) -> Job:
        """The job of this name or id, or the only one whose id begins so."""
        found = await self._on.store.find_jobs(name.strip()) if name.strip() else []
        if len(found) == 1:
            return job_of(found[0])
        if found:
            raise UsageError(phrase("Several jobs begin with {name!r}.", name=name[:80]), phrase("Give the whole id."))
        raise NotFoundError(
            phrase("There is no job {name!r}.", name=name[:80]), phrase("`hermes cron list` shows them.")
        )

    async def make(self, wish: Wish, maker: Maker = THE_PERSON) -> Job:
        """Make a job."""
        if not wish.schedule:
            raise UsageError(phrase("A job needs a schedule."), phrase("For instance `every 2h`, or `0 9 * * 1-5`."))
        now = self._on.clock.now()
        job_id = secrets.token_hex(6)
        zone = wish.zone or self._on.zone()
        spec = await self._spec(Spec(made_by=maker.by, sources=maker.sources, origin=maker.origin), wish)
        schedule = Schedule.parse(wish.schedule, zone, now)
        name = _name(wish.name or _short(spec) or job_id)
        blank = JobRow(
            id=job_id,
            name=name if wish.name else await self._free(name),
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
        job = Job(_started(Job(blank, spec, schedule), now), spec, schedule)
        await self._on.store.add_job(job.row)
        self._on.changed()
        return job

    async def edit(self, name: str, wish: Wish, maker: Maker = THE_PERSON) -> Job:
        """Change a job. A new schedule or zone counts from now on, and begins a job that is done anew.

        What a model changes is a model's from then on, with the sources of before and of now.
        """
        job, now = await self.find(name), self._on.clock.now()
        spec = job.spec
        if maker.by == "model":
            spec = structs.replace(spec, made_by="model", sources=tuple(dict.fromkeys((*spec.sources, *maker.sources))))
        elif wish.prompt:
            spec = structs.replace(spec, made_by="person", sources=())
        spec = await self._spec(spec, wish, job.id)
        row = structs.replace(job.row, spec=spec.encode())
        if wish.name:
            row = structs.replace(row, name=_name(wish.name))
        if wish.schedule or wish.zone:
            zone = wish.zone or row.zone
            schedule = Schedule.parse(wish.schedule or row.schedule, zone, now)
            state = JobState.ACTIVE if row.state is JobState.DONE else row.state
            row = structs.replace(row, schedule=schedule.text, zone=zone, anchor=now, state=state, begun=0)
            row = _started(Job(row, spec, schedule), now)
        elif row.next_at is not None:
            row = structs.replace(row, wake_at=row.next_at + Job(row, spec, job.schedule).offset)
        return await self._changed(row)

    async def pause(self, name: str) -> Job:
        """Let nothing be due until it is resumed; a run goes on to its end."""
        row = (await self.find(name)).row
        if row.state is JobState.DONE:
            raise UsageError(phrase("The job {name} is done.", name=row.name))
        return await self._changed(structs.replace(row, state=JobState.PAUSED, next_at=None, wake_at=None))

    async def resume(self, name: str) -> Job:
        """Let it be due again from now on. What was accounted for while the clock was ahead counts no more."""
        job, now = await self.find(name), self._on.clock.now()
        if job.row.state is JobState.DONE:
            raise UsageError(
                phrase("The job {name} is done.", name=job.name), phrase("`hermes cron edit` gives it a new schedule.")
            )
        row = _started(job, now)
        return await self._changed(structs.replace(row, state=JobState.ACTIVE), forget_after=now)

    async def remove(self, name: str) -> Job:
        """Forget a job with its history and its files. Raises BusyError while it runs."""
        job = await self.find(name)
        now = self._on.clock.now()
        if any(row.job_id == job.id and row.until > now for row in await self._on.store.open_instants()):
            raise BusyError(phrase("The job {name} runs now.", name=job.name), phrase("`hermes cron stop` ends that."))
        await self._on.store.remove_job(job.id)
        self._on.outputs.forget(job.id)
        self._on.changed()
        return job

    async def stop(self, name: str) -> int:
        """Stop its run, and what waits behind it; how many instants that were. The run ends within some seconds."""
        job = await self.find(name)
        stopped = await self._on.store.ask_to_stop(job.id, phrase("somebody stopped it"))
        self._on.changed()
        return stopped

    async def due_now(self, job: Job) -> float:
        """Let it be run once by whoever runs jobs, whatever its schedule says; the instant of its row."""
        at = await self._on.store.add_by_hand(job.id, round(self._on.clock.now(), 3))
        self._on.changed()
        return at

    async def _changed(self, row: JobRow, *, forget_after: float | None = None) -> Job:
        if not await self._on.store.change_job(row, forget_after=forget_after):
            raise BusyError(phrase("The job {name} was changed meanwhile.", name=row.name), phrase("Try again."))
        self._on.changed()
        return job_of(structs.replace(row, version=row.version + 1))

    async def _spec(self, spec: Spec, wish: Wish, job_id: str = "") -> Spec:
        """The spec with what is wished, checked."""
        given = {name: value for name in Spec.__struct_fields__ if (value := getattr(wish, name, UNSET)) is not UNSET}
        if isinstance(wish.context_from, tuple):
            given["context_from"] = await self._ids(wish.context_from, job_id)
        if isinstance(wish.deliver, tuple):
            given["deliver"] = checked_targets(wish.deliver, self._on.platforms, origin=spec.origin)
        elif not job_id and spec.origin:
            given["deliver"] = ("origin",)
        spec = structs.replace(spec, **given)
        spec = structs.replace(spec, prompt=clean_surrogates(spec.prompt).strip())
        self._check(spec)
        return spec

    def _check(self, spec: Spec) -> None:
        if len(spec.prompt) > MOST_PROMPT:
            raise UsageError(phrase("A prompt has at most {n} characters.", n=MOST_PROMPT))
        if spec.no_agent and not spec.script:
            raise UsageError(phrase("A job without a model needs a script."))
        if not (spec.prompt or spec.script or spec.skills):
            raise UsageError(phrase("A job needs a prompt, a skill or a script."))
        if spec.script:
            self._on.scripts.check(spec.script)
        if len(spec.skills) > _MOST_NAMED or len(spec.context_from) > _MOST_NAMED:
            raise UsageError(phrase("A job names at most {n} skills, and as many jobs.", n=_MOST_NAMED))
        self._on.toolsets(spec.toolsets)
        self._on.skills(spec.skills)
        _check_numbers(spec)

    async def _ids(self, names: Sequence[str], job_id: str) -> tuple[str, ...]:
        found = [(await self.find(name)).id for name in names]
        if job_id and job_id in found:
            raise UsageError(phrase("A job cannot build on itself."))
        return tuple(dict.fromkeys(found))

    async def _free(self, name: str) -> str:
        """A name like this one that no job has."""
        taken = {row.name.lower() for row in await self._on.store.jobs()}
        numbered = (f"{name[:58]} {number}" for number in range(2, len(taken) + 3))
        return name if name.lower() not in taken else next(one for one in numbered if one.lower() not in taken)


def wish_of(values: Mapping[str, object]) -> Wish:
    """A wish of values by name; their types are checked. Raises UsageError."""
    try:
        return msgspec.convert(values, Wish)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from None


def _started(job: Job, now: float) -> JobRow:
    """The job's row with its cursor at the first instant after now. Raises UsageError when there is none."""
    at = job.schedule.after(now)
    if at is None:
        raise UsageError(phrase("{schedule!r} is never again.", schedule=job.row.schedule[:80]))
    return structs.replace(job.row, next_at=at, wake_at=at + job.offset)


def _name(text: str) -> str:
    name = " ".join(text.split())
    if not _NAME.fullmatch(name):
        raise UsageError(
            phrase("{name!r} cannot be a job's name.", name=name[:80]),
            phrase("Use letters, digits, spaces and `.,_+@-`, 64 at most."),
        )
    return name


def _short(spec: Spec) -> str:
    """A name out of the first words of what it does."""
    words = re.sub(r"[^\w .,+@-]+", " ", spec.prompt or spec.script or " ".join(spec.skills))
    return one_line(" ".join(words.split()[:5]), 40).rstrip("… .,").lstrip(".,+@- ")


def _check_numbers(spec: Spec) -> None:
    """Raises UsageError for a number that cannot be meant."""
    wrong = (
        (spec.repeat is not None and not 1 <= spec.repeat <= 1_000_000, "repeat"),
        (spec.max_cost is not None and not is_amount(spec.max_cost), "max_cost"),
        (spec.grace is not None and not 0 <= spec.grace <= 366 * 86_400, "grace"),
        (not 1 <= spec.catch_up_limit <= 100, "catch_up_limit"),
        (not 0 <= spec.jitter <= 86_400, "jitter"),
    )
    for found, name in wrong:
        if found:
            raise UsageError(phrase("{name} is out of range.", name=name))
