"""20,000 turns of a gateway, and what is left of them in its memory.

    python -m bench.gateway_turns [--turns 20000] [--chats 50] [--rounds 1] [--window 8] [--read inside|outside|both]

People in so many direct chats write one after the other; a scripted model answers, behind so many calls of a tool. The
gateway is a process of its own. Printed: its resident memory and open handles as the turns go on, and its CPU: of all
turns, and of the last ones. With `--read` the people are owners, commands run in the sandbox, and the tool reads a file
of the workspace, or one beside it; with `both` they take turns, a batch each, in one gateway, and the medians of the
batches are printed.
"""

import argparse
import asyncio
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.measure import ROOT
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.vendors.telegram import Fake


def memory(pid: int) -> float:
    """Resident megabytes."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024  # type: ignore[index]


def cpu(pid: int) -> float:
    """Seconds of CPU."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answering(rounds: int, read: Callable[[], str] = str) -> ScriptedModel:
    """A model that calls a tool so many times in each turn, then answers; `read` names the file to be read, if any."""

    def reply(request: RecordedRequest) -> Reply:
        path, done = read(), 0
        for message in reversed(request.messages):
            if message["role"] == "user":
                break
            done += message["role"] == "tool"
        # Each call is another one: the same again and again would be warned of as a loop, and be a turn of more calls.
        arguments = {"path": path, "offset": done + 1} if path else {"pattern": f"*{done}.md", "target": "files"}
        if done < rounds:
            return Say("", calls=(Call("read_file" if path else "search_files", arguments),))
        return Say("Here is the answer to what you said, a line or two long, as answers in chats are.")

    return ScriptedModel(reply)


async def run(turns: int, chats: int, rounds: int, window: int, read: str) -> None:
    """Run them."""
    people = [str(5000 + number) for number in range(chats)]
    if read:
        (ROOT / "build").mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=ROOT / "build")) if read else Path()
    ways = ("inside", "outside") if read == "both" else (read,)
    batch = 0

    def find_file() -> str:
        return str(place / ways[batch % len(ways)] / "notes.txt") if read else ""

    async with ScriptedServer(answering(rounds, find_file), keep=0) as server, Fake() as chat:
        account = {**chat.options(), "allow": people, "batch_seconds": 0, "streaming": "off", "busy": "queue"}
        roles = {"user": {"toolsets": ["file"]}}
        more: dict[str, object] = {"platforms": {"telegram": account}, "gateway": {"roles": roles}}
        if read:
            account |= {"owners": people}
            more |= {"terminal": {"backend": "sandbox"}}
            more["gateway"] = {"roles": roles, "cwd": str(place / "inside")}
            for name in ("inside", "outside"):
                (place / name).mkdir()
                (place / name / "notes.txt").write_text("A line of a small file.\n" * 20)
        with TempHome.for_server(server.url, more_config=more) as home:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "hermes", "gateway", "run"), cwd=home.cwd, env=home.environ,
                stdout=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            began, said, told = time.monotonic(), 0, 0
            used, counted = 0.0, 0
            costs: dict[str, list[float]] = {way: [] for way in ways}
            goals = range(100, turns + 1, 100) if read == "both" else {200, *range(1000, turns + 1, 1000), turns}
            try:
                for batch, goal in enumerate(sorted(goals)):
                    while told < goal:
                        while said < min(goal, told + window):
                            await chat.say(f"message {said}", person=people[said % chats])
                            said += 1
                        before = told
                        await chat.until(lambda: len(chat.messages) > 0, timeout=60)
                        told += len(chat.messages)
                        chat.messages.clear()
                        server.requests.clear()
                        if told == before:
                            await asyncio.sleep(0.005)
                    await asyncio.sleep(2)
                    handles = len(os.listdir(f"/proc/{process.pid}/fd"))
                    print(
                        f"{told:6} turns  {memory(process.pid):6.1f} MB  {handles} handles"
                        f"  {1000 * cpu(process.pid) / told:5.1f} ms CPU a turn,"
                        f" {1000 * (cpu(process.pid) - used) / (told - counted):5.2f} of the last"
                        f"  {time.monotonic() - began:5.0f} s",
                        flush=True,
                    )
                    costs[ways[batch % len(ways)]].append(1000 * (cpu(process.pid) - used) / (told - counted))
                    used, counted = cpu(process.pid), told
                for way, found in costs.items() if read == "both" else ():
                    print(f"{way:8} {statistics.median(found[1:]):5.2f} ms CPU a turn, {min(found[1:]):5.2f} at least")
            finally:
                process.terminate()
                await process.wait()
                if read:
                    shutil.rmtree(place)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--chats", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--window", type=int, default=8, help="messages under way at the same time")
    parser.add_argument("--read", choices=["inside", "outside", "both"], default="")
    given = parser.parse_args()
    asyncio.run(run(given.turns, given.chats, given.rounds, given.window, given.read))
