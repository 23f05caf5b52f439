"""What the browser costs: `python -m bench.browser [--rounds 7]`.

start     wall time from the start of the browser in its box until a page is told, and the CPU of all processes until it
          is quiet, beside that of the same browser that opens the same page by itself, without a box
memory    proportional set size of all processes of the browser with one page, what each further page adds, and what
          this process holds
snapshot  wall time of a snapshot of a page of 40 nodes and of one of 4,500, with the characters of what is told
"""

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from hermes.browser.navigation import navigate
from hermes.browser.open_browser import OpenBrowser
from hermes.browser.page_report import PageReporter
from hermes.browser.process.launch import BrowserStarter
from hermes.browser.session_browser import BrowserPlan, SessionBrowser
from hermes.browser.snapshot import take_snapshot
from hermes.execution.base import Permit
from hermes.execution.sandbox.probe import SandboxProbe
from hermes.execution.supervisor import Supervisors
from hermes.safety.urls import UrlPolicy
from tests.browser.browser_site import serve_site
from tests.browser.running_browser import FLAGS, run_browser
from tests.requirements import find_program

PROGRAMS = ("chromium-headless-shell", "chromium")
_TICKS = os.sysconf("SC_CLK_TCK")
_QUIET_SECONDS = 0.5
_FURTHER = 3


def list_tree(root: int) -> list[int]:
    """The process and all that stand below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for one in found:
        found += parents.get(one, [])
    return found


def read_cpu(processes: list[int]) -> float:
    """CPU seconds of processes that run."""
    total = 0
    for process in processes:
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / _TICKS


def read_memory(processes: list[int]) -> float:
    """Proportional set size of processes, in MB."""
    total = 0
    for process in processes:
        try:
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


async def measure_bare(program: str, site: str) -> float:
    """CPU seconds of a browser that opens a page by itself, until nothing more happens."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        flags = [one for one in FLAGS if "pipe" not in one]
        command = [str(find_program(program)), *flags, f"--user-data-dir={folder}", "--remote-debugging-port=0"]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(  # noqa: ASYNC220 - a moment at the start of a measurement
            [*command, f"{site}/"], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )
        try:
            before, stable = -1.0, 0
            while stable < 3:
                await asyncio.sleep(_QUIET_SECONDS)
                now = read_cpu(list_tree(process.pid))
                stable = stable + 1 if now - before < 0.02 else 0
                before = now
            return before
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the program may be a script that starts the browser
            process.wait()


async def measure_start(program: str, site: str) -> tuple[float, float, float, float, float]:
    """Seconds until a page is told by a browser in its box, from the session on; CPU of its processes and of this one
    until it is quiet; MB of one page, and of each further one.
    """
    environ = dict(os.environ)
    supervisors = Supervisors(environ)
    probe = SandboxProbe(environ)
    await probe.find_support()  # once a process, for commands as well
    await supervisors.is_available()
    host = site.removeprefix("http://")
    with tempfile.TemporaryDirectory() as folder:
        plan = BrowserPlan(
            environ=environ,
            downloads=Path(folder) / "downloads",
            program=str(find_program(program)),
            policy=UrlPolicy(private=(host,)),
        )
        browser = SessionBrowser(plan, BrowserStarter(supervisors=supervisors, probe=probe))
        others = set(list_tree(os.getpid()))
        own, begun = time.process_time(), time.perf_counter()
        async with browser.use_pages(_Yes(), f"{site}/") as pages:
            tab = await pages.browser.get_current_tab()
            await navigate(tab, f"{site}/")
            await pages.describe_after(tab)
            wall = time.perf_counter() - begun
            await asyncio.sleep(3 * _QUIET_SECONDS)
            tree = [one for one in list_tree(os.getpid()) if one not in others]
            cpu, mine, memory = read_cpu(tree), time.process_time() - own, read_memory(tree)
            for _ in range(_FURTHER):
                await navigate(await pages.browser.open_tab(), f"{site}/")
            await asyncio.sleep(_QUIET_SECONDS)
            tree = [one for one in list_tree(os.getpid()) if one not in others]
            further = (read_memory(tree) - memory) / _FURTHER
        await browser.close()
        await supervisors.close()
        return wall, cpu, mine, memory, further


class _Yes:
    """Allows every site."""

    async def open_site(self, host: str, port: int) -> Permit:
        return Permit(True)

    async def send_to_site(self, host: str, port: int, sender: str) -> Permit:
        return Permit(True)


async def measure_snapshots(program: str, site: str, rounds: int) -> Iterator[tuple[str, int, float, int]]:
    """For each page: its nodes, the milliseconds of a snapshot, and the characters of what is told of it."""
    found = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with run_browser(Path(folder), program=program) as running:
            browser = OpenBrowser(running.connection)
            await browser.start()
            tab = await browser.get_current_tab()
            for path in ("/", "/table", "/long-table"):
                await navigate(tab, f"{site}{path}")
                told = await PageReporter(browser).describe_after(tab)
                taken = []
                for _ in range(rounds):
                    begun = time.perf_counter()
                    snapshot = await take_snapshot(tab)
                    taken.append(1_000 * (time.perf_counter() - begun))
                nodes = sum(len(document.nodes) for document in snapshot.documents)
                found.append((path, nodes, statistics.median(taken), len(told.text)))
            await browser.close()
    return iter(found)


async def main(rounds: int) -> None:
    with serve_site() as site:
        for program in PROGRAMS:
            if find_program(program) is None:
                print(f"{program}: not installed")
                continue
            alone, runs = [], []
            for _ in range(rounds):
                alone.append(await measure_bare(program, site))
                runs.append(await measure_start(program, site))
            bare = statistics.mean(alone)  # the kernel counts in hundredths of a second
            wall, cpu, mine, memory, further = (statistics.mean(column) for column in zip(*runs, strict=True))
            print(f"{program}: {wall:.2f} s to a page that is told (of {rounds} runs: {min(runs)[0]:.2f} to", end=" ")
            print(f"{max(runs)[0]:.2f}); CPU {cpu:.3f} + {mine:.3f} s of ours, alone {bare:.3f} s:", end=" ")
            print(f"{(cpu + mine) / bare:.2f} times; {memory:.0f} MB, each further page {further:.1f} MB")
            for path, nodes, milliseconds, characters in await measure_snapshots(program, site, 15):
                print(f"  {path}: {nodes} nodes, {milliseconds:.1f} ms, {characters} characters")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(main(parser.parse_args().rounds))
