"""Commands under wardens: what a command gets, that nothing escapes, and what happens when a warden is killed."""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.core.errors import ToolError
from hermes.core.messages import ToolStatus
from hermes.execution import supervisor_main
from hermes.execution.base import BackendHandle, CommandExit, ShellCommand, StopOutcome, StopPatience
from hermes.execution.local import LocalBackend, LocalCommand
from hermes.execution.supervisor import Supervisors
from hermes.hooks.programs import HookProgram, run_program
from hermes.runtime.locks import session_lock
from tests.execution.test_local import NEVER, runs, until
from tests.tools.tool_session import Session

pytestmark = pytest.mark.slow


@pytest.fixture
async def backend() -> AsyncIterator[LocalBackend]:
    made = LocalBackend(os.environ)
    yield made
    await made.close()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


PATIENCE = StopPatience()


async def start(
    backend: LocalBackend, folder: Path, text: str, *, stop_patience: StopPatience = PATIENCE, **changes: bool
) -> tuple[LocalCommand, bytearray]:
    output = bytearray()
    command = ShellCommand(text=text, cwd=str(folder), stop_patience=stop_patience, **changes)
    return await backend.start(command, output.extend), output


async def run(backend: LocalBackend, folder: Path, text: str, **changes: bool) -> tuple[CommandExit, str]:
    running, output = await start(backend, folder, text, **changes)
    return await running.wait(), output.decode()


async def ready(folder: Path, *names: str) -> list[int]:
    """The process ids that a command has written, one a file."""
    files = [folder / name for name in names]
    await until(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files))
    return [int(file.read_text()) for file in files]


ENDS_BY_TERM = StopPatience(terminate=600, kill=600)
ENDS_BY_KILL = StopPatience(kill=600)
TREES = {
    "obeys": ("sh -c 'sh -c \"echo \\$\\$ > pid; exec sleep 600\"; true'; true", NEVER),
    "ignores INT": ("trap '' INT; echo $$ > pid; while :; do sleep 0.1; done", ENDS_BY_TERM),
    "ignores INT and TERM": ("trap '' INT TERM; echo $$ > pid; while :; do sleep 0.1; done", ENDS_BY_KILL),
    "daemon": (
        "(setsid sh -c 'trap \"\" INT TERM; echo $$ > pid; while :; do sleep 1; done' >&- 2>&- &); sleep 9",
        ENDS_BY_KILL,
    ),
    "cleared": (
        "env -i setsid sh -c '(trap \"\" INT; echo $$ >pid; while :; do sleep 0.1; done) & wait'",
        ENDS_BY_TERM,
    ),
    "stopped": ("sh -c 'echo $$ > pid; kill -STOP $$'; true", ENDS_BY_KILL),
}
"""Each with the time that it has after each signal: a stop that waits for more than it must has hung."""


@pytest.mark.parametrize("kind", TREES)
async def test_a_stopped_tree_is_gone_in_time(backend: LocalBackend, tmp_path: Path, kind: str) -> None:
    text, patience = TREES[kind]
    running, _ = await start(backend, tmp_path, text, stop_patience=patience)
    (pid,) = await ready(tmp_path, "pid")
    async with asyncio.timeout(60):
        assert await running.stop() is StopOutcome.GONE
    assert not runs(pid)
    assert await running.stop() is StopOutcome.GONE


async def test_each_signal_of_a_stop_comes_after_the_time_for_the_one_before(
    backend: LocalBackend, tmp_path: Path
) -> None:
    text, _ = TREES["ignores INT and TERM"]
    running, _ = await start(backend, tmp_path, text, stop_patience=StopPatience(kill=600))
    await ready(tmp_path, "pid")
    started = time.monotonic()
    assert await running.stop() is StopOutcome.GONE
    assert time.monotonic() - started > 2.9 and (await running.wait()).code == -9


