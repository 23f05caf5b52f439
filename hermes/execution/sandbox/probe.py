"""What of a sandbox holds on this machine: found out by trying, once a process."""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct

from hermes.execution.base import Command, Network
from hermes.execution.sandbox import seccomp
from hermes.execution.sandbox.bubblewrap import BwrapBox
from hermes.execution.sandbox.landlock import LandlockBox, abi
from hermes.execution.sandbox.policy import Kind, Layout
from hermes.execution.sandbox.seatbelt import SeatbeltBox
from hermes.execution.sandbox.tmpdir import Room
from hermes.i18n.messages import phrase
from hermes.util.text import one_line

_TRUNCATES, _TCP_RULES, _SCOPED = 3, 4, 6
"""Versions of Landlock."""
_PATIENCE = 10.0
MANY_PROCESSES = "the number of processes (as the superuser)"
"""A gap that every program of the superuser's has."""
_NETWORK = {"off": phrase("none"), "allowlist": phrase("allowed hosts only"), "on": phrase("open")}
"""What the modes of the network are called where a person reads them."""


class Way(StrEnum):
    """What makes the sandbox."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    SEATBELT = "seatbelt"
    NONE = "none"


class Held(Struct, frozen=True, kw_only=True):
    """What holds: writes outside refused, keys unreadable, network closed, other processes out of reach.

    `hosts` says whether single hosts can be let through. `gaps` is what does not hold, in words. `reason` says why the
    better ways are not taken; without any, why there is no sandbox.
    """

    way: Way
    files: bool = False
    keys: bool = False
    network: bool = False
    processes: bool = False
    hosts: bool = False
    program: str = ""
    abi: int = 0
    gaps: tuple[str, ...] = ()
    reason: str = ""

    @property
    def usable(self) -> bool:
        """Whether commands can be held back at all."""
        return self.way is not Way.NONE and self.files and self.keys

    def line(self, network: str = "off", *, whole: bool = False) -> str:
        """One line for a status display; `whole` names the lesser gaps, too."""
        if not self.usable:
            return phrase("No sandbox here: {reason}; network: {network}.", reason=self.reason, network=network)
        names = (
            (phrase("files"), self.files),
            (phrase("keys"), self.keys),
            (phrase("network"), self.network),
            (phrase("processes"), self.processes),
        )
        network_said = _NETWORK.get(str(network), str(network))
        holds_said = ", ".join(name for name, held in names if held)
        open_ = [one for one in self.gaps if whole or one != MANY_PROCESSES]
        if not open_:
            return f"Sandbox ({self.way}): guards {holds_said}; network: {network_said}."
        open_said = ", ".join(open_)
        return f"Sandbox ({self.way}): guards {holds_said}; does not guard: {open_said}; network: {network_said}."


def possible(environ: Mapping[str, str]) -> bool:
    """Whether there may be a sandbox here, without trying it: what is said to be there and fails refuses commands."""
    if sys.platform == "darwin":
        return os.access("/usr/bin/sandbox-exec", os.X_OK)
    return shutil.which("bwrap", path=environ.get("PATH", os.defpath)) is not None or abi() > 0


class Probe:
    """Finds out once what holds; nothing is tried before somebody asks. One serves a whole process."""

    def __init__(self, environment: Mapping[str, str], ways: Sequence[Way] = (Way.BUBBLEWRAP, Way.LANDLOCK)) -> None:
        self._path = environment.get("PATH", os.defpath)
        self._ways = ways
        self._lock = asyncio.Lock()
        self._held: Held | None = None

    async def held(self) -> Held:
        """What holds here."""
        async with self._lock:
            if self._held is None:
                self._held = await self._find_out()
            return self._held

    async def _find_out(self) -> Held:
        if sys.platform == "darwin":
            return await self._seatbelt()
        reasons: list[str] = []
        for way in self._ways:
            found = await (self._bubblewrap() if way is Way.BUBBLEWRAP else self._landlock())
            if isinstance(found, Held):
                return msgspec.structs.replace(found, reason="; ".join(reasons))
            reasons.append(found)
        return Held(way=Way.NONE, reason="; ".join(reasons) or "this system has none that is known")

    async def _seatbelt(self) -> Held:
        said = await _tried(SeatbeltBox)
        if not {"inside", "files", "keys"} <= said.keys():
            return Held(way=Way.NONE, reason=f"Seatbelt does not work here ({said.get('error', '')})")
        gaps = ("services of the system", "never tested on a Mac")
        return Held(way=Way.SEATBELT, files=True, keys=True, network=True, processes=True, gaps=gaps)

    async def _bubblewrap(self) -> Held | str:
        program = bwrap_program(self._path)
        if program is None:
            return "bubblewrap (bwrap) is not installed"
        said = await _tried(lambda *given: BwrapBox(*given, program=program, abi=0))
        if not {"inside", "files", "keys"} <= said.keys():
            return f"bubblewrap does not work here ({said.get('error') or 'it does not hold'})"
        held = Held(
            way=Way.BUBBLEWRAP,
            files=True,
            keys=True,
            network="net" in said,
            processes="pid" in said,
            hosts="net" in said,
            program=program,
            abi=abi(),
        )
        gaps = [] if held.abi >= _SCOPED else ["abstract sockets of this machine while the network is on"]
        gaps += [] if seccomp.available() else ["keyrings of the kernel"]
        gaps += [] if os.geteuid() else [MANY_PROCESSES]
        return msgspec.structs.replace(held, gaps=tuple(gaps))

    async def _landlock(self) -> Held | str:
        version = abi()
        if not version:
            return "the kernel has no Landlock, or it is switched off"
        if version < _TRUNCATES:
            return f"Landlock of this kernel (version {version}) does not keep files from being truncated"
        said = await _tried(lambda *given: LandlockBox(*given, abi=version))
        if not {"inside", "files", "keys"} <= said.keys():
            return f"Landlock does not work here ({said.get('error') or 'it does not hold'})"
        gaps = [
            "permissions, times and attributes of files elsewhere",
            "names of files",
            "git hooks and editor tasks (looked at after each command)",
            "command lines, limits and priorities of other programs",
            "shared memory of System V",
        ]
        network = version >= _TCP_RULES and seccomp.available()
        gaps += [] if version >= _SCOPED else ["signals to other programs"]
        gaps += [] if seccomp.available() else ["sockets of other programs"]
        gaps += [] if os.geteuid() else [MANY_PROCESSES]
        return Held(
            way=Way.LANDLOCK,
            files=True,
            keys=True,
            network=network,
            processes=version >= _SCOPED,
            abi=version,
            gaps=tuple(gaps),
        )


async def probe(environment: Mapping[str, str]) -> Held:
    """What holds here, found out now."""
    return await Probe(environment).held()


def bwrap_program(path: str) -> str | None:
    """bubblewrap, from where only the system's administrator writes."""
    for folder in ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", *path.split(os.pathsep)):
        found = os.path.realpath(os.path.join(folder, "bwrap"))
        with contextlib.suppress(OSError):
            if os.path.isabs(folder) and os.access(found, os.X_OK) and os.stat(found).st_uid == 0:
                return found
    return None


