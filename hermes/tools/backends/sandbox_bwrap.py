"""A box made by bubblewrap: namespaces of its own, mounts that show less, no capabilities, a filter of system calls."""

import os
from collections.abc import Mapping, Sequence

from hermes.tools.backends import seccomp
from hermes.tools.backends.base import Command, Network
from hermes.tools.backends.sandbox_landlock import MOST_OPEN_FILES, MOST_PROCESSES, write_anew
from hermes.tools.backends.sandbox_policy import Kind, Layout
from hermes.tools.backends.sandbox_room import Room, memory_file

_LIMITS = f"ulimit -c 0 -u {MOST_PROCESSES} -n {MOST_OPEN_FILES} 2>/dev/null; echo 500 2>/dev/null >/proc/self/oom_score_adj; "
"""First thing that the shell does: no core files, a bound on processes, and to be the first to go when memory ends.

Not every shell knows `-u`; the bound does not hold for the superuser.
"""
_ENDS = ("/usr/bin/setsid", "/bin/setsid")


class BwrapBox:
    """One command in bubblewrap. `door` is a socket of ours that it is to find, with the program that leads to it."""

    def __init__(self, command: Command, room: Room, layout: Layout, network: Network, *, program: str) -> None:
        self.folder = room.outside(command.cwd)
        tmp = next(iter(room.stands_for), room.tmp)
        self.temporary: str | None = None
        self.variables: Mapping[str, str] = room.caches(tmp)
        if not room.stands_for:
            self.variables = {**self.variables, "TMPDIR": tmp}
        self._cwd = command.cwd
        self._pty = command.pty
        self._room = room
        self._layout = layout
        self._network = network
        self._program = program
        self._options = memory_file("options")
        filter_program = seccomp.program()
        self._filter = memory_file("filter", filter_program) if filter_program else None
        self.handles: Sequence[int] = (self._options, *((self._filter,) if self._filter is not None else ()))

    def __enter__(self) -> "BwrapBox":
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
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
        if self._filter is not None:
            options += ["--seccomp", str(handles[1])]
        write_anew(self._options, b"\0".join(map(os.fsencode, options)) + b"\0")
        session = (next(filter(os.path.exists, _ENDS)), "-c") if self._pty else ()
        return (self._program, "--args", str(handles[0]), "--", *session, *shell), {}

    def _namespaces(self) -> list[str]:
        options = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"]
        if os.geteuid():
            options.append("--unshare-user")
        if self._network is not Network.ON:
            options.append("--unshare-net")
        return options

    def _mounts(self) -> list[str]:
        """Parents before what is in them, so that the deepest counts."""
        options = ["--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/dev/shm", "--proc", "/proc"]  # noqa: S108
        kinds = self._layout.kinds
        veils = ["/dev"]
        for path in sorted({*kinds, *self._layout.pinned}, key=lambda one: one.split("/")):
            kind = kinds.get(path, Kind.WRITE)
            if kind is Kind.PRIVATE:
                options += ["--bind", self._room.stands_for[path], path]
            elif kind is Kind.WRITE:
                options += ["--bind", path, path]
            elif kind is Kind.READ:
                options += ["--ro-bind", path, path]
            elif any(other.startswith(path + "/") for other in kinds):
                veils.append(path)
                options += ["--tmpfs", path]
            else:
                nothing = self._room.nothing if os.path.isdir(path) else self._room.no_file
                options += ["--ro-bind", nothing, path]
        for path in veils:
            options += ["--remount-ro", path]
        return options
