"""Kill -9 at random instants before, during and after compressions, then go on.

    python -m tests.torture.compression_kills [--count 400] [--seed 1] [--jobs 2] [--seconds 0]

Real `hermes` processes with a small window, so that every few turns something is condensed: in place in every second
world, into a parent session in the others. A process is killed at a random instant of its life, while the summary is
asked for, or as its answer is stored. Judged from outside: what a request carried is acknowledged and stands among the
originals once and in order; calls have their results; within an epoch what was sent stays sent; each compression is
whole or has not happened; the database is sound. Exit 1 when anything is not so.
"""

import argparse
import asyncio
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes.store.records import MessageState
from hermes.store.store import Store
from hermes.testing.conversation import StepRole
from hermes.testing.home import TempHome
from hermes.testing.prefix import PrefixError, check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.torture.marked_world import end_marked, hermes, kill, say, stored

WORD = re.compile(r"JOB c\d+\.\d+\b")
WINDOW = 16_000
NAMED = {"a new session", "compressed"}


@dataclass
class World:
    """One home with its conversation, and what is known of it from outside."""

    name: str
    random: random.Random
    home: TempHome
    in_place: bool
    main: list[tuple[int, RecordedRequest]] = field(default_factory=list)
    """Requests of the conversation, with the epoch that was open when they came."""
    summaries: list[RecordedRequest] = field(default_factory=list)
    acknowledged: set[str] = field(default_factory=set)
    words: int = 0
    problems: list[str] = field(default_factory=list)

    def saw(self, request: RecordedRequest) -> Reply:
        """Answer a request, and note what it shows."""
        if not request.tool_names:
            self.summaries.append(request)
            return Say("## Goal\n" + "notes " * 40, delivery=ReplyDelivery(pace=0.002))
        ((epoch,),) = stored(self.home, "SELECT max(number) FROM epochs")
        assert isinstance(epoch, int)
        self.main.append((epoch, request))
        self.acknowledged.update(WORD.findall(_said(request)))
        if problem := find_problems(request):
            self.problems.append(f"request {request.number}: {problem}")
        if request.conversation[-1].role is StepRole.USER and self.words % 3 == 0:
            return Say("I look.", calls=(Call("read_file", {"path": "notes.txt"}),))
        return Say(f"Answer {self.words}. " + "All is well here. " * 400)


@dataclass
class Campaign:
    """The kills so far, by what was under way."""

    server: ScriptedServer
    worlds: dict[str, World] = field(default_factory=dict)
    phases: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    compressions: int = 0

    @property
    def kills(self) -> int:
        """How many processes were killed while they ran."""
        return sum(self.phases.values())

    def reply(self, request: RecordedRequest) -> Reply:
        """Hand a request to its world."""
        self.server.requests.clear()
        found = re.search(r"JOB (c\d+)\.", request.body.decode())
        assert found is not None
        return self.worlds[found[1]].saw(request)

    async def world(self, number: int, seed: int, *, turns: int) -> None:
        """One home: so many messages, processes killed and others that go on."""
        model_less = {"compression": {"protect_last_n": 3, "protect_first_n": 2, "in_place": number % 2 == 0}}
        home = TempHome.for_server(self.server.url, more_config=model_less)
        settings = dict(home.config or {})
        model = settings["model"]
        assert isinstance(model, dict)
        home.config = {**settings, "model": {**model, "context_length": WINDOW}}
        with home:
            world = World(f"c{number}", random.Random(f"{seed}.{number}"), home, number % 2 == 0)
            self.worlds[world.name] = world
            (home.cwd / "notes.txt").write_text("a line of the notes\n" * 60)
            try:
                for _ in range(turns):
                    await self._message(world)
                await self._process(world, ["--continue"], kill_it=False)
                self.compressions += await check(world)
            except TimeoutError as error:
                world.problems.append(f"took too long {error}")
            finally:
                end_marked(world.name)
                del self.worlds[world.name]
        for problem in world.problems:
            self.problems.append(f"world {number} of seed {seed}: {problem}")
            say(f"PROBLEM {self.problems[-1]}")

    async def _message(self, world: World) -> None:
        """One message; said again when it was lost with a process that had not acknowledged it."""
        world.words += 1
        job = f"JOB {world.name}.{world.words}"
        for left in range(world.random.randint(0, 2), -1, -1):
            going_on = ["--continue"] if world.acknowledged else []
            arguments = going_on if job in world.acknowledged else ["-z", f"{job} and so on", *going_on]
            finished = await self._process(world, arguments, kill_it=left > 0)
            for (body,) in stored(world.home, "SELECT body FROM messages"):
                assert isinstance(body, bytes)
                world.acknowledged.update(WORD.findall(body.decode()))
            if finished:
                return

    async def _process(self, world: World, arguments: list[str], *, kill_it: bool) -> bool:
        """One `hermes`; whether it came to its end."""
        before = len(world.main), len(world.summaries)
        async with hermes(world.home, *arguments, mark=f"{world.name}:1") as process:
            ended = asyncio.create_task(process.communicate())
            if kill_it:
                await _instant(world, ended, before)
                if not ended.done():
                    phase = _phase(world, before)
                    kill(process)
                    await ended
                    if process.returncode == -9:
                        self.phases[phase] += 1
                        return False
            async with asyncio.timeout(60):
                _, err = await ended
        if process.returncode != 0 or b"Traceback" in err:
            world.problems.append(f"{arguments} ended with {process.returncode}: {err.decode()[-500:]}")
        return True


