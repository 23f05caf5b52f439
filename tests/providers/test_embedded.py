"""The embedded model, for real: nothing configured, no key, no network."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from hermes.providers.embedded import find_embedded_model, serve_embedded_model
from hermes.testing.home import TempHome

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_embedded_model() is None, reason="the embedded model is not installed"),
]

LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")


@pytest.mark.needs("libgomp")
async def test_it_answers_with_nothing_configured_and_says_what_it_is() -> None:
    with TempHome() as home:
        done = await home.run(sys.executable, "-m", "hermes", "-z", "What is the capital of France?")
        assert done.code == 0
        assert "Paris" in done.stdout
        assert "embedded" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        again = await home.run(sys.executable, "-m", "hermes", "-z", "And of Italy?", "--continue")
        assert again.code == 0
        assert again.stdout.strip()


async def test_it_is_not_used_when_anything_is_configured() -> None:
    with TempHome({"model": {"default": "m", "provider": "openai"}}) as home:
        done = await home.run(sys.executable, "-m", "hermes", "-z", "hi")
    assert done.code == 78
    assert "OPENAI_API_KEY" in done.stderr


def list_servers(parent: int) -> set[int]:
    """Return the process ids of the servers of the embedded model that this process has started."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            started_by = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if started_by == parent and b"hermes.providers.embedded_server" in words:
            found.add(int(folder.name))
    return found


async def keep_serving() -> None:
    async with serve_embedded_model():
        await asyncio.Event().wait()


@LINUX
@pytest.mark.needs("libgomp")
async def test_leaving_while_the_model_loads_ends_at_once_and_leaves_no_process() -> None:
    for _ in range(5):
        serving = asyncio.create_task(keep_serving())
        async with asyncio.timeout(60):
            while not list_servers(os.getpid()):  # noqa: ASYNC110 - a process is what is waited for
                await asyncio.sleep(0.002)
            serving.cancel()
            await asyncio.wait({serving})
        assert serving.cancelled()
        assert not list_servers(os.getpid())


@LINUX
@pytest.mark.needs("libgomp")
async def test_the_model_ends_with_a_program_that_is_killed() -> None:
    program = (
        "import asyncio\nfrom hermes.providers.embedded import serve_embedded_model\n"
        "async def serve():\n async with serve_embedded_model():\n  print('serves', flush=True)\n"
        "  await asyncio.Event().wait()\nasyncio.run(serve())"
    )
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert killed.stdout is not None
    assert await killed.stdout.readline() == b"serves\n"
    (server,) = list_servers(killed.pid)
    killed.kill()
    await killed.wait()
    async with asyncio.timeout(60):
        while is_alive(server):  # noqa: ASYNC110 - not a process of ours, which could be waited for
            await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that only waits to be taken note of does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
