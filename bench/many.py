"""Many sessions in one process: `python -m bench.many [--users N ...] [--rate R --seconds S] [--turns N]`.

A turn is what a chat's is: a fresh session is opened, one message posted, the model (a scripted server in a process of
its own, 200 ms before each answer) asks three times for a small file, then answers 50 tokens at 50 a second; the
session is closed. All sessions live in one `App`, in a process of its own, whose CPU is what is reported; the server's
is told apart.

--users  so many at once (a burst): latency by order of arrival, CPU a turn, peak of memory
--rate   so many turns begun each second, for --seconds
--turns  so many turns in all, --at-once of them side by side: memory and handles as they go; with --same in a set of
         sessions that stay open
--rounds, --tokens, --delay, --pace change what a turn is.
"""

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from bench.run import table
from hermes.core.outcomes import ExitReason
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.util.garbage_collector import tune_garbage_collector

TICK = 1.0 / os.sysconf("SC_CLK_TCK")
ASKED = "Read the file notes.txt as you are told"
NOTE = "A small file.\nIt has three lines.\nThis is the last of them.\n"
Numbers = dict[str, float]


class PacedModel:
    """Asks for the file so many times in each turn, then answers at the pace of a real model."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._rounds = options.rounds
        self._ask = ReplyDelivery(delay=options.delay)
        self._say = ReplyDelivery(delay=options.delay, pace=options.pace)
        self._text = "".join(f"word{number:03d} " for number in range(options.tokens))

    def reply(self, request: RecordedRequest) -> Reply:
        """One more call, or the text."""
        done = request.body.rpartition(ASKED.encode())[2].count(b'"tool_call_id"')
        if done < self._rounds and b'"read_file"' in request.body:
            arguments = {"path": "notes.txt", "offset": done + 1, "limit": 1}
            return Say(calls=(Call("read_file", arguments),), delivery=self._ask)
        return Say(self._text, chunk=8, delivery=self._say)


async def serve(options: argparse.Namespace) -> None:
    """The model's server, until standard input ends; its CPU is the last line."""
    server = ScriptedServer(PacedModel(options), strict=False, keep=1, context_length=2_000_000)
    server.max_connections = 20_000
    async with server:
        print(server.url, flush=True)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            server.requests.clear()
            print(json.dumps(own_cpu() | {"line": line.decode().strip()}), flush=True)


def own_cpu() -> dict[str, float | str]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu": used.ru_utime + used.ru_stime, "system": used.ru_stime}


