"""Stop in the middle of everything, measured at the model's server and in the process table.

    python -m tests.torture.stop_campaign [--runs 50] [--cli 10] [--only WORD] [--backend local]

For each situation: from the stop to the moment when the server sees the connection close, to the turn's named end, and
until the command's process tree is gone; and whether any request or tool began after the stop. Prints the median and
the worst of each in milliseconds. Exit 1 when a worst is over its limit.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from msgspec import structs

from hermes.core.events import Event, Retrying, ToolStarted
from hermes.core.outcomes import ExitReason
from hermes.core.protocols import HttpTimeouts
from hermes.core.stream import TextDelta
from hermes.providers.http import create_http_transport
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.conversation import StepRole
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Fail, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.torture.marked_world import MARK, end_marked, hermes, marked, say

MORE: dict[str, object] = {
    "command_allowlist": ["*"],
    "terminal": {"backend": "local", "env_passthrough": [MARK]},
}
LATE = ReplyDelivery(delay=600)
TOO_LONG = Fail(400, message="This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.")
THREE_DEEP = """bash -c 'bash -c "bash -c \\"sleep 600; true\\"; true"; true'; true"""
STUBBORN = "trap '' INT TERM HUP; echo > began; while :; do sleep 0.1; done"
FOLDERS = [f"d{number}" for number in range(8)]
SEARCHES = tuple(Call("search_files", {"pattern": "(x+x+)+y", "path": folder}) for folder in FOLDERS)


@dataclass(frozen=True)
class Situation:
    """What the model answers, when to stop, and how long things may take (seconds)."""

    reply: Reply
    ready: Callable[["Run"], bool]
    ends: float = 0.2
    stops: int = 1
    connected: bool = False
    """Whether a request is under way at the stop."""
    before: str = ""
    """Said, and answered, first."""


@dataclass
class Run:
    """One stop, from all sides."""

    name: str
    server: ScriptedServer
    home: TempHome
    events: list[tuple[float, Event]] = field(default_factory=list)
    closed: float = 0.0
    ended: float = 0.0
    gone: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Let whatever searches take forever: without ripgrep, our own program works on a pattern that never ends."""
        engine = self.home.root / "bin" / "rg"
        engine.parent.mkdir()
        engine.write_text("#!/bin/sh\n")
        engine.chmod(0o755)
        for folder in FOLDERS:
            (self.home.cwd / folder).mkdir()
            (self.home.cwd / folder / "x").write_text("x" * 80)
        self.home.more["PATH"] = os.pathsep.join([str(engine.parent), *os.get_exec_path()])
        os.environ[MARK] = f"{self.name}:1"

    @property
    def requests(self) -> list[RecordedRequest]:
        """This run's own."""
        mark = f"{self.name}.".encode()
        return [request for request in self.server.requests if mark in request.body]

    def count(self, kind: type[Event]) -> int:
        """How many events of a kind there were."""
        return sum(isinstance(event, kind) for _, event in self.events)

    def processes(self, word: str = "") -> int:
        """How many processes of its commands live; those of Hermes itself do not count."""
        lines = [line for _, _, line in marked(self.name)]
        return sum(word in line and ("hermes" not in line or "walker" in line) for line in lines)


def asked(run: Run) -> bool:
    """Whether the request that the model will be long in answering is there."""
    return bool(run.requests)


def _delegate(title: str) -> Say:
    """Return an answer that gives three sub-agents a situation; their requests carry the run's name, too."""
    return Say(calls=(Call("tool_call", {"name": "delegate_task", "arguments": {"tasks": [title] * 3}}),))


def _flows(request: RecordedRequest) -> bool:
    """Whether an answer was asked for long enough ago to flow by now."""
    return time.monotonic() - request.arrived_at > 0.05


SITUATIONS = {
    "first byte": Situation(Say("x", delivery=LATE), asked, connected=True),
    "streaming": Situation(
        Say("x " * 20_000, delivery=ReplyDelivery(pace=0.002)), lambda run: run.count(TextDelta) > 3, connected=True
    ),
    "back-off": Situation(Fail(429, headers={"retry-after": "15"}), lambda run: run.count(Retrying) == 1),
    "sleep three shells deep": Situation(
        Say(calls=(Call("terminal", {"command": THREE_DEEP}),)), lambda run: run.processes("sleep 600") > 3, ends=0.3
    ),
    "eight parallel tools": Situation(Say(calls=SEARCHES), lambda run: run.processes("walker") >= 8, ends=0.3),
    "compression": Situation(
        Say("NOTES", delivery=LATE),
        lambda run: any(not request.tool_names for request in run.requests),
        connected=True,
        before="hello",
    ),
    "three sub-agents, each with a sleep three shells deep": Situation(
        _delegate("sleep three shells deep"), lambda run: run.processes("sleep 600") > 11, ends=0.4
    ),
    "three sub-agents that stream": Situation(
        _delegate("streaming"), lambda run: len(run.requests) > 3 and all(map(_flows, run.requests[1:])), connected=True
    ),
    "PTY, ignores INT": Situation(
        Say(calls=(Call("terminal", {"command": STUBBORN, "pty": True}),)),
        lambda run: (run.home.cwd / "began").exists(),
        ends=3.5,
    ),
    "PTY, second stop": Situation(
        Say(calls=(Call("terminal", {"command": STUBBORN, "pty": True}),)),
        lambda run: (run.home.cwd / "began").exists(),
        ends=0.3,
        stops=2,
    ),
}


