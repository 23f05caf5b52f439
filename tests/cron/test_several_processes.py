"""Several processes on one store, killed in the middle: no instant runs twice, and none is lost."""

import asyncio
import itertools
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

from hermes.cron.jobs import CronJobDeps, CronJobs, JobRequest
from hermes.cron.scheduler import JobScheduler
from hermes.store.jobs import InstantRow
from hermes.store.store import Store
from tests.cron.scheduler_rig import load_targets, unchecked
from tests.cron.worker_process import FastClock, begun_log, means_for

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]


async def _started(home: Path, began: float) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.cron.worker_process", str(home), str(began), "60",
        cwd=_ROOT, env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )  # fmt: skip


async def _jobs_made(store: Store, home: Path, clock: FastClock) -> list[str]:
    means = means_for(home, store, clock)
    jobs = CronJobs(
        CronJobDeps(
            store=store.jobs,
            clock=clock,
            scripts=means.scripts,
            outputs=means.outputs,
            load_targets=load_targets,
            get_machine_zone=lambda: "UTC",
            check_toolsets=unchecked,
            check_skills=unchecked,
        )
    )
    made = [
        await jobs.create_job(
            JobRequest(name=f"job{n}", schedule="every 1m", prompt="x", repeatable=n % 2 == 1, quiet=True)
        )
        for n in range(6)
    ]
    return [job.id for job in made]


async def _kill_processes(home: Path, began: float, count: int) -> None:
    """Let three processes run jobs, of which one after another is killed and replaced."""
    dice = random.Random(4)
    processes = [await _started(home, began) for _ in range(3)]
    for _ in range(count):
        await _wait_for_runs(processes[0], home, dice.randint(4, 12))
        victim = processes.pop(0)
        victim.send_signal(signal.SIGKILL)
        await victim.wait()
        processes.append(await _started(home, began))
    for process in processes:
        process.kill()
        await process.wait()


async def _wait_for_runs(process: asyncio.subprocess.Process, home: Path, runs: int) -> None:
    """Return when the process has just begun a run, after so many others."""
    log = begun_log(home, process.pid)
    async with asyncio.timeout(60):
        while not log.exists() or log.read_text("ascii").count("\n") <= runs:  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0.002)


async def test_no_instant_runs_twice_whoever_is_killed(tmp_path: Path) -> None:
    began = float(int(time.time()))
    clock = FastClock(began)
    store = await Store.open(tmp_path, clock)
    try:
        ids = await _jobs_made(store, tmp_path, clock)
        await _kill_processes(tmp_path, began, 7)
        await clock.sleep(120)  # longer than a lease
        last = JobScheduler(means_for(tmp_path, store, clock), keep=10**9)
        for job_id in ids:
            await _paused(store, job_id)
        await last.run_until_empty()
        rows = {job_id: await store.jobs.list_history(job_id, 10_000) for job_id in ids}
    finally:
        await store.close()
    begun = Counter(line for log in tmp_path.glob("begun-*.log") for line in log.read_text("ascii").splitlines())
    names = {job_id: f"job{number}" for number, job_id in enumerate(ids)}
    lost = sum(_checked(found, names[job_id], begun) for job_id, found in rows.items())
    assert lost > 0, "no process was killed while it ran something"
    assert sum(begun.values()) > 50


async def _paused(store: Store, job_id: str) -> None:
    """Let nothing more be due."""
    while True:
        row = await store.jobs.get(job_id)
        assert row is not None
        if await store.jobs.update(structs.replace(row, next_at=None, wake_at=None)):
            return


def _checked(rows: list[InstantRow], name: str, begun: Counter[str]) -> int:
    """Check one job's rows, minute by minute; how many instants were lost by a kill."""
    rows = sorted(rows, key=lambda row: row.at)
    for before, after in itertools.pairwise(rows):
        assert after.at == before.through + 60
    lost = 0
    for row in rows:
        assert row.state in ("ran", "missed", "skipped", "failed"), row
        times = begun[f"{name} {row.at}"]
        killed = row.reason == "the process ended"
        lost += killed or row.fence > 1
        if row.fence <= 1:  # nobody began it a second time
            assert times == 1 if row.state == "ran" else times <= 1, (row, times)
        else:
            assert int(name[3:]) % 2 == 1, "only what is repeatable is begun again"
            assert times <= row.fence
    return lost
