"""A program that the kernel lets read nothing but what it was given."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes.execution.sandbox.confined_reader import can_confine, start_reader
from hermes.execution.sandbox.support import landlock_version

pytestmark = pytest.mark.needs("ripgrep")
RIPGREP = "/usr/bin/rg"


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[int]:
    if not landlock_version():
        pytest.skip("this kernel has no Landlock")
    for name in ("in/file", "out/file"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(f"text of {name}\n")
    handle = os.open(tmp_path / "in", os.O_RDONLY)
    yield handle
    os.close(handle)


async def run(folder: int, *arguments: str) -> tuple[str, int]:
    started = await start_reader([RIPGREP, "--no-config", *arguments], folder, [(folder, False)], seconds=60)
    shown = await asyncio.to_thread(started.process.communicate)
    return (shown[0] + shown[1]).decode(), await started.ended


async def test_what_was_given_is_read_and_nothing_else(folder: int, tmp_path: Path) -> None:
    assert can_confine(RIPGREP) and not can_confine("/bin/false") and not can_confine("/nowhere/rg")
    assert await run(folder, "-N", "text", "./") == ("file:text of in/file\n".replace("file:", "./file:", 1), 0)
    (tmp_path / "in/link").symlink_to("../out/file")
    for path in (str(tmp_path / "out/file"), "../out/file", "link", "/etc/passwd", "/proc/self/environ"):
        shown, code = await run(folder, "text|root|PATH", path)
        assert code == 2 and "text of out" not in shown and "denied" in shown, path
    assert (tmp_path / "out/file").read_text() and Path("/etc/passwd").read_text(), "this process may read as before"


async def test_names_alone_can_be_opened(folder: int) -> None:
    started = await start_reader([RIPGREP, "--no-config", "--files", "./"], folder, [(folder, True)], seconds=60)
    assert (await asyncio.to_thread(started.process.communicate))[0] == b"./file\n"
    started = await start_reader([RIPGREP, "--no-config", "text", "./"], folder, [(folder, True)], seconds=60)
    assert b"text" not in (await asyncio.to_thread(started.process.communicate))[0]


async def test_nothing_is_left_of_a_program_that_is_closed_or_cannot_start(folder: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with ExitStack() as held:
            started = await start_reader([RIPGREP, "--no-config", "x", "-"], folder, [(folder, False)], seconds=60)
            held.callback(started.close)
        assert await started.ended in (-signal.SIGKILL, 1)
    with pytest.raises(OSError, match="nowhere"):
        await start_reader(["/nowhere/rg"], folder, [(folder, False)], seconds=60)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_start_that_is_cancelled_leaves_no_program(folder: int, tmp_path: Path) -> None:
    pipe = tmp_path / "in/pipe"
    os.mkfifo(pipe)
    end_of_pipe = os.open(pipe, os.O_RDWR)  # so that whoever reads it waits for ever
    before = len(os.listdir("/proc/self/fd"))
    for rounds in range(12):
        starting = asyncio.create_task(
            start_reader(["/bin/cat", str(pipe)], folder, [(folder, False)] if rounds % 2 else None, seconds=60)
        )
        for _ in range(rounds // 2 % 3):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.sleep(0)
        starting.cancel()  # as a group of tasks does after the person's stop
        with pytest.raises(asyncio.CancelledError):
            (await starting).close()
    readers = {thread.name for thread in threading.enumerate()}
    while "confined reader" in readers:
        await asyncio.sleep(0.01)
        readers = {thread.name for thread in threading.enumerate()}
    assert len(os.listdir("/proc/self/fd")) == before, "the threads have seen the end of all that they started"
    os.close(end_of_pipe)


async def test_a_program_ends_although_nobody_stops_it(folder: int) -> None:
    """What was started by a Hermes that is killed is not left behind, whatever pattern keeps it busy."""
    busy = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    started = await start_reader(busy, folder, given=(folder,), seconds=0)
    assert await started.ended == -signal.SIGKILL
    started.close()
