"""Runs the reader: one process for one file, in a box of the kernel, with limits; what it answers is bounded.

Reading is work of a thread, of which there are two: no more readers than that take memory at once. The process ends
with its answer, with its time, and with Hermes.
"""

import asyncio
import contextlib
import fcntl
import functools
import os
import resource
import selectors
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.execution.line_program import FIRST_HANDLE
from hermes.execution.sandbox.probe import SandboxProbe, SandboxSupport
from hermes.execution.sandbox.program_box import BoxedCall, ProgramBox, explain_missing_box, find_interpreter
from hermes.execution.sandbox.program_box import make_boxed_call as make_call
from hermes.execution.sandbox.tmpdir import create_memory_file
from hermes.i18n.messages import N_

MEMORY_LIMIT = 150 << 20
"""Bytes of memory that a reader may hold, its libraries among them."""
_DATA_LIMIT = 125 << 20
"""Bytes that it may allocate: the rest are its programs."""
_CPU_SECONDS = 15
READ_SECONDS = 20.0
_QUEUE_SECONDS = 60.0
_MAX_FILES = 64
_MAX_ERRORS = 64 << 10
_STACK = 8 << 20
_POLL_SECONDS = 0.05
_CHUNK = 1 << 16
_FREE_HANDLE = 200
"""Handles from here on hold copies while the process's own are put in their places."""
_CRASH_NEAR_LIMIT = 64 << 20
"""Bytes of memory above which a library that gives up had no more of it: it is looked at now and then only."""
MAX_ANSWER = 12 << 20
"""Bytes of an answer."""
_PACKAGES = (
    *("PIL", "pypdfium2", "pypdfium2_raw", "pypdfium2_cfg"),
    *("python_calamine", "pi_heif", "_pi_heif", "selectolax"),
)
_LIBRARY_FOLDERS = ("pillow.libs", "pi_heif.libs", "PIL.libs")
_CODE = Path(__file__).parents[1]
_MODULES = {
    "hermes.media.reader": _CODE / "media/reader/__init__.py",
    "hermes.web.html_to_markdown": _CODE / "web/html_to_markdown.py",
}
"""The parts of Hermes that the reader is: nothing above them is loaded."""
_START = """
import sys
from importlib.util import spec_from_file_location
PATHS = dict(zip(sys.argv[1:-1:2], sys.argv[2:-1:2]))
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        found = PATHS.get(name)
        if found is None:
            return None
        folder = [found.rpartition("/")[0]] if found.endswith("/__init__.py") else None
        return spec_from_file_location(name, found, submodule_search_locations=folder)
sys.meta_path.insert(0, Finder)
for name in PATHS:
    parts = name.split(".")
    for count in range(1, len(parts)):
        above = ".".join(parts[:count])
        if above not in PATHS and above not in sys.modules:
            sys.modules[above] = type(sys)(above)
            sys.modules[above].__path__ = []
from hermes.media.reader.program import main
sys.exit(main())
"""
"""The program text: it finds single packages by their files, since what lies beside them is out of sight."""


class ReaderAnswer(Struct, frozen=True):
    """What the reader has answered: a line of JSON, and the bytes behind it."""

    head: bytes
    data: bytes


class _Failure(Struct):
    failed: str = ""
    detail: str = ""


