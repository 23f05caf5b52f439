"""Plays fault scripts on the real clock: in a chat, as a single task (`hermes -z`), and from a program (`AIAgent`).

`python -m tests.torture.fault_fronts [--count 100] [--seed 0]`. Pauses are real, so many scripts are played at once.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack

import apsw

from hermes.core.events import EpochBegan, Event
from hermes.core.outcomes import ExitReason
from hermes.core.stream import TextDelta
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.testing.home import TempHome
from hermes.testing.server import ScriptedServer
from tests.torture.fault_runner import Played, home_for, judge_effects, judge_requests, judge_store, options_for, say
from tests.torture.fault_scripts import READ_SECONDS, Script, Turn, script_of

FRONTS = ("chat", "single task", "program")
AT_ONCE = 24
SECONDS = 900.0
"""The longest that a script takes: five faults with their pauses, and a busy machine."""
PROGRAM = """
import json, sys
from hermes import AIAgent
with AIAgent(allow=["*"]) as agent:
    result = agent.run_conversation("go")
print(json.dumps([result["final_response"], result["turn_exit_reason"]]))
"""


async def play_on_time(seed: int) -> tuple[str, Played]:
    """Play the script of a seed by the front-end whose turn it is, and judge it."""
    front, script = FRONTS[seed % len(FRONTS)], script_of(seed, on_time=True)
    played = Played(script, epochs=[set() for _ in script.wires])
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ScriptedServer(replies)) for replies in script.replies]
        home = stack.enter_context(home_for(script, servers, read_seconds=READ_SECONDS if script.hangs else 600.0))
        async with asyncio.timeout(SECONDS):
            await {"chat": _chat, "single task": _run_task, "program": _run_program}[front](played, servers, home)
        await judge_store(played, home, _session_id(home))
        if front == "chat":
            judge_requests(played, servers)
        judge_effects(played, home)
        for place, (server, replies) in enumerate(zip(servers, script.replies, strict=True)):
            if len(server.requests) != len(replies):
                played.wrong.append(f"server {place} had {len(server.requests)} requests, not {len(replies)}")
    return front, played


async def _chat(played: Played, servers: list[ScriptedServer], home: TempHome) -> None:
    shown: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, EpochBegan):
            place = int(event.model.rpartition("-")[2]) if event.model.startswith("stand-in-") else 0
            played.epochs[place].add(len(servers[place].requests))
        elif isinstance(event, TextDelta):
            shown.append(event.text)

    async with App(home.environ, options_for(played.script, str(home.cwd))) as app:
        actor = await app.open_session()
        actor.subscribe(hear)
        ended = await actor.post(InboundMessage(text="go"))
    [turn] = played.script.turns
    _compare(played, turn, ended.text, ended.reason.value)
    played.wrong += [f"{text!r} was shown twice" for text in turn.said if "".join(shown).count(text) != 1]


async def _run_task(played: Played, servers: list[ScriptedServer], home: TempHome) -> None:
    words = ("-z", "go", "--allow", "*", "--no-gateway")
    done = await home.run(sys.executable, "-m", "hermes", *words, timeout=SECONDS)
    [turn] = played.script.turns
    _compare(played, turn, done.stdout.strip(), _last_reason(home))


async def _run_program(played: Played, servers: list[ScriptedServer], home: TempHome) -> None:
    done = await home.run(sys.executable, "-c", PROGRAM, timeout=SECONDS)
    [turn] = played.script.turns
    text, reason = json.loads(done.stdout) if done.stdout else (done.stderr, "")
    _compare(played, turn, text.strip(), reason)


def _compare(played: Played, turn: Turn, text: str, reason: str) -> None:
    if (text.strip(), reason) != (turn.text.strip(), turn.reason.value):
        played.wrong.append(f"ended as {reason} with {text!r}, promised was {turn.reason.value} with {turn.text!r}")


def _query(home: TempHome, sql: str) -> str:
    connection = apsw.Connection(str(home.hermes / "hermes.db"), flags=apsw.SQLITE_OPEN_READONLY)
    [(found,)] = connection.execute(sql).fetchall()
    connection.close()
    return str(found)


def _session_id(home: TempHome) -> str:
    return _query(home, "SELECT id FROM sessions")


def _last_reason(home: TempHome) -> str:
    return _query(home, "SELECT reason FROM turns ORDER BY rowid DESC LIMIT 1")


async def campaign(first: int, count: int) -> list[tuple[str, Played]]:
    """Play `count` scripts from a seed on, many at once."""
    seeds, found = iter(range(first, first + count)), list[tuple[str, Played]]()

    async def some() -> None:
        for seed in seeds:
            try:
                found.append(await play_on_time(seed))
            except Exception as error:  # noqa: BLE001 - told with its seed, and counted
                script: Script = script_of(seed, on_time=True)
                found.append((FRONTS[seed % len(FRONTS)], Played(script, [f"{type(error).__name__}: {error}"])))
            front, played = found[-1]
            for line in played.wrong:
                say(f"seed {seed}, {front}, {played.script.turns[0].faults}: {line}")

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_ONCE, count)):
            group.create_task(some())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Plays fault scripts on the real clock, by three front-ends.")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    began = time.monotonic()
    found = asyncio.run(campaign(given.seed, given.count))
    wrong = sorted(played.script.seed for _, played in found if played.wrong)
    completed = {reason.value for reason in ExitReason if reason.is_completed}
    for front in FRONTS:
        plain = [one for name, one in found if name == front and not one.script.permanent]
        answered = sum(not one.wrong and one.script.turns[0].reason.value in completed for one in plain)
        say(f"{front}: {answered} of {len(plain)} without a permanent fault were answered")
    faults = Counter(fault for _, one in found for fault in one.script.turns[0].faults if fault != "good")
    say(f"{len(found)} scripts, {faults.total()} faults, {time.monotonic() - began:.0f} s; wrong: {wrong or 'none'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
