"""What code that calls tools costs: `python -m bench.code [--calls 400] [--rounds 7]`.

call     CPU of this process and of the interpreter's worker for one call from code, and over the same call made by a
         model: the state is stored with each of them
first    wall time of a run of `1 + 1` behind the wall: the first in a process, and later ones
memory   resident memory of a run that waits at a call: of its worker with the wall, and what this process grew by
tokens   20 files are looked through for a line each: by 20 calls of the model, and by one piece of code. Bytes of all
         requests, and of what is new in each (the rest may be read from a provider's cache)
"""

import argparse
import asyncio
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import structs

from hermes.core.messages import ToolCallPart
from hermes.execution.code.monty_engine import MontyLimits, MontyRun
from hermes.execution.code.steps import CallsWanted, PrintedText
from hermes.runtime.mailbox import InboundMessage
from hermes.runtime.recorder import TurnRecorder
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.permissions.policy_gate import PolicyGate
from hermes.tools.registry import Toolbox, ToolRegistry
from tests.tools.code.durable_session import TURN, DurableSession, Effects

FILES = 20
_SEARCH = """
for number in range(20):
    for line in read_file(path=f"notes/{number}").split("\\n"):
        if "owner" in line:
            print(number, line.split("owner")[1].strip())
"""


def spent() -> float:
    """CPU seconds of this process and of the children that it has waited for."""
    below = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + below.ru_utime + below.ru_stime


async def cost(work: Callable[[], Awaitable[object]], rounds: int) -> float:
    """The least CPU of some rounds, in milliseconds."""
    taken = []
    for _ in range(rounds):
        before = spent()
        await work()
        taken.append(1_000 * (spent() - before))
    return min(taken)


async def measure_call(calls: int, rounds: int) -> tuple[float, float]:
    """CPU of one call, in milliseconds: from code, and by a model that makes it itself, each alone in its batch."""
    with tempfile.TemporaryDirectory() as folder:
        session = await DurableSession.open(Path(folder), Effects())
        limits = structs.replace(session.context.code, max_calls=calls)
        session.context = structs.replace(session.context, code=limits)

        async def run_code(times: int) -> None:
            await session.ask(f'for n in range({times}): look(text="a")')
            result = await session.result()
            assert not result.text.startswith("The code"), result.text

        toolbox = Toolbox([*ToolRegistry().select_tools(), *session.effects.tools()])

        async def call_directly() -> None:
            recorder = TurnRecorder(session.store, session_id="s", epoch=1, untitled=False)
            recorder.set_owner(TURN, 1)
            executor = Executor(toolbox, PolicyGate())
            for number in range(calls):
                part = ToolCallPart(call_id=f"d{number}", name="look", arguments='{"text":"a"}')
                await executor.run(CallBatch([part]), session.context, recorder, lambda _: None)
            await recorder.flush()

        await run_code(1)
        none = await cost(lambda: run_code(0), rounds)
        code = await cost(lambda: run_code(calls), rounds)
        direct = await cost(call_directly, rounds)
        await session.context.backend.close()
        await session.store.close()
    return (code - none) / calls, direct / calls


async def measure_first(rounds: int) -> tuple[float, float]:
    """Milliseconds to the first result: of the first run in the process, and the median of later ones."""
    import pydantic_monty

    assert pydantic_monty.__version__
    taken = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        printed = PrintedText(1_000)
        run = MontyRun("1 + 1", MontyLimits(seconds=5.0, calls=5), printed, os.environ)
        await run.start((), "seed")
        assert printed.to_text() == "2\n"
        taken.append(1_000 * (time.perf_counter() - began))
        await run.close()
    return taken[0], statistics.median(taken[1:])


def resident(pid: int) -> float:
    """Megabytes that a process has in memory; what it shares with others counts once among all of them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1_000


async def measure_memory(runs: int) -> tuple[float, float]:
    """Megabytes a run that waits at a call: of its worker's processes, and of this one."""
    before = resident(os.getpid())
    waiting = []
    for _ in range(runs):
        run = MontyRun('text = read_file(path="a")', MontyLimits(seconds=5.0, calls=5), PrintedText(1_000), os.environ)
        assert isinstance(await run.start(("read_file",), "seed"), CallsWanted)
        waiting.append(run)
    outside = sum(resident(pid) for run in waiting for pid in list_tree(run.worker_pid)) / runs
    inside = (resident(os.getpid()) - before) / runs
    for run in waiting:
        await run.close()
    return outside, inside


def list_tree(pid: int) -> list[int]:
    """A process and all below it."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in below for one in list_tree(int(child)))]


async def measure_tokens() -> dict[str, tuple[int, int]]:
    """Bytes of all requests, and of what is new in each, by the way in which the files are looked through."""
    code = Call("tool_call", {"name": "execute_code", "arguments": {"code": _SEARCH}})
    ways = {
        "calls": [Say(calls=(Call("read_file", {"path": f"notes/{number}"}),)) for number in range(FILES)],
        "code": [Say(calls=(Call("tool_search", {"query": "run code"}),)), Say(calls=(code,))],
    }
    found = {}
    for name, replies in ways.items():
        async with ScriptedServer([*replies, Say("done")]) as server:
            with TempHome.for_server(server.url) as home:
                (home.cwd / "notes").mkdir()
                for number in range(FILES):
                    text = "".join(f"line {line} of the note {number}\n" for line in range(60))
                    (home.cwd / "notes" / str(number)).write_text(f"{text}owner somebody{number}\n{text}")
                async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                    actor = await app.open_session()
                    ended = await actor.post(InboundMessage(text="Who owns the notes 0 to 19?"))
                    assert ended.text == "done"
            sizes = [len(one.body) for one in server.requests]
            found[name] = (sum(sizes), sizes[-1])
    return found


async def main() -> None:
    """Measure everything and print it."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--calls", type=int, default=400)
    made.add_argument("--rounds", type=int, default=7)
    given = made.parse_args()
    first, later = await measure_first(given.rounds)
    print(f"first result     {first:6.1f} ms the first in a process, {later:.1f} ms later ones (asked: 150)")
    for runs in (1, 8):
        outside, inside = await measure_memory(runs)
        print(f"memory of a run  {outside + inside:6.1f} MB where there are {runs}, {inside:.1f} in here (asked: 15)")
    code, direct = await measure_call(given.calls, given.rounds)
    print(f"one call         {code - direct:6.2f} ms CPU over the tool itself: {code:.2f} and {direct:.2f} (asked: 1)")
    tokens = await measure_tokens()
    for number, what in enumerate(("all requests", "what is new")):
        by_code, by_calls = tokens["code"][number], tokens["calls"][number]
        share = 100 * by_code / by_calls
        print(f"20 looks         {share:6.1f} % of the bytes of {what}: {by_code} and {by_calls} (asked: 15)")


if __name__ == "__main__":
    asyncio.run(main())