class WorkerRun:
    """One reading: it may be given up at any moment."""

    def __init__(self, file: int, request: dict[str, object]) -> None:
        self._file = file
        self._request = request
        self._pid = 0
        self._lock = threading.Lock()
        self._is_given_up = False
        self.most_memory = 0
        """The most bytes of memory that were seen in use."""

    def give_up(self) -> None:
        """End the process if it runs, and see to it that none begins."""
        with self._lock:
            self._is_given_up = True
            self._kill()

    def read(self) -> ReaderAnswer:
        """Have the file read. Raises ToolError with the reason as the end of a sentence."""
        return _check_answer(self._run())

    def _run(self) -> ReaderAnswer:
        """Run the reader to its end and return what it has answered. Raises ToolError."""
        support = find_support()
        why = explain_missing_box(support)
        if why:
            raise ToolError(
                N_("files of this kind are read in a sandbox only, and {why}; bubblewrap makes one", why=why)
            )
        with contextlib.ExitStack() as held:
            source, sink = os.pipe2(os.O_CLOEXEC)
            held.callback(os.close, source)
            errors = create_memory_file("errors")
            held.callback(os.close, errors)
            try:
                call = held.enter_context(make_call(build_box(self._request), support))
                with self._lock:
                    if self._is_given_up:
                        raise ToolError(N_("reading it was stopped"))
                    self._pid = _spawn(call, (self._file, sink, errors))
            except OSError as error:
                raise ToolError(N_("its reader could not be started: {error}", error=error.strerror or error)) from None
            finally:
                os.close(sink)
            output, reason = self._collect_output(source)
            status = self._end_process()
            if reason:
                raise ToolError(reason)
            return self._judge_end(output, status, _read_errors(errors))

    def _collect_output(self, source: int) -> tuple[bytes, str]:
        """Return what the process has written, and why it is to be ended before it does that itself."""
        found = bytearray()
        deadline = time.monotonic() + READ_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(source, selectors.EVENT_READ)
            while True:
                if selector.select(_POLL_SECONDS):
                    chunk = os.read(source, _CHUNK)
                    if not chunk:
                        return bytes(found), ""
                    found += chunk
                    if len(found) > MAX_ANSWER:
                        return b"", N_("its text is larger than {size} MB", size=MAX_ANSWER >> 20)
                self.most_memory = max(self.most_memory, _read_memory(self._pid))
                if self.most_memory > MEMORY_LIMIT:
                    return b"", N_("it needs more than {size} MB", size=MEMORY_LIMIT >> 20)
                if time.monotonic() > deadline:
                    return b"", N_("reading it took more than {seconds:g} s", seconds=READ_SECONDS)

    def _end_process(self) -> int:
        with self._lock:
            self._kill()
            _, status = os.waitpid(self._pid, 0)
            self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def _kill(self) -> None:
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def _judge_end(self, output: bytes, code: int, errors: str) -> ReaderAnswer:
        """Return the answer. Raises ToolError where there is none."""
        head, newline, data = output.partition(b"\n")
        if newline:
            return ReaderAnswer(head, data)
        number = -code if code < 0 else code - 128
        if number in (signal.SIGXCPU, signal.SIGKILL) or "CPU" in errors:
            raise ToolError(N_("reading it took more than {seconds:g} s", seconds=_CPU_SECONDS))
        near_limit = number == signal.SIGABRT and self.most_memory > _CRASH_NEAR_LIMIT
        if near_limit or "MemoryError" in errors or "memory allocation" in errors:
            raise ToolError(N_("it needs more than {size} MB", size=MEMORY_LIMIT >> 20))
        if code == _NO_BOX or errors.startswith("bwrap:"):
            raise ToolError(N_("its reader could not be started: {error}", error=errors[:200]))
        if number > 0:
            raise ToolError(N_("it is damaged: it crashed its reader (signal {number})", number=number))
        raise ToolError(N_("it is damaged: its reader ended with {code}", code=code))


_NO_BOX = 125


def build_box(request: dict[str, object]) -> ProgramBox:
    """Return the box that a file is read in."""
    paths = _find_packages()
    words = [word for pair in paths for word in pair]
    program = (find_interpreter(), "-I", "-S", "-B", "-c", _START, *words, to_json(request).decode())
    return ProgramBox(
        program=program,
        folder="/",
        variables={"LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1", "PATH": "/usr/bin:/bin"},
        shown=_list_shown(paths),
        limits=(
            (resource.RLIMIT_DATA, _DATA_LIMIT),
            (resource.RLIMIT_STACK, _STACK),
            (resource.RLIMIT_CPU, _CPU_SECONDS),
            (resource.RLIMIT_FSIZE, _MAX_ERRORS),
            (resource.RLIMIT_NOFILE, _MAX_FILES),
            (resource.RLIMIT_MEMLOCK, 0),
        ),
    )


