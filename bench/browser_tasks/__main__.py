"""Twenty tasks on sites of our own: `python -m bench.browser_tasks [--peers FOLDER] [--only form,drag] [--show]`.

Each is done by Hermes' browser in its box, by Playwright's MCP server and by agent-browser, all at their defaults, by
a fixed script of calls that looks refs up in what is printed; the page's report at the end tells whether it is done.
Tokens are characters / 4 of all calls and results. Peers lie in FOLDER: `npm install @playwright/mcp agent-browser`.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from bench.browser_tasks import agent_browser_scripts, hermes_scripts, playwright_scripts
from bench.browser_tasks.programs import (
    AgentBrowserProgram,
    HermesProgram,
    PlaywrightProgram,
    TaskFailedError,
    find_missing,
    run_agent_browser,
    run_hermes,
    run_playwright,
)
from bench.browser_tasks.site import TaskSite, serve_tasks
from bench.browser_tasks.tasks import TASKS, Task
from hermes.core.errors import HermesError

_PROOF_SECONDS = 3.0
AnyProgram = HermesProgram | PlaywrightProgram | AgentBrowserProgram


class Outcome(NamedTuple):
    """What a task has cost, in characters and calls. `failure` is empty where it is done."""

    spent: int
    calls: int
    failure: str


async def open_start(program: AnyProgram, url: str) -> None:
    """Open the page where a task begins."""
    if isinstance(program, AgentBrowserProgram):
        await program.call("open", url)
    else:
        await program.call("navigate", url=url)


async def do_task(program: AnyProgram, scripts: ModuleType, task: Task, site: TaskSite) -> Outcome:
    """Do a task, and look at what its page has reported."""
    site.states.pop(task.path, None)
    program.begin()
    failure = ""
    script: Callable[[AnyProgram], Awaitable[None]] = getattr(scripts, task.path)
    try:
        await open_start(program, f"http://{program.hosts[0]}:{site.port}/{task.path}")
        await script(program)
        async with asyncio.timeout(_PROOF_SECONDS):
            while site.states.get(task.path) != task.proof:  # noqa: ASYNC110 - the page reports to another thread
                await asyncio.sleep(0.02)
    except TimeoutError:
        failure = f"the page reports {site.states.get(task.path)!r}"
    except (TaskFailedError, HermesError, KeyError) as error:
        failure = str(error)
    return Outcome(program.spent, program.calls, failure)


async def run_all(
    lend: Callable[[], AbstractAsyncContextManager[AnyProgram]],
    scripts: ModuleType,
    tasks: tuple[Task, ...],
    site: TaskSite,
    show: bool,
) -> tuple[AnyProgram, dict[str, Outcome]]:
    """Do all tasks with one program, one after another in one browser."""
    found: dict[str, Outcome] = {}
    async with lend() as program:
        for task in tasks:
            found[task.path] = await do_task(program, scripts, task, site)
            if show or found[task.path].failure:
                shown = program.log if show else program.log[-1:]
                print(f"\n== {program.name}: {task.path}: {found[task.path]}", file=sys.stderr)
                for call, result in shown:
                    print(f"> {call}\n{result}", file=sys.stderr)
        return program, found


def print_table(runs: list[tuple[AnyProgram, dict[str, Outcome]]], tasks: tuple[Task, ...]) -> None:
    """Print tokens and calls by task, the sums, and the ratios."""
    print("task      ", *(f"{program.name:>20}" for program, _ in runs), "   Hermes / peers")
    ours = runs[0][1]
    for task in tasks:
        cells = []
        for _, found in runs:
            one = found[task.path]
            cells.append(f"{one.spent // 4:>9} in {one.calls:>2} {'done' if not one.failure else 'FAIL':>4}")
        ratios = [f"{ours[task.path].spent / found[task.path].spent:>7.0%}" for _, found in runs[1:]]
        print(f"{task.path:<10}", *(f"{cell:>20}" for cell in cells), *ratios)
    sums = [sum(found[task.path].spent for task in tasks) for _, found in runs]
    print("sum       ", *(f"{one // 4:>20}" for one in sums), *(f"{sums[0] / one:>7.0%}" for one in sums[1:]))
    print("done      ", *(f"{sum(not one.failure for one in found.values()):>20}" for _, found in runs))
    print("definitions", *(f"{program.definitions // 4:>19} " for program, _ in runs))
    print("version   ", *(f"{program.version:>20}" for program, _ in runs))
    for number, (program, found) in enumerate(runs[1:], 1):
        ratios = [ours[task.path].spent / found[task.path].spent for task in tasks]
        more = [task.path for task in tasks if ours[task.path].spent > found[task.path].spent]
        print(
            f"Hermes beside {program.name}: sum {sums[0] / sums[number]:.0%}, median of the tasks "
            f"{statistics.median(ratios):.0%}, worst {max(ratios):.0%}; dearer on: {', '.join(more) or 'none'}"
        )


async def main(peers: Path | None, only: str, show: bool) -> int:
    wanted = set(filter(None, only.split(",")))
    tasks = tuple(task for task in TASKS if not wanted or task.path in wanted)
    missing = find_missing(peers)
    for name, reason in missing.items():
        print(f"{name} is left out: {reason}")
    with serve_tasks() as own, serve_tasks() as first, serve_tasks() as second:
        work = [run_all(lambda: run_hermes(own.port), hermes_scripts, tasks, own, show)]
        if peers is not None and "Playwright MCP" not in missing:
            work.append(run_all(lambda: run_playwright(peers), playwright_scripts, tasks, first, show))
        if peers is not None and "agent-browser" not in missing:
            work.append(run_all(lambda: run_agent_browser(peers), agent_browser_scripts, tasks, second, show))
        runs = await asyncio.gather(*work)
    print_table(runs, tasks)
    return int(any(one.failure for one in runs[0][1].values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true", help="print every call and result")
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.peers, given.only, given.show)))