def reply(request: RecordedRequest) -> Reply:
    """What the model says, which follows from the situation's name in the newest message."""
    said = [step.text for step in request.conversation if step.role is StepRole.USER]
    run, _, name = said[-1].rpartition("Your task:\n")[2].partition("\n")[0].partition(". ")
    if not request.tool_names:
        return SITUATIONS["compression"].reply
    if name == "hello":
        return Say("hello " * 300)
    if name == "compression":
        return TOO_LONG
    if name not in SITUATIONS:
        return Fail(400, message=f"unknown: {name!r}")
    return _name_run(SITUATIONS[name].reply, run)


def _name_run(reply: Reply, run: str) -> Reply:
    """Return a reply whose sub-agents are told the run that they are of."""
    if not isinstance(reply, Say) or not reply.calls or "tasks" not in str(reply.calls[0].arguments):
        return reply
    given = reply.calls[0].arguments
    assert isinstance(given, dict)
    tasks = [{"goal": f"{run}. {title}"} for title in given["arguments"]["tasks"]]
    arguments = {"name": given["name"], "arguments": {"tasks": tasks}}
    return structs.replace(reply, calls=(Call("tool_call", arguments),))


async def until(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Wait for a condition of other processes; whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.005)
    return True


async def in_process(server: ScriptedServer, title: str, number: int) -> Run:
    """One stop of an `App` in this process."""
    case = SITUATIONS[title]
    with TempHome.for_server(server.url, more_config=MORE) as home:
        run = Run(f"s{number}", server, home)
        home.more[MARK] = f"{run.name}:1"
        try:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                if case.before:
                    await actor.post(InboundMessage(text=f"{run.name}. {case.before}"))
                earlier = len(run.requests)
                actor.subscribe(lambda event: run.events.append((time.monotonic(), event)))
                ending = actor.post(InboundMessage(text=f"{run.name}. {title}"))
                if not await until(lambda: len(run.requests) > earlier and case.ready(run)):
                    run.problems.append("not ready")
                sent = len(run.requests)
                at = time.monotonic()
                actor.stop()
                if case.stops == 2:
                    await asyncio.sleep(0.1)
                    at = time.monotonic()
                    actor.stop()
                gone = asyncio.create_task(_gone(run))
                async with asyncio.timeout(120):
                    ended = await ending
                run.ended = time.monotonic() - at
                run.gone = await gone - at
                await _judge(run, case, at, sent)
                if ended.reason is not ExitReason.INTERRUPTED:
                    run.problems.append(f"the turn ended as {ended.reason}")
        finally:
            end_marked(run.name)
        return run


async def _gone(run: Run) -> float:
    while run.processes():  # noqa: ASYNC110 - of other processes
        await asyncio.sleep(0.02)
    return time.monotonic()


async def _judge(run: Run, case: Situation, at: float, sent: int) -> None:
    """What the server saw of the stop, and that nothing came after it."""
    if case.connected:
        for request in [one for one in run.requests if one.answered_at is None]:
            run.closed = max(run.closed, await run.server.wait_closed(request) - at)
    await asyncio.sleep(0.05)
    if len(run.requests) != sent:
        run.problems.append("a request after the stop")
    if any(when > at + 0.001 and isinstance(event, ToolStarted) for when, event in run.events):
        run.problems.append("a tool began after the stop")
    if case.connected and any(request.answered_at is None and not request.closed_early_at for request in run.requests):
        run.problems.append("a connection is still open")


async def by_signal(server: ScriptedServer, title: str, number: int) -> Run:
    """One SIGINT to a real process; a second one where the situation says so. `ended` is the process's end."""
    case = SITUATIONS[title]
    with TempHome.for_server(server.url, more_config=MORE) as home:
        run = Run(f"c{number}", server, home)
        try:
            async with hermes(home, "-z", f"{run.name}. {title}", mark=f"{run.name}:1") as process:
                ended = asyncio.create_task(process.communicate())
                ready = case.ready if title not in ("streaming", "back-off") else _answered
                if not await until(lambda: bool(run.requests) and ready(run)):
                    run.problems.append("not ready")
                await asyncio.sleep(0.02)
                sent = len(run.requests)
                at = time.monotonic()
                process.send_signal(signal.SIGINT)
                if case.stops == 2:
                    await asyncio.sleep(0.1)
                    at = time.monotonic()
                    process.send_signal(signal.SIGINT)
                gone = asyncio.create_task(_gone(run))
                async with asyncio.timeout(120):
                    _, err = await ended
                run.ended = time.monotonic() - at
                run.gone = await gone - at
                await _judge(run, case, at, sent)
                if (process.returncode, err.splitlines()[-1:]) != (130, [b"hermes: Stopped."]):
                    run.problems.append(f"ended with {process.returncode}: {err.decode()}")
        finally:
            end_marked(run.name)
        return run


