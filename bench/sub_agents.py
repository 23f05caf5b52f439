"""What sub-agents cost: the share of a prompt that a provider's cache holds, and what idle ones take.

    python -m bench.sub_agents [--idle 1000] [--batch 8]

Prints for a batch of sub-agents which share of each first request, from the second one on, stood in the first one's
already, byte for byte from the beginning, with a context that they have in common and without; then the memory and
the processor time that idle sessions of sub-agents take in one process.
"""

import argparse
import asyncio
import gc
import os
import sys
import time
from pathlib import Path

from hermes.core.sub_agents import SubAgentTask
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.sessions.sub_agents.options import build_child_options
from hermes.store.sub_agents import ReportDelivery, StepLimits, SubAgentCall
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer

CONTEXT = "The project is a web shop. Its tests are in tests/, its settings in shop/settings.py. " * 25
IDLE_SECONDS = 10.0


class BatchModel:
    """Delegates to so many sub-agents, which answer at once."""

    def __init__(self, count: int, context: str) -> None:
        self._count = count
        self._context = context

    def reply(self, request: RecordedRequest) -> Reply:
        """Return the next answer of whoever asks."""
        if b"Your task:" in request.body or request.result_count:
            return Say("Done.")
        tasks = [{"goal": f"look into part {number}, and list what is wrong there"} for number in range(self._count)]
        arguments: dict[str, object] = {"tasks": tasks, "context": self._context}
        return Say(calls=(Call("tool_call", {"name": "delegate_task", "arguments": arguments}),))


async def measure_shared(count: int, context: str) -> list[float]:
    """Return for each sub-agent but the first the share of its first request that was sent before."""
    async with ScriptedServer(BatchModel(count, context)) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), allow=("*",))) as app:
                actor = await app.open_session()
                await actor.post(InboundMessage(text="look into it", cwd=str(home.cwd)))
            bodies = [one.body for one in server.requests if b"Your task:" in one.body and not one.result_count]
    return [count_common(bodies[0], body) / len(body) for body in bodies[1:]]


def count_common(one: bytes, other: bytes) -> int:
    """Return how many bytes two requests begin with in common."""
    return next(
        (place for place, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs), len(one)
    )


def read_resident_mb() -> float:
    """Return the memory of this process, in megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure_idle(count: int) -> tuple[float, float, float]:
    """Return the megabytes of so many idle sessions of sub-agents, their processor time in percent, and the
    milliseconds that it takes to open one.
    """
    async with ScriptedServer(BatchModel(1, "")) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), allow=("*",))) as app:
                actor = await app.open_session()
                await actor.post(InboundMessage(text="look into it", cwd=str(home.cwd)))
                live, store = app.live_session(actor), app.services.store
                top = actor.session_id
                call = SubAgentCall(
                    parent_id=top, root_id=top, root_turn_id="t", depth=1, delivery=ReportDelivery.PERSON
                )
                tasks = [SubAgentTask(goal=f"goal {number}", name=f"goal {number}") for number in range(count)]
                names = [f"idle{number}" for number in range(count)]
                rows = await store.sub_agents.create_all(call, names, tasks, StepLimits(50, 50 * count))
                gc.collect()
                before, began = read_resident_mb(), time.process_time()
                for row in rows:
                    options = build_child_options(live, row, app.services.settings, str(home.cwd))
                    child = await app.open_session(row.session_id, create=True, options=options)
                    child.approvals.parent = actor.approvals
                opened = (time.process_time() - began) / count * 1000
                gc.collect()
                more, at = read_resident_mb() - before, time.process_time()
                await asyncio.sleep(IDLE_SECONDS)
                return more, (time.process_time() - at) / IDLE_SECONDS * 100, opened


def main() -> int:
    """Measure and print."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--idle", type=int, default=1000)
    made.add_argument("--batch", type=int, default=8)
    given = made.parse_args()
    for name, context in (("no context", ""), ("a context in common", CONTEXT)):
        shares = asyncio.run(measure_shared(given.batch, context))
        sys.stdout.write(f"cached share of sub-agents 2 to {given.batch}, {name}: at least {min(shares):.1%}\n")
    more, busy, opened = asyncio.run(measure_idle(given.idle))
    said = f"{given.idle} idle sub-agents: {more:.1f} MB more, {busy:.2f} % of a processor"
    sys.stdout.write(f"{said}, {opened:.1f} ms CPU to open one\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
