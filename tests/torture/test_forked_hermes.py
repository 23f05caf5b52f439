"""A fork that runs `hermes` does what a process that starts from nothing does."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE

import pytest

from hermes.testing.home import TempHome
from tests.forked_hermes import run_hermes, start_hermes


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("status",), b""),
        (("no-such-command", "\udc80"), b""),
        (("guard", "command", "--jsonl"), b'{"command": "rm -rf /"}\n'),
        (("restore", "nothing.zip"), b""),
    ],
)
async def test_it_prints_and_ends_as_a_new_interpreter_does(words: tuple[str, ...], stdin: bytes) -> None:
    with TempHome({}, more={"TZ": "Asia/Tokyo"}) as home:
        forked = await run_hermes(home, *words, stdin=stdin)
        assert forked == await home.run(sys.executable, "-m", "hermes", *words, stdin=stdin)
    assert forked.stdout or forked.stderr


async def test_it_is_killed_when_its_time_is_over_and_its_signal_is_told() -> None:
    with TempHome({}) as home:
        process = await start_hermes(home, "guard", "command", "--jsonl", stdin=PIPE, stdout=PIPE)
        process.send_signal(signal.SIGKILL)
        assert await process.wait() == process.returncode == -signal.SIGKILL
        assert await process.communicate() == (b"", b"")


async def test_forks_run_side_by_side() -> None:
    with TempHome({}) as home:
        waits = await start_hermes(home, "guard", "command", "--jsonl", stdin=PIPE, stdout=PIPE)
        others = await asyncio.gather(*(run_hermes(home, "version") for _ in range(3)))
        assert [one.code for one in others] == [0, 0, 0] and waits.returncode is None
        await waits.communicate()
        assert waits.returncode == 0
