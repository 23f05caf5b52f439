"""Who may send requests to a process of Hermes: its user's own programs, also from outside of its container."""

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

SERVER = """
import asyncio, sys
from pathlib import Path
from hermes.ipc.frames import DoneFrame
from hermes.ipc.listener import IpcListener

async def answer(wire):
    wire.send(DoneFrame(id=1, said="taken"))
    await wire.next_frame()

async def main():
    listener = IpcListener(Path(sys.argv[1]), answer)
    listener.start()
    print("listens", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
CLIENT = """
import socket, sys
with socket.socket(socket.AF_UNIX) as peer:
    peer.settimeout(30)
    peer.connect(sys.argv[1])
    print("answered" if b"taken" in peer.recv(4096) else "refused")
"""
SUPERVISED = f"""
import subprocess, sys
from hermes.execution.supervisor_main import _PROCESS_NAME
with open("/proc/self/comm", "wb") as file:
    file.write(_PROCESS_NAME)
sys.exit(subprocess.run([sys.executable, "-c", {CLIENT!r}, sys.argv[1]]).returncode)
"""


async def _ask(*words: str) -> str:
    process = await asyncio.create_subprocess_exec(*words, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return out.decode().strip() or err.decode()


@contextlib.asynccontextmanager
async def _listening(*before: str, path: Path) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(
        *before, sys.executable, "-c", SERVER, str(path), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(60):
            if await process.stdout.readline() != b"listens\n":
                pytest.skip(f"namespaces of one's own do not work here: {(await process.stderr.read())[:80]!r}")
        yield process.pid
    finally:
        process.kill()
        await process.wait()


async def test_a_process_of_the_user_is_answered_and_one_below_a_supervisor_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    async with _listening(path=path):
        assert await _ask(sys.executable, "-c", CLIENT, str(path)) == "answered"
        assert await _ask(sys.executable, "-c", SUPERVISED, str(path)) == "refused"


@pytest.mark.needs("unshare")
async def test_a_process_that_enters_the_container_is_answered(tmp_path: Path) -> None:
    """As `docker exec` does: its parent is outside, which the container sees as process 0."""
    path = tmp_path / "s.sock"
    words = "unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"
    async with _listening(*words, path=path) as outer:
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        enter = "nsenter", "--target", children[0], "--user", "--pid", "--mount", "--preserve-credentials"
        assert await _ask(*enter, sys.executable, "-c", CLIENT, str(path)) == "answered"
        assert await _ask(*enter, sys.executable, "-c", SUPERVISED, str(path)) == "refused"
