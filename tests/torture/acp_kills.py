"""Kill -9 of an editor at random instants, and what `hermes acp` costs.

    python -m tests.torture.acp_kills [--kills 100] [--seed 1] [--messages 2000] [--cancels 20]

After each kill nothing of the editor, of Hermes or of its commands may run, and the next editor loads the session and
is answered in it. Printed with that: the CPU time until `initialize` is answered, how long a session of so many
messages takes to load, and how long a cancelled prompt takes to say so, with a command under way and with an answer
that streams. Exit 1 when a limit is missed.
"""

import argparse
import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hermes.core.messages import PERSON, Message, Role, TextPart, ToolCallPart, ToolResultPart, user_message
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.obedient_model import ObedientModel
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Ending, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.acp.conftest import QUIET
from tests.acp.editor import Editor
from tests.sessions.stored_sessions import say_in
from tests.torture.marked_world import MARK, end_marked, marked, say

COMMAND = 'DO: terminal {"command": "sleep 300 & sleep 300"}'
STREAM = "stream for ever"
END_SECONDS = 5.0
"""How long what belonged to a killed editor may take to end."""
STAMPED = """
import os, sys, time, runpy
write = os.write
def write_stamped(handle, data):
    spent = time.process_time()
    os.write = write
    sys.stderr.write(f"{spent * 1000:.1f} {'asyncio' in sys.modules}")
    return write(handle, data)
os.write = write_stamped
sys.argv = ["hermes", "acp"]
runpy.run_module("hermes", run_name="__main__", alter_sys=True)
"""
FIRST = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


class SlowModel(ObedientModel):
    """Obeys, and streams without end where it is told to."""

    def reply(self, request: RecordedRequest) -> Reply:
        """Return the answer."""
        if STREAM in request.last_user_text:
            return Say("word " * 1_000, delivery=ReplyDelivery(ending=Ending.HANG, at=20))
        return super().reply(request)


def report(name: str, value: float, limit: float, unit: str) -> bool:
    """Print a figure; return whether it is within its limit."""
    say(f"{name:<58} {value:8.3f} {unit}   (limit {limit:g})")
    return value <= limit


