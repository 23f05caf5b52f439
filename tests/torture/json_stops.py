"""Stops, TERMs, closed pipes and kill -9 at random instants of `hermes -z --stream-json`, alone and through a gateway.

    python -m tests.torture.json_stops [--count 2000] [--seed 0] [--jobs 2]

Judged from outside: every line that ends in a newline is whole JSON; after everything but a kill -9 the last line is
the result and names the outcome, or nothing was printed at all because the process had just been started; after a
closed pipe and a kill -9 `hermes sessions show` names the outcome. Exit 1 when anything is not.
"""

import argparse
import asyncio
import contextlib
import json
import random
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal, get_args

from hermes.core.outcomes import ExitReason
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import ForkedProcess, run_hermes, start_hermes
from tests.gateway.gateway_rig import home_for
from tests.gateway.served_gateway import served
from tests.vendors.ntfy import Fake

Way = Literal["int", "term", "hup", "twice", "pipe", "kill"]
OUTCOMES = {one.value for one in ExitReason} | {"not_started"}
ENDED = {one.value for one in ExitReason}
RUNS_A_HOME = 40
SIGNALS = {"int": signal.SIGINT, "term": signal.SIGTERM, "hup": signal.SIGHUP, "twice": signal.SIGINT}
_SETTLE_SECONDS = 30.0
_END_SECONDS = 60.0


class TalkingModel:
    """Talks, runs a command, talks again and answers; how slowly is drawn anew for each request."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def reply(self, request: RecordedRequest) -> Reply:
        """Return the next step by how many results the request carries."""
        pace = ReplyDelivery(pace=self._chance.choice((0.0, 0.001, 0.004)))
        done = len(request.results)
        if done < 2:
            nap = f"{self._chance.uniform(0, 0.15):.2f}"
            call = Call("terminal", {"command": f"echo step {done}; sleep {nap}; seq 1 200"}, call_id=f"c{done}")
            return Say("Thinking aloud. " * self._chance.randint(1, 40), calls=(call,), delivery=pace)
        return Say("It is done. 好了。 " * self._chance.randint(1, 60), delivery=pace)


@dataclass
class Tally:
    """What happened in a campaign."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


@dataclass
class Run:
    """One run: when and how it is ended, and what it printed."""

    way: Way
    delay: float
    lines_read: int
    printed: bytes = b""
    code: int = 0

    def whole_lines(self) -> list[dict[str, object]]:
        """Return what was printed, without a last line that has no end. Raises ValueError for what is no JSON."""
        found = [json.loads(line) for line in self.printed.split(b"\n")[:-1]]
        if not all(isinstance(one, dict) for one in found):
            raise ValueError("a line is no object")
        return found


def draw_run(chance: random.Random) -> Run:
    """Draw a run: most are ended somewhere in the middle, some before anything or after the end."""
    way = chance.choice(get_args(Way))
    return Run(way, chance.choice((chance.uniform(0.0, 0.3), chance.uniform(0.1, 1.2))), chance.randint(0, 30))


async def end_run(run: Run, home: TempHome) -> None:
    """Start a run, end it as it says, and read what it printed."""
    process = await start_hermes(home, "-z", "work", "--stream-json", stdout=PIPE)
    async with asyncio.timeout(_END_SECONDS):
        if run.way == "pipe":
            await _close_pipe(run, process)
        else:
            assert process.stdout is not None
            reading = asyncio.create_task(process.stdout.read())
            await asyncio.sleep(run.delay)
            process.send_signal(SIGNALS.get(run.way, signal.SIGKILL))
            if run.way == "twice":
                await asyncio.sleep(run.delay / 10)
                process.send_signal(signal.SIGINT)
            run.printed = await reading
        run.code = await process.wait()


async def _close_pipe(run: Run, process: ForkedProcess) -> None:
    """Read some lines, then go away."""
    assert process.stdout is not None
    for _ in range(run.lines_read):
        line = await process.stdout.readline()
        if not line:
            break
        run.printed += line
    process.stdout._transport.close()  # type: ignore[attr-defined]


