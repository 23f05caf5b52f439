"""Load on the gateway's API server.

    python -m bench.gateway_load [--users 1,10,100,500,1000] [--rate 20 --seconds 120]

Three processes: the model (a scripted server: 200 ms before each answer, three calls for a small file, then 50 tokens
at 50 a second, so that an ideal turn takes 1.8 s), the gateway as a person starts it, and this one, which asks by
streamed chat completions, each user in a fresh conversation. CPU is the gateway's with its children, user and system.

--peer FOLDER  a virtual environment with another program of this kind (its `bin/hermes`), measured in turn
--watch        run the gateway on asyncio's own loop and tell the longest callbacks (thread CPU); slower by a tenth
"""

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import cast

import aiohttp

from bench.many import ASKED, NOTE, Longest, model_server
from bench.run import table
from hermes.testing.home import TempHome

TICK = os.sysconf("SC_CLK_TCK")
IDEAL = 1.8
WAIT = 600.0
SHAPE = ("--rounds=3", "--tokens=50", "--delay=0.2", "--pace=0.02")


class Asking(asyncio.Protocol):
    """One user: a request as bytes, and an answer that is looked at no closer than it must be, since what this costs is
    taken from the same processors."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._tail = b""
        self._transport: asyncio.Transport | None = None
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Look for the end."""
        self._tail = self._tail[-600:] + data
        if b"[DONE]" in self._tail or b'"error"' in data:
            self._end("" if b"word049" in self._tail else repr(self._tail[-300:]))

    def connection_lost(self, exc: Exception | None) -> None:
        """It broke, or it has ended."""
        self._end(f"the connection ended: {exc} {self._tail[-300:]!r}")

    def _end(self, why: str) -> None:
        if not self.over.done():
            self.over.set_result(why)
        if self._transport is not None:
            self._transport.close()


class Load:
    """Users of an API server, and when each began and ended."""

    def __init__(self, url: str, key: str) -> None:
        self._host, _, port = url.removeprefix("http://").partition(":")
        self._port = int(port)
        self._key = key
        self.began: list[float] = []
        self.ended: dict[int, float] = {}
        self.failed: list[str] = []

    async def burst(self, users: int) -> None:
        """So many at once, in order."""
        async with asyncio.TaskGroup() as group:
            for _ in range(users):
                group.create_task(self._user())

    async def steady(self, rate: float, seconds: float) -> None:
        """So many each second."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        async with asyncio.TaskGroup() as group:
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, start + number / rate - loop.time()))
                group.create_task(self._user())

    async def _user(self) -> None:
        number = len(self.began)
        self.began.append(time.perf_counter())
        words = f"{ASKED} ({number} {secrets.token_hex(4)})."
        asked = {"model": "hermes-agent", "messages": [{"role": "user", "content": words}], "stream": True}
        body = json.dumps(asked).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            f"Authorization: Bearer {self._key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        try:
            async with asyncio.timeout(WAIT):
                loop = asyncio.get_running_loop()
                request = head.encode() + body
                _, asking = await loop.create_connection(lambda: Asking(request), self._host, self._port)
                why = await asking.over
        except (OSError, TimeoutError) as error:
            why = f"{type(error).__name__} {error}"
        self.failed += [why] if why else []
        self.ended[number] = time.perf_counter()


def run(work: Coroutine[object, object, None]) -> None:
    """Run the users, on the fastest loop there is."""
    with contextlib.suppress(ImportError):
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work)
        return
    asyncio.run(work)


def latencies(load: Load) -> dict[str, float]:
    """Seconds; and how many ended further from their place in the order of arrival than a tenth of all."""
    took = sorted(load.ended[number] - began for number, began in enumerate(load.began))
    order = sorted(load.ended, key=load.ended.__getitem__)
    moved = [abs(place - number) for place, number in enumerate(order)]
    far = sum(one > max(1.0, len(moved) * 0.1) for one in moved)
    return {
        "turns": len(took),
        "failed": len(load.failed),
        "first": took[0],
        "p50": statistics.median(took),
        "p99": took[min(len(took) - 1, int(len(took) * 0.99))],
        "last": took[-1],
        "moved": far / len(moved),
    }


def cpu(pid: int) -> float:
    """Seconds of CPU of a process with all that it has started."""
    total = 0.0
    for process in tree(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(one) for one in fields[11:15]) / TICK
    return total


def tree(pid: int) -> list[int]:
    """A process and those below it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in task.read_text().split()]
    return found


def peak(pid: int) -> float:
    """MB at most, of all of them."""
    total = 0.0
    for process in tree(pid):
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
            total += int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
    return total


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def process(command: list[str], environ: Mapping[str, str], cwd: Path, url: str) -> Iterator[int]:
    """A gateway, from when it answers; its process id."""
    running = subprocess.Popen(command, env=dict(environ), cwd=cwd, stdout=sys.stderr, stderr=sys.stderr)
    try:
        asyncio.run(answers(url, running))
        yield running.pid
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(15)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


async def answers(url: str, running: subprocess.Popen[bytes]) -> None:
    """Wait until it does."""
    async with asyncio.timeout(60), aiohttp.ClientSession() as http:
        while running.poll() is None:
            with contextlib.suppress(aiohttp.ClientError):
                async with http.get(f"{url}/health") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.05)
    raise SystemExit("the gateway ended before it answered")


