"""One table for every place where commands run. What differs between them is named here, and in docs/backends.md."""

import asyncio
import contextlib
import os
import secrets
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from hermes.core.messages import ToolStatus
from hermes.execution.base import (
    CommandExit,
    RunningCommand,
    ShellCommand,
    StopOutcome,
    StopPatience,
    TerminalBackend,
)
from hermes.execution.docker import DockerBackend, DockerOptions
from hermes.execution.local import LocalBackend
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.probe import SandboxMechanism
from hermes.execution.ssh.backend import SshBackend
from hermes.safety.paths import Places
from hermes.tools.registry import ToolRegistry
from tests.execution.command_places import Host, check_wanted, image, sshd
from tests.execution.test_local import NEVER, until
from tests.execution.test_sandbox import PROBES, policy
from tests.requirements import require_sandbox
from tests.tools.tool_session import Session, make_context

pytestmark = pytest.mark.slow

KINDS = ("local", "bubblewrap", "landlock", "ssh", "docker")
SECRET = "canary-" + secrets.token_hex(8)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with sshd(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerOptions]:
    with image(tmp_path_factory.mktemp("image")) as made:
        yield made


class Place:
    """A backend of one kind in a folder of its own, and what its last command printed."""

    def __init__(self, kind: str, folder: Path, request: pytest.FixtureRequest) -> None:
        self.kind = kind
        self.folder = folder
        self.work = folder / "work"
        settings = policy(folder)
        self.places: Places = settings.places
        environ = {**os.environ, "HOME": self.places.home, "OPENAI_API_KEY": SECRET, "MY_TOKEN": SECRET}
        self.backend: TerminalBackend
        if kind == "ssh":
            place = request.getfixturevalue("host").place(str(folder / "far"))
            self.backend = SshBackend(environ, place, self.places)
        elif kind == "docker":
            self.backend = DockerBackend(environ, request.getfixturevalue("container"), self.places)
        elif kind == "local":
            self.backend = LocalBackend(environ)
        else:
            self.backend = SandboxBackend(environ, settings, probe=PROBES[SandboxMechanism(kind)])
        self.output = bytearray()
        self.tag = str(secrets.randbelow(10**9) + 10**9)
        """A number of seconds to sleep by which this test's processes are known."""

    @property
    def text(self) -> str:
        return self.output.decode()

    async def start(self, text: str, **changes: object) -> RunningCommand:
        self.output.clear()
        values: dict[str, object] = {"cwd": str(self.work), **changes}
        return await self.backend.start(ShellCommand(text=text, **values), self.output.extend)  # type: ignore[arg-type]

    async def run(self, text: str, **changes: object) -> CommandExit:
        async with asyncio.timeout(60):
            return await (await self.start(text, **changes)).wait()

    def left(self) -> int:
        """How many processes of this test still run, on whichever side of a wall."""
        found = 0
        for one in Path("/proc").iterdir():
            if one.name.isdigit():
                try:
                    found += self.tag.encode() in (one / "cmdline").read_bytes()
                except OSError:
                    continue
        return found


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    kind = request.param
    if kind == "docker":
        check_wanted(request.function.__name__)
    if kind in tuple(SandboxMechanism):
        held = await PROBES[SandboxMechanism(kind)].find_support()
        require_sandbox(kind, held.is_usable, held.reason)
    made = Place(kind, tmp_path.resolve(), request)
    yield made
    await made.backend.close()


