"""A box made of Landlock and a filter of system calls, for where bubblewrap is missing or may not work.

Landlock only gives rights, hierarchy by hierarchy, and takes none away below one. So what hides keys is that every
folder beside the way to them is named, and what is fixed inside a writable folder (`.git/hooks`) is not held at all.
"""

import contextlib
import ctypes
import errno
import marshal
import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hermes.execution.base import Command, Network
from hermes.execution.sandbox import landlock_exec, seccomp
from hermes.execution.sandbox.policy import Kind, Layout
from hermes.execution.sandbox.tmpdir import Room, memory_file

_PROGRAM = "import sys; sys.path.append(sys.argv.pop()); import landlock_exec; landlock_exec.main()"
_READ = 1 | 1 << 2 | 1 << 3
_CHANGE = 1 << 1 | 0b11_0000 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12
"""Write, remove, make everything but devices."""
_DEVICES = 1 << 6 | 1 << 11
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_TCP = 3
SCOPES = 3
"""Abstract unix sockets, and signals."""
_VERSION = 1
_LONGEST = 131_072
"""Bytes at which the kernel takes an argument for too long; told before the program is started."""
_TERMINALS = ("/dev/tty", "/dev/ptmx", "/dev/pts/ptmx")
_HARMLESS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
MOST_PROCESSES = 4_096
MOST_OPEN_FILES = 65_536


def abi() -> int:
    """The version of Landlock that this kernel speaks; 0 for none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(444, None, 0, _VERSION)))


class LandlockBox:
    """One command under Landlock. `abi` is the version that the kernel speaks."""

    def __init__(self, command: Command, room: Room, layout: Layout, network: Network, *, abi: int) -> None:
        self.folder = room.outside(command.cwd, layout)
        self.variables: Mapping[str, str] = room.variables(room.tmp)
        self.temporary: str | None = room.tmp
        self._abi = abi
        self._layout = layout
        self._tmp = room.tmp
        self._terminal: tuple[str, ...] = ()
        self._network = network
        self._order = memory_file("order")
        self.handles: Sequence[int] = (self._order,)
        self.spaces: Sequence[int] = ()

    def __enter__(self) -> "LandlockBox":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._order)

    def script(self, text: str, terminal: str) -> tuple[str, ...]:
        """The shell leads its session, so the terminal that it opens becomes the one that controls it."""
        self._terminal = (terminal,) if terminal else ()
        return ("-c", f": <{terminal}; {text}" if terminal else text)

    def wrap(
        self, shell: Sequence[str], environment: Mapping[str, str], handles: Sequence[int]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """This interpreter, running `landlock_exec.py`."""
        rules = [(os.fsencode(path), rights & self._handled()) for path, rights in self._rules()]
        order = {
            "fs": self._handled(),
            "net": _TCP if self._abi >= 4 and self._network is not Network.ON else 0,
            "scoped": SCOPES if self._abi >= 6 else 0,
            "rules": rules,
            "filter": seccomp.program(unix=False, datagrams=self._network is Network.ON),
            "limits": [
                (resource.RLIMIT_CORE, 0),
                (resource.RLIMIT_NPROC, MOST_PROCESSES),
                (resource.RLIMIT_NOFILE, MOST_OPEN_FILES),
            ],
            "capabilities": True,
        }
        return confined(self._order, handles[0], order, shell, environment), {}

    def _handled(self) -> int:
        rights = _READ | _CHANGE | _DEVICES
        for version, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL)):
            rights |= right if self._abi >= version else 0
        return rights

    def _rules(self) -> Iterator[tuple[str, int]]:
        write = _READ | _CHANGE | _REFER | _TRUNCATE
        yield "/", 1 << 3  # names of folders and files can be seen everywhere
        yield from ((path, _READ) for path in _beside(self._layout))
        for root in (self._tmp, *self._layout.of(Kind.WRITE)):
            yield from ((path, write) for path in _without(root, self._layout.code))
        yield from ((path, _READ | 1 << 1 | _TRUNCATE | _IOCTL) for path in (*_HARMLESS, *_TERMINALS, *self._terminal))


def confined(
    order_file: int, found_at: int, order: dict[str, object], program: Sequence[str], environment: Mapping[str, str]
) -> tuple[str, ...]:
    """What to run so that `program` runs with less. The order is written to a memory file, `found_at` when it runs."""
    arguments = [os.fsencode(one) for one in program]
    if any(len(one) >= _LONGEST for one in arguments):
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    if any(b"\0" in one for one in arguments):
        raise ValueError("a null character in an argument")
    order["arguments"] = arguments
    order["environment"] = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    write_anew(order_file, marshal.dumps(order))
    return (sys.executable, "-I", "-S", "-c", _PROGRAM, str(found_at), str(Path(landlock_exec.__file__).parent))


def write_anew(handle: int, data: bytes) -> None:
    """Have a memory file hold just this, to be read from its beginning."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, data, 0)
    os.lseek(handle, 0, os.SEEK_SET)


def _without(root: str, code: Sequence[str]) -> Iterator[str]:
    """`root`, or what is in it but for `code`, so that nothing new can be made directly beside that."""
    if root in code:
        return
    if not any(path.startswith(root + "/") for path in code):
        yield root
        return
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if not entry.is_symlink():
                yield from _without(entry.path, code)


def _beside(layout: Layout) -> Iterator[str]:
    """Everything that can be read, as few hierarchies as possible; a link is left to where it leads."""
    hidden = {*layout.of(Kind.HIDDEN), "/dev"}
    way = {"/"}
    for path in hidden:
        while (path := os.path.dirname(path)) not in way:
            way.add(path)
    for folder in way:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            yield from (one.path for one in entries if one.path not in hidden | way and not one.is_symlink())
    yield from layout.of(Kind.READ)