@contextlib.contextmanager
def ours(model: str, key: str, *, watch: bool) -> Iterator[tuple[str, int]]:
    """Our gateway in a home of its own."""
    port = free_port()
    accounts = {"platforms": {"api_server": {"key": key, "port": port}}}
    with TempHome.for_server(model, more_config=accounts) as home:
        work = home.hermes / "workspace"
        work.mkdir()
        (work / "notes.txt").write_text(NOTE)
        command = [sys.executable, "-m", "hermes", "gateway", "run"]
        if watch:
            command = [sys.executable, "-m", "bench.gateway_load", "--gateway"]
        url = f"http://127.0.0.1:{port}"
        environ = {**home.environ, "PYTHONPATH": os.pathsep.join([home.environ["PYTHONPATH"], os.getcwd()])}
        with process(command, environ, home.cwd, url) as pid:
            yield url, pid


@contextlib.contextmanager
def theirs(model: str, key: str, folder: str) -> Iterator[tuple[str, int]]:
    """The other program's, in a home of its own, with its limit of runs lifted."""
    port = free_port()
    config = {
        "model": {"default": "mock-model", "provider": "custom", "base_url": model, "api_key": "x"},
        "gateway": {"api_server": {"max_concurrent_runs": 0}},
    }
    with TempHome(config) as home:
        (home.cwd / "notes.txt").write_text(NOTE)
        environ = {
            **home.environ,
            "PYTHONPATH": "",
            "PATH": f"{folder}/bin{os.pathsep}{home.environ['PATH']}",
            "API_SERVER_ENABLED": "true",
            "API_SERVER_KEY": key,
            "API_SERVER_PORT": str(port),
            "TERMINAL_CWD": str(home.cwd),
        }
        with process(
            [f"{folder}/bin/hermes", "gateway", "run"], environ, home.cwd, url := f"http://127.0.0.1:{port}"
        ) as pid:
            yield url, pid


def measured(options: argparse.Namespace, name: str, users: int) -> dict[str, object]:
    """One run, in processes of their own."""
    key = secrets.token_hex(16)
    with model_server(list(SHAPE)) as (model, model_cpu):
        started = theirs(model, key, options.peer) if name == "peer" else ours(model, key, watch=options.watch)
        with started as (url, pid):
            run(Load(url, key).burst(2))
            before, load, others = cpu(pid), Load(url, key), model_cpu() + time.process_time()
            run(load.burst(users) if users else load.steady(options.rate, options.seconds))
            beside = (model_cpu() + time.process_time() - others) / len(load.began) * 1000
            used = (cpu(pid) - before) / len(load.began) * 1000
            found = latencies(load) | {"cpu": used, "beside": beside, "peak": peak(pid)}
    for line in load.failed[:3]:
        sys.stderr.write(f"{name}: {line}\n")
    bar = users * used / 1000 * 1.15 + IDEAL if users else IDEAL * 1.25
    return {"name": name, "what": f"{users} users" if users else f"{options.rate:g}/s", "bar": bar, **found}


def gateway() -> int:
    """Our gateway with its loop watched; its longest callbacks are told in the end."""
    from hermes.gateway.gateway import Gateway
    from hermes.sessions.app import App
    from hermes.sessions.options import SessionOptions
    from hermes.util.garbage_collector import tune_garbage_collector

    longest = Longest()
    longest.watch()

    async def run() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        async with App(dict(os.environ), SessionOptions(platform="gateway")) as app, Gateway(app, print) as it:
            await it.start()
            tune_garbage_collector()
            longest.found.clear()
            await stop.wait()

    asyncio.run(run())
    for seconds, what in sorted(longest.found, reverse=True)[:8]:
        sys.stderr.write(f"{seconds * 1000:7.1f} ms  {what[:200]}\n")
    return 0


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", default="1,10,100,500,1000")
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--peer", default="")
    parser.add_argument("--peer-users", default="1,10,100", help="bursts that the peer is given")
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--gateway", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.gateway:
        return gateway()
    runs = [("ours", int(one)) for one in options.users.split(",") if one]
    if options.peer:
        runs += [("peer", int(one)) for one in options.peer_users.split(",") if one]
    if options.rate:
        runs += [("ours", 0)] + ([("peer", 0)] if options.peer else [])
    rows = []
    for name, users in runs:
        rows.append(measured(options, name, users))
        sys.stderr.write(f"{json.dumps(rows[-1])}\n")
    if options.json:
        print(json.dumps(rows))
        return 0
    names = ("first", "p50", "p99", "last", "bar", "cpu", "beside", "peak")
    forms = (".2f", ".2f", ".2f", ".2f", ".2f", ".1f", ".1f", ".0f")
    cells = [
        [
            str(row["name"]),
            str(row["what"]),
            f"{row['failed']}/{row['turns']}",
            *(format(row[name], form) for name, form in zip(names, forms, strict=True)),
            f"{float(str(row['moved'])):.1%}",
        ]
        for row in rows
    ]
    table(
        "Load on the API server",
        "|load|failed|first s|p50|p99|last|bar|CPU ms|model and users CPU ms|peak MB|out of order",
        cells,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