def memory() -> tuple[float, float]:
    """MB that the process holds now, and its peak."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    now, peak = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return now, peak


def threads() -> dict[str, float]:
    """CPU seconds of each thread by name, since the process began."""
    found: dict[str, float] = {}
    names = {str(one.native_id): one.name for one in threading.enumerate()}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            name = names.get(task.name, "other").partition("_")[0]
            found[name] = found.get(name, 0.0) + (int(fields[11]) + int(fields[12])) * TICK
    return found


class Longest:
    """The callbacks of the event loop that took most of its thread's CPU. Only asyncio's own loop can be watched."""

    def __init__(self) -> None:
        self.found: list[tuple[float, str]] = []

    def watch(self) -> None:
        inner = asyncio.events.Handle._run  # noqa: SLF001 - only from inside
        found = self.found
        before = time.thread_time()

        def run(handle: asyncio.Handle) -> None:
            nonlocal before
            inner(handle)
            now = time.thread_time()  # asked once, since it costs as much as a small callback
            if now - before > 0.01:
                found.append((now - before, repr(handle)[:300]))
            before = now

        asyncio.events.Handle._run = run  # type: ignore[method-assign]  # noqa: SLF001


class Load:
    """One App with its users."""

    def __init__(self, app: App, url: str) -> None:
        self.app = app
        self.began: list[float] = []
        self.ended: list[float] = []
        self.opened: list[float] = []
        self.failed = 0
        self.many = False
        """Whether there are so many turns that what each took is not kept."""

    async def user(self, number: int) -> None:
        """A fresh session, one message, its answer, the end."""
        began = time.perf_counter()
        actor = await self.app.open_session()
        opened = time.perf_counter()
        await self.say(actor, number)
        if not self.many:
            self.began.append(began)
            self.ended.append(time.perf_counter())
            self.opened.append(opened - began)
        await self.app.close_session(actor)

    async def say(self, actor: SessionActor, number: int) -> None:
        ended = await actor.post(InboundMessage(text=f"{ASKED} ({number})."))
        if ended.reason is not ExitReason.TEXT_RESPONSE or not ended.text.startswith("word000"):
            self.failed += 1
            if self.failed < 4:
                sys.stderr.write(f"user {number}: {ended.reason} {ended.error} {ended.text[:100]!r}\n")

    async def burst(self, users: int) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(users):
                group.create_task(self.user(number))

    async def steady(self, rate: float, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        async with asyncio.TaskGroup() as group:
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, start + number / rate - loop.time()))
                group.create_task(self.user(number))

    async def turns(self, options: argparse.Namespace, note: Callable[[int], None]) -> None:
        """Many turns, so many at once: in fresh sessions, or in a set that stays."""
        done = 0
        self.many = True
        left = iter(range(options.turns))
        kept = [await self.app.open_session() for _ in range(options.at_once)] if options.same else []

        async def one(place: int) -> None:
            nonlocal done
            for number in left:
                if kept:
                    await self.say(kept[place], number)
                else:
                    await self.user(number)
                done += 1
                if done % 1000 == 0:
                    note(done)

        async with asyncio.TaskGroup() as group:
            for place in range(options.at_once):
                group.create_task(one(place))
        for actor in kept:
            await self.app.close_session(actor)


async def work(options: argparse.Namespace, home: TempHome, url: str) -> dict[str, object]:
    """What the measured process does."""
    longest = Longest()
    if not options.uvloop:
        longest.watch()
    environ = {**os.environ, **home.environ}
    rows: list[Numbers] = []
    async with App(environ, SessionOptions(platform="api_server", cwd=str(home.cwd))) as app:
        load = Load(app, url)
        await load.burst(2)
        tune_garbage_collector()
        load.__init__(app, url)  # type: ignore[misc]
        longest.found.clear()
        base, _ = memory()
        cpu, parts, wall = own_cpu(), threads(), time.perf_counter()

        def note(turns: int) -> None:
            rows.append({"turns": turns, "rss": memory()[0], "handles": len(os.listdir("/proc/self/fd"))})
            sys.stderr.write(f"{rows[-1]}\n")

        if options.profile:
            import cProfile

            profile = cProfile.Profile(time.thread_time if options.profile_cpu else time.perf_counter)
            profile.enable()
        if options.turns:
            await load.turns(options, note)
        elif options.rate:
            await load.steady(options.rate, options.seconds)
        else:
            await load.burst(options.users)
        if options.profile:
            profile.disable()
            profile.dump_stats(options.profile)
        wall = time.perf_counter() - wall
        used = own_cpu()
        now, peak = memory()
        after = threads()
    count = options.turns or len(load.ended)
    return {
        "turns": count,
        "failed": load.failed,
        "cpu": (float(used["cpu"]) - float(cpu["cpu"])) / count * 1000,
        "system": (float(used["system"]) - float(cpu["system"])) / count * 1000,
        "threads": {name: (after[name] - parts.get(name, 0.0)) / count * 1000 for name in after},
        "wall": wall,
        "base": base,
        "peak": peak,
        "rss": now,
        "rows": rows,
        "longest": sorted(longest.found, reverse=True)[:5],
        **latencies(load),
    }


def latencies(load: Load) -> dict[str, object]:
    """Seconds from arrival to the end, in all and until the session was open; how far from its place each came."""
    if not load.ended:
        return {}
    by_arrival = sorted(range(len(load.began)), key=load.began.__getitem__)
    took = sorted(end - begin for begin, end in zip(load.began, load.ended, strict=True))
    moved = [abs(place - ended) for place, ended in enumerate(by_arrival)]
    return {
        "first": took[0],
        "median": statistics.median(took),
        "p99": took[int(len(took) * 0.99)],
        "last": took[-1],
        "opened": max(load.opened),
        "moved": max(moved) / len(moved),
        "moved_p90": sorted(moved)[int(len(moved) * 0.9)] / len(moved),
    }


def child(options: argparse.Namespace) -> int:
    """The measured process: its numbers as JSON, the last line of its output."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    config: dict[str, object] = {"checkpoints": {"enabled": True}}
    if options.backend:
        config["terminal"] = {"backend": options.backend}
    with TempHome.for_server(options.url, more_config=config) as home:
        if options.window:
            assert home.config is not None
            home.write_config({**home.config, "model": {**home.config["model"], "context_length": options.window}})
        (home.cwd / "notes.txt").write_text(NOTE)
        factory = None
        if options.uvloop:
            import uvloop

            factory = uvloop.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            found = runner.run(work(options, home, options.url))
    print(json.dumps(found))
    return 0


