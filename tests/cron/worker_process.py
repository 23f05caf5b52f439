"""A process that lets jobs run, in a time that goes faster: `python -m tests.cron.worker_process HOME T0 SECONDS`.

It writes down each run that it begins, in one line that is written at once.
"""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hermes.core.messages import TextPart
from hermes.cron.execution import JobRunDeps
from hermes.cron.job import CronJob
from hermes.cron.output import JobOutputs
from hermes.cron.runner import JobPrompt, JobRunOutcome, NoJobDelivery
from hermes.cron.scheduler import JobScheduler
from hermes.cron.scripts import JobScripts
from hermes.store.store import Store
from hermes.util.process_identity import identify_this_process

FASTER = 600
"""Seconds of its time in a second."""


class FastClock:
    """Implements `util.clock.Clock`; all processes with the same `began` agree about the time."""

    def __init__(self, began: float) -> None:
        self._began = began

    def now(self) -> float:
        """Seconds since the Unix epoch, by this clock."""
        return self._began + (time.time() - self._began) * FASTER

    def monotonic(self) -> float:
        """As `now`."""
        return self.now()

    async def sleep(self, seconds: float) -> None:
        """Sleep so many of its seconds."""
        await asyncio.sleep(seconds / FASTER)


def begun_log(home: Path, pid: int) -> Path:
    """Return where a process writes down what it begins."""
    return home / f"begun-{pid}.log"


class LoggingRunner:
    """Writes down that a run began, and takes a moment."""

    def __init__(self, log: Path) -> None:
        self._handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def run(self, job: CronJob, instant: float, prompt: JobPrompt) -> JobRunOutcome:
        """Take 70 ms."""
        os.write(self._handle, f"{job.name} {instant}\n".encode())
        await asyncio.sleep(0.07)
        return JobRunOutcome(ok=True, text="[SILENT]")

    def stop(self, job_id: str) -> None:
        """Nobody stops it."""


async def _no_skills(_: Sequence[str]) -> Sequence[TextPart]:
    return ()


def means_for(home: Path, store: Store, clock: FastClock) -> JobRunDeps:
    """What such a process runs jobs with."""
    return JobRunDeps(
        store=store.jobs,
        clock=clock,
        runner=LoggingRunner(begun_log(home, os.getpid())),
        delivery=NoJobDelivery(),
        outputs=JobOutputs(home / "cron" / "output"),
        scripts=JobScripts(home / "scripts", {}, str),
        load_skills=_no_skills,
        owner=f"{identify_this_process()} worker",
    )


async def work(home: Path, began: float, seconds: float) -> None:
    """Run jobs for so long."""
    clock = FastClock(began)
    store = await Store.open(home, clock)
    scheduler = JobScheduler(means_for(home, store, clock), keep=10**9)
    running = asyncio.create_task(scheduler.run())
    await asyncio.wait({running}, timeout=seconds)
    running.cancel()
    await asyncio.wait({running})
    await store.close()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
