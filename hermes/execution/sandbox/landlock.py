"""Confines a command with Landlock and a system call filter, where bubblewrap is missing or may not work.

Landlock only gives rights, hierarchy by hierarchy, and takes none away below one. So keys are hidden by
naming every folder beside the way to them, and what is fixed inside a writable folder (`.git/hooks`) is
not protected at all.
"""

import contextlib
import errno
import marshal
import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hermes.execution.base import NetworkMode, ShellCommand
from hermes.execution.layout import AccessLayout, PathAccess
from hermes.execution.sandbox import seccomp
from hermes.execution.sandbox.settings_copies import settings_variables
from hermes.execution.sandbox.tmpdir import SandboxTmpdir, create_memory_file
from hermes.safety.paths import is_or_below

_EXEC_PROGRAM = "import sys; sys.path.append(sys.argv.pop()); import landlock_exec; landlock_exec.main()"
READ_RIGHTS = 1 | 1 << 2 | 1 << 3
CHANGE_RIGHTS = 1 << 1 | 0b11_0000 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12
"""The rights to write, to remove, and to make everything but devices."""
DEVICE_RIGHTS = 1 << 6 | 1 << 11
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
TCP_RIGHTS = 3
LANDLOCK_SCOPES = 3
"""The scopes of abstract unix sockets, and of signals."""
_MAX_ARGUMENT_BYTES = 131_072
"""Bytes at which the kernel takes an argument for too long; this is reported before the program is started."""
_TERMINAL_DEVICES = ("/dev/tty", "/dev/ptmx", "/dev/pts/ptmx")
_HARMLESS_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
MAX_PROCESSES = 4_096
MAX_OPEN_FILES = 65_536


def handled_rights(abi: int) -> int:
    """Return the rights over files that this version of Landlock can take."""
    rights = READ_RIGHTS | CHANGE_RIGHTS | DEVICE_RIGHTS
    for version, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL)):
        rights |= right if abi >= version else 0
    return rights


class LandlockSandbox:
    """Confines one command with Landlock. `abi` is the version that the kernel speaks."""

    def __init__(
        self, command: ShellCommand, tmpdir: SandboxTmpdir, layout: AccessLayout, network: NetworkMode, *, abi: int
    ) -> None:
        self.folder = tmpdir.to_local_path(command.cwd, layout)
        self.variables: Mapping[str, str] = {
            **tmpdir.all_variables(tmpdir.tmp),
            **settings_variables(layout.copies, tmpdir.settings_folder),
        }
        self._settings_folder = tmpdir.settings_folder
        self.temporary_folder: str | None = tmpdir.tmp
        self._abi = abi
        self._layout = layout
        self._tmp = tmpdir.tmp
        self._cwd = os.path.realpath(command.cwd)
        self._terminal: tuple[str, ...] = ()
        self._network = network
        self._request_file = create_memory_file("order")
        self.handles: Sequence[int] = (self._request_file,)
        self.namespaces: Sequence[int] = ()
        self.order_index: int | None = 0

    def __enter__(self) -> "LandlockSandbox":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._request_file)

    def shell_arguments(self, text: str, terminal: str) -> tuple[str, ...]:
        """Return the shell's arguments. The shell leads its session, so the terminal that it opens becomes its own."""
        self._terminal = (terminal,) if terminal else ()
        return ("-c", f": <{terminal}; {text}" if terminal else text)

    def wrap_shell(
        self, shell: Sequence[str], environment: Mapping[str, str], handles: Sequence[int]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Return the call of this interpreter, running `landlock_exec.py`."""
        rules = [(os.fsencode(path), rights & handled_rights(self._abi)) for path, rights in self._path_rules()]
        request = {
            "fs": handled_rights(self._abi),
            "net": TCP_RIGHTS if self._abi >= 4 and self._network is not NetworkMode.ON else 0,
            "scoped": LANDLOCK_SCOPES if self._abi >= 6 else 0,
            "rules": rules,
            "filter": seccomp.build_filter(unix=False, datagrams=self._network is NetworkMode.ON),
            "limits": [
                (resource.RLIMIT_CORE, 0),
                (resource.RLIMIT_NPROC, MAX_PROCESSES),
                (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
            ],
            "capabilities": True,
        }
        return build_confined_call(self._request_file, handles[0], request, shell, environment), {}

    def _path_rules(self) -> Iterator[tuple[str, int]]:
        write = READ_RIGHTS | CHANGE_RIGHTS | _REFER | _TRUNCATE
        yield "/dev", 1 << 3  # names alone
        yield self._settings_folder, READ_RIGHTS
        yield from ((path, READ_RIGHTS) for path in _readable_paths(self._layout))
        apart = (*self._layout.code, *self._layout.paths_with(PathAccess.HIDDEN))
        for root in (self._tmp, *self._layout.paths_with(PathAccess.WRITE)):
            # Only what holds the folder of the command, and its /tmp, may be linked into one another: a second name of
            # a file in another place could be written later.
            rights = write if root == self._tmp or is_or_below(self._cwd, root) else write & ~_REFER
            yield root, 1 << 3
            yield from ((path, rights) for path in _paths_without_code(root, apart))
        yield from (
            (path, READ_RIGHTS | 1 << 1 | _TRUNCATE | _IOCTL)
            for path in (*_HARMLESS_DEVICES, *_TERMINAL_DEVICES, *self._terminal)
        )


def build_confined_call(
    request_file: int, found_at: int, request: dict[str, object], program: Sequence[str], environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the call that runs `program` with fewer rights.

    The request is written to a memory file, which has the handle `found_at` when it runs.
    """
    arguments = [os.fsencode(one) for one in program]
    if any(len(one) >= _MAX_ARGUMENT_BYTES for one in arguments):
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    if any(b"\0" in one for one in arguments):
        raise ValueError("a null character in an argument")
    request["arguments"] = arguments
    request["environment"] = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    replace_content(request_file, marshal.dumps(request))
    return (sys.executable, "-I", "-S", "-c", _EXEC_PROGRAM, str(found_at), str(Path(__file__).parent))


def replace_content(handle: int, data: bytes) -> None:
    """Make a memory file hold just this, to be read from its beginning."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, data, 0)
    os.lseek(handle, 0, os.SEEK_SET)


def _paths_without_code(root: str, code: Sequence[str]) -> Iterator[str]:
    """Yield `root`, or what is in it except `code`, so that nothing new can be made directly beside that."""
    if root in code:
        return
    if not any(path.startswith(root + "/") for path in code):
        yield root
        return
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if not entry.is_symlink():
                yield from _paths_without_code(entry.path, code)


def _readable_paths(layout: AccessLayout) -> Iterator[str]:
    """Yield everything that can be read, in as few hierarchies as possible; a link is left to where it leads."""
    layout = layout.hide_covered()
    hidden = {*layout.paths_with(PathAccess.HIDDEN), "/dev"}
    way = {"/"}
    for path in hidden:
        while (path := os.path.dirname(path)) not in way:
            way.add(path)
    for folder in way:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            beside = [one.path for one in entries if one.path not in hidden | way and not one.is_symlink()]
            yield from (one for one in beside if layout.access_of(one) is not PathAccess.HIDDEN)
    yield from (one for one in layout.paths_with(PathAccess.READ) if one not in way)
