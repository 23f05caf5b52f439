"""Ways out of the sandbox, tried for real: nothing outside changes, is reached, or read that may not be.

`make escapes` runs them again as another user, and shows that each does harm without a sandbox.
"""

import asyncio
import contextlib
import ctypes
import hashlib
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from hermes.execution.base import NetworkMode, ShellCommand
from hermes.execution.local import LocalBackend
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.policy import SandboxPolicy
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxProbe, SandboxSupport
from hermes.execution.supervisor import Supervisors
from hermes.safety.paths import Places
from tests.attack.escape_attempts import ALL, BWRAP, LANDLOCK, Escape
from tests.attack.four_ways import run_as_user
from tests.requirements import require_sandbox

CANARY = "canary" + hashlib.sha256(b"sandbox").hexdigest()[:20]
PROBES = {way: SandboxProbe(os.environ, (SandboxMechanism(way),)) for way in (BWRAP, LANDLOCK)}
LONG = bool(os.environ.get("HERMES_ESCAPES"))


async def held(way: str) -> SandboxSupport:
    found = await PROBES[way].find_support()
    require_sandbox(way, found.is_usable, found.reason)
    return found


class World:
    """A machine in small: a home with keys, Hermes' own folder, a workspace, programs and sockets outside."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.outside, self.home, self.work = base / "outside", base / "home", base / "work"
        self.code = self.work / "code"
        self.reached: list[str] = []
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> "World":
        for folder in (self.outside / "empty", self.work / "nested", self.home / "docs", self.code):
            folder.mkdir(parents=True)
        files = {
            self.outside / "file": "as it was\n",
            self.code / "x.py": "code = 1\n",
            self.home / ".bashrc": "# mine\n",
            self.home / ".ssh/known_hosts": "host key\n",
            self.home / ".hermes/config.yaml": "model: {}\n",
            self.home / ".hermes/run/s.lock": "",
            self.home / ".hermes/skills/s": "skill\n",
            self.home / ".hermes/memories/m": "memory\n",
            self.home / ".hermes/spill/s/r.txt": "result\n",
            self.work / ".idea/tasks.json": "{}\n",
        }
        secret = (".ssh/id_rsa", ".aws/credentials", ".netrc", ".config/gh/hosts.yml")
        own = (".hermes/auth.json", ".hermes/.env", ".hermes/hermes.db")
        files |= {self.home / name: CANARY for name in (*secret, *own)}
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.home / "keys").symlink_to(".ssh")
        for name in ("hooks", "objects", "refs/heads"):
            (self.work / ".git" / name).mkdir(parents=True)
        (self.work / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (self.work / ".git/config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        hook = self.work / ".git/hooks/post-commit"
        hook.write_text("#!/bin/sh\n")
        hook.chmod(0o755)
        self.lock = os.open(self.home / ".hermes/run/s.lock", os.O_RDWR)
        self._closing.callback(os.close, self.lock)
        self._programs()
        return self

    def _programs(self) -> None:
        environment = {"PATH": os.environ["PATH"], "CANARY": CANARY}
        decoy = subprocess.Popen(
            ["sleep", "600.0"], env=environment, cwd=self.home, start_new_session=True, stdin=subprocess.DEVNULL
        )
        self.decoy = decoy
        self._closing.callback(decoy.wait)
        self._closing.callback(decoy.kill)
        self.shm = os.getpid() << 8 | 1
        kernel = ctypes.CDLL(None)
        number = kernel.shmget(self.shm, 4096, 0o1600)
        self._closing.callback(kernel.shmctl, number, 0, None)
        self.tcp = self._socket(socket.AF_INET, ("127.0.0.1", 0))
        self.tcp6 = self._socket(socket.AF_INET6, ("::1", 0)) if socket.has_ipv6 else self.tcp
        self.udp = self._closing.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setblocking(False)
        self.unix = self._socket(socket.AF_UNIX, str(self.outside / "sock"))
        self.abstract = self._socket(socket.AF_UNIX, "\0" + f"hermes-test-{os.getpid()}")

    def _socket(self, family: int, address: object) -> socket.socket:
        made = self._closing.enter_context(socket.socket(family))
        with contextlib.suppress(OSError):  # no IPv6 here
            made.bind(address)
            made.listen()
        made.setblocking(False)
        return made

    def __exit__(self, *_: object) -> None:
        Path(f"/dev/shm/hermes-test-{self.decoy.pid}").unlink(missing_ok=True)
        self._closing.close()

    @property
    def environment(self) -> dict[str, str]:
        values = {
            "O": self.outside,
            "W": self.work,
            "H": self.home,
            "HOME": self.home,
            "PY": sys.executable,
            "CODE": self.code,
            "DECOY": self.decoy.pid,
            "SHM": self.shm,
            "PORT": self.tcp.getsockname()[1],
            "PORT6": (self.tcp6.getsockname() or (0, 9))[1],
            "UDP": self.udp.getsockname()[1],
            "SOCK": self.unix.getsockname(),
            "SSH_AUTH_SOCK": self.unix.getsockname(),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={self.unix.getsockname()}",
            "ABSTRACT": self.abstract.getsockname()[1:].decode(),
            "PATH": os.environ["PATH"],
        }
        return {name: str(value) for name, value in values.items()}

    def policy(self, escape: Escape) -> SandboxPolicy:
        work = self.home if escape.home else self.work
        hermes = self.home / ".hermes"
        return SandboxPolicy(
            places=Places(home=str(self.home), hermes=str(hermes), workspace=str(work), own=(str(hermes / "spill/s"),)),
            writable=(str(self.work / "nested"),),
            private=("/var/tmp",),
            code=(str(self.code), sys.prefix, sys.base_prefix),
            network=NetworkMode(escape.network),
        )

    def picture(self) -> dict[str, object]:
        """Everything that no command may change."""
        found: dict[str, object] = {}
        for root in (self.outside, self.home, self.code, self.work / ".git/hooks", self.work / ".idea"):
            for path in (root, *sorted(root.rglob("*"))):
                if path.suffix == ".held":
                    continue
                about = path.lstat()
                if self.home / "docs" not in (path, *path.parents):
                    plain = path.is_file() and not path.is_symlink()
                    found[str(path)] = (stat.S_IFMT(about.st_mode), path.read_bytes() if plain else b"")
                if root == self.outside:
                    attributes = tuple(os.listxattr(path, follow_symlinks=False))
                    found[f"{path} "] = (about.st_mode, about.st_mtime_ns, about.st_uid, about.st_gid, attributes)
        return found

    def planted(self) -> list[str]:
        """What git, an editor or a shell would obey in the workspace and should not."""
        found = []
        for path in self.work.rglob("*"):
            if not path.is_file() or path.suffix == ".held" or path.suffix == ".sample":
                continue
            text = path.read_text(errors="replace")
            if path.parent.name == "hooks" and text != "#!/bin/sh\n":
                found.append(str(path))
            if path.name in ("config", "config.worktree"):
                asked = ["git", "config", "--list", "-f", str(path)]
                listed = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
                allowed = ("core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates")
                found += [line for line in listed.splitlines() if not line.startswith(allowed)]
            if (path.name in (".envrc", "tasks.json") and "bad" in text) or path.parent.name == ".husky":
                found.append(str(path))
        return found

    def harm(self, before: dict[str, object], output: str) -> list[str]:
        """What an attempt has done that it must not."""
        after = self.picture()
        found = [f"changed: {name}" for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
        found += self.planted()
        if "ESCAPED" in output:
            found.append("it says so")
        if CANARY in output:
            found.append("the canary was read")
        state = Path(f"/proc/{self.decoy.pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state not in "SR":
            found.append(f"the program outside is {state}")
        for made in (self.tcp, self.tcp6, self.unix, self.abstract):
            with contextlib.suppress(BlockingIOError, OSError):
                made.accept()[0].close()
                found.append(f"{made.getsockname()} was reached")
        with contextlib.suppress(BlockingIOError):
            found.append(f"UDP brought {self.udp.recv(10)!r}")
        if Path(f"/dev/shm/hermes-test-{self.decoy.pid}").exists():
            found.append("shared memory was written")
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wardens() -> AsyncIterator[Supervisors]:
    made = Supervisors(os.environ)
    yield made
    await made.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path.resolve() / "world") as made:
        yield made


async def attempt(world: World, escape: Escape, backend: SandboxBackend | LocalBackend) -> str:
    """Run its scripts as a session's commands; what they print."""
    output = bytearray()
    cwd = str(world.home if escape.home else world.work)
    environment: dict[str, str] = {}
    unset: frozenset[str] = frozenset()
    async with contextlib.AsyncExitStack() as ending:
        for number, text in enumerate(escape.scripts):
            command = ShellCommand(
                text=text,
                cwd=cwd,
                environment=environment,
                unset=unset,
                report_state=True,
                pty=escape.pty,
                network=NetworkMode.OFF if number in escape.offline else NetworkMode.ON,
            )
            async with asyncio.timeout(60):
                running = await backend.start(command, output.extend)
                ending.push_async_callback(running.stop)  # what it leaves runs while the next one does
                ended = await running.wait()
            if ended.state is not None:
                environment, unset = ended.state.environment, ended.state.unset
                cwd = ended.state.cwd if os.path.isdir(ended.state.cwd) else cwd
    return output.decode(errors="replace")