def measure_first_answer(home: TempHome, runs: int = 15) -> tuple[float, float]:
    """Return the CPU time of a process until it answers `initialize`, in ms: the least, which is without what the
    neighbours of a busy machine cost, and the median.
    """
    found = []
    for _ in range(runs):
        done = subprocess.run(
            [sys.executable, "-c", STAMPED],
            cwd=home.cwd,
            env=home.environ,
            input=FIRST,
            capture_output=True,
            check=True,
        )
        spent, has_loop = done.stderr.split()
        assert has_loop == b"False"
        found.append(float(spent))
    return min(found), sorted(found)[runs // 2]


async def fill_session(home: TempHome, session_id: str, count: int) -> None:
    """Store a session of so many messages: words, answers with a call each, and results."""
    await say_in(home, session_id, "first")
    store = await Store.open(home.hermes, SystemClock())
    messages: list[Message] = []
    for number in range(count // 4):
        call = ToolCallPart(f"c{number}", "read_file", '{"path": "notes.txt", "offset": 3}')
        result = ToolResultPart(f"c{number}", "read_file", "a line of the file\n" * 20)
        said = TextPart("An answer with some words in it. " * 10, PERSON)
        messages += [
            user_message(f"question {number} " * 10),
            Message(Role.ASSISTANT, (TextPart("Let me look."), call)),
            Message(Role.TOOL, (result,)),
            Message(Role.ASSISTANT, (TextPart(said.text),)),
        ]
    await store.messages.append(session_id, 1, None, messages)
    await store.close()


async def measure_load(home: TempHome, count: int) -> float:
    """Return how long a session of so many messages takes to load, in seconds, the App being open."""
    await fill_session(home, "long", count)
    async with Editor(home, "--no-memory") as editor:
        await editor.open_session()
        began = time.monotonic()
        await editor.request("session/load", {"sessionId": "long", "cwd": str(home.cwd), "mcpServers": []})
        took = time.monotonic() - began
        assert len(editor.list_updates("tool_call")) == count // 4
    return took


async def measure_cancels(home: TempHome, text: str, runs: int) -> float:
    """Return the longest time from a cancellation to the prompt's `cancelled`, in seconds."""
    worst = 0.0
    async with Editor(home, "--no-memory") as editor:
        session = await editor.open_session()
        for _ in range(runs):
            before = len(editor.updates)
            answer = asyncio.ensure_future(editor.prompt(session, text))
            await editor.wait_for(lambda: is_under_way(editor.updates[before:]))  # noqa: B023 - waited for at once
            await asyncio.sleep(random.uniform(0, 0.2))
            began = time.monotonic()
            editor.notify("session/cancel", {"sessionId": session})
            assert await answer == "cancelled"
            worst = max(worst, time.monotonic() - began)
    return worst


def is_under_way(updates: Sequence[dict[str, object]]) -> bool:
    """Return whether a command runs, or an answer streams."""
    return any(one["sessionUpdate"] == "agent_message_chunk" or one.get("status") == "in_progress" for one in updates)


VICTIM = """
import asyncio, sys
from pathlib import Path
from tests.acp.editor import Editor
from hermes.testing.home import TempHome

class Home(TempHome):
    environ = property(lambda self: dict(__import__("os").environ))
    cwd = property(lambda self: Path.cwd())

async def main():
    async with Editor(Home(), "--no-memory") as editor:
        session = sys.argv[1]
        if session:
            await editor.begin()
            await editor.request("session/load", {"sessionId": session, "cwd": str(Path.cwd()), "mcpServers": []})
        else:
            session = await editor.open_session()
            await editor.prompt(session, "SAY: begun")
        print(session, flush=True)
        await editor.prompt(session, sys.argv[2])

asyncio.run(main())
"""


async def kill_editors(home: TempHome, kills: int, chance: random.Random) -> bool:
    """Kill editors; return whether nothing was left and every session went on."""
    world, session, worst, ok = str(home.root), "", 0.0, True
    for number in range(kills):
        text = chance.choice((COMMAND, STREAM))
        environ = {**home.environ, MARK: f"{world}:{number}", "PYTHONPATH": str(Path(__file__).parents[2])}
        victim = await asyncio.create_subprocess_exec(
            sys.executable, "-c", VICTIM, session, text, cwd=home.cwd, env=environ, stdout=asyncio.subprocess.PIPE
        )
        assert victim.stdout is not None
        async with asyncio.timeout(60):
            session = (await victim.stdout.readline()).decode().strip() or session
        await asyncio.sleep(chance.uniform(0, 1.2))
        victim.kill()
        await victim.wait()
        began = time.monotonic()
        while left := list(marked(world)):
            if time.monotonic() - began > END_SECONDS:
                say(f"kill {number}: still running: {left}")
                end_marked(world)
                ok = False
                break
            await asyncio.sleep(0.02)
        worst = max(worst, time.monotonic() - began)
    say(f"{kills} editors killed; the longest time until nothing was left: {worst:.2f} s")
    async with Editor(home, "--no-memory") as editor:
        await editor.begin()
        await editor.request("session/load", {"sessionId": session, "cwd": str(home.cwd), "mcpServers": []})
        said = [one["content"]["text"] for one in editor.list_updates("user_message_chunk")]
        say(f"the session has {len(said)} of {kills + 1} messages, and is answered")
        return ok and await editor.prompt(session, "SAY: alive") == "end_turn" and "alive" in editor.join_text()


async def run_campaign(arguments: argparse.Namespace) -> int:
    """Measure and kill; return the exit code."""
    results = []
    config = {**QUIET, "terminal": {"backend": "local", "env_passthrough": [MARK]}}
    async with ScriptedServer(SlowModel(), keep=10) as server:
        with TempHome.for_server(server.url, more_config=config) as home:
            least, usual = measure_first_answer(home)
            say(f"CPU until initialize is answered, median of 15: {usual:.1f} ms")
            results.append(report("the same, the least of 15", least, 60, "ms"))
            took = await measure_load(home, arguments.messages)
            results.append(report(f"a session of {arguments.messages} messages is loaded in", took, 1.0, "s"))
            for text, name in ((COMMAND, "a command"), (STREAM, "a stream")):
                worst = await measure_cancels(home, text, arguments.cancels)
                results.append(
                    report(f"cancelled, with {name} under way (worst of {arguments.cancels})", worst, 0.2, "s")
                )
            results.append(await kill_editors(home, arguments.kills, random.Random(arguments.seed)))
    say("all within the limits" if all(results) else "a limit was missed")
    return 0 if all(results) else 1


def main() -> int:
    """Run the campaign; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--cancels", type=int, default=20)
    return asyncio.run(run_campaign(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
