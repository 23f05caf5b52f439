"""Nothing that a killed process's commands started is alive when its session goes on, wherever it hid."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.attack.test_crash import running, until_exists

ANY = {"command_allowlist": ["*"]}
HELD = ReplyDelivery(hold_at=0)
STAYS = "trap '' INT TERM HUP; echo $$ > began; while :; do sleep 0.1; done"


def alive(folder: Path) -> list[str]:
    """The command lines of processes that work in a folder."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if Path(os.readlink(f"/proc/{name}/cwd")) == folder:
                    found.append(Path(f"/proc/{name}/cmdline").read_text())
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found


QUOTED = STAYS.replace("$", r"\$")

CALLS = {
    "stubborn": Call("terminal", {"command": STAYS}),
    "daemon": Call("terminal", {"command": f'env -i setsid sh -c "({QUOTED}) &" & sleep 60'}),
    "left behind": Call("terminal", {"command": f'(setsid sh -c "{QUOTED}" >/dev/null 2>&1 &)'}),
    "background": Call("terminal", {"command": STAYS, "background": True}),
    "terminal": Call("terminal", {"command": f"set -m; ({STAYS}) & wait", "pty": True}),
}


@pytest.mark.parametrize("kind", CALLS)
async def test_no_process_of_the_dead_is_alive_at_the_next_request(kind: str) -> None:
    # What comes back at once is killed while it waits for the model; the others in the middle of their call.
    replies: list[Reply] = [Say(calls=(CALLS[kind],))]
    waits = 1 + (kind in ("left behind", "background"))
    replies += [*[Say("late", delivery=HELD)] * waits, Say("and the new words")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=ANY) as home:
            async with running(home, "-z", "work"):
                await until_exists(home, "began", b"\n")
                if kind in ("left behind", "background"):
                    await server.wait_held(await server.wait_for(2))
            assert alive(home.cwd), "the test's own processes are gone before it looks"
            async with running(home, "-z", "go on", "--continue") as process:
                await server.wait_held(await server.wait_for(1 + waits))
                left = [line for line in alive(home.cwd) if "hermes" not in line]
                server.release()
                assert await process.wait() == 0
            assert left == []


async def test_the_helper_dying_with_its_owner_changes_nothing() -> None:
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": STAYS}),)), Say("ok")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=ANY) as home:
            async with running(home, "-z", "work") as process:
                await until_exists(home, "began", b"\n")
                (helper,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                os.kill(int(helper), signal.SIGKILL)
            finished = await home.run(sys.executable, "-m", "hermes", "-z", "go on", "--continue")
            assert (finished.code, alive(home.cwd)) == (0, [])


async def resume_together(home: TempHome, stack: AsyncExitStack, count: int) -> Sequence[asyncio.subprocess.Process]:
    arguments = ("-z", "go on", "--continue")
    return [await stack.enter_async_context(running(home, *arguments)) for _ in range(count)]


@pytest.mark.parametrize("dead", [False, True])
async def test_one_of_many_resumes_and_the_others_name_it(dead: bool) -> None:
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": STAYS}),)), Say("late", delivery=HELD)]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=ANY) as home:
            async with AsyncExitStack() as stack:
                first = await stack.enter_async_context(running(home, "-z", "work"))
                await until_exists(home, "began", b"\n")
                if dead:
                    first.send_signal(signal.SIGKILL)
                many = await resume_together(home, stack, 4)
                owner = first
                if dead:
                    await server.wait_held(await server.wait_for(2))
                    async with asyncio.timeout(60):
                        while sum(one.returncode is not None for one in many) < 3:  # noqa: ASYNC110 - of other processes
                            await asyncio.sleep(0.01)
                    (owner,) = [one for one in many if one.returncode is None]
                for one in many:
                    if one is not owner:
                        _, err = await asyncio.wait_for(one.communicate(), 60)
                        assert one.returncode == 75
                        assert re.search(rf"\bpid {owner.pid}\b", err.decode()), err
                if dead:
                    server.release()
                    assert await owner.wait() == 0
        assert len(server.requests) == 1 + dead


async def test_a_normal_end_leaves_what_was_detached_and_the_session_free() -> None:
    command = "(setsid sh -c 'echo $$ > began; exec sleep 600' >/dev/null 2>&1 &)"
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": command}),)), Say("ok"), Say("on")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=ANY) as home:
            assert (await home.run(sys.executable, "-m", "hermes", "-z", "serve")).code == 0
            pid = int((home.cwd / "began").read_text())
            try:
                assert alive(home.cwd) == ["sleep\000600\000"]
                assert (await home.run(sys.executable, "-m", "hermes", "-z", "go on", "--continue")).code == 0
                assert alive(home.cwd) == ["sleep\000600\000"]  # it was not waited for
            finally:
                os.kill(pid, signal.SIGKILL)
