"""What the tests of jobs stand on: a real store, a clock by hand, and a runner and a courier that take notes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from hermes.config.chat_targets import ChatTarget, ReachablePerson, TargetBook
from hermes.core.errors import HermesError, StoreError
from hermes.core.messages import TextPart
from hermes.cron.execution import JobRunDeps
from hermes.cron.job import CronJob
from hermes.cron.jobs import CronJobDeps, CronJobs, JobRequest
from hermes.cron.output import JobOutputs
from hermes.cron.runner import JobPrompt, JobRunOutcome
from hermes.cron.scheduler import JobScheduler
from hermes.cron.scripts import JobScripts
from hermes.store.store import Store
from hermes.testing.clock import ManualClock
from hermes.util.process_identity import identify_this_process

ANNA = ReachablePerson("telegram:6660", "Anna", ChatTarget("telegram", "6660"))
BOOK = TargetBook(homes={"telegram": "900", "matrix": ""}, people=(ANNA, ReachablePerson("matrix:bob", "Bob", None)))


class NotingRunner:
    """Answers each prompt with `answer`, or with what `gate` lets through; `ran` is what it was asked."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, float]] = []
        self.prompts: list[JobPrompt] = []
        self.answer = JobRunOutcome(ok=True, text="done")
        self.gate: asyncio.Event | None = None
        self.stopped: set[str] = set()
        self.began = asyncio.Event()
        self._stops: dict[str, asyncio.Event] = {}

    async def run(self, job: CronJob, instant: float, prompt: JobPrompt) -> JobRunOutcome:
        """Note it, and wait at the gate where there is one."""
        self.ran.append((job.name, instant))
        self.prompts.append(prompt)
        self.began.set()
        if self.gate is not None:
            stop = self._stops[job.id] = asyncio.Event()
            waiting = {asyncio.create_task(self.gate.wait()), asyncio.create_task(stop.wait())}
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waiting:
                    task.cancel()
        return self.answer

    def stop(self, job_id: str) -> None:
        """Let it end."""
        self.stopped.add(job_id)
        if job_id in self._stops:
            self._stops[job_id].set()


class RecordingJobDelivery:
    """Takes everything for the platforms that there are, once a key; `down` makes it refuse."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[str, str]] = {}
        self.here = True
        self.down = False

    async def can_reach(self, target: str) -> bool:
        """Whether it is here at all."""
        return self.here

    async def deliver(self, target: str, text: str, files: Sequence[Path], *, key: str, session_id: str = "") -> None:
        """Note it."""
        if self.down:
            raise StoreError("The outbox is full.")
        assert key not in self.sent
        self.sent[key] = (target, text)

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Where it went and what, in order."""
        return list(self.sent.values())


class Rig(Struct):
    """All of it."""

    home: Path
    clock: ManualClock
    store: Store
    runner: NotingRunner
    courier: RecordingJobDelivery
    jobs: CronJobs
    means: JobRunDeps
    scheduler: JobScheduler

    def again(self, **more: int) -> JobScheduler:
        """Another scheduler on the same store, as after a restart."""
        self.scheduler = JobScheduler(self.means, **more)
        return self.scheduler

    async def add(self, schedule: str, **more: object) -> CronJob:
        """A job with a prompt."""
        wish = {"prompt": "Say what time it is.", "zone": "UTC", "deliver": ("telegram:7",)} | more
        return await self.jobs.create_job(JobRequest(schedule=schedule, **wish))  # type: ignore[arg-type]

    async def rows(self, job: CronJob) -> list[tuple[float, str, str]]:
        """What became of its instants, the oldest first."""
        found = await self.store.jobs.list_history(job.id, 10_000)
        return [(row.at, str(row.state), row.reason) for row in reversed(found)]

    async def ticked(self) -> None:
        """One tick, and all that follows from it."""
        await self.scheduler.tick()
        await self.scheduler.run_until_empty()


async def load_targets() -> TargetBook:
    """What can be a target."""
    return BOOK


async def _no_skills(names: Sequence[str]) -> Sequence[TextPart]:
    return ()


def unchecked(names: Sequence[str]) -> None:
    """All names are known."""


@asynccontextmanager
async def rigged(home: Path, start: float) -> AsyncIterator[Rig]:
    """A rig in a folder; its scheduler is closed at the end."""
    clock = ManualClock(start)
    store = await Store.open(home, clock)
    outputs = JobOutputs(home / "cron" / "output")
    scripts = JobScripts(home / "scripts", {"PATH": "/usr/bin:/bin", "MY_API_KEY": "x"}, lambda text: text)
    runner, courier = NotingRunner(), RecordingJobDelivery()
    means = JobRunDeps(
        store=store.jobs,
        clock=clock,
        runner=runner,
        delivery=courier,
        outputs=outputs,
        scripts=scripts,
        load_skills=_no_skills,
        owner=f"{identify_this_process()} test",
    )
    jobs = CronJobs(
        CronJobDeps(
            store=store.jobs,
            clock=clock,
            scripts=scripts,
            outputs=outputs,
            load_targets=load_targets,
            get_machine_zone=lambda: "UTC",
            check_toolsets=unchecked,
            check_skills=unchecked,
        )
    )
    rig = Rig(home, clock, store, runner, courier, jobs, means, JobScheduler(means))
    try:
        yield rig
    finally:
        await rig.scheduler.close()
        await store.close()


async def refused(work: "asyncio.Future[object] | object") -> str:
    """Why something was refused."""
    try:
        await work  # type: ignore[misc]
    except HermesError as error:
        return str(error)
    raise AssertionError("it was not refused")


PYTHON = sys.executable
