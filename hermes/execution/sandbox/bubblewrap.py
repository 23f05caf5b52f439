"""Confines a command with bubblewrap: own namespaces, mounts that show less, no capabilities, a system call filter.

A signal tells a command that began in its sandbox from a sandbox that could not be made.
"""

import asyncio
import contextlib
import functools
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.execution.base import NetworkMode, OutputSink, ShellCommand
from hermes.execution.layout import AccessLayout, PathAccess
from hermes.execution.sandbox import seccomp
from hermes.execution.sandbox.landlock import (
    LANDLOCK_SCOPES,
    MAX_OPEN_FILES,
    MAX_PROCESSES,
    build_confined_call,
    replace_content,
)
from hermes.execution.sandbox.network import PROXY_PORT
from hermes.execution.sandbox.settings_copies import UNSIGNED_VARIABLES
from hermes.execution.sandbox.tmpdir import SandboxTmpdir, create_memory_file


class StartSignal:
    """A pipe on which the shell in the sandbox writes before it runs the command.

    The shell exits when it cannot write there. So an end without a byte proves that nothing of the command ran,
    whatever was printed, and the command may be started once more.
    """

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._is_open = True

    def build_report(self, handle: int, shell: str) -> str:
        """Build the first commands of a shell that finds the pipe at `handle`. Only bash closes handles above 9."""
        is_closed = handle < 10 or os.path.basename(shell) == "bash"
        return f"echo >/dev/fd/{handle} || exit 126; " + (f"exec {handle}>&-; " if is_closed else "")

    async def wait_for_start(self, seconds: float) -> bool:
        """Wait until the shell reports; return False when it ended without that. True, too, when it takes too long."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._read_end, ready.set)
        try:
            async with asyncio.timeout(seconds):
                await ready.wait()
        except TimeoutError:
            return True
        finally:
            loop.remove_reader(self._read_end)
        has_begun = bool(os.read(self._read_end, 1))
        self.close()
        return has_begun

    def close(self) -> None:
        """Close the end that is read, once the shell is over: it would end if it wrote on a pipe without a reader."""
        if self._is_open:
            self._is_open = False
            os.close(self._read_end)


class HeldOutput:
    """Keeps what is printed until it is known whether the command began: a failed start's words are not its output."""

    def __init__(self, sink: OutputSink) -> None:
        self._sink = sink
        self._held: list[bytes] | None = []

    def write(self, data: bytes) -> None:
        """Take output."""
        if self._held is None:
            self._sink(data)
        else:
            self._held.append(data)

    def release(self) -> None:
        """Pass on what was kept, and from now on everything at once."""
        held, self._held = self._held or [], None
        for data in held:
            self._sink(data)


_LIMIT_COMMANDS = (
    f"ulimit -c 0 -u {MAX_PROCESSES} -n {MAX_OPEN_FILES} 2>/dev/null; echo 500 2>/dev/null >/proc/self/oom_score_adj; "
)
"""The first commands of the shell: no core files, a limit on processes, and to be killed first when memory ends.

Not every shell knows `-u`; the limit does not hold for the superuser.
"""
_SETSID = ("/usr/bin/setsid", "/bin/setsid", "/run/current-system/sw/bin/setsid")
_UNSHARE_OPTIONS = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL")
_COVERED = frozenset(("sys", "sysrq-trigger", "irq", "bus"))
"""What bubblewrap makes read-only by itself where it could be written (`cover_proc_dirs`)."""
_CACHE_SECONDS = 5.0
_SCOPE_VERSION = 6
"""The version of Landlock that keeps abstract sockets apart, which a shared network does not."""


class NetworkExits(Struct, frozen=True, kw_only=True):
    """The ways that lead a command out of its sandbox, and what it shares with others.

    `shared` are the handles of the session's network, in which the sandbox is made; without any it has one
    of its own. `proxy` is where a proxy of ours listens in there. `proxy_socket` is a handle that leads to
    one, by a relay in the sandbox.
    """

    shared: Sequence[int] = ()
    proxy: str = ""
    proxy_socket: int | None = None


NO_EXITS = NetworkExits()