async def _tried(
    make: Callable[[Command, Room, Layout, Network], BwrapBox | LandlockBox | SeatbeltBox],
) -> dict[str, str]:
    """The words that a command in such a box says: each stands for something that holds."""
    room = Room(())
    try:
        secret = f"{room.root}/secret"
        os.close(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600))
        layout = Layout(kinds={room.tmp: Kind.WRITE, secret: Kind.HIDDEN})
        script = (
            f"echo x >{room.tmp}/in && echo inside; (echo x >{room.root}/out) 2>/dev/null || echo files; "
            f"cat {secret} 2>/dev/null || echo keys; "
            f'[ "$(readlink /proc/self/ns/net)" = "{_namespace("net")}" ] || echo net; '
            f'[ "$(readlink /proc/self/ns/pid)" = "{_namespace("pid")}" ] || echo pid'
        )
        with make(Command(text=script, cwd="/"), room, layout, Network.OFF) as box:
            shell = ("/bin/sh", *box.script(script, ""))
            arguments, environment = box.wrap(shell, {"PATH": "/usr/bin:/bin"}, box.handles)
            running = await asyncio.create_subprocess_exec(
                *arguments,
                env=environment,
                pass_fds=box.handles,
                cwd="/",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                async with asyncio.timeout(_PATIENCE):
                    output, errors = await running.communicate()
            except TimeoutError:
                running.kill()
                await running.wait()
                return {"error": "it takes too long"}
        said = dict.fromkeys(output.decode("utf-8", "replace").split(), "")
        return said if running.returncode == 0 else {**said, "error": one_line(errors.decode("utf-8", "replace"), 200)}
    except OSError as error:
        return {"error": str(error)}
    finally:
        await room.close()


def _namespace(name: str) -> str:
    """Which one this process is in; empty where there are none."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/ns/{name}")
    return ""
