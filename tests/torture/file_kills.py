"""kill -9, stops and time-outs while files are written and searched.

    python -m tests.torture.file_kills --count 500

In turn: a program that replaces a file is killed at any moment, also between its temporary file and the new name; one
that searches is killed, with ripgrep and with a pattern that never ends in our own walker; a search is stopped; one
runs out of time. Afterwards the file is the old one or the new one, no engine is left, and no handle is open that was
not open before. The moments are spread over the rounds, and the same in each run.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from msgspec.structs import replace

from hermes.tools.registry import ToolRegistry
from tests.tools.tool_session import Session, make_context

_OLD, _NEW = b"a" * 300_000, b"b" * 300_000
_WRITER = """
import sys
from hermes.util.file_handles import hold_path
data, number = [b"a" * 300_000, b"b" * 300_000], 0
print("begun", flush=True)
while True:
    with hold_path(sys.argv[1]) as held:
        held.replace(data[number % 2])
    number += 1
"""
_ENDLESS, _PLAIN = "(x+x+)+y", "needle|(a|aa)+b"
_MOMENTS = 50
_SEARCH_SECONDS = 1.0
_GONE_SECONDS = 20.0
"""What an engine whose Hermes was killed may take to end: it has a second or two of CPU, on a busy machine."""


def kill_writer(folder: Path, number: int) -> str:
    """Kill a program that replaces one file all the time."""
    path = folder / "whole"
    path.write_bytes(_OLD)
    with subprocess.Popen([sys.executable, "-c", _WRITER, path], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"begun\n"
        seen = path.stat().st_ino
        while path.stat().st_ino == seen:
            pass
        time.sleep(number % _MOMENTS * 0.0001)
        writer.kill()
    left = [one for one in folder.iterdir() if one.name.startswith(".whole.")]
    for one in left:
        one.unlink()
    if path.read_bytes() not in (_OLD, _NEW):
        return "a half-written file"
    return "" if not left else "-between temporary file and rename"


def kill_searcher(folder: Path, number: int) -> str:
    """Kill a program that searches; its engine ends, too."""
    endless = number % 2 == 0
    command = [
        sys.executable,
        "-m",
        "tests.torture.file_kills",
        "--search",
        str(folder),
        "--endless",
        str(int(endless)),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as searcher:
        assert searcher.stdout is not None and searcher.stdout.readline() == b"begun\n"
        deadline = time.monotonic() + _GONE_SECONDS
        while endless and not find_engines(folder) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(number % _MOMENTS * 0.002)
        searcher.send_signal(signal.SIGKILL)
    return wait_until_gone(folder)


async def search_for_ever(folder: Path, *, endless: bool) -> None:
    """What the program does that is killed."""
    async with open_session(folder, endless=endless) as session:
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        while True:
            await session.call("search_files", pattern=_ENDLESS if endless else _PLAIN)


@contextlib.asynccontextmanager
async def open_session(folder: Path, *, endless: bool) -> AsyncIterator[Session]:
    """Open a session in a folder; without ripgrep where a pattern is never to end."""
    session = Session(make_context(folder), ToolRegistry().select_tools())
    session.context = replace(session.context, search_seconds=_SEARCH_SECONDS)
    if endless:
        session.context = replace(session.context, search_path="")
    try:
        yield session
    finally:
        await session.close()


async def stop_search(folder: Path, number: int) -> str:
    """Cancel a search."""
    async with open_session(folder, endless=number % 2 == 0) as session:
        pattern = _ENDLESS if number % 2 == 0 else _PLAIN
        task = asyncio.create_task(session.call("search_files", pattern=pattern))
        await asyncio.sleep(number % _MOMENTS * 0.002)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return await asyncio.to_thread(wait_until_gone, folder)


async def time_out_search(folder: Path, number: int) -> str:
    """Let a search run out of time."""
    endless = number % 2 == 0
    async with open_session(folder, endless=endless) as session:
        session.context = replace(session.context, search_seconds=number % _MOMENTS * 0.002)
        text = await session.text("search_files", pattern=_ENDLESS if endless else _PLAIN)
    if endless and "stopped after" not in text:
        return f"it did not end by its time: {text[:100]}"
    return await asyncio.to_thread(wait_until_gone, folder)


def find_engines(folder: Path) -> list[str]:
    """Return the processes that search for one of our patterns, or in the folder."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{name}/cmdline").read_bytes()
            is_engine = b"walker" in command or command.partition(b"\0")[0].endswith(b"rg")
            # The folder of ripgrep is a handle of its own; the walker is told.
            if is_engine and (os.fsencode(folder) in command or _lies_in(name, folder)):
                found.append(name)
    return found


def _lies_in(pid: str, folder: Path) -> bool:
    return Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(folder)


def wait_until_gone(folder: Path) -> str:
    """Wait for the end of all engines in a folder; return what is wrong."""
    deadline = time.monotonic() + _GONE_SECONDS
    while left := find_engines(folder):
        if time.monotonic() > deadline:
            for one in left:
                os.kill(int(one), signal.SIGKILL)
            return f"{len(left)} engines are left"
        time.sleep(0.005)
    return ""


def campaign(count: int) -> int:
    """Run each kind so many times; return how often something was wrong."""
    said: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        (folder / "work").mkdir()
        for number in range(200):
            (folder / f"work/f{number}").write_bytes((b"a" * 79 + b"\n") * 2_000)
        (folder / "work/endless").write_text("x" * 60 + "\n")
        with asyncio.Runner() as runner:
            runner.run(stop_search(folder, 1))
            kinds: tuple[tuple[str, Callable[[int], str]], ...] = (
                ("writer killed", lambda number: kill_writer(folder, number)),
                ("search killed", lambda number: kill_searcher(folder, number)),
                ("search stopped", lambda number: runner.run(stop_search(folder, number))),
                ("search out of time", lambda number: runner.run(time_out_search(folder, number))),
            )
            for kind, work in kinds:
                before = len(os.listdir("/proc/self/fd"))
                for number in range(count):
                    found = work(number)
                    said[f"{kind}: {found or 'well'}"] += 1
                handles = len(os.listdir("/proc/self/fd"))
                if handles > before:
                    said[f"{kind}: {handles - before} handles are left open"] += 1
                for line, times in said.items():
                    if line.startswith(kind):
                        sys.stdout.write(f"{line}: {times}\n")
                sys.stdout.flush()
    return sum(times for line, times in said.items() if not line.endswith(": well") and ": -" not in line)


def main() -> int:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--count", type=int, default=500, help="rounds of each kind (default 500)")
    made.add_argument("--search", default="", help=argparse.SUPPRESS)
    made.add_argument("--endless", type=int, default=0, help=argparse.SUPPRESS)
    given = made.parse_args()
    if given.search:
        asyncio.run(search_for_ever(Path(given.search), endless=bool(given.endless)))
    return 1 if campaign(given.count) else 0


if __name__ == "__main__":
    sys.exit(main())
