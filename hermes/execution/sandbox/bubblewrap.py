"""A box made by bubblewrap: namespaces of its own, mounts that show less, no capabilities, a filter of system calls."""

import functools
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.execution.base import Command, Network
from hermes.execution.sandbox import relay as relay_program
from hermes.execution.sandbox import seccomp
from hermes.execution.sandbox.landlock import MOST_OPEN_FILES, MOST_PROCESSES, SCOPES, confined, write_anew
from hermes.execution.sandbox.network import PORT
from hermes.execution.sandbox.policy import Kind, Layout
from hermes.execution.sandbox.tmpdir import Room, memory_file

_LIMITS = (
    f"ulimit -c 0 -u {MOST_PROCESSES} -n {MOST_OPEN_FILES} 2>/dev/null; "
    "echo 500 2>/dev/null >/proc/self/oom_score_adj; "
)
"""First thing that the shell does: no core files, a bound on processes, and to be the first to go when memory ends.

Not every shell knows `-u`; the bound does not hold for the superuser.
"""
_SETSID = ("/usr/bin/setsid", "/bin/setsid", "/run/current-system/sw/bin/setsid")
_UNSHARED = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL")
_SCOPED = 6
"""The version of Landlock that keeps abstract sockets apart, which a shared network does not."""


class Exits(Struct, frozen=True, kw_only=True):
    """What leads a command out of its box, and what it shares with others.

    `shared` are the handles of the session's network, in which the box is made; without any it has one of its own.
    `proxy` is where a proxy of ours listens in there. `door` is a handle that leads to one, by a relay in the box.
    """

    shared: Sequence[int] = ()
    proxy: str = ""
    door: int | None = None


ALONE = Exits()


class BwrapBox:
    """One command in bubblewrap."""

    def __init__(
        self,
        command: Command,
        room: Room,
        layout: Layout,
        network: Network,
        *,
        program: str,
        abi: int,
        exits: Exits = ALONE,
    ) -> None:
        self.folder = room.outside(command.cwd, layout)
        own = room.caches("/tmp") if "/tmp" in room.stands_for else room.variables(room.tmp)  # noqa: S108
        proxy = f"127.0.0.1:{PORT}" if exits.door is not None else exits.proxy
        self.variables: Mapping[str, str] = {**own, **(_proxies(proxy) if proxy else {})}
        self.spaces: Sequence[int] = exits.shared
        self.temporary: str | None = None
        self._cwd = command.cwd
        self._pty = command.pty
        self._room = room
        self._layout = layout
        self._network = network
        self._program = program
        self._door = exits.door
        self._options = memory_file("options")
        handles = [self._options]
        self._filter = seccomp.program()
        if self._filter:
            handles.append(memory_file("filter", self._filter))
        self._scope = network is Network.ON and abi >= _SCOPED and not os.stat(program).st_mode & stat.S_ISUID
        if self._scope:
            handles.append(memory_file("order"))
        self._made = tuple(handles)
        self.handles: Sequence[int] = (*handles, *(() if exits.door is None else (exits.door,)))

    def __enter__(self) -> "BwrapBox":
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._made:
            os.close(handle)

    def script(self, text: str, terminal: str) -> tuple[str, ...]:
        """The terminal is given by the program before the shell: its name means nothing in the box."""
        return ("-c", _LIMITS + text)

    def wrap(
        self, shell: Sequence[str], environment: Mapping[str, str], handles: Sequence[int]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """bubblewrap, without the command's variables: a loader or a library would obey some before the box is made."""
        options = [*self._namespaces(), *self._mounts(), "--chdir", self._cwd, "--clearenv"]
        for name, value in environment.items():
            options += ["--setenv", name, value]
        if self._filter:
            options += ["--seccomp", str(handles[1])]
        if any("\0" in one for one in options):
            raise ValueError("a null character in a variable")
        write_anew(self._options, b"\0".join(map(os.fsencode, options)) + b"\0")
        setsid = next(filter(os.path.exists, _SETSID), "") if self._pty else ""
        session = (setsid, "-c") if setsid else ()
        relay = (
            (sys.executable, "-I", "-S", "-c", _relay(), str(PORT), str(handles[-1])) if self._door is not None else ()
        )
        program = (self._program, "--args", str(handles[0]), "--", *session, *relay, *shell)
        if self._scope:
            order = {"fs": 0, "net": 0, "scoped": SCOPES, "rules": [], "filter": b"", "limits": []}
            order["capabilities"] = False
            return confined(self.handles[-1], handles[-1], order, program, {}), {}
        return program, {}

    def _namespaces(self) -> list[str]:
        options = [*_UNSHARED, *(_same_user() if self.spaces else ())]
        if os.geteuid() and not self.spaces:
            options.append("--unshare-user")
        if self._network is not Network.ON and not self.spaces:
            options.append("--unshare-net")
        return options

    def _mounts(self) -> list[str]:
        """Parents before what is in them, so that the deepest counts."""
        options = ["--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/dev/shm", "--proc", "/proc"]  # noqa: S108
        for path in _parameters():
            options += ["--ro-bind", path, path]
        kinds = self._layout.kinds
        veils = ["/dev"]
        if "/tmp" not in self._room.stands_for:  # noqa: S108
            kinds = {**kinds, self._room.tmp: Kind.WRITE}
        for path in sorted({*kinds, *self._layout.pinned}, key=lambda one: one.split("/")):
            kind = kinds.get(path, Kind.WRITE)
            if kind is Kind.HIDDEN and any(other.startswith(path + "/") for other in kinds):
                veils.append(path)
                options += ["--tmpfs", path]
            else:
                options += self._mount(path, kind)
        for path in veils:
            options += ["--remount-ro", path]
        return options

    def _mount(self, path: str, kind: Kind) -> tuple[str, ...]:
        if kind is Kind.PRIVATE:
            return ("--bind", self._room.stands_for[path], path)
        if kind is Kind.WRITE:
            return ("--bind", path, path)
        if kind is Kind.READ:
            return ("--ro-bind", path, path)
        if not os.path.lexists(path):  # a socket that was closed meanwhile
            return ()
        return ("--ro-bind", self._room.nothing if os.path.isdir(path) else self._room.no_file, path)


def trial(program: str) -> tuple[str, ...]:
    """The least that is a box in a network of ours: what succeeds where boxes can be made in there."""
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    return (program, *_UNSHARED, *_same_user(), *mounts, "--", "/bin/sh", "-c", ":")


def _same_user() -> tuple[str, ...]:
    """Options for a box in a user namespace of ours, in which an ordinary user is the superuser: who it is in the box.

    A namespace below that one has no rights over what belongs to it, such as the network.
    """
    if not os.geteuid():
        return ()
    return ("--unshare-user", "--uid", str(os.geteuid()), "--gid", str(os.getegid()))


def _proxies(address: str) -> dict[str, str]:
    url = f"http://{address}"
    names = (f"{kind}_proxy" for kind in ("http", "https", "all"))
    return {
        **{form: url for name in names for form in (name, name.upper())},
        **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
        "NODE_USE_ENV_PROXY": "1",
    }


@functools.cache
def _parameters() -> tuple[str, ...]:
    """What of /proc is the whole machine's: the superuser may change it without any capability."""
    with os.scandir("/proc") as entries:
        shown = [one for one in entries if not one.name.isdigit() and not one.is_symlink()]
    changed = [one.path for one in shown if one.is_dir() or one.stat().st_mode & 0o222]
    return tuple(sorted(path for path in changed if os.access(path, os.F_OK)))


@functools.cache
def _relay() -> str:
    return Path(relay_program.__file__).read_text("utf-8")
