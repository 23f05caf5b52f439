"""The whole program with its commands on another host or in a container: turns, stops, time-outs, kill -9.

A real `hermes`, a real sshd or a real container engine; the model is scripted. Containers are tried by `make backends`.
"""

import asyncio
import os
import re
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import to_builtins

from hermes.execution.docker import DockerOptions
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Fail, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.execution.command_places import Host, check_wanted, image, sshd
from tests.torture.marked_world import hermes, kill

LATE = ReplyDelivery(delay=60)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with sshd(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerOptions]:
    with image(tmp_path_factory.mktemp("image")) as made:
        yield made


Script = list[Reply | Call | Callable[[RecordedRequest], Reply]]


def next_of(script: Script, request: RecordedRequest) -> Reply:
    """What the model says next."""
    step = script.pop(0)
    if isinstance(step, Call):
        return Say(calls=(step,))
    return step if isinstance(step, Say | Fail) else step(request)


class Scene:
    """A home whose commands run elsewhere, and what its model has been sent."""

    def __init__(
        self, kind: str, home: TempHome, server: ScriptedServer, script: Script, folder: Path, engine: Sequence[str]
    ) -> None:
        self.kind = kind
        self.home = home
        self.server = server
        self.far = folder / "far" if kind == "ssh" else home.cwd
        """The workspace as commands see it, on this machine's own files."""
        self.engine = engine
        self.script = script
        self.tag = str(secrets.randbelow(10**9) + 10**9)
        """A number of seconds to sleep by which this test's processes are known."""

    def result(self, number: int) -> str:
        """The result of a call, counted over the conversation."""
        return list(self.server.requests[-1].results.values())[number]

    def call(self, name: str, **arguments: object) -> None:
        self.script.append(Call(name, arguments))

    def run(self, command: str, **arguments: object) -> None:
        self.call("terminal", command=command, **arguments)

    async def begun(self, name: str = "begun") -> None:
        """Wait until a command has made this file."""
        await until((self.far / name).exists, 60)

    def left(self) -> int:
        """How many processes of this test still run, on whichever side."""
        return sum(self.tag.encode() in line for _, line in processes())

    def containers(self) -> list[str]:
        """What the engine knows of containers that this home's Hermes made: other tests have theirs meanwhile."""
        if not self.engine:
            return []
        of_this = ("--filter", "label=hermes.owner", "--filter", f"volume={self.home.cwd.resolve()}")
        listed = subprocess.run([*self.engine, "ps", "--all", "--quiet", *of_this], capture_output=True, check=False)
        # It fails while a container that it has listed is removed by another test: then nobody knows yet.
        return listed.stdout.decode().split() if listed.returncode == 0 else ["unknown"]

    async def rest(self) -> None:
        """Wait until nothing is left: no process there, no connection, no container that runs."""
        await until(lambda: not self.left() and not self.connections(), 60)
        if self.engine:
            await until(lambda: not self.containers(), 60)

    def connections(self) -> int:
        """How many clients of this home's run."""
        folder = str(self.home.root / "tmp").encode()
        return sum(b"ControlPath=" in line and folder in line for _, line in processes())


def processes() -> Iterator[tuple[int, bytes]]:
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                yield int(one.name), (one / "cmdline").read_bytes()
            except OSError:
                continue