class BubblewrapSandbox:
    """Confines one command with bubblewrap."""

    def __init__(
        self,
        command: ShellCommand,
        tmpdir: SandboxTmpdir,
        layout: AccessLayout,
        network: NetworkMode,
        *,
        program: str,
        abi: int,
        exits: NetworkExits = NO_EXITS,
    ) -> None:
        self.folder = tmpdir.to_local_path(command.cwd, layout)
        own = tmpdir.cache_variables("/tmp") if "/tmp" in tmpdir.replacements else tmpdir.all_variables(tmpdir.tmp)  # noqa: S108
        proxy = f"127.0.0.1:{PROXY_PORT}" if exits.proxy_socket is not None else exits.proxy
        self.variables: Mapping[str, str] = {
            **own,
            **(_proxy_variables(proxy) if proxy else {}),
            **(UNSIGNED_VARIABLES if layout.copies else {}),
        }
        self.namespaces: Sequence[int] = exits.shared
        self.temporary_folder: str | None = None
        self._cwd = command.cwd
        self._pty = command.pty
        self._tmpdir = tmpdir
        self._layout = layout
        self._network = network
        self._program = program
        self._proxy_socket = exits.proxy_socket
        self._options = create_memory_file("options")
        handles = [self._options]
        self._filter = seccomp.build_filter()
        if self._filter:
            handles.append(create_memory_file("filter", self._filter))
        self.order_index: int | None = None
        if network is NetworkMode.ON and abi >= _SCOPE_VERSION and not os.stat(program).st_mode & stat.S_ISUID:
            self.order_index = len(handles)
            handles.append(create_memory_file("order"))
        self._own_handles = tuple(handles)
        self._start_signal: StartSignal | None = None
        self.handles: Sequence[int] = (*handles, *(() if exits.proxy_socket is None else (exits.proxy_socket,)))

    def __enter__(self) -> "BubblewrapSandbox":
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._own_handles:
            os.close(handle)

    def make_start_signal(self) -> StartSignal:
        """Let the shell report that it runs. The caller closes the signal; the shell's end of it is closed here."""
        signal = self._start_signal = StartSignal()
        count = len(self._own_handles)
        self._own_handles = (*self._own_handles, signal.write_end)
        self.handles = (*self.handles[:count], signal.write_end, *self.handles[count:])
        return signal

    def shell_arguments(self, text: str, terminal: str) -> tuple[str, ...]:
        """Return the shell's arguments. The terminal is given by the program before the shell: its name means nothing
        inside.
        """
        return ("-c", _LIMIT_COMMANDS + text)

    def wrap_shell(
        self, shell: Sequence[str], environment: Mapping[str, str], handles: Sequence[int]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Return the call of bubblewrap, without the command's variables.

        A loader or a library would obey some of them before the sandbox is made.
        """
        options = [*self._namespace_options(), *self._mount_options(), "--chdir", self._cwd, "--clearenv"]
        for name, value in environment.items():
            options += ["--setenv", name, value]
        if self._filter:
            options += ["--seccomp", str(handles[1])]
        written = "\0".join((*options, ""))
        if written.count("\0") != len(options):
            raise ValueError("a null character in a variable")
        replace_content(self._options, os.fsencode(written))
        setsid = next(filter(os.path.exists, _SETSID), "") if self._pty else ""
        session = (setsid, "-c") if setsid else ()
        relay = (
            (sys.executable, "-I", "-S", "-c", read_relay_program(), str(PROXY_PORT), str(handles[-1]))
            if self._proxy_socket is not None
            else ()
        )
        if self._start_signal is not None:
            found_at = handles[len(self._own_handles) - 1]
            shell = (*shell[:-1], self._start_signal.build_report(found_at, shell[0]) + shell[-1])
        program = (self._program, "--args", str(handles[0]), "--", *session, *relay, *shell)
        if (order := self.order_index) is not None:
            request = {"fs": 0, "net": 0, "scoped": LANDLOCK_SCOPES, "rules": [], "filter": b"", "limits": []}
            request["capabilities"] = False
            return build_confined_call(self.handles[order], handles[order], request, program, {}), {}
        return program, {}

    def _namespace_options(self) -> list[str]:
        options = [*_UNSHARE_OPTIONS, *(_same_user_options() if self.namespaces else ())]
        if os.geteuid() and not self.namespaces:
            options.append("--unshare-user")
        if self._network is not NetworkMode.ON and not self.namespaces:
            options.append("--unshare-net")
        return options

    def _mount_options(self) -> list[str]:
        """Return the mount options, parents before what is in them, so that the deepest counts."""
        options = ["--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/dev/shm", "--proc", "/proc"]  # noqa: S108
        for path in _find_kernel_parameters():
            options += ["--ro-bind", path, path]
        kinds = self._layout.access_by_path
        empty_folders = ["/dev"]
        if "/tmp" not in self._tmpdir.replacements:  # noqa: S108
            kinds = {**kinds, self._tmpdir.tmp: PathAccess.WRITE}
        seen = (*kinds, *(path for path, _ in self._layout.links), *(one.path for one in self._layout.copies))
        ways = _find_folders_above(seen)
        for path in sorted({*kinds, *self._layout.pinned}, key=lambda one: one.split("/")):
            kind = kinds.get(path, PathAccess.WRITE)
            if kind is PathAccess.HIDDEN and path in ways:
                empty_folders.append(path)
                options += ["--tmpfs", path]
            else:
                options += self._mount_option(path, kind)
        options += self._shown_options()
        for path in empty_folders:
            options += ["--remount-ro", path]
        return options

    def _shown_options(self) -> Iterator[str]:
        """Yield the options for what stands in hidden folders: links to what can be read, and cleaned copies."""
        links = dict(self._layout.links)
        for path, target in links.items():
            yield from ("--symlink", target, path)
        for one in self._layout.copies:
            if self._layout.access_of(one.path) is PathAccess.HIDDEN and one.path not in links:
                yield from ("--ro-bind", one.copy, one.path)

    def _mount_option(self, path: str, kind: PathAccess) -> tuple[str, ...]:
        if kind is PathAccess.PRIVATE:
            return ("--bind", self._tmpdir.replacements[path], path)
        if kind is PathAccess.WRITE:
            return ("--bind", path, path)
        if kind is PathAccess.READ:
            return ("--ro-bind", path, path)
        if not os.path.lexists(path):  # a socket that was closed meanwhile
            return ()
        return ("--ro-bind", self._tmpdir.empty_folder if os.path.isdir(path) else self._tmpdir.empty_file, path)


def _find_folders_above(paths: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        while (at := path.rfind("/")) > 0 and (path := path[:at]) not in found:
            found.add(path)
    return found


def build_trial(program: str) -> tuple[str, ...]:
    """Build the least call that makes a sandbox in a network of ours: it succeeds where sandboxes can be
    made in there.
    """
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    return (program, *_UNSHARE_OPTIONS, *_same_user_options(), *mounts, "--", "/bin/sh", "-c", ":")


def _same_user_options() -> tuple[str, ...]:
    """Return options for a sandbox in a user namespace of ours, in which an ordinary user is the superuser:
    who it is inside.

    A namespace below that one has no rights over what belongs to it, such as the network.
    """
    if not os.geteuid():
        return ()
    return ("--unshare-user", "--uid", str(os.geteuid()), "--gid", str(os.getegid()))


def _proxy_variables(address: str) -> dict[str, str]:
    url = f"http://{address}"
    names = (f"{kind}_proxy" for kind in ("http", "https", "all"))
    return {
        **{form: url for name in names for form in (name, name.upper())},
        **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
        "NODE_USE_ENV_PROXY": "1",
    }


def _find_kernel_parameters() -> tuple[str, ...]:
    """Return the parts of /proc that affect the whole machine: the superuser may change them without any capability.

    Each costs the sandbox a mount, so what bubblewrap itself covers is left to it, and so is what holds nothing that
    can be written: a driver that is loaded later may bring that.
    """
    return _list_kernel_parameters(int(time.monotonic() / _CACHE_SECONDS))


@functools.lru_cache(maxsize=1)
def _list_kernel_parameters(_age: int) -> tuple[str, ...]:
    with os.scandir("/proc") as entries:
        shown = [one for one in entries if not one.name.isdigit() and not one.is_symlink()]
    found = (one.path for one in shown if one.name not in _COVERED or not os.access(one.path, os.W_OK))
    return tuple(sorted(path for path in found if os.access(path, os.F_OK) and _holds_writable(path)))


def _holds_writable(path: str) -> bool:
    """Return whether a file of the system's, or one in a folder of it, can be written by anybody."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(mode := os.lstat(path).st_mode):
            return bool(mode & 0o222) and not stat.S_ISLNK(mode)
        with os.scandir(path) as entries:
            return any(_holds_writable(one.path) for one in entries)
    return True


@functools.cache
def read_relay_program() -> str:
    """Return the text of the program that carries connections to a proxy outside."""
    return Path(__file__).with_name("relay.py").read_text("utf-8")