def _answered(run: Run) -> bool:
    """Whether the answer has begun to flow, or was given."""
    return time.monotonic() - run.requests[0].arrived_at > 0.05


async def abandoned(server: ScriptedServer, _title: str, number: int) -> Run:
    """A stream that is left after its first bytes (an even number), or whose reader is cancelled."""
    with TempHome() as home:
        run = Run(f"a{number}", server, home)
        transport = create_http_transport({})
        body = f'{{"model": "m", "stream": true, "messages": [{{"role": "user", "content": "{run.name}. streaming"}}]}}'
        text = body.replace('"messages"', '"tools": [{"type": "function", "function": {"name": "x"}}], "messages"')
        reading = asyncio.Event()

        async def read() -> float:
            async with transport.open(
                "POST", f"{server.url}/chat/completions", headers={}, body=text.encode(), timeouts=HttpTimeouts()
            ) as stream:
                async for _ in stream.chunks():
                    reading.set()
                    if number % 2 == 0:
                        break
                return time.monotonic()
            raise AssertionError

        task = asyncio.create_task(read())
        await reading.wait()
        at = time.monotonic()
        if number % 2:
            task.cancel()
            await asyncio.wait({task})
        else:
            at = await task
        run.closed = await server.wait_closed(run.requests[0]) - at
        await transport.close()
        return run


Driver = Callable[[ScriptedServer, str, int], Awaitable[Run]]


async def measure(server: ScriptedServer, title: str, driver: Driver, numbers: range, at_once: int) -> list[Run]:
    """So many runs of one situation."""
    slots = asyncio.Semaphore(at_once)

    async def one(number: int) -> Run:
        async with slots:
            return await driver(server, title, number)

    return await asyncio.gather(*(one(number) for number in numbers))


def line(title: str, runs: list[Run], limits: tuple[float, float, float]) -> bool:
    """Print a row; whether everything is within its limits (seconds; 0: not looked at)."""
    cells, good = [], True
    for values, limit in zip(
        ([run.closed for run in runs], [run.ended for run in runs], [run.gone for run in runs]), limits, strict=True
    ):
        if limit:
            values.sort()
            good &= values[-1] <= limit
            cells.append(f"{values[len(values) // 2] * 1000:6.0f} {values[-1] * 1000:6.0f} {limit * 1000:6.0f}")
        else:
            cells.append(f"{'-':>20}")
    problems = [problem for run in runs for problem in run.problems]
    good &= not problems
    say(f"{title:<32}{len(runs):>4} |{' |'.join(cells)} | {'ok' if good else 'NOT OK'}")
    for problem in problems[:5]:
        say(f"    {problem}")
    return good


async def table(runs: int, cli: int, only: str) -> bool:
    """Measure everything; whether all is well."""
    good = True
    say(f"{'milliseconds: median worst limit':<36} |{'connection closed':>20} |{'named end':>20} |{'tree gone':>20} |")
    async with ScriptedServer(reply_model()) as server:
        number = 0
        for title, case in SITUATIONS.items():
            if only and only not in title:
                continue
            at_once = 4 if case.ends > 1 else 1
            tools = isinstance(case.reply, Say) and bool(case.reply.calls)
            limits = (0.2 * case.connected, case.ends, case.ends if tools else 0.0)
            done = await measure(server, title, in_process, range(number, number + runs), at_once)
            good &= line(title, done, limits)
            number += runs
            if cli and not case.before:
                done = await measure(server, title, by_signal, range(number, number + cli), min(at_once, 2))
                good &= line("  by SIGINT to a process", done, (limits[0], limits[1] + 0.3, limits[2]))
                number += cli
            server.requests.clear()
        done = await measure(server, "abandoned stream", abandoned, range(number, number + runs), 1)
        good &= line("abandoned, cancelled stream", done, (0.05, 0.0, 0.0))
    return good


def reply_model() -> ScriptedModel:
    """The model of every run."""
    from hermes.testing.script import ScriptedModel

    return ScriptedModel(reply)


def main() -> int:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--runs", type=int, default=50)
    made.add_argument("--cli", type=int, default=10)
    made.add_argument("--only", default="")
    made.add_argument("--backend", default="local", help="terminal.backend: where commands run")
    given = made.parse_args()
    MORE["terminal"] = {"backend": given.backend, "env_passthrough": [MARK]}
    return 0 if asyncio.run(table(given.runs, given.cli, given.only)) else 1


if __name__ == "__main__":
    sys.exit(main())
