"""The loopback interface of a session: a server that one command starts is reached by the next, and by nobody else."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from hermes.execution.base import CommandExit, NetworkMode, ShellCommand, StopOutcome
from hermes.execution.sandbox.backend import SandboxBackend, SandboxedCommand
from hermes.execution.sandbox.network import make_loopback
from hermes.execution.sandbox.policy import SandboxPolicy
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxProbe
from hermes.execution.supervisor import Supervisors
from hermes.safety.paths import Places
from tests.execution.test_egress_proxy import Door, Site, site
from tests.execution.test_local import until
from tests.requirements import require_sandbox

pytestmark = pytest.mark.slow

__all__ = ["site"]
PROBE = SandboxProbe(os.environ, (SandboxMechanism.BUBBLEWRAP,))
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PORT = 18_231
SERVE = f"""exec "$PY" -I -c "
import socket
s = socket.create_server(('127.0.0.1', {PORT}))
print('listening', flush=True)
while True:
    s.accept()[0].sendall(b'hello')"
"""
ASK = f"""exec "$PY" -I -c "
import socket
try:
    print(socket.create_connection(('127.0.0.1', {PORT}), 5).recv(9).decode())
except OSError as error:
    print(type(error).__name__)"
"""
FETCH = """exec "$PY" -I -c "
import os, sys, urllib.request as u
u.proxy_bypass = lambda host: False
u.getproxies = lambda: {'http': sys.argv[2] or os.environ['HTTP_PROXY']}
try:
    print(u.urlopen(sys.argv[1], timeout=60).read().decode().strip())
except OSError as error:
    print(error)
" """


class Session:
    """A sandboxed session with folders of its own."""

    def __init__(self, folder: Path, network: NetworkMode, wardens: Supervisors) -> None:
        self.work = folder / "work"
        for one in (self.work, folder / "home/.hermes"):
            one.mkdir(parents=True)
        places = Places(home=f"{folder}/home", hermes=f"{folder}/home/.hermes", workspace=str(self.work))
        policy = SandboxPolicy(places=places, network=network)
        environment = {**os.environ, "PY": sys.executable}
        self.backend = SandboxBackend(environment, policy, passed_variables=("PY",), probe=PROBE, supervisors=wardens)
        self.output = bytearray()

    async def start(self, text: str, **changes: object) -> SandboxedCommand:
        self.output = output = bytearray()
        command = ShellCommand(text=text, cwd=str(self.work), **changes)  # type: ignore[arg-type]
        return await self.backend.start(command, output.extend)

    async def run(self, text: str, **changes: object) -> CommandExit:
        async with asyncio.timeout(60):
            return await (await self.start(text, **changes)).wait()

    async def told(self, text: str, **changes: object) -> str:
        await self.run(text, **changes)
        return self.output.decode().strip()

    async def serve(self, **changes: object) -> SandboxedCommand:
        """Have a server run in the background."""
        running = await self.start(SERVE, **changes)
        output = self.output
        await until(lambda: b"listening" in output)
        return running


@pytest.fixture
async def wardens() -> AsyncIterator[Supervisors]:
    made = Supervisors(os.environ)
    yield made
    await made.close()


@pytest.fixture(params=[NetworkMode.OFF, NetworkMode.ALLOWLIST])
async def session(request: pytest.FixtureRequest, tmp_path: Path, wardens: Supervisors) -> AsyncIterator[Session]:
    held = await PROBE.find_support()
    require_sandbox("bubblewrap", held.is_usable, held.reason)
    made = Session(tmp_path / "a", request.param, wardens)
    yield made
    await made.backend.close()


async def test_a_server_is_reached_by_the_next_command(session: Session, tmp_path: Path, wardens: Supervisors) -> None:
    server = await session.serve()
    assert await session.told(ASK) == "hello"
    assert await session.told(f"({ASK})") == "hello"
    other = Session(tmp_path / "b", session.backend._policy.network, wardens)
    assert await other.told(ASK) == "ConnectionRefusedError"
    await other.backend.close()
    assert await server.stop() is StopOutcome.GONE
    assert await session.told(ASK) == "ConnectionRefusedError"
    assert not session.backend.notices


async def test_what_a_command_left_running_is_reached_too(session: Session) -> None:
    ended = await session.run(f"({SERVE}) >/dev/null 2>&1 & sleep 0.3")
    assert ended.left_running
    assert await session.told(ASK) == "hello"


