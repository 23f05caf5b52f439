"""Kill -9 at random tool calls of code that runs, then resume: the code goes on at that very call.

    python -m tests.torture.code_kills [--count 1000] [--seed 1] [--jobs 1] [--seconds 0]

Real `hermes` processes talk to a model that lets `execute_code` run a program of a dozen calls. They are killed at
random instants while the program runs, the ones that resume too, up to three times in a row. Judged from outside: the
output is that of the undisturbed run byte for byte; each effect is there once. A call that may not be repeated and is
under way is never made again by Hermes: the code is told `OutcomeUnknown`, looks whether the effect is there, and makes
it where it is not. No worker of the interpreter outlives its process. Exit 1 when anything is otherwise.
"""

import argparse
import asyncio
import os
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hermes.testing.conversation import StepRole
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer
from tests.torture.marked_world import hermes, kill, say, stored

SETTINGS = {"command_allowlist": ["*"], "agent": {"api_max_retries": 1}, "terminal": {"backend": "local"}}
MAX_ROW = 3
"""Kills in a row before a process may finish."""
STEPS = 10
_WORKER = "/worker"
_PROGRAM = """
import json
unknown = 0
def act(token):
    global unknown
    for attempt in range(9):
        try:
            terminal(command=f"sleep 0.04; echo {token} >> effects; sleep 0.03")
            return token
        except OutcomeUnknown:
            unknown += 1
            try:
                if token in read_file(path="effects"):
                    return token
            except ToolError:
                pass
    return "never"
def number(text):
    return text.split("|")[-1].strip()
total = []
for step in range(STEPS):
    if step % 3 == 0:
        total.append(number(read_file(path=f"notes/{step}")))
    elif step % 3 == 1:
        total.append(act(f"NAME-{step}"))
    else:
        asked = [("read_file", {"path": f"notes/{n}"}) for n in range(step)]
        total.append([number(one)[:5] for one in at_once(asked)])
    print(step, json.dumps(total[-1]))
print("sum", len(json.dumps(total)))
"""


def program(name: str) -> str:
    """The program of one world."""
    return _PROGRAM.replace("STEPS", str(STEPS)).replace("NAME", name)


class CodeModel:
    """Has the program run, and answers with the end. A function of the request alone."""

    def __init__(self) -> None:
        self.outputs: dict[str, str] = {}
        self.requests = 0

    def reply(self, request: RecordedRequest) -> Reply:
        """The call, or the answer."""
        self.requests += 1
        text = "\n".join(step.text for step in request.conversation if step.role is StepRole.USER)
        name = text.rpartition("RUN ")[2].split()[0]
        results = [step for step in request.conversation if step.role is StepRole.TOOL]
        if results:
            # The result stands in a fence that names the folder, which is another one each time.
            self.outputs[name] = "\n".join(line for line in results[-1].text.split("\n") if "untrusted" not in line)
            return Say("END")
        arguments = {"name": "execute_code", "arguments": {"code": program(name)}}
        return Say(calls=(Call("tool_call", arguments),))


