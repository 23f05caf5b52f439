"""Kill -9 at random instants of turns with effects, then resume.

    python -m tests.torture.kills [--count 3000] [--seed 1] [--jobs 2] [--seconds 0] [--backend local]

Real `hermes` processes talk to a model that keeps no state: each message carries the plan of its turn, and what is to
be done next follows from the request alone. A process is killed at a random instant of its life, the one that resumes
too, up to three times in a row. Judged from outside: what a request carried or the store held is acknowledged and must
stand in the final transcript once; each effect writes its token into a file at most once; at the first request of who
resumes no process of the dead is alive; what was sent stays sent; the database is whole. Exit 1 when anything is not.
"""

import argparse
import asyncio
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from hermes.core.messages import Message, ToolStatus
from hermes.store.store import Store
from hermes.testing.conversation import StepRole
from hermes.testing.home import TempHome
from hermes.testing.prefix import PrefixError, check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Fail, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.torture.marked_world import MARK, end_marked, hermes, kill, marked, say, stored

ANY = {"command_allowlist": ["*"], "agent": {"api_max_retries": 1}}
EFFECTS = "effects"
JOB = re.compile(r"JOB (w\d+)\.(\d+) ([\w,.:!]+)")
WORD = re.compile(r"(?:JOB|MORE) w\d+\.\d+\b")
CONDENSED = "[CONTEXT COMPACTION"
TOO_LONG = Fail(400, message="This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.")
NEWEST_EPOCH = "SELECT session_id, number FROM epochs ORDER BY began_at DESC, number DESC LIMIT 1"
MAX_ROW = 3
"""Kills in a row before a process may finish."""

KINDS = ("term", "term", "term", "three", "bg", "write", "read", "daemon", "stubborn", "pty", "big")


def commands(kind: str, token: str, seconds: float) -> tuple[Call, ...]:
    """The calls of one step. A line of the effects file is `token generation`."""
    mark = f"echo {token} ${MARK} >> {EFFECTS}"
    nap = f"sleep {seconds:.2f}"
    daemon = f"env -i {MARK}=${MARK} PATH=$PATH setsid sh -c 'sleep 300' >/dev/null 2>&1 &"
    stubborn = "trap '' INT TERM HUP; while :; do sleep 0.1; done"
    match kind:
        case "three":
            lines = [f"{nap}; echo {token}{letter} ${MARK} >> {EFFECTS}; {nap}" for letter in "abc"]
            return tuple(Call("terminal", {"command": line}) for line in lines)
        case "bg":
            return (Call("terminal", {"command": f"{mark}; exec sleep 300", "background": True}),)
        case "write":
            return (Call("write_file", {"path": f"out/{token}", "content": f"{token}\n" * 50}),)
        case "read":
            return (Call("read_file", {"path": "notes.txt", "limit": 3}), Call("todo", {}, call_id=f"todo_{token}"))
        case "daemon":
            return (Call("terminal", {"command": f"({daemon}) ; {mark}; {nap}"}),)
        case "stubborn":
            return (Call("terminal", {"command": f"({stubborn}) >/dev/null 2>&1 & {mark}; {nap}; {nap}"}),)
        case "pty":
            return (Call("terminal", {"command": f"{mark}; {nap}; {nap}", "pty": True}),)
        case "big":
            return (Call("terminal", {"command": f"{mark}; seq 1 30000"}),)
        case _:
            return (Call("terminal", {"command": f"{nap}; {mark}; {nap}"}),)