async def test_it_is_not_the_machines_loopback(session: Session) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await session.told(ASK.replace(f"{PORT}", f"{port}")) == "ConnectionRefusedError"
    assert await session.told("readlink /proc/self/ns/net") != os.readlink("/proc/self/ns/net")
    server.close()


async def test_a_command_with_less_network_has_another_loopback(tmp_path: Path, wardens: Supervisors) -> None:
    held = await PROBE.find_support()
    require_sandbox("bubblewrap", held.is_usable, held.reason)
    session = Session(tmp_path, NetworkMode.ALLOWLIST, wardens)
    server = await session.serve()
    assert (await session.told(ASK, network=NetworkMode.OFF)).startswith("ConnectionRefusedError")
    assert "had less network" in await session.told("false", network=NetworkMode.OFF)
    assert await session.told("true", network=NetworkMode.OFF) == "" and await session.told("false") == ""
    assert await session.told('echo "$HTTP_PROXY"', network=NetworkMode.OFF) == ""
    assert (await session.told('echo "$HTTP_PROXY"')).startswith("http://127.17.0.")
    knock = ASK.replace(f"{PORT}", "17171")
    for address in ("127.0.0.1", "127.17.0.1", "127.17.0.2", "0.0.0.0"):
        text = await session.told(knock.replace("127.0.0.1", address), network=NetworkMode.OFF)
        assert text.startswith("ConnectionRefusedError"), address
    await server.stop()
    await session.backend.close()


async def test_each_command_has_a_proxy_and_old_addresses_the_newest(
    tmp_path: Path, wardens: Supervisors, site: Site
) -> None:
    held = await PROBE.find_support()
    require_sandbox("bubblewrap", held.hosts, held.reason)
    session = Session(tmp_path, NetworkMode.ALLOWLIST, wardens)
    first, second = Door("127.0.0.1"), Door("127.0.0.1", "127.0.0.2")
    fetch = FETCH + f"http://127.0.0.1:{site.port}/"
    background = await session.start(f"read line; {fetch} ''", permissions=first, interactive=True)
    told = session.output
    assert "403" in await session.told(FETCH + f"http://127.0.0.9:{site.port}/ ''", permissions=second)
    assert second.asked == ["127.0.0.9"] and first.asked == []
    await background.write(b"\n")
    assert (await background.wait()).code == 0 and told.decode().strip() == "hi"
    assert second.asked == ["127.0.0.9"] and first.asked == ["127.0.0.1"]
    for address in ("127.0.0.1:17171", "127.17.0.1:17171"):
        assert await session.told(f"{fetch} http://{address}", permissions=second) == "hi"
    await session.backend.close()


async def test_connections_end_with_their_command(tmp_path: Path, wardens: Supervisors) -> None:
    held = await PROBE.find_support()
    require_sandbox("bubblewrap", held.hosts, held.reason)
    session = Session(tmp_path, NetworkMode.ALLOWLIST, wardens)
    hold = (
        "import socket; s = socket.create_connection(('127.17.0.1', 17171)); s.send(b'x'); print('in', flush=True); "
        "print(s.recv(1))"
    )
    running = await session.start(f'exec "$PY" -I -c "{hold}"')
    await until(lambda: b"in" in session.output)
    shared = session.backend._loopbacks[NetworkMode.ALLOWLIST]
    assert shared is not None and len(shared._proxies) == 1
    assert await running.stop() is StopOutcome.GONE
    assert not shared._proxies
    await session.backend.close()
    assert shared.namespaces == () and session.backend._loopbacks == {}


async def test_nothing_of_it_stays(session: Session) -> None:
    await session.run("true")
    shared = session.backend._loopbacks[session.backend._policy.network]
    assert shared is not None
    inside = os.stat(shared.namespaces[-1]).st_ino
    assert inside not in {about.st_ino for about in _namespaces()}  # no process is in it
    running = await session.start("sleep 604")
    await until(lambda: inside in {about.st_ino for about in _namespaces()})
    await running.stop()
    await session.backend.close()
    assert shared.namespaces == () and inside not in {about.st_ino for about in _namespaces()}


def _namespaces() -> list[os.stat_result]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append(os.stat(f"/proc/{name}/ns/net"))
            except OSError:
                continue
    return found