@contextlib.contextmanager
def model_server(arguments: list[str]) -> Iterator[tuple[str, Callable[[], float]]]:
    """The server in a process of its own: its URL, and how much CPU it has used."""
    command = [sys.executable, "-m", "bench.many", "--serve", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def cpu() -> float:
        stdin.write("cpu\n")
        stdin.flush()
        return float(json.loads(stdout.readline())["cpu"])

    try:
        yield stdout.readline().strip(), cpu
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def measured(options: argparse.Namespace, *more: str) -> dict[str, object]:
    """One run in processes of its own."""
    shape = [f"--{name}={getattr(options, name)}" for name in ("rounds", "tokens", "delay", "pace")]
    with model_server(shape) as (url, cpu):
        command = [sys.executable, "-m", "bench.many", "--child", "--url", url, *more]
        began = cpu()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = cast("dict[str, object]", json.loads(done.stdout.splitlines()[-1]))
        found["server"] = (cpu() - began) / cast("int", found["turns"]) * 1000
    return found


def number(found: dict[str, object], name: str, form: str = ".2f") -> str:
    value = found.get(name)
    return format(value, form) if isinstance(value, int | float) else "-"


HEAD = (
    "load|loop|CPU ms a turn|of it system|model's server|wall s|first s|median|p99|last|opened at most|out of place"
    "|of nine tenths|base MB|peak MB"
)


def row(name: str, loop: str, found: dict[str, object]) -> list[str]:
    more = [number(found, one) for one in ("wall", "first", "median", "p99", "last", "opened")]
    ends = [number(found, one, ".1%") for one in ("moved", "moved_p90")]
    ends += [number(found, "base", ".0f"), number(found, "peak", ".0f")]
    return [name, loop, *(number(found, one, ".1f") for one in ("cpu", "system", "server")), *more, *ends]


def details(found: dict[str, object]) -> None:
    if found["failed"]:
        print(f"\n{found['failed']} turns FAILED")
    parts = cast("Numbers", found["threads"])
    print("\nCPU ms a turn by thread:", ", ".join(f"{name} {value:.2f}" for name, value in parts.items()))
    for took, what in cast("list[tuple[float, str]]", found["longest"]):
        print(f"callback of {took * 1000:.0f} ms: {what}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.many", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, action="append", metavar="N", help="default: 1, 10, 100, 200 and 1,000")
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--same", action="store_true", help="with --turns: in sessions that stay open")
    parser.add_argument("--loop", choices=["asyncio", "uvloop", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=50)
    parser.add_argument("--delay", type=float, default=0.2)
    parser.add_argument("--pace", type=float, default=0.02)
    parser.add_argument("--window", type=int, default=0, help="tokens of the model's window")
    parser.add_argument("--backend", default="", help="terminal.backend of the measured home")
    parser.add_argument("--profile", default="", metavar="FILE", help="write a profile of the measured process")
    parser.add_argument("--profile-cpu", action="store_true", help="profile by the thread's CPU, not by the clock")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--uvloop", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = parsed()
    if options.serve:
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            asyncio.run(serve(options))
        return 0
    if options.child:
        options.users = options.users[0] if options.users else 0
        return child(options)
    loads = [(f"{users} users", [f"--users={users}"]) for users in options.users or [1, 10, 100, 200, 1000]]
    if options.rate:
        name = f"{options.rate:g} turns a second for {options.seconds:g} s"
        loads = [(name, [f"--rate={options.rate}", f"--seconds={options.seconds}"])]
    if options.turns:
        kept = ["--same"] if options.same else []
        loads = [(f"{options.turns} turns", [f"--turns={options.turns}", f"--at-once={options.at_once}", *kept])]
    loops = ["asyncio", "uvloop"] if options.loop == "both" else [options.loop]
    named = ("backend", "profile", "window")
    passed = [f"--{name}={getattr(options, name)}" for name in named if getattr(options, name)]
    passed += ["--profile-cpu"] if options.profile_cpu else []
    found = {
        (name, loop): measured(options, *arguments, *passed, *(["--uvloop"] if loop == "uvloop" else []))
        for name, arguments in loads
        for loop in loops
    }
    table("Many sessions in one process", HEAD, (row(name, loop, one) for (name, loop), one in found.items()))
    for (name, loop), one in found.items():
        print(f"\n{name}, {loop}:")
        details(one)
        rows = cast("list[Numbers]", one["rows"])
        if rows:
            table("As it went", "turns|MB|handles", ([f"{each[key]:.1f}" for key in each] for each in rows[::2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