class PlanModel:
    """Does the plan that the newest JOB message carries, a step a request. A function of the request alone."""

    def reply(self, request: RecordedRequest) -> Reply:
        """The next step, or the answer."""
        text = "\n".join(step.text for step in request.conversation if step.role is StepRole.USER)
        found = JOB.findall(text)
        if not found:
            return Fail(400, message="no JOB in this request")
        world, number, plan = found[-1]
        called = "\n".join(call.arguments for step in request.conversation for call in step.calls)
        called += "\n".join(call.call_id for step in request.conversation for call in step.calls)
        if not request.tool_names:
            return Say("NOTES: done were " + " ".join(sorted(set(re.findall(r"w\d+\.\d+-\d+", text)))))
        steps = plan.rstrip("!").split(",")
        done = text.partition("## Notes on what happened")[2] + called
        left = [index for index in range(len(steps)) if f"{world}.{number}-{index}" not in done]
        if plan.endswith("!") and CONDENSED not in text and len(left) < len(steps):
            return TOO_LONG
        if not left:
            slow = ReplyDelivery(pace=0.004) if int(number) % 2 else ReplyDelivery()
            return Say(f"Done {world}.{number}. " + "It went well. " * 60, delivery=slow)
        kind, _, seconds = steps[left[0]].partition(":")
        calls = commands(kind, f"{world}.{number}-{left[0]}", float(seconds))
        delivery = ReplyDelivery(delay=float(seconds)) if kind == "read" else ReplyDelivery(pace=0.002)
        return Say(f"Step {left[0]}.", calls=calls, delivery=delivery)


@dataclass
class World:
    """One home with its conversation, and what is known of it from outside."""

    name: str
    random: random.Random
    home: TempHome
    requests: list[RecordedRequest] = field(default_factory=list)
    epochs: list[object] = field(default_factory=list)
    """The epoch that was open at each request."""
    generation: int = 0
    pid: int = 0
    fresh: bool = False
    """Whether no request of the present generation has been seen."""
    killed: set[str] = field(default_factory=set)
    """Generations that died with their turn; what one left running that had ended its turn may live on."""
    words: int = 0
    acknowledged: set[str] = field(default_factory=set)
    answers: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def saw(self, request: RecordedRequest) -> None:
        """A request has arrived."""
        self.requests.append(request)
        self.epochs += stored(self.home, NEWEST_EPOCH)
        for step in request.conversation:
            if step.role is StepRole.USER:
                self.acknowledged.update(WORD.findall(step.text))
        if self.fresh and self.killed:
            left = [f"{pid} of {gen}: {line}" for pid, gen, line in marked(self.name) if gen in self.killed]
            if left:
                self.problems.append(f"alive at the first request of generation {self.generation}: {left}")
        self.fresh = False

    def look(self) -> None:
        """Take what the store holds for acknowledged."""
        for query in ("SELECT body FROM messages", "SELECT body FROM inbox"):
            for (body,) in stored(self.home, query):
                assert isinstance(body, bytes)
                self.acknowledged.update(WORD.findall(body.decode()))

    def word(self, kind: str) -> str:
        """The next message's name."""
        self.words += 1
        return f"{kind} {self.name}.{self.words}"


