"""A fork that runs `hermes` does what a process that starts from nothing does."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE

import pytest

from hermes.testing.home import TempHome
from tests.forked_hermes import can_fork, run_hermes, start_hermes


@pytest.mark.parametrize("language", ["C.UTF-8", "en_US.UTF-8", "zh_CN.UTF-8"])
@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("status",), b""),
        (("no-such-command", "\udc80"), b""),
        (("guard", "command", "--jsonl"), b'{"command": "rm -rf /"}\n'),
        (("restore", "nothing.zip"), b""),
    ],
)
async def test_it_prints_and_ends_as_a_new_interpreter_does(
    words: tuple[str, ...], stdin: bytes, language: str
) -> None:
    with TempHome({}, more={"TZ": "Asia/Tokyo", "LANG": language}) as home:
        assert can_fork(home.environ)
        forked = await run_hermes(home, *words, stdin=stdin)
        assert forked == await home.run(sys.executable, "-m", "hermes", *words, stdin=stdin)
    assert forked.stdout or forked.stderr


TEXT = """
import json, locale, sys
where = [sys.argv, sys.path[:2], __name__, sys.modules["__main__"].__dict__ is globals()]
print(json.dumps([*where, sys.getfilesystemencoding(), locale.getpreferredencoding().lower()]))
sys.exit(sys.stdin.read() + "é")
"""


@pytest.mark.parametrize("language", ["C.UTF-8", "en_US.UTF-8"])
async def test_a_text_runs_as_a_new_interpreter_runs_it(language: str) -> None:
    with TempHome({}, more={"LANG": language}) as home:
        process = await start_hermes(home, "a", "b", stdin=PIPE, stdout=PIPE, stderr=PIPE, code_text=TEXT)
        out, error = await process.communicate(b"left")
        new = await home.run(sys.executable, "-c", TEXT, "a", "b", stdin=b"left")
    assert (process.returncode, out.decode(), error.decode()) == (new.code, new.stdout, new.stderr)
    assert new.stderr == "left\u00e9\n"


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
