"""Commands on this machine: state between them, limits, and that nothing outlives its end."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.core.messages import ToolCallPart, ToolStatus
from hermes.execution.base import BackendHandle, OutputSink, ShellCommand, StopPatience
from hermes.execution.local import CommandWrapper, LocalBackend, LocalCommand
from hermes.tools.executor import CallBatch
from hermes.tools.registry import ToolRegistry
from hermes.tools.session import ToolLimits
from tests.tools.tool_session import Session, make_context

pytestmark = pytest.mark.slow


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - conditions of other processes
            await asyncio.sleep(0.005)


def runs(pid: int) -> bool:
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


async def test_both_streams_and_the_exit_code(session: Session) -> None:
    result = await session.call("terminal", command="echo out; echo err >&2; exit 3")
    assert (result.text, result.status) == ("out\nerr\n[exit code 3]", ToolStatus.OK)


async def test_folder_and_variables_stay(session: Session) -> None:
    (session.cwd / "sub dir").mkdir()
    moved = await session.text("terminal", command="cd 'sub dir' && export NAME='two\nlines' GONE=1")
    assert moved == f"[exit code 0; now in {session.cwd}]" and session.cwd.name == "sub dir"
    assert await session.text("terminal", command='echo "$NAME"; pwd; unset GONE; exit 0') == (
        f"two\nlines\n{session.cwd}\n[exit code 0]"
    )
    assert await session.text("terminal", command="echo ${GONE-unset}") == "unset\n[exit code 0]"


async def test_a_workdir_is_for_one_command(session: Session) -> None:
    (session.cwd / "d").mkdir()
    before = session.cwd
    assert f"{before}/d" in await session.text("terminal", command="pwd; export A=1", workdir="d")
    assert await session.text("terminal", command="pwd; echo $A") == f"{before}\n1\n[exit code 0]"
    missing = await session.call("terminal", command="pwd", workdir="nowhere")
    assert missing.status is ToolStatus.ERROR and "does not exist" in missing.text


async def test_a_folder_that_went_away_is_left(session: Session) -> None:
    await session.text("terminal", command="mkdir d && cd d")
    os.rmdir(session.cwd)
    assert session.context.places.workspace in await session.text("terminal", command="pwd")


async def test_keys_are_not_handed_on(tmp_path: Path) -> None:
    secret = "sk-" + "x" * 20
    names = ("OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "NODE_ENV", "MINE")
    backend = LocalBackend(
        {"PATH": os.environ["PATH"], **dict.fromkeys(names, secret)}, passed_variables=["DB_PASSWORD", "NONE"]
    )
    context = make_context(tmp_path.resolve(), backend=backend)
    session = Session(context, ToolRegistry().select_tools())
    text = await session.text("terminal", command="env | grep sk-")
    assert sorted(text.split("\n")) == [f"DB_PASSWORD={secret}", f"NODE_ENV={secret}", "[exit code 0]"]
    text = await session.text("terminal", command="echo $MINE ${GITHUB_TOKEN}")
    assert "not handed to commands: MINE, GITHUB_TOKEN; terminal.env_passthrough" in text
    assert "handed" not in await session.text("terminal", command="echo $MINE")
    await session.close()


async def test_escape_codes_and_redrawn_lines_are_made_plain(session: Session) -> None:
    command = r"printf '\033[31mred\033[0m\n10%%\r100%%\nbell\a \033]0;title\007end\n'"
    assert await session.text("terminal", command=command) == "red\n100%\nbell end\n[exit code 0]"


async def test_much_output_is_cut_in_the_middle_with_bounded_memory(session: Session) -> None:
    text = await session.text("terminal", command="seq 1 400000")
    assert text.startswith("1\n2\n") and "400000\n[exit code 0]" in text and "left out" in text
    assert len(text) < 52_000 and text.count("\n") <= 2_005


async def test_a_syntax_error_is_the_shells_to_tell(session: Session) -> None:
    session.allow = ("*",)
    assert "[exit code 2]" in await session.text("terminal", command="echo 'open")


async def test_a_command_too_long_for_the_system_is_said(session: Session) -> None:
    session.allow = ("*",)
    result = await session.call("terminal", command="echo " + "x" * 140_000)
    assert result.status is ToolStatus.ERROR and "too long" in result.text


async def test_a_timeout_ends_the_whole_tree(session: Session) -> None:
    pids = session.cwd / "pids"
    said = f"sh -c 'echo $$ >> {pids}; sleep 100; true'"
    command = f"({said}; true) & setsid {said}"
    result = await session.call("terminal", command=command, timeout=1)
    assert result.status is ToolStatus.ERROR and "stopped after 1 s" in result.text
    found = [int(pid) for pid in pids.read_text().split()]
    assert len(found) == 2 and not any(runs(pid) for pid in found)


class PatientBackend(LocalBackend):
    """Gives each command other times to obey a stop."""

    def __init__(self, patience: StopPatience) -> None:
        super().__init__(os.environ)
        self._stop_patience = patience

    async def start(
        self, command: ShellCommand, sink: OutputSink, wrapper: CommandWrapper | None = None
    ) -> LocalCommand:
        return await super().start(replace(command, stop_patience=self._stop_patience), sink, wrapper)


NEVER = StopPatience(interrupt=600, terminate=600, kill=600)
"""Whoever waits for one of these has hung."""


async def interrupted(session: Session, command: str, ready: Path, patience: StopPatience) -> tuple[float, CallBatch]:
    session.context = replace(session.context, backend_handle=BackendHandle.from_backend(PatientBackend(patience)))
    call = ToolCallPart("c1", "terminal", '{"command": ' + json.dumps(command) + "}")
    batch = CallBatch([call])
    task = asyncio.create_task(session.executor().run(batch, session.context, session.journal, session.events.append))
    await until(lambda: ready.exists() and name_of(int(ready.read_text())) != "sh")
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await task
    return time.monotonic() - started, batch


async def test_a_tree_that_obeys_is_gone_at_once(session: Session) -> None:
    ready = session.cwd / "ready"
    inner = f"echo \\$\\$ > {ready}.new; mv {ready}.new {ready}; exec sleep 600"
    _, batch = await interrupted(session, f"sh -c 'sh -c \"{inner}\"; true'; true", ready, NEVER)
    assert not runs(int(ready.read_text())) and batch.collect_results()[0].status is ToolStatus.INTERRUPTED


async def test_a_tree_that_does_not_obey_is_killed(session: Session) -> None:
    ready = session.cwd / "ready"
    command = f"trap '' INT TERM; echo $$ > {ready}.new; mv {ready}.new {ready}; while :; do sleep 0.2; done"
    took, _ = await interrupted(session, command, ready, StopPatience(kill=600))
    assert took > 2.9 and not runs(int(ready.read_text()))


async def test_a_second_cancel_kills_at_once(session: Session) -> None:
    ready = session.cwd / "ready"
    command = f"trap '' INT TERM; echo $$ > {ready}.new; mv {ready}.new {ready}; while :; do sleep 0.2; done"
    session.context = replace(session.context, backend_handle=BackendHandle.from_backend(PatientBackend(NEVER)))
    call = ToolCallPart("c1", "terminal", '{"command": ' + json.dumps(command) + "}")
    run = session.executor().run(CallBatch([call]), session.context, session.journal, session.events.append)
    task = asyncio.create_task(run)
    await until(ready.exists)
    pid = int(ready.read_text())
    task.cancel()
    await asyncio.sleep(0.1)
    assert runs(pid)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await task
    await until(lambda: not runs(pid))  # ten minutes before the time for obeying is over


async def test_a_terminal_is_one_and_controls(session: Session) -> None:
    text = await session.text("terminal", command="test -t 1 && tty && stty size && echo hi > /dev/tty", pty=True)
    assert text.startswith("/dev/pts/") and "40 120" in text and "hi\n[exit code 0]" in text


async def test_processes_that_a_command_leaves_are_named(session: Session) -> None:
    text = await session.text("terminal", command="sleep 5 & echo $! > pid")
    assert "left processes running" in text
    os.kill(int((session.cwd / "pid").read_text()), signal.SIGKILL)


async def test_a_background_process_is_talked_to(session: Session) -> None:
    session.allow = ("input of *", "one", "two")  # what is typed is judged as a command, too
    started = await session.text("terminal", command="while read x; do echo got $x; done; echo bye", background=True)
    process_id = started.split()[1]
    assert f"{process_id}: running" in await session.text("process", action="list")
    await session.text("process", action="submit", session_id=process_id, data="one")
    await session.text("process", action="write", session_id=process_id, data="two\n")
    process = session.state.processes.find(process_id)
    await until(lambda: b"two" in bytes(process.output.text_since(0), "utf8"))
    assert await session.text("process", action="poll", session_id=process_id) == "got one\ngot two\n[running]"
    await session.text("process", action="close", session_id=process_id)
    ended = await session.text("process", action="wait", session_id=process_id, timeout=60)
    assert ended == "bye\n[exited with code 0]"
    log = await session.text("process", action="log", session_id=process_id, offset=2, limit=1)
    assert log == "got two\n[lines 2-2 of 3; exited with code 0]"
    late = await session.call("process", action="write", session_id=process_id, data="x")
    assert late.status is ToolStatus.ERROR and "has ended" in late.text


async def test_a_background_process_is_killed_and_unknown_ones_named(session: Session) -> None:
    process_id = (await session.text("terminal", command="sleep 100", background=True)).split()[1]
    pid = session.state.processes.find(process_id).get_running().pid
    assert "exited with code -2" in await session.text("process", action="kill", session_id=process_id)
    assert not runs(pid)
    unknown = await session.call("process", action="poll", session_id="proc_x")
    assert unknown.status is ToolStatus.ERROR and process_id in unknown.text


async def test_notices_of_what_was_watched_and_of_the_end(session: Session) -> None:
    command = "echo start; echo Listening on 80; exit 4"
    asked = {"command": command, "background": True, "notify_on_complete": True, "watch_patterns": ["Listening"]}
    process_id = (await session.text("terminal", **asked)).split()[1]
    assert await session.state.processes.find(process_id).wait_for_end(5)
    printed, ended = session.state.processes.take_notices()
    assert printed == f"{process_id} printed: Listening on 80" and "exited with code 4" in ended
    assert session.state.processes.take_notices() == []


async def test_output_kept_of_a_background_process_is_bounded(session: Session) -> None:
    process_id = (await session.text("terminal", command="seq 1 200000", background=True)).split()[1]
    process = session.state.processes.find(process_id)
    assert await process.wait_for_end(10)
    assert process.output.total > 1_200_000 and len(process.output.text_since(0)) <= 200_100
    assert "no longer kept" in process.output.text_since(0) and process.output.text_since(0).endswith("200000\n")


async def test_typing_into_a_shell_is_judged_like_a_command(session: Session) -> None:
    process_id = (await session.text("terminal", command="bash", background=True)).split()[1]
    result = await session.call("process", action="submit", session_id=process_id, data="rm -rf /")
    assert result.status is ToolStatus.REFUSED


async def test_closing_the_session_ends_its_processes(session: Session) -> None:
    ids = [(await session.text("terminal", command="sleep 100", background=True)).split()[1] for _ in range(3)]
    pids = [session.state.processes.find(process_id).get_running().pid for process_id in ids]
    await session.state.close()
    assert not any(runs(pid) for pid in pids)


async def test_no_more_than_so_many_processes(session: Session) -> None:
    from hermes.tools import processes

    for _ in range(processes.MAX_PROCESSES):
        await session.text("terminal", command="exec sleep 100", background=True)
    full = await session.call("terminal", command="sleep 100", background=True)
    assert full.status is ToolStatus.ERROR and "Kill one first" in full.text
    first = session.state.processes.list_all()[0]
    await session.text("process", action="kill", session_id=first.process_id)
    assert (await session.call("terminal", command="true", background=True)).status is ToolStatus.OK


async def test_the_configured_time_is_used_when_the_model_names_none(tmp_path: Path) -> None:
    context = make_context(tmp_path, limits=ToolLimits(command_seconds=0.3))
    limited = Session(context, ToolRegistry().select_tools())
    result = await limited.call("terminal", command="sleep 30")
    assert "stopped after 0.3 s" in result.text
    await limited.close()


async def test_the_configured_length_decides_what_is_shown(tmp_path: Path) -> None:
    context = make_context(tmp_path, limits=ToolLimits(result_characters=5_000))
    limited = Session(context, ToolRegistry().select_tools())
    result = await limited.call("terminal", command="seq 2000")
    assert len(result.text) < 3_000
    assert str(context.spill_folder) in result.text
    await limited.close()