@dataclass
class Campaign:
    """The kills so far, by what was under way."""

    server: ScriptedServer
    backend: str = "local"
    worlds: dict[str, World] = field(default_factory=dict)
    phases: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    turns: int = 0

    @property
    def kills(self) -> int:
        """How many processes were killed while they ran."""
        return sum(self.phases.values())

    def reply(self, request: RecordedRequest) -> Reply:
        """Hand a request to its world, and answer it."""
        self.server.requests.clear()
        found = JOB.search(request.body.decode())
        if found and found[1] in self.worlds:
            self.worlds[found[1]].saw(request)
        return PlanModel().reply(request)

    async def world(self, number: int, seed: int) -> None:
        """One home: two or three turns, killed and resumed."""
        chance = random.Random(f"{seed}.{number}")
        more = {**ANY, "terminal": {"backend": self.backend, "env_passthrough": [MARK]}}
        with TempHome.for_server(self.server.url, more_config=more) as home:
            world = self.worlds[f"w{number}"] = World(f"w{number}", chance, home)
            (home.cwd / "notes.txt").write_text("one\ntwo\nthree\nfour\n")
            try:
                for turn in range(chance.randint(2, 3)):
                    await self._turn(world, long=bool(turn) and chance.random() < 0.4)
                await check(world)
            except TimeoutError as error:
                world.problems.append(f"generation {world.generation} took too long {error}")
            finally:
                end_marked(world.name)
                del self.worlds[world.name]
        for problem in world.problems:
            self.problems.append(f"world {number} of seed {seed}: {problem}")
            say(f"PROBLEM {self.problems[-1]}")

    async def _turn(self, world: World, *, long: bool) -> None:
        """One message with its plan, and as many processes as it takes."""
        chance = world.random
        steps = [f"{chance.choice(KINDS)}:{chance.uniform(0, 0.12):.2f}" for _ in range(chance.randint(1, 4))]
        job = world.word("JOB")
        message = f"{job} {','.join(steps)}{'!' if long else ''}"
        arguments = ["-z", message, *(["--continue"] if world.acknowledged else [])]
        for left in range(chance.randint(1, MAX_ROW), -1, -1):
            finished = await self._process(world, arguments, kill_it=left > 0)
            world.look()
            if finished:
                break
            if job in world.acknowledged:
                arguments = self._resuming(world)
        self.turns += 1

    def _resuming(self, world: World) -> list[str]:
        chance = world.random.random()
        if chance < 0.25:
            return ["--continue"]
        return ["-z", world.word("MORE"), "--continue"]

    async def _process(self, world: World, arguments: list[str], *, kill_it: bool) -> bool:
        """One `hermes`; whether it came to its end."""
        chance = world.random
        world.generation += 1
        world.fresh, before = True, len(world.requests)
        resuming = not arguments[1:] or arguments[1].startswith("MORE")
        mark = f"{world.name}:{world.generation}"
        async with hermes(world.home, *arguments, mark=mark) as process:
            ended = asyncio.create_task(process.communicate())
            if kill_it:
                await self._instant(world, ended, before, chance)
                if not ended.done():
                    phase = self._phase(world, before, resuming=resuming)
                    kill(process)
                    await ended
                    if process.returncode == -9:
                        self.phases[phase] += 1
                        if stored(world.home, "SELECT 1 FROM turns WHERE state = 'running'"):
                            world.killed.add(str(world.generation))
                        return False
            async with asyncio.timeout(60):
                out, err = await ended
        if process.returncode != 0 or b"Traceback" in err:
            world.problems.append(f"{arguments} ended with {process.returncode}: {err.decode()[-500:]}")
        if "-z" in arguments:
            world.answers.append(out.decode().strip())
            world.acknowledged.update(WORD.findall(arguments[1]))
        return True

    async def _instant(self, world: World, ended: "asyncio.Task[object]", before: int, chance: random.Random) -> None:
        """Wait for the instant to kill at, or for the process's end: a time, or a time after a request."""
        number = chance.choice((0, 0, 0, 1, 1, 2, 3))
        seconds = chance.uniform(0, 0.5) if number == 0 else chance.uniform(0, 0.2)
        deadline = time.monotonic() + 20
        while number and len(world.requests) - before < number and not ended.done() and time.monotonic() < deadline:
            await asyncio.wait({ended}, timeout=0.005)
        await asyncio.wait({ended}, timeout=seconds)

    def _phase(self, world: World, before: int, *, resuming: bool) -> str:
        """What the process is doing now, as seen from outside."""
        if len(world.requests) == before:
            return "resuming" if resuming else "starting"
        last = world.requests[-1]
        if last.answered_at is None:
            return "request under way" if last.tool_names else "compressing"
        own = str(world.generation)
        if any(gen == own and "hermes" not in line for _, gen, line in marked(world.name)):
            return "tool under way"
        return "between"


async def check(world: World) -> None:
    """Everything that can be judged once the world has come to rest."""
    store = await Store.open(world.home.hermes, SystemClock())
    try:
        world.problems += [f"integrity: {line}" for line in await store.check_integrity()]
        texts: list[str] = []
        effects: dict[str, str] = {}
        begins: list[str] = []
        for session in await store.sessions.list_recent(limit=1000):
            export = await store.messages.export_session(session.id)
            assert export is not None
            begins += [epoch.begin_reason for epoch in export.epochs]
            made = {one for row in await store.compactions.list_all(session.id) for one in row.made}
            calls = {call.call_id: call.arguments for row in export.messages for call in row.message.tool_calls()}
            if await store.turns.list_open(session.id) or await store.inbox.list_waiting(session.id):
                world.problems.append(f"session {session.id} is not at rest")
            for row in export.messages:
                # Words that join a turn stand beside its results, and with them in a cleared copy.
                if not row.message.synthetic and row.id not in made:
                    texts.append(row.message.text)
                effects |= _effects(calls, row.message)
    finally:
        await store.close()
    _check_words(world, texts)
    _check_effects(world, effects)
    _check_requests(world, begins)