async def until(condition: Callable[[], bool], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - conditions of other processes
            await asyncio.sleep(0.02)


@asynccontextmanager
async def made(kind: str, request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Scene]:
    settings: dict[str, object] = {"backend": kind}
    engine: Sequence[str] = ()
    if kind == "ssh":
        place = to_builtins(request.getfixturevalue("host").place(str(folder / "far")))
        settings["ssh"] = {name: place[name] for name in ("host", "port", "key", "config", "folder")}
    else:
        docker: DockerOptions = request.getfixturevalue("container")
        engine = (docker.program, *docker.options)
        settings["docker"] = {name: to_builtins(docker)[name] for name in ("image", "program", "memory")} | {
            "options": list(docker.options),
            "args": list(docker.args),
        }
    script: Script = []
    async with ScriptedServer(ScriptedModel(lambda request: next_of(script, request))) as server:
        more = {"terminal": settings, "command_allowlist": ["*"]}
        with TempHome.for_server(server.url, more_config=more) as home:
            yield Scene(kind, home, server, script, folder, engine)


@pytest.fixture(params=["ssh", "docker"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    if request.param == "docker":
        check_wanted(request.function.__name__)
    async with made(request.param, request, tmp_path.resolve()) as one:
        yield one


async def played(process: asyncio.subprocess.Process) -> tuple[int, str, str]:
    """The end of a process, and what it said."""
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert b"Traceback" not in err, err.decode()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_turn_with_every_tool(scene: Scene) -> None:
    def process(action: str, **arguments: object) -> Callable[[RecordedRequest], Reply]:
        def reply(request: RecordedRequest) -> Reply:
            (name,) = set(re.findall(r"Started (proc_\w+)", "\n".join(request.results.values())))
            return Say(calls=(Call("process", {"action": action, "session_id": name, **arguments}),))

        return reply

    scene.call("write_file", path="a.txt", content="one\ntwo\n")
    scene.run("cat a.txt; echo three >> a.txt; mkdir d; echo deep > d/e")
    scene.call("read_file", path="a.txt")
    scene.call("patch", mode="replace", path="a.txt", old_string="two", new_string="TWO")
    scene.call("read_file", path="a.txt")
    scene.call("search_files", pattern="deep")
    scene.run("cat a.txt; read line; echo got $line > made; exit 3", background=True)
    scene.script += [process("submit", data="this"), process("wait"), Call("read_file", {"path": "made"})]
    scene.run(f"echo half > half; sleep {scene.tag}", timeout=1)
    scene.run("cat half made")
    scene.script.append(Say("All done."))
    async with hermes(scene.home, "-z", "go") as running:
        code, out, said = await played(running)
    assert (code, out) == (0, "All done.\n"), said
    assert "one\ntwo\n" in scene.result(1) and "exit code 0" in scene.result(1)
    assert "TWO" in scene.result(4) and "three" in scene.result(4) and "d/e" in scene.result(5)
    assert "one\nTWO\nthree" in scene.result(8) and "exited with code 3" in scene.result(8)
    assert "got this" in scene.result(9)
    assert "stopped after 1 s" in scene.result(10) and "may still" not in scene.result(10)
    assert "half\ngot this\n" in scene.result(11)
    assert (scene.home.cwd / "half").read_text() == "half\n"
    await scene.rest()


async def test_a_stop_in_the_middle_of_a_command(scene: Scene) -> None:
    (scene.home.cwd / "kept").write_text("before\n")
    scene.run(f"sleep {scene.tag} >/dev/null 2>&1", background=True)
    scene.run(f"echo half > half; echo after > kept; echo > begun; sh -c 'sleep {scene.tag}; true'; true")
    async with hermes(scene.home, "-z", "go") as running:
        await scene.begun()
        running.send_signal(signal.SIGINT)
        code, _, said = await played(running)  # long before the commands would end by themselves
    assert code == 130 and "hermes: Stopped." in said and "may still" not in said
    assert "1 background process was ended" in said
    assert (scene.home.cwd / "half").exists() and (scene.home.cwd / "kept").read_text() == "after\n"
    await scene.rest()


@pytest.mark.parametrize("background", [False, True])
async def test_a_kill_in_the_middle_of_a_command(scene: Scene, background: bool) -> None:
    (scene.home.cwd / "kept").write_text("before\n")
    os.utime(scene.home.cwd / "kept", (1_000_000_000, 1_000_000_000))
    scene.run(f"echo half > half; echo after > kept; echo > begun; sleep {scene.tag}; true", background=background)
    scene.script += [Say("never", delivery=LATE)] * background
    async with hermes(scene.home, "-z", "go") as running:
        await scene.begun()
        assert bool(scene.containers()) is bool(scene.engine)
        kill(running)
        await running.wait()
    await until(lambda: not scene.left(), 60)
    scene.script.clear()
    scene.run("cat half kept; ls -d ../far.kept/*/*; true")
    scene.script.append(Say("Looked."))
    async with hermes(scene.home, "--continue") as running:
        code, out, said = await played(running)
    assert code == 0 and out.endswith("\nLooked.\n"), said
    if not background:
        assert "Outcome unknown" in scene.result(0)
    if scene.kind == "ssh":
        # What the command did is there, and what it changed is not written over unsaid.
        assert "half\nbefore\n" in scene.result(1) and "1 files had been changed" in scene.result(1)
        assert [one.read_text() for one in scene.far.parent.glob("far.kept/*/kept")] == ["after\n"]
    else:
        assert "half\nafter\n" in scene.result(1)
    await scene.rest()


async def test_a_lost_client_in_the_middle_of_a_command(scene: Scene) -> None:
    """The connection's, or the container's, own program is killed: it is said, and the next command gets another."""
    scene.run(f"echo > begun; sleep {scene.tag}; true")
    scene.run("echo again")
    scene.script.append(Say("Done."))
    async with hermes(scene.home, "-z", "go") as running:
        await scene.begun()
        word = b"ControlMaster=yes" if scene.kind == "ssh" else b"--rm\0"
        clients = [pid for pid, line in processes() if word in line and str(scene.home.root).encode() in line]
        assert len(clients) == 1
        os.kill(clients[0], signal.SIGKILL)
        code, out, _ = await played(running)
    assert (code, out) == (0, "Done.\n")
    assert re.search(r"may still run|ended by signal (1|9)\b", scene.result(0))
    assert "again\n" in scene.result(1)
    await scene.rest()
