"""A temporary home leaks nothing in or out; a manual clock moves only by hand."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
import yaml

from hermes.testing.clock import ManualClock
from hermes.testing.home import TempHome
from hermes.util.clock import Clock


async def test_nothing_of_the_real_home_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "k")
    monkeypatch.setenv("HERMES_HOME", "/elsewhere")
    show = "import os, pathlib; print(dict(os.environ)); print(os.getcwd()); print(pathlib.Path.home())"
    with TempHome({"model": {"default": "m"}}, more={"EXTRA": "1"}) as home:
        done = await home.run(sys.executable, "-c", show)
        assert done.code == 0, done.stderr
        environ, cwd, user_home = done.stdout.splitlines()
        seen = yaml.safe_load(environ)
        assert not any(name.endswith("_API_KEY") for name in seen)
        assert seen["PATH"] == os.environ["PATH"] and seen["EXTRA"] == "1"
        folders = [value for name, value in seen.items() if name.endswith(("HOME", "_DIR", "TMPDIR"))]
        assert len(folders) == 8
        assert all(Path(folder).is_relative_to(home.root) and os.access(folder, os.W_OK) for folder in folders)
        assert Path(cwd) == home.cwd and Path(user_home) == home.home
        assert yaml.safe_load((home.hermes / "config.yaml").read_text()) == {"model": {"default": "m"}}
    assert not home.root.exists()


async def test_a_home_for_a_server() -> None:
    with TempHome.for_server("http://127.0.0.1:1/v1", more_config={"agent": {"max_turns": 3}}) as home:
        config = yaml.safe_load((home.hermes / "config.yaml").read_text())
    assert config["model"]["base_url"] == "http://127.0.0.1:1/v1" and config["agent"] == {"max_turns": 3}


async def test_a_program_that_takes_too_long_is_killed() -> None:
    with TempHome() as home:
        with pytest.raises(TimeoutError):
            await home.run(sys.executable, "-c", "import time; time.sleep(60)", timeout=0.3)
        echoed = await home.run(sys.executable, "-c", "print(input())", stdin="hé\n".encode())
    assert echoed.stdout == "hé\n"


async def test_sleepers_wake_in_order() -> None:
    clock = ManualClock(start=1000.0)
    typed: Clock = clock
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await typed.sleep(nap)
            woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("b", 3))
        group.create_task(sleeper("a", 1, 1, 10))
        await clock.wait_for_sleepers(2)
        assert clock.sleepers == [1, 3]
        await clock.advance(0.5)
        assert woken == [] and clock.now() == 1000.5
        await clock.advance(4.5)
        assert woken == [("a", 1), ("a", 2), ("b", 3)]
        assert clock.sleepers == [7] and clock.monotonic() == 5
        clock.set_now(99.0)
        assert (clock.now(), clock.monotonic()) == (99.0, 5)
        await clock.advance(7)
    assert woken[-1] == ("a", 12) and clock.slept == [3, 1, 1, 10]


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.wait_for_sleepers()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.sleepers == []
    await clock.advance(10)
    assert clock.monotonic() == 10


async def test_a_clock_that_moves_by_itself() -> None:
    clock = ManualClock(start=0, auto=True)
    await clock.sleep(3600)
    assert clock.now() == 3600


async def test_waiting_for_sleepers_that_never_come() -> None:
    with pytest.raises(TimeoutError):
        await ManualClock().wait_for_sleepers(timeout=0.02)