def _effects(calls: dict[str, str], message: Message) -> dict[str, str]:
    """The tokens of the calls that a message's results answer, with how each ended."""
    found: dict[str, str] = {}
    for result in message.tool_results():
        call = calls.get(result.call_id, "")
        # A command in the background has only begun when its call has its result.
        status = "begun" if re.search(r'"background": ?true', call) else result.status.value
        found |= dict.fromkeys(re.findall(rf"echo (\S+) \${MARK} >>", call), status)
    return found


def _check_words(world: World, texts: list[str]) -> None:
    said = Counter(word for text in texts for word in WORD.findall(text))
    for word in sorted(world.acknowledged):
        if said[word] != 1:
            world.problems.append(f"{word!r} stands {said[word]} times in the transcript")
    for answer in world.answers:
        if answer not in "\n".join(text.strip() for text in texts):
            world.problems.append(f"an answer that was shown is missing: {answer[:80]!r}")


def _check_effects(world: World, effects: dict[str, str]) -> None:
    file = world.home.cwd / EFFECTS
    lines = file.read_text().split("\n") if file.exists() else []
    counted = Counter(line.split()[0] for line in lines if line)
    if any(line and len(line.split()) < 2 for line in lines):
        world.problems.append("a command ran without the mark, so what it left running is not found")
    for token, count in counted.items():
        if count > 1:
            world.problems.append(f"effect {token} was done {count} times")
        if token not in effects:
            world.problems.append(f"effect {token} has no result in the transcript")
    for token, status in effects.items():
        if status == ToolStatus.OK.value and counted[token] == 0:
            world.problems.append(f"effect {token} was not done, its result says it was")


def _check_requests(world: World, begins: list[str]) -> None:
    """What was sent stays sent, but where an epoch begins by name."""
    pairs = [pair for pair in zip(world.epochs, world.requests, strict=True) if pair[1].tool_names]
    main = [request for _, request in pairs]
    condensed = [CONDENSED in request.body.decode() for request in main]
    if condensed != sorted(condensed):
        world.problems.append("a request after the condensed one is whole again")
    if any(condensed) and "compressed" not in begins:
        world.problems.append(f"a condensed request in an epoch that is not named so: {begins}")
    for epoch in {one for one, _ in pairs}:
        try:
            check_prefixes([request for one, request in pairs if one == epoch])
        except PrefixError as error:
            world.problems.append(f"what was sent has changed: {error}")


async def campaign(
    *, count: int, seed: int, jobs: int, seconds: float = 0, first: int = 1, backend: str = "local"
) -> Campaign:
    """Kill at least `count` times, at most for so many seconds."""
    run: Campaign
    async with ScriptedServer([]) as server:
        run = server.model = Campaign(server, backend)
        started = told = time.monotonic()
        numbers = iter(range(first, first + 10 * count + 100))

        async def lane() -> None:
            nonlocal told
            while run.kills < count and not (seconds and time.monotonic() - started > seconds):
                await run.world(next(numbers), seed)
                if time.monotonic() - told > 10:
                    told = time.monotonic()
                    say(f"{told - started:5.0f} s: {run.kills} kills, {run.turns} turns, {dict(run.phases)}")

        await asyncio.gather(*(lane() for _ in range(jobs)))
    return run


def main() -> int:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("count", 3000), ("seed", 1), ("jobs", 2), ("seconds", 0), ("first", 1)):
        made.add_argument(f"--{name}", type=int, default=default)
    made.add_argument("--backend", default="local", help="terminal.backend: where commands run")
    given = made.parse_args()
    started = time.monotonic()
    run = asyncio.run(campaign(**vars(given)))
    say(f"{run.kills} kills in {run.turns} turns, seed {given.seed}, {time.monotonic() - started:.0f} s")
    for phase, times in run.phases.most_common():
        say(f"  {phase:<20}{times:>6}")
    say(f"{len(run.problems)} problems")
    for problem in run.problems:
        say(f"  {problem}")
    return 1 if run.problems or run.kills < given.count else 0


if __name__ == "__main__":
    sys.exit(main())