@functools.cache
def _find_packages() -> tuple[tuple[str, str], ...]:
    """Return the modules that the reader may import, with their files; libraries that are not installed are absent."""
    found = [(name, str(path)) for name, path in _MODULES.items()]
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None and os.path.isabs(spec.origin):
            found.append((name, spec.origin))
    return tuple(found)


def _list_shown(paths: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    shown: list[str] = []
    for _, path in paths:
        is_package = path.endswith("/__init__.py")
        shown.append(os.path.dirname(path) if is_package else path)
        if is_package and not path.startswith(str(_CODE)):
            site = os.path.dirname(os.path.dirname(path))
            shown += [folder for one in _LIBRARY_FOLDERS if os.path.isdir(folder := os.path.join(site, one))]
    return tuple(dict.fromkeys(shown))


@functools.cache
def _get_executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=2, thread_name_prefix="file reader")


@functools.cache
def find_support() -> SandboxSupport:
    """Return which box can be had here; tried once a process. Not for the event loop."""
    return asyncio.run(SandboxProbe({}).find_support())


async def run_reader(file: int, request: dict[str, object]) -> ReaderAnswer:
    """Have the file of an open handle read, which stays open meanwhile. Raises ToolError with the reason as the end of
    a sentence: `it is encrypted`.
    """
    run = WorkerRun(file, request)
    future = asyncio.wrap_future(_get_executor().submit(run.read))
    try:
        async with asyncio.timeout(_QUEUE_SECONDS):
            answer = await asyncio.shield(future)
    except TimeoutError:
        raise ToolError(N_("too many other files are being read")) from None
    finally:
        if not future.done():
            run.give_up()
            await asyncio.wait({future})
    return answer


def run_reader_here(file: int, request: dict[str, object]) -> ReaderAnswer:
    """Have a file read as `run_reader` does, and wait for it in this thread."""
    return _get_executor().submit(WorkerRun(file, request).read).result(timeout=_QUEUE_SECONDS)


def _check_answer(answer: ReaderAnswer) -> ReaderAnswer:
    """Return the answer. Raises ToolError where it is the name of a failure."""
    try:
        said = msgspec.json.decode(answer.head, type=_Failure)
    except msgspec.MsgspecError:
        raise ToolError(N_("it is damaged: its reader gave no answer that can be used")) from None
    if said.failed:
        from hermes.media.failure_words import describe_failure

        raise ToolError(describe_failure(said.failed, said.detail))
    return answer


def _spawn(call: BoxedCall, streams: tuple[int, int, int]) -> int:
    """Start the call with these streams and its handles, each in its place; return its process id."""
    with contextlib.ExitStack() as held:
        actions: list[tuple[int, int, int]] = []
        targets = (*range(3), *range(FIRST_HANDLE, FIRST_HANDLE + len(call.handles)))
        for handle, target in zip((*streams, *call.handles), targets, strict=True):
            copied = fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, _FREE_HANDLE)
            held.callback(os.close, copied)
            actions.append((os.POSIX_SPAWN_DUP2, copied, target))
        return os.posix_spawn(call.arguments[0], call.arguments, {}, file_actions=actions, setpgroup=0)


def _read_errors(handle: int) -> str:
    """Return the beginning and the end of what a process has written of errors."""
    data = os.pread(handle, _MAX_ERRORS, 0)
    return (data[:2_000] + data[-2_000:]).decode("utf-8", "replace")


def _read_memory(pid: int) -> int:
    """Return the memory in bytes of the process that a call has become, or has started; 0 where it is gone."""
    most = 0
    for _ in range(4):
        most = max(most, _read_resident(pid))
        try:
            with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
                below = file.read().split()
        except OSError:
            break
        if not below:
            break
        pid = int(below[0])
    return most


def _read_resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0
