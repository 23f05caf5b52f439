"""Starts a program that can read what it is given handles of, and nothing else: the kernel keeps it there.

Landlock's rules hold for a thread and for what it starts. So the program is started by a thread of its own, which gives
up its rights first and ends with the program; such a thread never does anything else.
"""

import asyncio
import contextlib
import ctypes
import functools
import os
import resource
import stat
import struct
import subprocess
import sys
import threading
from asyncio import Future
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from hermes.execution.sandbox.support import landlock_version, list_loaded_files

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
_BENEATH = 1
_EXECUTE, _READ_FILE, _READ_FOLDER = 1, 1 << 2, 1 << 3
_HANDLED = 0b1111
"""To run, write, read and list. The later rights make each opening dearer, and the programs do not cut files short."""
_TRIAL_SECONDS = 5.0
_PROCESSORS = os.cpu_count() or 1
"""Counted once: it is read from files, which a confined thread cannot open."""
_confinable: set[str] = set()
ReadRule = tuple[int, bool]
"""The handle of a file or folder, and whether only names may be listed there and below."""
T = TypeVar("T")


class _Order(Struct, frozen=True):
    command: Sequence[str]
    folder: int
    readable: Sequence[ReadRule] | None
    given: Sequence[int]
    null: int
    seconds: float = _TRIAL_SECONDS


class _Start:
    """The start of a process by another thread, which may be given up at any moment, more than once."""

    def __init__(self, order: _Order) -> None:
        self._order = order
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_given_up = False

    def run(self) -> "subprocess.Popen[bytes] | None":
        """Start the process and return it; None where it was given up before. Raises OSError."""
        with self._lock:
            if not self._is_given_up:
                self._process = _start(self._order)
            return self._process

    def give_up(self) -> None:
        """See to it that there is no process when this returns: the handles that it would work with may close then."""
        with self._lock:
            self._is_given_up = True
            if self._process is not None:
                _end(self._process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


class StartedReader(Struct, frozen=True, eq=False):
    """A program that runs, and its exit code when it has one."""

    process: "subprocess.Popen[bytes]"
    ended: "Future[int]"

    def close(self) -> None:
        """End it now if it runs, and close its pipes; the thread that started it waits for it."""
        _end(self.process)


async def start_reader(
    command: Sequence[str],
    folder: int,
    readable: Iterable[ReadRule] | None = None,
    given: Sequence[int] = (),
    *,
    seconds: float,
) -> StartedReader:
    """Start a program in an open folder: it can read what `readable` are rules for and all below, and run itself.

    Without `readable` nothing confines it, and it starts at the root: it works by `given`, the handles that it gets.
    `seconds` is how long it may be wanted: the kernel ends what is left of it when Hermes was killed meanwhile.
    Raises OSError when it cannot be started.
    """
    loop = asyncio.get_running_loop()
    started: Future[StartedReader] = loop.create_future()
    with contextlib.ExitStack() as held:
        null = held.enter_context(_opened(os.devnull, os.O_RDONLY))
        rules = None if readable is None else [*readable, *_open_all(_list_needed_files(command[0]), held)]
        order = _Order(command, folder, rules, given, null, seconds)
        start = _Start(order)
        threading.Thread(target=_run_order, args=(start, loop, started), name="confined reader", daemon=True).start()
        try:
            return await asyncio.shield(started)
        except asyncio.CancelledError:
            start.give_up()
            raise


def is_known_confinable(program: str) -> bool:
    """Return whether it was found out that the kernel can confine this program."""
    return program in _confinable


def can_confine(program: str) -> bool:
    """Return whether a program can be started so that the kernel confines it; trying takes milliseconds."""
    if not landlock_version() or not os.path.exists("/proc/self/fd"):
        return False
    done: list[bool] = []

    def try_start() -> None:
        with contextlib.suppress(OSError, subprocess.SubprocessError), contextlib.ExitStack() as held:
            null = held.enter_context(_opened(os.devnull, os.O_RDONLY))
            root = held.enter_context(_opened("/", os.O_RDONLY | os.O_DIRECTORY))
            needed = _open_all(_list_needed_files(program), held)
            with _start(_Order((program, "--version"), root, needed, (), null)) as process:
                process.communicate(timeout=_TRIAL_SECONDS)
                done.append(process.returncode == 0)

    thread = threading.Thread(target=try_start, name="confined trial", daemon=True)
    thread.start()
    thread.join()
    if done == [True]:
        _confinable.add(program)
    return done == [True]


def _run_order(start: _Start, loop: asyncio.AbstractEventLoop, started: "Future[StartedReader]") -> None:
    ended: Future[int] = loop.create_future()
    try:
        process = start.run()
    except OSError as error:
        _tell(loop, started, started.set_exception, error)
        return
    if process is not None:
        _tell(loop, started, started.set_result, StartedReader(process, ended))
        _tell(loop, ended, ended.set_result, process.wait())


def _tell(loop: asyncio.AbstractEventLoop, future: "Future[Any]", function: Callable[[T], None], value: T) -> None:
    def tell() -> None:
        if not future.done():  # whoever waited was stopped meanwhile
            function(value)

    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(tell)


def _start(order: _Order) -> "subprocess.Popen[bytes]":
    """Give up this thread's rights for good, and start the program. Raises OSError."""
    if order.readable is not None:
        _confine_thread(order.readable)
    process = subprocess.Popen(
        order.command,
        cwd=f"/proc/self/fd/{order.folder}" if order.readable is not None else "/",
        stdin=order.null,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=order.given,
    )
    _limit_processor_time(process.pid, order.seconds)
    return process


def _limit_processor_time(pid: int, seconds: float) -> None:
    """Limit a program to what it can use of all processors in so many seconds; some patterns would keep it for ever."""
    if sys.platform == "linux":
        limit = int(seconds * _PROCESSORS) + 1
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_CPU, (limit, limit))


def _confine_thread(readable: Iterable[ReadRule]) -> None:
    kernel = _load_kernel()
    ruleset = _check(kernel.syscall(ctypes.c_long(_CREATE), struct.pack("=Q", _HANDLED), ctypes.c_size_t(8), 0))
    try:
        for handle, is_listed_only in readable:
            is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
            allowed = (0 if is_listed_only else _READ_FILE) | (_READ_FOLDER if is_folder else _EXECUTE)
            rule = struct.pack("=Qi", allowed, handle)
            _check(kernel.syscall(ctypes.c_long(_ADD), ruleset, _BENEATH, rule, 0))
        _check(kernel.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _check(kernel.syscall(ctypes.c_long(_RESTRICT), ruleset, 0))
    finally:
        os.close(ruleset)


@functools.cache
def _load_kernel() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@functools.cache
def _list_needed_files(program: str) -> tuple[str, ...]:
    """Return what a program's start reads, links followed: itself, its loader and its libraries."""
    found = [os.path.realpath(program)]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        found += map(os.path.realpath, list_loaded_files(program))
    return tuple(dict.fromkeys(found))


def _open_all(paths: Iterable[str], held: contextlib.ExitStack) -> list[ReadRule]:
    opened: list[ReadRule] = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            opened.append((held.enter_context(_opened(path, os.O_PATH | os.O_NOFOLLOW)), False))
    return opened


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)
