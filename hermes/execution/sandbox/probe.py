"""Finds out by trying what a sandbox can enforce on this machine, once a process."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct

from hermes.execution.base import NetworkMode, ShellCommand
from hermes.execution.layout import AccessLayout, PathAccess
from hermes.execution.sandbox import seccomp
from hermes.execution.sandbox.bubblewrap import BubblewrapSandbox
from hermes.execution.sandbox.landlock import LandlockSandbox
from hermes.execution.sandbox.layout_cache import MountWatch
from hermes.execution.sandbox.seatbelt import SeatbeltSandbox
from hermes.execution.sandbox.support import landlock_version
from hermes.execution.sandbox.tmpdir import SandboxTmpdir, find_abandoned, remove_folders
from hermes.i18n.messages import N_
from hermes.util.localizable import join_localizable
from hermes.util.text import to_one_line

_TRUNCATE_VERSION, _TCP_VERSION, _SCOPE_VERSION = 3, 4, 6
"""Versions of Landlock."""
_TRIAL_SECONDS = 10.0
PROCESS_COUNT_GAP = "the number of processes (as the superuser)"
"""A gap that applies to every program of the superuser."""
_NETWORK_NAMES = {"off": N_("none"), "allowlist": N_("allowed hosts only"), "on": N_("open")}
"""The names of the network modes where a person reads them."""


class SandboxMechanism(StrEnum):
    """The mechanism that makes the sandbox."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    SEATBELT = "seatbelt"
    NONE = "none"


class SandboxSupport(Struct, frozen=True, kw_only=True):
    """What is enforced: writes outside refused, keys unreadable, network closed, other processes out of reach.

    `hosts` says whether single hosts can be let through. `gaps` names in words what is not enforced. `reason` says why
    better mechanisms are not used; without any mechanism, why there is no sandbox.
    """

    mechanism: SandboxMechanism
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
    def is_usable(self) -> bool:
        """Whether commands can be confined at all."""
        return self.mechanism is not SandboxMechanism.NONE and self.files and self.keys

    def _describe_network(self, network: str) -> str:
        """Return what a command can reach: where single hosts cannot be let through, none."""
        if network == "allowlist" and not self.hosts:
            return N_("none, since only bubblewrap can allow single hosts")
        return _NETWORK_NAMES.get(network, network)

    def describe(self, network: str = "off", *, detailed: bool = False) -> str:
        """Return one line for a status display; `detailed` names the lesser gaps, too."""
        if not self.is_usable:
            return N_("No sandbox here: {reason}; network: {network}.", reason=self.reason, network=network)
        names = (
            (N_("files"), self.files),
            (N_("keys"), self.keys),
            (N_("network"), self.network),
            (N_("processes"), self.processes),
        )
        network_said = self._describe_network(str(network))
        holds_said = join_localizable(", ", (name for name, held in names if held))
        open_ = [one for one in self.gaps if detailed or one != PROCESS_COUNT_GAP]
        if not open_:
            return N_(
                "Sandbox ({mechanism}): guards {holds_said}; network: {network_said}.",
                mechanism=self.mechanism,
                holds_said=holds_said,
                network_said=network_said,
            )
        open_said = join_localizable(", ", open_)
        return N_(
            "Sandbox ({mechanism}): guards {holds_said}; does not guard: {open_said}; network: {network_said}.",
            mechanism=self.mechanism,
            holds_said=holds_said,
            open_said=open_said,
            network_said=network_said,
        )