async def _instant(world: World, ended: "asyncio.Task[object]", before: tuple[int, int]) -> None:
    """Wait for the instant to kill at: any time, a time after the summary is asked for or answered, or the end."""
    chance = world.random
    kind = chance.choice(("any", "asked", "asked", "answered", "answered"))
    deadline = time.monotonic() + (chance.uniform(0, 0.8) if kind == "any" else 1.5)

    def reached() -> bool:
        if kind == "any" or len(world.summaries) == before[1]:
            return False
        return kind == "asked" or world.summaries[-1].answered_at is not None

    while not reached() and not ended.done() and time.monotonic() < deadline:
        await asyncio.wait({ended}, timeout=0.003)
    if reached():
        await asyncio.wait({ended}, timeout=chance.uniform(0, 0.12 if kind == "asked" else 0.06))


def _phase(world: World, before: tuple[int, int]) -> str:
    """What the process is doing now, as seen from outside."""
    if len(world.summaries) > before[1]:
        newest = world.summaries[-1]
        if newest.answered_at is None:
            return "summary under way"
        later = any(request.arrived_at > newest.arrived_at for _, request in world.main)
        return "after a compression" if later else "summary answered"
    return "before a compression" if len(world.main) > before[0] else "starting"


async def check(world: World) -> int:
    """Everything that can be judged once the world has come to rest; how many compressions there were."""
    store = await Store.open(world.home.hermes, SystemClock())
    try:
        world.problems += [f"integrity: {line}" for line in await store.check_integrity()]
        live = await store.sessions.get_latest()
        assert live is not None
        rows = await store.messages.read(live.id, everything=True)
        compactions = await store.compactions.list_all(live.id)
        export = await store.messages.export_session(live.id)
        assert export is not None
        line = await store.sessions.list_lineage(live.id)
        if len(line) != (1 if world.in_place else 1 + len(compactions)):
            world.problems.append(f"{len(compactions)} compactions, {len(line)} sessions")
        if await store.turns.list_open(live.id) or await store.inbox.list_waiting(live.id):
            world.problems.append("the session is not at rest")
        begins = [epoch.begin_reason for epoch in export.epochs]
        if not set(begins) <= NAMED or begins.count("compressed") != len(compactions):
            world.problems.append(f"{len(compactions)} compactions, epochs {begins}")
        made = {one for row in compactions for one in row.made}
        covered = {one for row in compactions for one in row.covered}
        texts = [row.message.text for row in rows if row.id not in made and not row.message.synthetic]
        if {row.id for row in rows if row.state is MessageState.COMPACTED} != covered:
            world.problems.append("what is compacted is not what the compactions cover")
    finally:
        await store.close()
    _check_words(world, texts)
    _check_requests(world)
    return len(compactions)


def _check_words(world: World, texts: Sequence[str]) -> None:
    said = [word for text in texts for word in WORD.findall(text)]
    counted = Counter(said)
    for word in sorted(world.acknowledged):
        if counted[word] != 1:
            world.problems.append(f"{word!r} stands {counted[word]} times in the transcript")
    if said != sorted(said, key=lambda word: int(word.rpartition(".")[2])):
        world.problems.append(f"what was said is out of order: {said}")


def _check_requests(world: World) -> None:
    """Within an epoch what was sent stays sent."""
    for number in {epoch for epoch, _ in world.main}:
        try:
            check_prefixes([request for epoch, request in world.main if epoch == number])
        except PrefixError as error:
            world.problems.append(f"what was sent has changed in epoch {number}: {error}")


def _said(request: RecordedRequest) -> str:
    return "\n".join(step.text for step in request.conversation if step.role is StepRole.USER)


async def campaign(
    *, count: int, seed: int, jobs: int, seconds: float = 0, first: int = 1, turns: int = 10
) -> Campaign:
    """Kill at least `count` times, and see as many compressions end, at most for so many seconds."""
    run: Campaign
    async with ScriptedServer([]) as server:
        run = server.model = Campaign(server)
        started = told = time.monotonic()
        numbers = iter(range(first, first + 10 * count + 100))

        async def lane() -> None:
            nonlocal told
            while min(run.kills, run.compressions) < count and not (seconds and time.monotonic() - started > seconds):
                await run.world(next(numbers), seed, turns=turns)
                if time.monotonic() - told > 10:
                    told = time.monotonic()
                    say(f"{told - started:5.0f} s: {run.kills} kills, {run.compressions} compressions")

        await asyncio.gather(*(lane() for _ in range(jobs)))
    return run


def main() -> int:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("count", 400), ("seed", 1), ("jobs", 2), ("seconds", 0), ("first", 1)):
        made.add_argument(f"--{name}", type=int, default=default)
    given = made.parse_args()
    started = time.monotonic()
    run = asyncio.run(campaign(**vars(given)))
    say(f"{run.kills} kills, {run.compressions} compressions, seed {given.seed}, {time.monotonic() - started:.0f} s")
    for phase, times in run.phases.most_common():
        say(f"  {phase:<20}{times:>6}")
    say(f"{len(run.problems)} problems")
    for problem in run.problems:
        say(f"  {problem}")
    return 1 if run.problems or (run.kills < given.count and not given.seconds) else 0


if __name__ == "__main__":
    sys.exit(main())