@dataclass
class Campaign:
    """The kills so far, by how far the program was."""

    server: ScriptedServer
    model: CodeModel
    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    start_seconds: float = 0.3
    """Seconds that a process takes before its first request, as measured last."""
    run_seconds: float = 0.5
    """Seconds from there to its end."""
    uncertain: int = 0
    """Calls under way that were told as of unknown outcome."""
    problems: list[str] = field(default_factory=list)

    @property
    def inside(self) -> int:
        """The kills that met a program that had called a tool."""
        return sum(times for phase, times in self.kills.items() if phase.startswith("at call"))

    async def world(self, name: str, chance: random.Random | None) -> str:
        """Run the program once, killed at random with a `chance`; return its output."""
        problems: list[str] = []
        with TempHome.for_server(self.server.url, more_config=SETTINGS) as home:
            (home.cwd / "notes").mkdir()
            for number in range(STEPS):
                (home.cwd / "notes" / str(number)).write_text(f"note{number}\n")
            arguments = ["-z", f"RUN {name}"]
            row = 0 if chance is None else chance.randint(1, MAX_ROW)
            for left in range(row, -1, -1):
                if await self._process(home, arguments, chance if left else None, problems):
                    break
                if stored(home, "SELECT 1 FROM turns"):
                    arguments = ["--continue"]
            # A shell that is ended in the middle of `echo` may write the word without the end of its line.
            text = (home.cwd / "effects").read_text() if (home.cwd / "effects").exists() else ""
            lines = re.findall(rf"{name}-\d", text)
            wanted = [f"{name}-{step}" for step in range(STEPS) if step % 3 == 1]
            if lines != wanted:
                problems.append(f"effects are {lines}, wanted {wanted}")
            if stored(home, "SELECT 1 FROM code_runs") or stored(home, "SELECT 1 FROM turns WHERE state = 'running'"):
                problems.append("something of the run is left in the store")
            states = stored(home, "SELECT count(*) FROM effects WHERE state = 'uncertain'")
            self.uncertain += int(str(states[0][0])) if states else 0
        self.runs += 1
        for one in problems:
            self.problems.append(f"{name}: {one}")
            say(f"PROBLEM {self.problems[-1]}")
        return self.model.outputs.pop(name, "").replace(name, "NAME")

    async def _process(
        self, home: TempHome, arguments: list[str], chance: random.Random | None, problems: list[str]
    ) -> bool:
        before = self.model.requests
        async with hermes(home, *arguments, mark="code:1") as process:
            ended = asyncio.create_task(process.communicate())
            if chance is not None:
                await self._instant(before, ended, chance, is_first=arguments[0] == "-z")
                if not ended.done():
                    workers = _find_children(process.pid)
                    kill(process)
                    await ended
                    self.kills[_phase(home)] += 1
                    if left := await _outlive(workers):
                        problems.append(f"workers outlive their process: {left}")
                    return False
            elif arguments[0] == "-z":
                await self._measure(before, ended)
            async with asyncio.timeout(60):
                _, err = await ended
        if process.returncode != 0 or b"Traceback" in err:
            problems.append(f"{arguments} ended with {process.returncode}: {err.decode()[-600:]}")
        return True

    async def _measure(self, before: int, ended: "asyncio.Task[object]") -> None:
        """Learn how fast the machine is now."""
        began = time.monotonic()
        while self.model.requests == before and not ended.done():
            await asyncio.wait({ended}, timeout=0.005)
        asked = time.monotonic()
        await asyncio.wait({ended}, timeout=60)
        self.start_seconds, self.run_seconds = asked - began, time.monotonic() - asked

    async def _instant(
        self, before: int, ended: "asyncio.Task[object]", chance: random.Random, *, is_first: bool
    ) -> None:
        deadline = time.monotonic() + 20
        while is_first and self.model.requests == before and not ended.done() and time.monotonic() < deadline:
            await asyncio.wait({ended}, timeout=0.005)
        # Who resumes needs its start first; it makes no request before its code has ended.
        seconds = chance.uniform(0.05, 0.9) * self.run_seconds
        seconds += 0 if is_first else 0.7 * self.start_seconds
        await asyncio.wait({ended}, timeout=seconds)


def _phase(home: TempHome) -> str:
    found = stored(home, "SELECT calls FROM code_runs")
    if found:
        return f"at call {int(str(found[0][0])) + 1:>2}"
    running = stored(home, "SELECT 1 FROM turns WHERE state = 'running'")
    return "before or after the calls" if running else "outside of a turn"


def _find_children(pid: int) -> list[int]:
    """The interpreter's workers among the children of a process."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            line = Path(f"/proc/{name}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if int(stat[1]) == pid and _WORKER in line:
            found.append(int(name))
    return found


async def _outlive(pids: list[int]) -> list[int]:
    """Which of these still live after a second."""
    for _ in range(50):
        pids = [pid for pid in pids if _is_alive(pid)]
        if not pids:
            break
        await asyncio.sleep(0.02)
    return pids


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def campaign(*, count: int, seed: int, jobs: int = 1, seconds: float = 0) -> Campaign:
    """Kill at least `count` times while the program runs, at most for so many seconds."""
    async with ScriptedServer([]) as server:
        model = server.model = CodeModel()
        run = Campaign(server, model)
        undisturbed = await run.world("w00000", None)
        if "sum" not in undisturbed:
            run.problems.append(f"the undisturbed run did not end: {undisturbed}")
            return run
        started = told = time.monotonic()
        numbers = iter(range(1, 100 * count + 100))

        async def check_undisturbed() -> None:
            if await run.world("w00000", None) != undisturbed:
                run.problems.append("an undisturbed run has another output")

        async def lane() -> None:
            nonlocal told
            while run.inside < count and not (seconds and time.monotonic() - started > seconds):
                number = next(numbers)
                if number % 20 == 0:
                    await check_undisturbed()
                output = await run.world(f"w{number:05}", random.Random(f"{seed}.{number}"))
                if output != undisturbed:
                    run.problems.append(f"w{number}: the output is another: {output!r}")
                    say(f"PROBLEM {run.problems[-1]}")
                server.requests.clear()
                if time.monotonic() - told > 15:
                    told = time.monotonic()
                    say(f"{told - started:5.0f} s: {run.inside} kills inside of {run.runs} runs")

        await asyncio.gather(*(lane() for _ in range(jobs)))
        return run


def main() -> int:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("count", 1000), ("seed", 1), ("jobs", 1), ("seconds", 0)):
        made.add_argument(f"--{name}", type=int, default=default)
    given = made.parse_args()
    started = time.monotonic()
    run = asyncio.run(campaign(**vars(given)))
    say(
        f"{run.inside} kills at calls of code in {run.runs} runs, seed {given.seed}, {time.monotonic() - started:.0f} s"
    )
    for phase, times in sorted(run.kills.items()):
        say(f"  {phase:<28}{times:>6}")
    say(f"{run.uncertain} calls were under way that may not be repeated: told as of unknown outcome, never made again")
    say(f"{len(run.problems)} problems")
    return 1 if run.problems or run.inside < given.count else 0


if __name__ == "__main__":
    sys.exit(main())