KILLED = """
import asyncio, os, sys
from hermes.safety.paths import Places
from hermes.execution.base import ShellCommand, NetworkMode
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.policy import SandboxPolicy


async def main() -> None:
    home, work = sys.argv[1:]
    places = Places(home=home, hermes=home + "/.hermes", workspace=work)
    backend = SandboxBackend(os.environ, SandboxPolicy(places=places, network=NetworkMode.ALLOWLIST))
    await backend.start(ShellCommand(text="sleep 605", cwd=work), lambda data: None)
    print(os.fstat(backend._loopbacks[NetworkMode.ALLOWLIST].namespaces[-1]).st_ino, flush=True)
    await asyncio.sleep(600)


asyncio.run(main())
"""


async def test_it_goes_with_a_hermes_that_is_killed(tmp_path: Path) -> None:
    held = await PROBE.find_support()
    require_sandbox("bubblewrap", held.is_usable, held.reason)
    folders = [tmp_path / "home", tmp_path / "work"]
    for folder in folders:
        folder.mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KILLED, *map(str, folders)), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    inside = int(await process.stdout.readline())
    await until(lambda: inside in {about.st_ino for about in _namespaces()})
    process.kill()
    await process.communicate()
    await until(lambda: inside not in {about.st_ino for about in _namespaces()})


async def test_where_there_can_be_none_it_is_said(session: Session) -> None:
    session.backend._local._supervisors._is_possible = False
    server = await session.start(SERVE)
    output = session.output
    await until(lambda: b"listening" in output)
    assert await session.told(ASK) == "ConnectionRefusedError"
    assert len(session.backend.notices) == 1 and "share a loopback" in session.backend.notices[0]
    await server.stop()


async def test_a_command_that_cannot_enter_does_not_start(session: Session) -> None:
    await session.run("true")
    session.backend._local._supervisors._is_possible = False
    await session.backend._local._supervisors.close()
    with pytest.raises(ToolError, match="network"):
        await session.run("touch made")
    assert not (session.work / "made").exists()


def read_refusal() -> str:
    """Return why the kernel gives this user no network namespace, as to one in a chroot; empty where it gives one."""
    ask = f"""
import ctypes, os
kernel = ctypes.CDLL(None, use_errno=True)
if kernel.unshare({CLONE_NEWNET} | ({CLONE_NEWUSER} if os.geteuid() else 0)):
    print(os.strerror(ctypes.get_errno()), end="")
"""
    return subprocess.run([sys.executable, "-I", "-c", ask], capture_output=True, text=True, check=True).stdout


async def test_what_fails_to_make_one_is_told() -> None:
    with pytest.raises(ToolError, match=re.escape(read_refusal() or "/bin/false")):
        await make_loopback(("/bin/false",), listen=False)
    with pytest.raises(ToolError):
        await make_loopback(("/nowhere/bwrap",), listen=True)


async def test_a_warden_that_is_killed_takes_its_command_along(session: Session) -> None:
    running = await session.start("echo here; exec sleep 603")
    output = session.output
    await until(lambda: b"here" in output)
    warden = int(Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(warden, signal.SIGKILL)
    assert (await running.wait()).code == -signal.SIGKILL
    assert await running.stop() is StopOutcome.GONE
    assert (await session.run("true")).code == 0


async def test_temporary_files_are_shared_and_told_of_once(tmp_path: Path, wardens: Supervisors) -> None:
    held = await PROBE.find_support()
    require_sandbox("bubblewrap", held.is_usable, held.reason)
    session, other = (Session(tmp_path / name, NetworkMode.OFF, wardens) for name in "ab")
    note = "[sandbox: /tmp is this session's own and goes when it ends]"
    assert await session.told("mkdir -p $XDG_CACHE_HOME; ls -d /tmp/cache") == "/tmp/cache"
    background = await session.start("read line; cat /tmp/f; echo two > /tmp/g", interactive=True)
    output = session.output
    assert await session.told("echo one > /tmp/f") == note
    await background.write(b"\n")
    assert (await background.wait()).code == 0 and output == b"one\n"
    assert await session.told("cat /tmp/f /tmp/g; echo three > /tmp/h") == "one\ntwo"
    assert await other.told("cat /tmp/h 2>/dev/null || echo none") == "none"
    outside = session.backend.to_local_path("/tmp/h")
    assert Path(outside).read_text() == "three\n"
    await session.backend.close()
    await other.backend.close()
    assert not Path(outside).exists()
