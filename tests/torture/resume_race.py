"""Several processes resume one session at once: one does the work.

    python -m tests.torture.resume_race [--count 200] [--processes 8] [--seed 1]

A process is killed in the middle of its turn, then so many start together with words of their own. While the one that
has the session is held at its first request, the others must end with exit code 75, nothing printed, and a line that
names its pid. In half of the rounds the server answers at once instead: whoever comes late enough to find the session
free may go on with it. Always: the dead turn ends once, its effect is done at most once, the words of those that
answered stand in the transcript once, those of the others not at all.
"""

import argparse
import asyncio
import random
import re
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack

from hermes.store.store import Store
from hermes.testing.conversation import StepRole
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.torture.marked_world import MARK, end_marked, hermes, kill, say

ANY = {"command_allowlist": ["*"], "terminal": {"env_passthrough": [MARK]}}
CALL = Say(calls=(Call("terminal", {"command": "echo x >> effects; echo > began; sleep 60"}),))
OWNER = re.compile(r"\(pid (\d+)\)")
BUSY = 75


class Round:
    """The model of one round, and what it saw. What it says follows from the request alone."""

    def __init__(self, *, held: bool) -> None:
        self.held = held

    def reply(self, request: RecordedRequest) -> Reply:
        """A call first, then an answer; the one after the crash is held where the round says so."""
        if not any(step.role is StepRole.TOOL for step in request.conversation):
            return CALL
        return Say("done", delivery=ReplyDelivery(hold_at=0) if self.held else ReplyDelivery())


async def race(number: int, processes: int, chance: random.Random) -> list[str]:
    """One round; what was wrong."""
    problems: list[str] = []
    model = Round(held=number % 2 == 0)
    async with ScriptedServer(model) as server:
        with TempHome.for_server(server.url, more_config=ANY) as home:
            try:
                async with hermes(home, "-z", "work", mark=f"r{number}:0") as first:
                    while not (home.cwd / "began").exists():  # noqa: ASYNC110 - of another process
                        await asyncio.sleep(0.005)
                    await asyncio.sleep(chance.uniform(0, 0.02))
                    kill(first)
                    await first.wait()
                    dead = first.pid
                ended = await _resume_together(home, server, model, processes, number)
                problems += _judge_ends(ended, dead)
                problems += await _judge_home(home, ended)
                check_prefixes(server.requests)
            except (AssertionError, TimeoutError) as error:
                problems.append(f"{type(error).__name__}: {error}")
            finally:
                end_marked(f"r{number}")
    return [f"round {number}: {problem}" for problem in problems]


Ended = tuple[int, int, str, str]
"""Process id, exit code, output, errors."""


async def _resume_together(
    home: TempHome, server: ScriptedServer, model: Round, processes: int, number: int
) -> list[Ended]:
    async with AsyncExitStack() as stack:
        many = await asyncio.gather(
            *(
                stack.enter_async_context(hermes(home, "-z", f"words {place}", "--continue", mark=f"r{number}:{place}"))
                for place in range(processes)
            )
        )
        waiting = [asyncio.create_task(one.communicate()) for one in many]
        async with asyncio.timeout(60):
            if model.held:
                await server.wait_held(await server.wait_for(2, timeout=60))
                while sum(task.done() for task in waiting) < processes - 1:
                    await asyncio.wait([task for task in waiting if not task.done()], return_when="FIRST_COMPLETED")
                model.held = False
                server.release()
            outputs = await asyncio.gather(*waiting)
        return [
            (one.pid, one.returncode if one.returncode is not None else -1, out.decode(), err.decode())
            for one, (out, err) in zip(many, outputs, strict=True)
        ]


def _judge_ends(ended: list[Ended], dead: int) -> list[str]:
    problems = []
    owners = {pid for pid, code, _, _ in ended if code == 0}
    if not owners:
        problems.append("nobody did the work")
    for pid, code, out, err in ended:
        if code == 0:
            continue
        named = OWNER.search(err)
        if code != BUSY or out or "Traceback" in err:
            problems.append(f"{pid} ended with {code}: {err}")
        elif named is None or int(named[1]) not in owners:
            problems.append(f"{pid} does not name one of {owners} (dead: {dead}): {err}")
    return problems


async def _judge_home(home: TempHome, ended: list[Ended]) -> list[str]:
    problems = []
    store = await Store.open(home.hermes, SystemClock())
    try:
        (session,) = await store.sessions.list_recent(10)
        problems += await store.check_integrity()
        texts = [row.message.text for row in await store.messages.read(session.id)]
        if await store.turns.list_open(session.id) or await store.inbox.list_waiting(session.id):
            problems.append("the session is not at rest")
    finally:
        await store.close()
    said = Counter(word for text in texts for word in re.findall(r"words \d+", text))
    for place, (_, code, _, _) in enumerate(ended):
        if said[f"words {place}"] != (code == 0):
            problems.append(f"words {place} stand {said[f'words {place}']} times, exit code {code}")
    if (home.cwd / "effects").read_text() != "x\n":
        problems.append("the effect was not done once")
    return problems


async def campaign(*, count: int, processes: int, seed: int) -> list[str]:
    """So many rounds, one after the other."""
    chance = random.Random(seed)
    problems: list[str] = []
    told = time.monotonic()
    for number in range(count):
        problems += await race(number, processes, chance)
        if time.monotonic() - told > 10:
            told = time.monotonic()
            say(f"{number + 1} rounds, {len(problems)} problems")
    return problems


def main() -> int:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("count", 200), ("processes", 8), ("seed", 1)):
        made.add_argument(f"--{name}", type=int, default=default)
    given = made.parse_args()
    started = time.monotonic()
    problems = asyncio.run(campaign(**vars(given)))
    say(f"{given.count} rounds of {given.processes} processes, {time.monotonic() - started:.0f} s: {len(problems)} bad")
    for problem in problems:
        say(f"  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
