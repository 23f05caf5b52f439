"""What the campaigns share: real `hermes` processes in a home of their own, and looks at the process table."""

import asyncio
import contextlib
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.testing.home import TempHome

MARK = "TORTURE"
"""A variable that every process of a campaign carries: `world:generation`."""


def say(line: str) -> None:
    """A line of progress or result."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@asynccontextmanager
async def hermes(home: TempHome, *arguments: str, mark: str = "") -> AsyncIterator[asyncio.subprocess.Process]:
    """A running `hermes` without a terminal and with empty input; killed when the context ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hermes",
        *arguments,
        cwd=home.cwd,
        env={**home.environ, MARK: mark},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill(process)
        await process.communicate()


def kill(process: asyncio.subprocess.Process) -> None:
    """Kill -9 of that process alone; nothing is sent to its children."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            # Not `send_signal`: that may reap a process that has just ended, whose code the loop reports as 255 then.
            os.kill(process.pid, signal.SIGKILL)


def marked(world: str) -> Iterator[tuple[int, str, str]]:
    """(process id, generation, command line) of every process that came of a world's `hermes` processes."""
    begin = f"{MARK}={world}:".encode()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            found = next((one for one in environment if one.startswith(begin)), None)
            if found is not None:
                line = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                yield int(name), found[len(begin) :].decode(), line


def end_marked(world: str) -> None:
    """Kill what a world has left running."""
    for pid, _, _ in marked(world):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stored(home: TempHome, query: str) -> Sequence[tuple[object, ...]]:
    """What a query finds in a copy of the database: looking at the file itself would tidy up what a kill has left."""
    if not (home.hermes / "hermes.db").exists():
        return []
    with tempfile.TemporaryDirectory() as folder:
        for file in home.hermes.glob("hermes.db*"):
            if not file.name.endswith("-shm"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(file, folder)
        connection = sqlite3.connect(Path(folder) / "hermes.db")
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:  # killed before the tables were made
            return []
        finally:
            connection.close()