CASES = [(way, escape) for way in (BWRAP, LANDLOCK) for escape in ALL if escape.only in ("", way)]
# Landlock's own machine has no network of its own to let hosts in by.
CASES = [(way, one) for way, one in CASES if way == BWRAP or one.network != "allowlist" or one.bites]


@pytest.mark.needs("git")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("way", "escape"), CASES, ids=[f"{way}: {one.name}" for way, one in CASES])
async def test_no_way_out(world: World, wardens: Supervisors, way: str, escape: Escape) -> None:
    await held(way)
    backend = SandboxBackend(
        world.environment,
        world.policy(escape),
        passed_variables=tuple(world.environment),
        held_handles=(world.lock,),
        probe=PROBES[way],
        supervisors=wardens,
    )
    before = world.picture()
    try:
        output = await attempt(world, escape, backend)
    finally:
        await backend.close()
    assert world.harm(before, output) == [], output
    assert "\nbwrap: " not in f"\n{output}" and "could not be made" not in output


def test_there_are_enough() -> None:
    assert len(ALL) >= 60 and len({one.name for one in ALL}) == len(ALL)


FEW = ("write", "kill", "TCP", "read a key", "git hook", "settings of a new one")
BITING = [one for one in ALL if one.bites and (LONG or one.name in FEW)]


@pytest.mark.needs("git")
@pytest.mark.parametrize("escape", BITING, ids=[one.name for one in BITING])
async def test_the_same_does_harm_without_a_sandbox(world: World, escape: Escape) -> None:
    backend = LocalBackend(world.environment, passed_variables=tuple(world.environment))
    before = world.picture()
    try:
        output = await attempt(world, escape, backend)
    finally:
        await backend.close()
    assert world.harm(before, output), output


@pytest.mark.skipif(not LONG or os.geteuid() != 0, reason="make escapes, as the superuser")
def test_as_another_user() -> None:
    """The same campaign by somebody without rights: bubblewrap then needs a user namespace."""
    done = run_as_user([__file__, "-k", "not without_a_sandbox"])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
    assert "no landlock" not in done.stdout and "no bubblewrap" not in done.stdout
