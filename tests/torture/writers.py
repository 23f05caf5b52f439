"""Many processes write one home at once, some are killed: nothing acknowledged is lost, nobody waits for long.

    python -m tests.torture.writers [--processes 32] [--seconds 60] [--kills 40] [--seed 1] [--pace 0.05]

Each process keeps a session going with the store's own calls: a turn, messages, effects, the turn's end, a row of the
inbox. What was acknowledged goes to a pipe, with the time that it took. Killed ones are replaced, and what they had
acknowledged counts. At the end all of it must be in the store, the database whole, and the longest wait of a single
write at most a second. `--pace` is the mean pause between two turns of one process (seconds); 0: none.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hermes.core.frame import EpochFrame
from hermes.core.messages import Message, Role, TextPart, ToolCallPart, ToolResultPart, user_message
from hermes.core.outcomes import ExitReason
from hermes.core.protocols import Intent
from hermes.store.messages import TranscriptEntry
from hermes.store.records import NewSession, TurnRowState
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.util.clock import SystemClock
from tests.torture.marked_world import say

LONGEST = 1.0
FRAME = EpochFrame(provider="p", model="m", wire="chat_completions", encoder_version=1, system="s", tools=())


class Writer:
    """One process's work, each write logged with what it took."""

    def __init__(self, store: Store, session: str, pace: float) -> None:
        self._store = store
        self._session = session
        self._pace = pace

    async def run(self) -> None:
        """Write until killed."""
        began = time.monotonic()
        await self._store.sessions.create(NewSession(id=self._session, source="torture"))
        self._log("session", self._session, began)
        began = time.monotonic()
        epoch = await self._store.epochs.begin(self._session, FRAME, "a new session")
        self._log("epoch", f"{self._session}/{epoch}", began)
        number = 0
        while True:
            number += 1
            await self._turn(f"{self._session}.{number}", epoch)
            await asyncio.sleep(random.uniform(0, 2 * self._pace))

    async def _turn(self, turn: str, epoch: int) -> None:
        store = self._store

        def entry(*messages: Message) -> TranscriptEntry:
            return TranscriptEntry(session_id=self._session, epoch=epoch, turn_id=turn, messages=messages, fence=1)

        began = time.monotonic()
        await store.messages.start_turn(entry(user_message(f"{turn}:asked " + "words " * random.randint(1, 200))))
        self._log("message", f"{turn}:asked", began)
        call = ToolCallPart(call_id="c", name="terminal", arguments="{}")
        said = Message(role=Role.ASSISTANT, parts=(TextPart(text=f"{turn}:said"), call))
        began = time.monotonic()
        await store.messages.append_with_next(entry(said))
        self._log("message", f"{turn}:said", began)
        began = time.monotonic()
        await store.turns.record_intents(turn, [Intent("c", "terminal", "{}", False)], fence=1)
        self._log("effect", turn, began)
        result = ToolResultPart(call_id="c", name="terminal", text=f"{turn}:result " + "x" * random.randint(0, 4000))
        began = time.monotonic()
        await store.turns.record_result(turn, result, fence=1)
        self._log("done", turn, began)
        began = time.monotonic()
        await store.inbox.enqueue(self._session, f"{turn}:letter", b"{}")
        self._log("letter", f"{turn}:letter", began)
        began = time.monotonic()
        await store.turns.end(turn, ExitReason.TEXT_RESPONSE, fence=1)
        self._log("ended", turn, began)

    def _log(self, kind: str, name: str, began: float) -> None:
        os.write(1, f"{kind} {name} {time.monotonic() - began:.4f}\n".encode())


async def write(session: str, home: str, pace: float) -> None:
    """What a child does."""
    began = time.monotonic()
    store = await Store.open(Path(home), SystemClock())
    os.write(1, f"open {session} {time.monotonic() - began:.4f}\n".encode())
    await Writer(store, session, pace).run()


@dataclass
class Acknowledged:
    """What the children have said to be on disk."""

    names: dict[str, set[str]] = field(default_factory=dict)
    waits: Counter[str] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def take(self, line: bytes) -> None:
        """A line of a child; a broken one is of a kill."""
        if not line.endswith(b"\n"):
            return
        kind, name, seconds = line.decode().split()
        self.names.setdefault(kind, set()).add(name)
        self.waits[kind] += 1
        self.longest[kind] = max(self.longest.get(kind, 0.0), float(seconds))