def judge_lines(run: Run) -> str:
    """Return what is wrong with what a run printed; empty when nothing is."""
    try:
        lines = run.whole_lines()
    except ValueError as error:
        return f"a line is no whole JSON: {error}"
    if run.way in ("pipe", "kill"):
        return ""
    if not run.printed.endswith(b"\n") and run.printed:
        return "the last line has no end"
    if not lines:
        return "" if run.code == -SIGNALS[run.way] or run.code == 130 else f"nothing printed, exit code {run.code}"
    last = lines[-1]
    if last.get("type") != "result" or last.get("outcome") not in OUTCOMES:
        return f"the last line names no outcome: {last}"
    if sum(one.get("type") == "result" for one in lines) != 1:
        return "more than one result"
    if run.code not in (last.get("exit_code"), -SIGNALS[run.way]):
        return f"exit code {run.code}, and the result says {last.get('exit_code')}"
    return ""


async def judge_session(run: Run, home: TempHome) -> str:
    """Return what is wrong with what `sessions show` says of a run's session; empty when nothing is."""
    lines = run.whole_lines()
    if not lines or "session_id" not in lines[0]:
        return ""
    session_id = str(lines[0]["session_id"])
    until = time.monotonic() + _SETTLE_SECONDS
    while True:
        shown = await run_hermes(home, "sessions", "show", session_id, "--json")
        if shown.code:
            return f"sessions show fails: {shown.stderr}"
        outcome = json.loads(shown.stdout)["outcome"]
        if outcome in ENDED or outcome == "cut_off":
            return ""
        if time.monotonic() > until:
            return f"sessions show names no outcome: {outcome!r}"
        await asyncio.sleep(0.1)


async def try_run(run: Run, home: TempHome, name: str, tally: Tally) -> None:
    """Do one run and judge it."""
    try:
        await end_run(run, home)
        problem = judge_lines(run) or (await judge_session(run, home) if run.way in ("pipe", "kill") else "")
    except TimeoutError:
        problem = "it did not end"
    kind = "nothing" if not run.printed else "result" if b'"type":"result"' in run.printed else "cut"
    tally.counts[f"{run.way}: {kind}"] += 1
    if problem:
        tally.problems.append(f"{name} {run.way} after {run.delay:.3f} s or {run.lines_read} lines: {problem}")
        sys.stdout.write(f"{tally.problems[-1]}\n")
        sys.stdout.flush()


@contextlib.asynccontextmanager
async def open_home(server: ScriptedServer, *, with_gateway: bool) -> AsyncIterator[TempHome]:
    """Open a home whose `hermes -z` runs alone, or through a gateway."""
    if not with_gateway:
        with TempHome.for_server(server.url) as home:
            yield home
        return
    async with Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with served(home):
                yield home


async def run_campaign(count: int, seed: int, jobs: int) -> Tally:
    """Do `count` runs, `jobs` homes at once; every second home has a gateway."""
    tally = Tally()
    left = iter(range(0, count, RUNS_A_HOME))

    async def work() -> None:
        for first in left:
            chance = random.Random(f"{seed} {first}")
            has_gateway = first // RUNS_A_HOME % 2 == 1
            async with (
                ScriptedServer(TalkingModel(chance), keep=4) as server,
                open_home(server, with_gateway=has_gateway) as home,
            ):
                for number in range(first, min(first + RUNS_A_HOME, count)):
                    await try_run(draw_run(chance), home, f"run {number} of seed {seed}", tally)

    await asyncio.gather(*(work() for _ in range(jobs)))
    return tally


def main() -> int:
    """Run the campaign of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    tally = asyncio.run(run_campaign(args.count, args.seed, args.jobs))
    for name, number in sorted(tally.counts.items()):
        sys.stdout.write(f"{name:<16} {number:>6}\n")
    sys.stdout.write(f"{sum(tally.counts.values())} runs, {len(tally.problems)} problems\n")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