async def test_exit_codes_and_signals(place: Place) -> None:
    for text, code in (
        ("true", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("no-such-program", 127),
        ("kill -KILL $$", -9),
        ("kill -TERM $$", -15),
        ("echo 'open", 2),
    ):
        assert (await place.run(text)).code == code, text


async def test_both_streams_in_order(place: Place) -> None:
    await place.run("i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done")
    assert place.text == "".join(f"o{number}\ne{number}\n" for number in range(300))


async def test_large_output_in_bounded_memory(place: Place) -> None:
    size = most = 0

    def take(data: bytes) -> None:
        nonlocal size, most
        size += len(data)
        with open("/proc/self/statm", "rb") as file:
            most = max(most, int(file.read().split()[1]) * 4096)

    await place.run("true")
    before = int(Path("/proc/self/statm").read_bytes().split()[1]) * 4096
    command = ShellCommand(text="head -c 20000000 /dev/zero | tr '\\0' a", cwd=str(place.work))
    assert (await (await place.backend.start(command, take)).wait()).code == 0
    assert size == 20_000_000 and most - before < 20_000_000


async def test_keys_of_this_process_are_not_handed_on(place: Place) -> None:
    await place.run("env; cat /proc/$PPID/environ 2>/dev/null; export")
    assert "PATH=" in place.text and SECRET not in place.text


async def test_folder_and_variables_are_carried_over(place: Place) -> None:
    first = await place.run("mkdir d; cd d; export NAME='two\nlines'; unset HOME; false", report_state=True)
    assert first.code == 1 and first.state is not None
    assert first.state.cwd == str(place.work / "d") and first.state.environment["NAME"] == "two\nlines"
    assert "HOME" in first.state.unset
    follows = {"environment": first.state.environment, "unset": first.state.unset, "cwd": first.state.cwd}
    second = await place.run('basename "$PWD"; echo "$NAME ${HOME-unset}"', report_state=True, **follows)
    assert place.text == "d\ntwo\nlines unset\n"
    assert second.state == first.state


async def test_a_missing_folder_is_said(place: Place) -> None:
    with pytest.raises(ToolError, match=r"does not exist|is not"):
        await place.run("pwd", cwd=str(place.work / "nowhere"))


async def test_stop_ends_three_shells_deep_in_time(place: Place) -> None:
    inner = f"trap : INT; echo deep; sleep {place.tag}; sleep {place.tag}; sleep {place.tag}"
    text = f"sh -c 'sh -c \"{inner}\"; true'; true"
    running = await place.start(text, stop_patience=StopPatience(terminate=600, kill=600))
    await until(lambda: b"deep" in place.output)
    async with asyncio.timeout(60):
        assert await running.stop() is StopOutcome.GONE
    assert place.left() == 0
    async with asyncio.timeout(60):
        await running.wait()
    assert await running.stop() is StopOutcome.GONE


async def test_a_stopped_command_is_told_as_that(place: Place) -> None:
    running = await place.start(f"echo up; sleep {place.tag}")
    await until(lambda: b"up" in place.output)
    assert await running.stop() is StopOutcome.GONE
    async with asyncio.timeout(60):
        ended = await running.wait()
    assert (ended.code, ended.left_running, place.text) == (-2, False, "up\n")


async def test_a_command_that_stops_itself_goes_on_when_it_is_told_to(place: Place) -> None:
    if place.kind in tuple(SandboxMechanism):
        pytest.skip("commands in a sandbox cannot signal one another")
    running = await place.start("echo up; kill -STOP $$; echo on; exit 3")
    await until(lambda: b"up" in place.output)
    wake = f"while kill -CONT {running.pid} 2>/dev/null; do sleep 0.05; done"
    other = await place.backend.start(ShellCommand(text=wake, cwd=str(place.work)), lambda _: None)
    async with asyncio.timeout(60):
        assert (await running.wait()).code == 3
        await other.wait()
    assert place.text == "up\non\n"


async def test_variables_of_commands_stand_in_no_list_of_processes(place: Place) -> None:
    secret = "canary " + secrets.token_hex(24)
    tail = [b64encode(b"x" * skip + secret.encode()).strip(b"=")[4:-4] for skip in range(3)]
    running = await place.start("echo up; read x", environment={"SESSION": secret}, interactive=True)
    await until(lambda: b"up" in place.output)
    lines = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(one.read_bytes())
    running.close_input()
    await running.wait()
    assert not [line for line in lines if secret.encode() in line or any(part in line for part in tail)]


async def test_a_very_long_command(place: Place) -> None:
    text = f"echo {'x' * 100_000} | wc -c; exit 3"
    for pty in (False, True):
        assert (await place.run(text, pty=pty)).code == 3
        assert place.text.strip() == "100001"


async def test_output_without_an_end_can_be_stopped(place: Place) -> None:
    size = 0

    def take(data: bytes) -> None:
        nonlocal size
        size += len(data)

    running = await place.backend.start(ShellCommand(text=f"yes {place.tag}", cwd=str(place.work)), take)
    await until(lambda: size > 5_000_000)
    assert await running.stop() is StopOutcome.GONE and place.left() == 0


async def test_what_ignores_every_kind_word_is_killed(place: Place) -> None:
    text = f"trap '' INT TERM HUP; echo up; while :; do sleep 0.1; : {place.tag}; done"
    running = await place.start(text, stop_patience=StopPatience(kill=600))
    await until(lambda: b"up" in place.output)
    started = time.monotonic()
    async with asyncio.timeout(60):
        assert await running.stop() is StopOutcome.GONE
    assert time.monotonic() - started > 2.9 and place.left() == 0


async def test_a_cancelled_stop_kills_at_once(place: Place) -> None:
    text = f"trap '' INT TERM HUP; echo up; while :; do sleep 0.1; : {place.tag}; done"
    running = await place.start(text, stop_patience=NEVER)
    await until(lambda: b"up" in place.output)
    stopping = asyncio.create_task(running.stop())
    await asyncio.sleep(0.2)  # a person's second stop
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    await until(lambda: place.left() == 0)


async def test_a_cancelled_wait_leaves_the_command_alone(place: Place) -> None:
    running = await place.start("read line; echo got $line", interactive=True)
    waiting = asyncio.create_task(running.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    await running.write(b"it\n")
    async with asyncio.timeout(60):
        assert (await running.wait()).code == 0
    assert place.text == "got it\n"


async def test_input_and_its_end(place: Place) -> None:
    running = await place.start("cat; echo over", interactive=True)
    await running.write(b"one\n")
    await until(lambda: place.output == b"one\n")
    running.close_input()
    async with asyncio.timeout(60):
        assert (await running.wait()).code == 0
    assert place.text == "one\nover\n"
    with pytest.raises(ToolError):
        await running.write(b"more\n")
    assert (await place.run("cat; echo none")).code == 0 and place.text == "none\n"


async def test_a_terminal(place: Place) -> None:
    running = await place.start("test -t 0 && test -t 1 && stty size; read x; echo =$x", pty=True, interactive=True)
    await until(lambda: b"40 120" in place.output)
    await running.write(b"typed\n")
    async with asyncio.timeout(60):
        assert (await running.wait()).code == 0
    assert "=typed" in place.text


async def test_what_is_left_running_is_known_and_can_be_ended(place: Place) -> None:
    if place.kind == "bubblewrap":
        pytest.skip("bubblewrap ends them with the command: named in docs/backends.md")
    running = await place.start(f"sleep {place.tag} >/dev/null 2>&1 & echo started")
    async with asyncio.timeout(60):
        assert (await running.wait()).left_running
    assert place.text == "started\n" and place.left() == 1
    assert await running.stop() is StopOutcome.GONE and place.left() == 0


async def test_close_ends_what_is_under_way(place: Place) -> None:
    running = await place.start(f"echo up; sleep {place.tag}; true")
    await until(lambda: b"up" in place.output)
    waiting = asyncio.create_task(running.wait())
    await place.backend.close()
    await until(lambda: place.left() == 0)
    async with asyncio.timeout(60):
        assert (await waiting).code < 0


async def test_eight_at_once(place: Place) -> None:
    async def one(number: int) -> tuple[int, bytes]:
        output = bytearray()
        command = ShellCommand(text=f"sleep 0.2; echo {number}; exit {number}", cwd=str(place.work))
        ended = await (await place.backend.start(command, output.extend)).wait()
        return ended.code, bytes(output)

    async with asyncio.timeout(60):
        found = await asyncio.gather(*map(one, range(8)))
    assert found == [(number, f"{number}\n".encode()) for number in range(8)]


async def test_file_tools_and_commands_see_the_same_files(place: Place) -> None:
    session = Session(
        make_context(place.folder, backend=place.backend, places=place.places), ToolRegistry().select_tools()
    )
    session.allow = ("*",)
    name = "a b/täxt.txt"
    assert (await session.call("write_file", path=name, content="from here\n")).status is ToolStatus.OK
    both = await session.text("terminal", command=f"cat '{name}'; mkdir made; cd made; echo there > new; pwd")
    assert "from here\n" in both and "exit code 0" in both
    assert "there" in await session.text("read_file", path="new")
    assert "there" in await session.text("read_file", path=both.splitlines()[1] + "/new")
    os.unlink(place.work / name)
    await session.text("terminal", command=f"rm new; test ! -e '../{name}' && echo deleted > ../both")
    assert (place.work / "both").read_text() == "deleted\n" and not (place.work / "made/new").exists()
    await session.state.close()


async def test_a_folder_that_is_only_there_is_kept_until_it_is_gone(place: Place) -> None:
    if place.kind not in ("ssh", "docker"):
        pytest.skip("every folder of commands is one of this machine")
    session = Session(
        make_context(place.folder, backend=place.backend, places=place.places), ToolRegistry().select_tools()
    )
    session.allow = ("*",)
    only = "/dev/shm/only" if place.kind == "docker" else "node_modules/only"
    await session.text("terminal", command=f"mkdir -p {only}; cd {only}")
    assert only in await session.text("terminal", command="pwd")
    await session.text("terminal", command='rmdir "$PWD"')
    assert "does not exist there" in await session.text("terminal", command="pwd")
    assert "work\n" in (await session.text("terminal", command="basename $PWD")).replace("far\n", "work\n")
    await session.state.close()


async def test_a_line_for_the_person(place: Place) -> None:
    assert {"local": "Commands run on this machine", "ssh": "127.0.0.1", "docker": "container"}.get(
        place.kind, f"Sandbox ({place.kind})"
    ) in await place.backend.describe()
    assert place.backend.contained is (place.kind in ("bubblewrap", "landlock", "docker"))