class SandboxProbe:
    """Finds out once what is enforced; nothing is tried before somebody asks. One serves a whole process."""

    def __init__(
        self,
        environment: Mapping[str, str],
        mechanisms: Sequence[SandboxMechanism] = (SandboxMechanism.BUBBLEWRAP, SandboxMechanism.LANDLOCK),
    ) -> None:
        self._path = environment.get("PATH", os.defpath)
        self._mechanisms = mechanisms
        self._lock = asyncio.Lock()
        self._support: SandboxSupport | None = None
        self.mounts = MountWatch()

    async def find_support(self) -> SandboxSupport:
        """Return what is enforced here."""
        async with self._lock:
            if self._support is None:
                self._support = await self._try_mechanisms()
                if left := await asyncio.to_thread(find_abandoned):
                    await remove_folders(left)  # what killed processes left: once a process is enough
            return self._support

    @property
    def is_landlock_alone(self) -> bool:
        """Whether commands are held by Landlock alone, as far as it was found out."""
        return self._support is not None and self._support.mechanism is SandboxMechanism.LANDLOCK

    async def _try_mechanisms(self) -> SandboxSupport:
        if sys.platform == "darwin":
            return await self._try_seatbelt()
        reasons: list[str] = []
        for way in self._mechanisms:
            found = await (self._try_bubblewrap() if way is SandboxMechanism.BUBBLEWRAP else self._try_landlock())
            if isinstance(found, SandboxSupport):
                return msgspec.structs.replace(found, reason="; ".join(reasons))
            reasons.append(found)
        return SandboxSupport(
            mechanism=SandboxMechanism.NONE, reason="; ".join(reasons) or "this system has none that is known"
        )

    async def _try_seatbelt(self) -> SandboxSupport:
        said = await _run_trial(SeatbeltSandbox)
        if not {"inside", "files", "keys"} <= said.keys():
            return SandboxSupport(
                mechanism=SandboxMechanism.NONE,
                reason=N_("Seatbelt does not work here ({get})", get=said.get("error", "")),
            )
        gaps = ("services of the system", "never tested on a Mac")
        return SandboxSupport(
            mechanism=SandboxMechanism.SEATBELT, files=True, keys=True, network=True, processes=True, gaps=gaps
        )

    async def _try_bubblewrap(self) -> SandboxSupport | str:
        program = find_bwrap(self._path)
        if program is None:
            return "bubblewrap (bwrap) is not installed"
        said = await _run_trial(lambda *given: BubblewrapSandbox(*given, program=program, abi=0))
        if not {"inside", "files", "keys"} <= said.keys():
            return N_("bubblewrap does not work here ({get})", get=said.get("error") or "it does not hold")
        support = SandboxSupport(
            mechanism=SandboxMechanism.BUBBLEWRAP,
            files=True,
            keys=True,
            network="net" in said,
            processes="pid" in said,
            hosts="net" in said,
            program=program,
            abi=landlock_version(),
        )
        gaps = [] if support.abi >= _SCOPE_VERSION else ["abstract sockets of this machine while the network is on"]
        gaps += [] if seccomp.has_filter() else ["keyrings of the kernel"]
        gaps += [] if os.geteuid() else [PROCESS_COUNT_GAP]
        return msgspec.structs.replace(support, gaps=tuple(gaps))

    async def _try_landlock(self) -> SandboxSupport | str:
        version = landlock_version()
        if not version:
            return "the kernel has no Landlock, or it is switched off"
        if version < _TRUNCATE_VERSION:
            return N_(
                "Landlock of this kernel (version {version}) does not keep files from being truncated", version=version
            )
        said = await _run_trial(lambda *given: LandlockSandbox(*given, abi=version))
        if not {"inside", "files", "keys"} <= said.keys():
            return N_("Landlock does not work here ({get})", get=said.get("error") or "it does not hold")
        gaps = [
            "permissions/times/attributes of files elsewhere",
            "whether a file of a known name is there, and its size",
            "git hooks and editor tasks (looked at after each command)",
            "command lines/limits/priorities of other programs",
            "shared memory of System V",
        ]
        network = version >= _TCP_VERSION and seccomp.has_filter()
        gaps += [] if version >= _SCOPE_VERSION else ["signals to other programs"]
        gaps += [] if seccomp.has_filter() else ["sockets of other programs"]
        gaps += [] if os.geteuid() else [PROCESS_COUNT_GAP]
        return SandboxSupport(
            mechanism=SandboxMechanism.LANDLOCK,
            files=True,
            keys=True,
            network=network,
            processes=version >= _SCOPE_VERSION,
            abi=version,
            gaps=tuple(gaps),
        )


def find_bwrap(path: str) -> str | None:
    """Return the path of bubblewrap in a folder where only the system's administrator writes, or None."""
    for folder in ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", *path.split(os.pathsep)):
        found = os.path.realpath(os.path.join(folder, "bwrap"))
        with contextlib.suppress(OSError):
            if os.path.isabs(folder) and os.access(found, os.X_OK) and os.stat(found).st_uid == 0:
                return found
    return None


async def _run_trial(
    make: Callable[
        [ShellCommand, SandboxTmpdir, AccessLayout, NetworkMode], BubblewrapSandbox | LandlockSandbox | SeatbeltSandbox
    ],
) -> dict[str, str]:
    """Return the words that a command in such a sandbox prints: each stands for something that is enforced."""
    tmpdir = SandboxTmpdir(())
    try:
        secret = f"{tmpdir.root}/secret"
        os.close(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600))
        layout = AccessLayout(access_by_path={tmpdir.tmp: PathAccess.WRITE, secret: PathAccess.HIDDEN})
        script = (
            f"echo x >{tmpdir.tmp}/in && echo inside; (echo x >{tmpdir.root}/out) 2>/dev/null || echo files; "
            f"cat {secret} 2>/dev/null || echo keys; "
            f'[ "$(readlink /proc/self/ns/net)" = "{_read_namespace("net")}" ] || echo net; '
            f'[ "$(readlink /proc/self/ns/pid)" = "{_read_namespace("pid")}" ] || echo pid'
        )
        with make(ShellCommand(text=script, cwd="/"), tmpdir, layout, NetworkMode.OFF) as wrapper:
            shell = ("/bin/sh", *wrapper.shell_arguments(script, ""))
            arguments, environment = wrapper.wrap_shell(shell, {"PATH": "/usr/bin:/bin"}, wrapper.handles)
            process = await asyncio.create_subprocess_exec(
                *arguments,
                env=environment,
                pass_fds=wrapper.handles,
                cwd="/",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                async with asyncio.timeout(_TRIAL_SECONDS):
                    output, errors = await process.communicate()
            except TimeoutError:
                process.kill()
                await process.wait()
                return {"error": "it takes too long"}
        words = dict.fromkeys(output.decode("utf-8", "replace").split(), "")
        return (
            words
            if process.returncode == 0
            else {**words, "error": to_one_line(errors.decode("utf-8", "replace"), 200)}
        )
    except OSError as error:
        return {"error": str(error)}
    finally:
        await tmpdir.close()


def _read_namespace(name: str) -> str:
    """Return which namespace this process is in; empty where there are none."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/ns/{name}")
    return ""