async def child(home: TempHome, session: str, pace: float) -> asyncio.subprocess.Process:
    """A writing process."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        "--child",
        session,
        str(home.hermes),
        str(pace),
        env=home.environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def listen(process: asyncio.subprocess.Process, acknowledged: Acknowledged) -> None:
    """Read what a child says until it is gone."""
    assert process.stdout is not None and process.stderr is not None
    while line := await process.stdout.readline():
        acknowledged.take(line)
    error = (await process.stderr.read()).decode()
    if await process.wait() != -signal.SIGKILL:
        acknowledged.problems.append(f"a writer ended with {process.returncode}: {error[-600:]}")


async def campaign(
    *, processes: int, seconds: float, kills: int, seed: int, pace: float
) -> tuple[Acknowledged, list[str]]:
    """Let them write for so many seconds, and until a turn has ended; kill some, and compare."""
    chance = random.Random(seed)
    known = Acknowledged()
    with TempHome() as home:
        alive: list[asyncio.subprocess.Process] = []
        listeners: list[asyncio.Task[None]] = []
        started = 0

        async def start() -> None:
            nonlocal started
            started += 1
            process = await child(home, f"s{started}", pace)
            alive.append(process)
            listeners.append(asyncio.create_task(listen(process, known)))

        for _ in range(processes):
            await start()
        end = time.monotonic() + seconds
        for left in range(kills, 0, -1):
            await asyncio.sleep(max(0.0, (end - time.monotonic()) / (left + 1)) * chance.uniform(0.5, 1.5))
            alive.pop(chance.randrange(len(alive))).kill()
            await start()
        await asyncio.sleep(max(0.0, end - time.monotonic()))
        async with asyncio.timeout(60):
            while "ended" not in known.waits:  # noqa: ASYNC110 - the processes tell in their own time
                await asyncio.sleep(0.05)
        for process in alive:
            process.kill()
        await asyncio.gather(*listeners)
        problems = known.problems + await compare(home, known)
    longest = max(known.longest.values(), default=0.0)
    if longest > LONGEST:
        problems.append(f"the longest wait was {longest:.2f} s")
    return known, problems


async def compare(home: TempHome, known: Acknowledged) -> list[str]:
    """What is acknowledged and not there."""
    problems: list[str] = []
    store = await Store.open(home.hermes, SystemClock())
    try:
        problems += await store.check_integrity()
        texts: set[str] = set()
        letters: set[str] = set()
        for session in known.names.get("epoch", set()):
            name = session.partition("/")[0]
            texts |= {row.message.text.split()[0] for row in await store.messages.read(name)}
            letters |= {row.id for row in await store.inbox.list_waiting(name)}
        for kind, there in (("message", texts), ("letter", letters)):
            missing = known.names.get(kind, set()) - there
            problems += [f"{kind} {one} is lost" for one in sorted(missing)[:5]]
        for turn in known.names.get("effect", set()):
            row = await store.turns.get(turn)
            effects = await store.turns.list_effects(turn)
            if row is None or len(effects) != 1:
                problems.append(f"turn {turn} or its effect is lost")
            elif turn in known.names.get("done", set()) and effects[0].state.value != "done":
                problems.append(f"the end of the effect of {turn} is lost")
            elif turn in known.names.get("ended", set()) and row.state is not TurnRowState.ENDED:
                problems.append(f"the end of {turn} is lost")
    finally:
        await store.close()
    return problems


def main() -> int:
    """The command line."""
    if sys.argv[1:2] == ["--child"]:
        asyncio.run(write(sys.argv[2], sys.argv[3], float(sys.argv[4])))
        return 0
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("processes", 32), ("kills", 40), ("seed", 1)):
        made.add_argument(f"--{name}", type=int, default=default)
    made.add_argument("--seconds", type=float, default=60.0)
    made.add_argument("--pace", type=float, default=0.05)
    given = made.parse_args()
    known, problems = asyncio.run(campaign(**vars(given)))
    for kind, count in known.waits.most_common():
        say(f"  {kind:<10}{count:>8} acknowledged, longest {known.longest[kind]:.3f} s")
    say(
        f"{sum(known.waits.values())} writes of {given.processes} processes in {given.seconds:g} s: {len(problems)} bad"
    )
    for problem in problems[:20]:
        say(f"  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
