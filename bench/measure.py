"""One run of a program: CPU, wall time and peak memory by the operating system's accounting."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hermes.testing.home import TempHome

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Run:
    """`cpu` and `wall` in seconds, `peak` in MB of the largest single process; `sizes` are bytes of its requests."""

    cpu: float
    wall: float
    peak: float
    code: int
    sizes: tuple[int, ...] = ()
    output: str = ""


def run(command: list[str], environ: dict[str, str], home: TempHome, timeout: float) -> Run:
    """Run to the end; what `wait4` reports for the process and all its waited-for children is the cost."""
    log = home.root / "output.txt"
    with log.open("wb") as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=home.cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        killer = threading.Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
        killer.start()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what it left behind must not disturb the next run
    output_end = log.read_text(errors="replace")[-2000:]
    return Run(used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024, process.returncode, output=output_end)


@contextlib.contextmanager
def server(*options: str) -> Iterator[str]:
    """The scripted server in a process of its own: its URL."""
    command = [sys.executable, "-m", "hermes.testing", "--until-eof", "--context-length", "2000000", *options]
    with TempHome() as home:
        process = subprocess.Popen(command, env=home.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.communicate()


def received(url: str) -> tuple[int, ...]:
    """Bytes of each request that the server has got."""
    with urllib.request.urlopen(url + "/received", timeout=10) as answer:
        return tuple(entry["bytes"] for entry in json.load(answer)["requests"])
