"""What folder plug-ins cost: `python -m bench.plugins [--calls 1000] [--rounds 5]`.

hooks    CPU of this process, and wall time, for one call of a tool that the hooks of three plug-ins are asked about,
         one after the other; and the CPU of their three children
start    wall time from the first request to its answer: the box is made, the child greeted
memory   resident memory of a child that waits, and what this process grew by for three of them
session  wall time of reading three plug-ins for a session, and again while what was read is fresh
shell    wall time of a moment with one and with four programs as hooks, side by side, and of as many bare shells
each     wall time until the first, second ... of those hooks has ended, and of as many bare shells
"""

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from hermes.config.plugin_consents import PluginConsent, PluginConsents
from hermes.execution.supervisor import Supervisors
from hermes.hooks.dispatcher import HookDispatcher
from hermes.hooks.events import HookEvent
from hermes.hooks.hook import HookCall
from hermes.hooks.hook_sets import HookPlace, read_hook_set
from hermes.hooks.shell_hooks import ShellHookDeps, make_shell_sources
from tests.plugin_host.rig import HEADER, PluginRig, open_rig

_GUARD = f"""{HEADER}
@hook("pre_tool_call")
def guard(moment):
    if "rm -rf /" in str(moment["arguments"]):
        return {{"decision": "deny", "reason": "no"}}
run()
"""
_CALL = HookCall(
    event=HookEvent.PRE_TOOL_CALL,
    session_id="20261127-1",
    folder="/home/ann/project",
    tool="terminal",
    arguments={"command": "ls -la " * 14},
)


def list_children(mark: bytes) -> list[int]:
    """Return the processes whose call names the folder of the trial."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path(f"/proc/{name}/cmdline").read_bytes() and int(name) != os.getpid():
                found.append(int(name))
        except OSError:
            continue
    return found


def read_cpu(pids: list[int]) -> float:
    """Return the CPU seconds of processes so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def read_memory(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


async def measure(rig: PluginRig, calls: int, rounds: int) -> None:
    """Measure and print."""
    for number in range(3):
        rig.add_plugin(f"guard{number}", _GUARD, "hooks: [pre_tool_call]")
    began = time.perf_counter()
    sources = rig.host.open_session(str(rig.workspace)).hooks
    first = time.perf_counter() - began
    began = time.perf_counter()
    rig.host.open_session(str(rig.workspace))
    again = time.perf_counter() - began
    grown = read_memory(os.getpid())
    starts = []
    for source in sources:
        began = time.perf_counter()
        await source.run_hook(_CALL)
        starts.append(time.perf_counter() - began)
    grown = read_memory(os.getpid()) - grown
    children = list_children(os.fsencode(str(rig.home)))
    own, theirs, wall = [], [], []
    for _ in range(rounds):
        cpu, below, began = time.process_time(), read_cpu(children), time.perf_counter()
        for _ in range(calls):
            for source in sources:
                await source.run_hook(_CALL)
        own.append(1_000 * (time.process_time() - cpu) / calls)
        theirs.append(1_000 * (read_cpu(children) - below) / calls)
        wall.append(1_000 * (time.perf_counter() - began) / calls)
    memory = [read_memory(pid) for pid in children]
    print(
        f"hooks    {min(own):.3f} ms CPU (median {statistics.median(own):.3f}), {min(wall):.3f} ms wall, and "
        f"{min(theirs):.3f} ms CPU of the children, a call"
    )
    print(f"start    {1_000 * statistics.median(starts):.0f} ms")
    print(f"memory   {max(memory):.1f} MB the largest of {len(memory)} processes, {grown:.1f} MB here")
    print(f"session  {1_000 * first:.2f} ms, {1_000 * again:.3f} ms again")


async def measure_shells(folder: Path, rounds: int) -> None:
    """Measure programs as hooks against the same programs started by hand, in turns, and print."""
    supervisors = Supervisors(os.environ)
    try:
        for count in (1, 4):
            hooks = {"PreToolUse": [{"hooks": [{"command": f"exec true {number}"} for number in range(count)]}]}
            place = HookPlace(name="hooks", file=str(folder / "config.yaml"), section=hooks)
            consents = PluginConsents(folder / "plugins.json")
            found = read_hook_set(place, str(folder), os.environ, consents)
            consents.enable(found.key, PluginConsent("", found.digest))
            found = read_hook_set(place, str(folder), os.environ, consents)
            shell = f"/bin/{found.definitions.hooks[0].shell}"  # a program of a Claude name is read by bash
            deps = ShellHookDeps(
                folder=str(folder),
                environ=os.environ,
                find_supervisors=lambda: supervisors,
                resolve_path=lambda path: path,
                write_transcript=lambda: "",
            )
            sources = make_shell_sources([found], deps)
            dispatcher = HookDispatcher(sources, print)
            ours, bare = [], []
            for _ in range(rounds):
                began = time.perf_counter()
                await dispatcher.run(_CALL)
                ours.append(1_000 * (time.perf_counter() - began))
                began = time.perf_counter()
                await asyncio.gather(*(asyncio.to_thread(_run_bare, shell, number) for number in range(count)))
                bare.append(1_000 * (time.perf_counter() - began))
            print(
                f"shell    {count}: {statistics.median(ours):.2f} ms, bare {statistics.median(bare):.2f} ms (medians)"
            )
            hooks_end = [partial(one.run_hook, _CALL) for one in sources]
            bare_end = [partial(asyncio.to_thread, _run_bare, shell, number) for number in range(count)]
            own, other = await _time_ends(hooks_end, rounds), await _time_ends(bare_end, rounds)
            for place, (mine, theirs) in enumerate(zip(own, other, strict=True), 1):
                print(f"each     {place} of {count}: {mine:.2f} ms, bare {theirs:.2f} ms (medians)")
    finally:
        await supervisors.close()


async def _time_ends(starts: Sequence[Callable[[], Awaitable[object]]], rounds: int) -> list[float]:
    """Return the median times, in milliseconds, until the first, the second ... of some things has ended."""

    async def time_end(start: Callable[[], Awaitable[object]], began: float) -> float:
        await start()
        return 1_000 * (time.perf_counter() - began)

    ends = []
    for _ in range(rounds):
        began = time.perf_counter()
        ends.append(sorted(await asyncio.gather(*(time_end(one, began) for one in starts))))
    return [statistics.median(one) for one in zip(*ends, strict=True)]


def _run_bare(shell: str, number: int) -> None:
    subprocess.run([shell, "-c", f"exec true {number}"], input=b"{}", capture_output=True, check=True)


async def run_trial(calls: int, rounds: int) -> None:
    """Run the trial in a folder of its own."""
    with tempfile.TemporaryDirectory() as root:
        async with open_rig(Path(root)) as rig:
            await measure(rig, calls, rounds)
        await measure_shells(Path(root), calls // 5)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    asyncio.run(run_trial(given.calls, given.rounds))


if __name__ == "__main__":
    main()
