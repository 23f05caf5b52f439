#!/usr/bin/env python3
"""Hold a cap against many turns at once: several processes, some killed, and a model server that bills the worst.

    python scripts/cap_race.py [--turns 50] [--processes 4] [--kills 3] [--repeat 10] [--seed 1] [--agents 50]

With `--agents` each process has one session that delegates to so many sub-agents, in the place of its share of
`--turns`; who follows a killed process goes on with its session. The server bills each request when it arrives, whether
its answer is ever read: a token a byte of its body at the dearest price, and exactly the output that the request
allows. Exit 1 when it has billed more than the cap, when the home's books say less than the server, or when a turn that
was not killed has no named end.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hermes.core.outcomes import ExitReason
from hermes.core.usage import NANO_PER_USD, Price, Usage, compute_cost
from hermes.runtime.actor import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Ending, Fail, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock

CAP = 1.00
PRICE = {"input": 0.4, "output": 2.0, "cache_read": 0.04, "cache_write": 0.5}
ENDS = {ExitReason.TEXT_RESPONSE, ExitReason.SPEND_LIMIT, ExitReason.PROVIDER_ERROR, ExitReason.RETRIES_EXHAUSTED,
        ExitReason.PARTIAL_STREAM}  # fmt: skip


class GreedyModel:
    """Bills the most that each request can cost; a part of its answers fail, break off, or ask for a tool."""

    def __init__(self, seed: int, agents: int) -> None:
        self.random = random.Random(seed)
        self.agents = agents
        self.billed = 0
        self.requests = 0
        self._arrived = asyncio.Condition()

    async def reached(self, number: int) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.requests >= number)

    async def reply(self, request: RecordedRequest) -> Reply:
        chance = self.random.random()
        self.requests += 1
        async with self._arrived:
            self._arrived.notify_all()
        if chance < 0.1:
            return Fail(529, message="overloaded")
        body = request.json
        allowed = body.get("max_tokens") or body.get("max_output_tokens") or body.get("max_completion_tokens")
        assert isinstance(allowed, int), "a request under a cap names its limit"
        usage = Usage(input=request.size, cache_write=request.size, output=allowed)
        self.billed += compute_cost(usage, Price(**PRICE))
        await asyncio.sleep(self.random.uniform(0.0, 0.2))
        if self.agents and not request.result_count and b"Your task:" not in request.body:
            tasks = [{"goal": f"part {number}"} for number in range(self.agents)]
            return Say(
                calls=(Call("tool_call", {"name": "delegate_task", "arguments": {"tasks": tasks}}),), usage=usage
            )
        if chance < 0.2:
            return Say("half an ans", usage=usage, chunk=2, delivery=ReplyDelivery(ending=Ending.CUT, at=3))
        if chance < 0.6 and request.result_count < 3:
            return Say(calls=(Call("todo", {}),), usage=usage)
        return Say("Done.", usage=usage)


async def run_turns(count: int) -> None:
    """What a child does: so many sessions in one process, a turn in each, all at once."""
    async with App(dict(os.environ), SessionOptions(cwd=os.getcwd())) as app:
        actors = [await app.open_session() for _ in range(count)]
        ends = await asyncio.gather(*(actor.post(InboundMessage(text="work", cwd=os.getcwd())) for actor in actors))
        print(json.dumps([end.reason.value for end in ends]))


async def run_parent(name: str) -> None:
    """What a child does with `--agents`: one session, begun or gone on with, that delegates."""
    async with App(dict(os.environ), SessionOptions(cwd=os.getcwd())) as app:
        actor = await app.open_session(name, create=True)
        ending = actor.resume()
        if ending is None and not actor.conversation.messages:
            ending = actor.post(InboundMessage(text="work", cwd=os.getcwd()))
        reason = (await ending).reason.value if ending is not None else ExitReason.TEXT_RESPONSE.value
        print(json.dumps([reason]))


async def race(home: TempHome, model: GreedyModel, turns: int, processes: int, kills: int) -> list[str]:
    """Run the children, kill some and start others in their place; the ends of the turns of those that lived."""

    async def child(number: int) -> asyncio.subprocess.Process:
        own = ("--parent", f"parent{number}") if model.agents else ("--child", str(turns // processes))
        command = (sys.executable, __file__, *own)
        return await asyncio.create_subprocess_exec(
            *command, cwd=home.cwd, env=home.environ, stdout=asyncio.subprocess.PIPE
        )

    alive = [await child(number) for number in range(processes)]
    for killed in range(kills):
        before = model.requests
        ended = asyncio.gather(*(one.wait() for one in alive))
        await asyncio.wait({ended, asyncio.create_task(model.reached(before + 8))}, return_when="FIRST_COMPLETED")
        await asyncio.sleep(model.random.uniform(0.0, 0.1))
        place = killed % len(alive)
        victim = alive[place]
        if victim.returncode is None:
            victim.send_signal(signal.SIGKILL)
        await victim.communicate()
        alive[place] = await child(place)
    outputs = [(await one.communicate())[0] for one in alive]
    return [end for output in outputs for end in json.loads(output or b'["no end"]')]


async def once(given: argparse.Namespace, seed: int) -> bool:
    turns, processes, kills = given.turns, given.processes, given.kills
    model = GreedyModel(seed, given.agents)
    started = time.monotonic()
    settings: dict[str, object] = {
        "spending": {"day": {"usd": CAP}},
        "prices": {"mock-model": PRICE},
        "agent": {"api_max_retries": 0},
        "delegation": {"max_concurrent_children": 12, "max_total_iterations": 10_000},
    }
    async with ScriptedServer(model, keep=0) as server:
        with TempHome.for_server(server.url, more_config=settings) as home:
            ends = await race(home, model, turns, processes, kills)
            store = await Store.open(home.hermes, SystemClock())
            await store.spending.settle_lost()
            total = sum(one.nano for one in await store.spending.list_totals(0))
            await store.close()
    counts = {end: ends.count(end) for end in sorted(set(ends))}
    good = model.billed <= CAP * NANO_PER_USD and total >= model.billed and set(counts) <= ENDS
    print(
        f"seed {seed}: billed {model.billed / NANO_PER_USD:.4f} of {CAP:.2f}, books say {total / NANO_PER_USD:.4f},"
        f" {model.requests} requests, {time.monotonic() - started:.1f} s, {counts}: {'ok' if good else 'FAILED'}",
        flush=True,
    )
    return good


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (
        ("turns", 50),
        ("processes", 4),
        ("kills", 3),
        ("repeat", 1),
        ("seed", 1),
        ("child", 0),
        ("agents", 0),
    ):
        made.add_argument(f"--{name}", type=int, default=default)
    made.add_argument("--parent", default="")
    given = made.parse_args()
    if given.parent:
        asyncio.run(run_parent(given.parent))
        return 0
    if given.child:
        asyncio.run(run_turns(given.child))
        return 0
    rounds = range(given.seed, given.seed + given.repeat)
    good = [asyncio.run(once(given, seed)) for seed in rounds]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
