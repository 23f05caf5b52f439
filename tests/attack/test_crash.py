"""What is left after kill -9, and what the next process says about it."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hermes.execution import process_tree
from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes


@asynccontextmanager
async def running(home: TempHome, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hermes",
        *arguments,
        cwd=home.cwd,
        env=home.environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def resumed(home: TempHome) -> ProgramResult:
    return await run_hermes(home, "-z", "go on", "--continue")


async def until_exists(home: TempHome, name: str, end: bytes = b"") -> None:
    async with asyncio.timeout(60):
        while not (home.cwd / name).exists() or not (home.cwd / name).read_bytes().endswith(end):  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)


async def test_a_call_that_ran_when_the_process_died_is_not_called_never_started() -> None:
    command = "touch began; exec sleep 20"
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": command}),)), Say("ok")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with running(home, "-z", "work"):
                await until_exists(home, "began")
            assert (await resumed(home)).code == 0
        result = next(iter(server.requests[1].results.values()))
        assert "Not started" not in result
        assert "check" in result


async def test_a_call_id_used_again_does_not_get_the_result_of_its_namesake() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("terminal", {"command": "echo from the first"}, call_id="call_0"),)),
        Say(calls=(Call("terminal", {"command": "touch began; exec sleep 20"}, call_id="call_0"),)),
        Say("ok"),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with running(home, "-z", "work", "--allow", "touch *"):
                await until_exists(home, "began")
            assert (await resumed(home)).code == 0
        assert server.requests[2].body.count(b"from the first") == 2  # its call and its result, once each


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
async def test_a_signal_leaves_no_process_behind(number: signal.Signals) -> None:
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": "echo $$ > began; sleep 300; true"}),)), Say("ok")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with running(home, "-z", "work") as process:
                await until_exists(home, "began", b"\n")
                process.send_signal(number)
                _, err = await asyncio.wait_for(process.communicate(), 60)
                assert (process.returncode, err) == (130, b"hermes: Stopped.\n")
            assert not process_tree.filter_alive(process_tree.find_processes(int((home.cwd / "began").read_text())))


async def test_what_a_dead_turn_left_running_is_ended_by_the_one_that_resumes() -> None:
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": "echo $$ > began; sleep 30; true"}),)), Say("ok")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with running(home, "-z", "work"):
                await until_exists(home, "began")
            assert (await resumed(home)).code == 0
            left = int((home.cwd / "began").read_text())
            try:
                with pytest.raises(ProcessLookupError):
                    os.kill(left, 0)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(left, signal.SIGKILL)


async def test_a_session_deleted_under_a_running_turn_says_so() -> None:
    replies: list[Reply] = [Say("late", delivery=ReplyDelivery(hold_at=0)), Say("late")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with running(home, "-z", "secret plan") as process:
                request = await server.wait_for(1)
                await server.wait_held(request)
                listed = await run_hermes(home, "sessions", "list")
                name = listed.stdout.split()[0]
                deleted = await run_hermes(home, "sessions", "delete", name, "--yes")
                server.release()
                _, err = await asyncio.wait_for(process.communicate(), 60)
        assert b"Traceback" not in err
        assert deleted.code == 75, "a session that is open elsewhere cannot be deleted"


@pytest.mark.parametrize("loss", ["rm -rf home", "rm hermes.db"])
async def test_a_home_that_vanishes_is_not_passed_over_in_silence(loss: str) -> None:
    replies: list[Reply] = [Say("late", delivery=ReplyDelivery(hold_at=0))]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with running(home, "-z", "remember this") as process:
                await server.wait_held(await server.wait_for(1))
                if loss == "rm hermes.db":
                    for file in home.hermes.glob("hermes.db*"):
                        file.unlink()
                else:
                    shutil.rmtree(home.hermes)
                server.release()
                _, err = await asyncio.wait_for(process.communicate(), 60)
            assert process.returncode != 0 or b"hermes:" in err