async def test_what_never_stands_still_is_gone_too(backend: LocalBackend, tmp_path: Path) -> None:
    # Each of these hands over to a child and ends, for some minutes at most: their number does not grow.
    hop = "hop() { [ $SECONDS -lt 200 ] && { sleep 0.01; hop & }; }"
    text = f"trap '' INT TERM; {hop}; echo $$ > pid; for n in 1 2 3 4 5; do hop & done; sleep 200"
    running, _ = await start(backend, tmp_path, text, stop_patience=NEVER)
    (pid,) = await ready(tmp_path, "pid")
    stopping = asyncio.create_task(running.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait({stopping})
    async with asyncio.timeout(60):
        assert await running.stop() is StopOutcome.GONE
    assert [one for one in os.listdir("/proc") if one.isdigit() and _session_of(one) == pid] == []


def _session_of(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[3])
    except (FileNotFoundError, ProcessLookupError):
        return 0


async def test_a_command_gets_its_streams_only(backend: LocalBackend, tmp_path: Path) -> None:
    with open(tmp_path / "held", "w") as held:
        os.set_inheritable(held.fileno(), True)
        holding = LocalBackend(os.environ, held_handles=(held.fileno(),))
        for one in (backend, holding):
            assert (await run(one, tmp_path, "ls /proc/$$/fd; true"))[1].split() == ["0", "1", "2"]
            found = (await run(one, tmp_path, "ls /proc/$$/fd", report_state=True))[1].split()
            assert found == ["0", "1", "2", str(supervisor_main.NOTE)]
        await holding.close()


async def test_folder_and_environment_are_as_ordered(tmp_path: Path) -> None:
    made = LocalBackend({"PATH": os.environ["PATH"], "CFLAGS": "as\nis", "OPENAI_API_KEY": "x" * 9})
    _, text = await run(
        made, tmp_path, 'pwd; echo "$CFLAGS"; env | grep -c KEY; cat /proc/$PPID/environ | tr "\\0" "\\n"'
    )
    assert text.splitlines() == [str(tmp_path), "as", "is", "0", f"PATH={os.environ['PATH']}"]
    await made.close()


async def test_no_signal_is_ignored_or_blocked_in_a_command(backend: LocalBackend, tmp_path: Path) -> None:
    _, text = await run(backend, tmp_path, "grep -E 'Sig(Ign|Blk)' /proc/self/status")
    assert [int(line.split()[1], 16) & ~(3 << 31) for line in text.splitlines()] == [0, 0]  # 32, 33: libc's
    ended, text = await run(backend, tmp_path, "trap 'echo caught' INT; kill -INT $$; (yes; echo $? >&2) | head -1")
    # `yes` was ended by SIGPIPE; the two write at the same time.
    assert (ended.code, sorted(text.split())) == (0, ["141", "caught", "y"])


@pytest.mark.parametrize(("text", "code"), [("exit 7", 7), ("kill -9 $$", -9), ("kill -TERM $$", -15), ("true", 0)])
async def test_ends_are_told_as_they_are(backend: LocalBackend, tmp_path: Path, text: str, code: int) -> None:
    assert (await run(backend, tmp_path, text))[0] == CommandExit(code=code)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (ShellCommand(text="true", cwd="/nowhere/at/all"), "does not exist"),
        (ShellCommand(text="true", cwd=__file__), "does not exist"),
        (ShellCommand(text="a\0b", cwd="/"), "null character"),
        (ShellCommand(text="echo \ud83d", cwd="/"), "half a character"),
        (ShellCommand(text="x" * 200_000, cwd="/"), "too long"),
        (ShellCommand(text="true", cwd="/", environment={str(n): "x" * 100_000 for n in range(60)}), "too long"),
    ],
)
async def test_what_cannot_start_is_told(backend: LocalBackend, command: ShellCommand, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        await backend.start(command, lambda _: None)
    assert (await run(backend, Path("/"), "echo on"))[1] == "on\n"


async def test_a_hundred_commands_leave_nothing(backend: LocalBackend, tmp_path: Path) -> None:
    async def run_ten() -> None:
        await asyncio.gather(*(run(backend, tmp_path, "true & true", report_state=True) for _ in range(10)))

    await run_ten()  # fills the store of idle supervisors, each of which keeps a handle
    handles = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        await run_ten()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= handles + 1
    helper = find_helper(backend._supervisors)
    assert helper is not None
    await until(lambda: len(supervisor_main.list_children(helper)) <= 4)
    assert all(runs(pid) and not supervisor_main.list_children(pid) for pid in supervisor_main.list_children(helper))


async def test_a_program_that_left_nothing_frees_its_warden_for_the_next(tmp_path: Path) -> None:
    supervisors = Supervisors(os.environ)
    program = HookProgram(
        command="echo $PPID", shell="sh", given=b"{}", folder=str(tmp_path), environment=os.environ, seconds=10
    )
    try:
        wardens = {(await run_program(program, lambda: supervisors)).output for _ in range(60)}
    finally:
        await supervisors.close()
    assert len(wardens) == 1


async def test_a_terminal_controls_and_brings_ctrl_c(backend: LocalBackend, tmp_path: Path) -> None:
    text = "tty; trap 'echo caught; exit 5' INT; echo $$ > pid; while :; do sleep 0.05; done"
    running, output = await start(backend, tmp_path, text, pty=True)
    await ready(tmp_path, "pid")
    await running.write(b"\x03")
    assert (await asyncio.wait_for(running.wait(), 60)).code == 5
    assert output.startswith(b"/dev/pts/") and b"caught" in output
    ended, text = await run(backend, tmp_path, "set -m; sleep 50 & kill %1; wait %1; echo $?", pty=True)
    assert ended.code == 0 and "143" in text


async def test_a_daemon_is_seen_and_let_live(tmp_path: Path) -> None:
    made = LocalBackend(os.environ)
    text = "(env -i /usr/bin/setsid sh -c 'echo $$ > pid; exec sleep 60' >/dev/null 2>&1 &)"
    ended, _ = await run(made, tmp_path, text)
    (pid,) = await ready(tmp_path, "pid")
    assert ended == CommandExit(code=0, left_running=True)
    await made.close()
    try:
        await until(lambda: parent_of(pid) == 1 or Path(f"/proc/{parent_of(pid)}/comm").read_text() != "warden\n")
        assert runs(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


async def test_a_killed_helper_is_replaced_and_its_wardens_go_on(backend: LocalBackend, tmp_path: Path) -> None:
    running, output = await start(backend, tmp_path, "read x; echo got $x; (setsid sleep 60 &)", interactive=True)
    first = find_helper(backend._supervisors)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    for _ in range(3):
        assert (await run(backend, tmp_path, "echo more"))[1] == "more\n"
    await running.write(b"it\n")
    assert (await running.wait()).left_running
    assert bytes(output) == b"got it\n"
    assert await running.stop() is StopOutcome.GONE


async def test_a_killed_warden_takes_its_command_with_it(backend: LocalBackend, tmp_path: Path) -> None:
    text = "(setsid sh -c 'echo $$ > daemon; exec sleep 60' &) ; echo $$ > pid; trap '' INT TERM; sleep 60; true"
    running, _ = await start(backend, tmp_path, text)
    pids = await ready(tmp_path, "daemon", "pid")
    os.kill(parent_of(running.pid), signal.SIGKILL)
    assert (await asyncio.wait_for(running.wait(), 60)).code == -9
    await until(lambda: not any(runs(pid) for pid in pids))
    assert (await run(backend, tmp_path, "echo on"))[1] == "on\n"


async def test_an_idle_warden_that_was_killed_is_passed_over(backend: LocalBackend, tmp_path: Path) -> None:
    await run(backend, tmp_path, "true")
    helper = find_helper(backend._supervisors)
    assert helper is not None
    for pid in supervisor_main.list_children(helper):
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not supervisor_main.list_children(helper))
    assert (await run(backend, tmp_path, "echo on"))[1] == "on\n"


async def test_what_one_session_left_lives_on_when_another_ones_warden_is_killed(tmp_path: Path) -> None:
    wardens = Supervisors(os.environ)
    one, other = LocalBackend(os.environ, supervisors=wardens), LocalBackend(os.environ, supervisors=wardens)
    await run(one, tmp_path, "(setsid sh -c 'echo $$ > pid; exec sleep 60' >/dev/null 2>&1 &)")
    (pid,) = await ready(tmp_path, "pid")
    await one.close()
    await until(lambda: parent_of(pid) == find_helper(wardens))
    running, _ = await start(other, tmp_path, "sleep 60; true")
    os.kill(parent_of(running.pid), signal.SIGKILL)
    assert (await running.wait()).code == -9
    await until(lambda: not runs(running.pid))
    try:
        assert runs(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        await other.close()
        await wardens.close()


async def test_without_wardens_commands_run_and_stop_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    made = LocalBackend(os.environ)
    ended, text = await run(made, tmp_path, "echo hi; cd /; exit 3", report_state=True)
    assert (ended.code, text) == (3, "hi\n") and ended.state is not None and ended.state.cwd == "/"
    assert find_helper(made._supervisors) is None
    running, _ = await start(made, tmp_path, "(setsid sh -c 'echo $$ > pid; exec sleep 60' &) ; sleep 60")
    (pid,) = await ready(tmp_path, "pid")
    assert await running.stop() is StopOutcome.GONE
    with_daemon = runs(pid)
    if with_daemon:  # what left session, group and parent cannot be found without a warden
        os.kill(pid, signal.SIGKILL)
    text = "trap '' INT TERM; echo $$ > other; while :; do sleep 0.1; done"
    running, _ = await start(made, tmp_path, text, stop_patience=NEVER)
    await ready(tmp_path, "other")
    stopping = asyncio.create_task(running.stop())
    await asyncio.sleep(0.1)
    stopping.cancel()
    assert (await asyncio.wait_for(running.wait(), 60)).code == -9
    await asyncio.wait({stopping})
    await made.close()


async def test_all_background_processes_are_stopped_at_once(session: Session) -> None:
    await session.text("terminal", command="echo $$ > a; sleep 60; true", background=True)
    await session.text("terminal", command="(setsid sh -c 'echo $$ > b; sleep 60' &)")
    pids = await ready(session.cwd, "a", "b")
    assert "left processes running" in await session.text("process", action="list")
    ended = await session.state.processes.stop_all()
    assert [(one.stopped, one.status) for one in ended] == [
        (StopOutcome.GONE, "exited with code -2"),
        (StopOutcome.GONE, "exited with code 0"),
    ]
    assert not any(runs(pid) for pid in pids)
    assert await session.state.processes.stop_all() == []


class Remote:
    """A command at another end that does not confirm its end."""

    pid = 7
    contacted_hosts = None

    async def wait(self) -> CommandExit:
        return await asyncio.get_running_loop().create_future()

    async def stop(self) -> StopOutcome:
        return StopOutcome.UNCERTAIN

    async def write(self, data: bytes) -> None: ...

    def close_input(self) -> None: ...


class Elsewhere:
    """A place whose other end is gone."""

    name = "elsewhere"
    contained = False

    async def describe(self) -> str:
        return "elsewhere"

    def take_notices(self) -> list[str]:
        return []

    def list_opened(self) -> tuple[()]:
        return ()

    def current_layout(self) -> None:
        """Return None: no wall of this machine's stands around its commands."""

    def is_writable(self, path: str) -> bool:
        return True

    def to_local_path(self, path: str) -> str:
        return path

    def to_command_path(self, path: str) -> str:
        return path

    def grant_read(self, path: str) -> None: ...
    def grant_write(self, path: str) -> None: ...

    def is_missing_folder(self, path: str) -> bool:
        return False

    def find_denied_path(self, output: str, cwd: str) -> str:
        return ""

    def explain_denials(self, command: str, cwd: str, output: str, *, failed: bool) -> list[str]:
        return []

    async def start(self, command: ShellCommand, sink: object) -> Remote:
        return Remote()

    async def look_again(self) -> Sequence[str]:
        return ()

    async def close(self) -> None: ...


async def test_what_may_still_run_elsewhere_is_said(session: Session) -> None:
    here = session.context.backend
    session.context = replace(session.context, backend_handle=BackendHandle.from_backend(Elsewhere()))
    late = await session.call("terminal", command="make", timeout=1)
    assert late.status is ToolStatus.ERROR and "may still be running there" in late.text
    process_id = (await session.text("terminal", command="make", background=True)).split()[1]
    assert "may still be running there" in await session.text("process", action="kill", session_id=process_id)
    (ended,) = await session.state.processes.stop_all()
    assert ended.stopped is StopOutcome.UNCERTAIN
    calling = asyncio.create_task(session.call("terminal", command="make all"))
    await until(lambda: "c1" in str(session.journal.lines[-1]))
    await asyncio.sleep(0.05)
    calling.cancel()
    await asyncio.wait({calling})
    assert session.state.processes.take_notices() == ["'make all' was stopped, and may still be running there."]
    await here.close()


def find_helper(supervisors: Supervisors) -> int | None:
    """Return the helper's process id; None while there is none."""
    return supervisors._helper.pid if supervisors._helper is not None else None


def state_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return b"X"


HELPER = "H=$(awk '{print $4}' /proc/$PPID/stat)"


async def test_a_command_that_stops_its_warden_and_the_helper_is_stopped_all_the_same(
    backend: LocalBackend, tmp_path: Path
) -> None:
    wait = "while [ ! -e begun ]; do sleep 0.01; done"  # a warden that is stopped before it is heard of is woken
    text = f"{HELPER}; {wait}; kill -STOP $H $PPID; echo $$ > pid; exec sleep 600"
    running, _ = await start(backend, tmp_path, text, stop_patience=NEVER)
    (tmp_path / "begun").touch()
    await ready(tmp_path, "pid")
    await until(lambda: state_of(parent_of(running.pid)) == b"T")
    async with asyncio.timeout(60):
        assert await running.stop() is StopOutcome.GONE
    assert not runs(running.pid)
    assert (await run(backend, tmp_path, "echo on"))[1] == "on\n"


async def test_a_command_that_stops_its_warden_again_and_again_is_killed(backend: LocalBackend, tmp_path: Path) -> None:
    daemon = "setsid sh -c 'trap \"\" INT TERM; echo $$ > daemon; sleep 60; true' &"
    text = f"trap '' INT TERM; {daemon} echo $$ > pid; while :; do kill -STOP $PPID; done"
    running, _ = await start(backend, tmp_path, text, stop_patience=NEVER)
    pids = await ready(tmp_path, "pid", "daemon")
    stopping = asyncio.create_task(running.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait({stopping})
    assert (await asyncio.wait_for(running.wait(), 60)).code == -9
    assert not any(runs(pid) for pid in pids)


async def test_gone_is_not_said_when_helper_and_warden_were_killed(backend: LocalBackend, tmp_path: Path) -> None:
    daemon = "(setsid sh -c 'echo $$ > pid; exec sleep 60' >/dev/null 2>&1 &)"
    # A warden that dies before it is heard of is another case.
    wait = "while [ ! -s pid ] || [ ! -e begun ]; do sleep 0.01; done"
    running, _ = await start(backend, tmp_path, f"{HELPER}; {daemon}; {wait}; kill -9 $H; kill -9 $PPID; sleep 60")
    (tmp_path / "begun").touch()
    (pid,) = await ready(tmp_path, "pid")
    try:
        ended = await asyncio.wait_for(running.wait(), 60)
        assert (ended.code, ended.left_running) == (-9, True)
        assert await running.stop() is StopOutcome.UNCERTAIN
        assert runs(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


async def test_a_stopped_helper_goes_on(tmp_path: Path) -> None:
    supervisors = Supervisors(os.environ, supervisor_seconds=600)
    backend = LocalBackend(os.environ, supervisors=supervisors)
    wait = "while [ ! -e begun ]; do sleep 0.01; done"  # a warden that dies before it is heard of is another case
    running, _ = await start(backend, tmp_path, f"{HELPER}; {wait}; kill -STOP $H; kill -9 $PPID")
    (tmp_path / "begun").touch()
    await running.wait()
    helper = find_helper(supervisors)
    async with asyncio.timeout(60):
        assert (await run(backend, tmp_path, "echo on"))[1] == "on\n"
    assert find_helper(supervisors) == helper is not None
    await backend.close()
    await supervisors.close()


SILENT = """#!/bin/sh
mkdir {folder}/first 2>&- && exec {python} -c "import socket, time; socket.socket(fileno=0).send(b'+'); time.sleep(60)"
exec {python} "$@"
"""


@pytest.mark.needs("procps")
async def test_a_helper_that_does_not_answer_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(SILENT.format(folder=tmp_path, python=sys.executable))
    python.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(python))
    made = LocalBackend(os.environ)
    assert (await asyncio.wait_for(run(made, tmp_path, "ps -o comm= $PPID"), 60))[1] == "warden\n"
    assert (tmp_path / "first").is_dir()
    await made.close()


LOCKED = """
import asyncio, os, sys
from pathlib import Path
from hermes.runtime.locks import session_lock
from hermes.execution.base import ShellCommand
from hermes.execution.local import LocalBackend

async def main():
    async with session_lock(Path(sys.argv[1]), "s") as handle:
        command = ShellCommand(text=sys.argv[2], cwd=sys.argv[1])
        await LocalBackend(os.environ, held_handles=[handle]).start(command, lambda data: None)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["once", "again and again"])
async def test_wardens_that_were_stopped_do_not_keep_a_dead_owners_lock(tmp_path: Path, how: str) -> None:
    again = "while :; do kill -STOP $PPID; done" if how == "again and again" else "exec sleep 60"
    text = f"trap '' INT TERM; {HELPER}; kill -STOP $H $PPID; echo $$ > pid; {again}"
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", LOCKED, str(tmp_path), text)
    (pid,) = await ready(tmp_path, "pid")
    helper = parent_of(parent_of(pid))
    owner.kill()
    await owner.wait()
    async with asyncio.timeout(60), session_lock(tmp_path, "s"):
        assert not runs(pid)
    await until(lambda: not runs(helper))
