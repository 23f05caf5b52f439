"""A program that is spoken to in lines: started under a supervisor, one message a line on its standard streams."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.local import ProcessTree
from hermes.execution.process_tree import UnsupervisedProcess
from hermes.execution.supervisor import LaunchRequest, Supervisors
from hermes.execution.supervisor_main import EXTRA_HANDLES
from hermes.i18n.messages import N_
from hermes.util.pipes import PipeWriter

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The most bytes of one message, where a program has no limit of its own."""
FIRST_HANDLE = EXTRA_HANDLES + 1
"""Where a program finds the first of its handles; the one before is its error stream on the way."""
_READ_SIZE = 65_536
_UNREAD_MESSAGES = 4
"""How many of the longest messages may wait for a program that does not read its input."""
_LAST_OUTPUT_SECONDS = 0.05
"""Seconds to keep listening after a program's end: its last output is still on its way then."""
_STOP_STEPS = ((signal.SIGTERM, 1.0), (signal.SIGKILL, 2.0))
_EXIT_SECONDS = 0.5
"""Seconds that a program may take to end by itself when its input or its output has ended."""
_SHELL_CALL = ("/bin/sh", "-c", 'exec "$@" 2>&4 4>&-', "sh")
"""A supervisor gives one output for both streams; this shell separates the error stream."""
_START_ERRORS = {126: "cannot be run", 127: "cannot be found"}
MAX_LOG_BYTES = 256 * 1024


class LineProgram(Struct, frozen=True, kw_only=True):
    """The program to start; `environment` is all that it gets. Its standard error goes to `log`, without secrets.

    `handles` are found by it at `FIRST_HANDLE` and following; it is started under a supervisor or not at all then.
    `message_limit` is the most bytes of one of its messages, `error_limit` of all that it may print on its error
    stream while it lives; 0: no limit.
    """

    command: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    log: Path
    redact: Callable[[str], str]
    handles: Sequence[int] = ()
    message_limit: int = MAX_MESSAGE_BYTES
    error_limit: int = 0


class MessageLines:
    """Cuts bytes into lines. Raises ValueError for one that is too long."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes, empty ones left out."""
        self._buffer += data
        lines: list[bytes] = []
        if b"\n" in data:
            *whole, rest = bytes(self._buffer).split(b"\n")
            lines = [line for one in whole if (line := one.strip())]
            self._buffer = bytearray(rest)
        if len(self._buffer) > self._limit or any(len(line) > self._limit for line in lines):
            raise ValueError
        return lines


class ProgramLog:
    """A file of a bounded size, private to its owner; when it is full it begins again.

    Whole lines go through `redact`, which costs time: more than the file holds in a minute is dropped.
    """

    def __init__(self, file: Path, redact: Callable[[str], str]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._handle = os.open(file, flags, 0o600)
        self._redact = redact
        self._partial_line = b""
        self._size = self._minute_bytes = 0
        self._minute = 0.0

    def write(self, data: bytes) -> None:
        """Add to the file. A full disk loses a program's output, nothing else."""
        minute = time.monotonic() // 60
        if minute != self._minute:
            self._minute, self._minute_bytes = minute, 0
        self._minute_bytes += len(data)
        if self._minute_bytes > MAX_LOG_BYTES:
            return
        whole, newline, self._partial_line = (self._partial_line + data).rpartition(b"\n")
        if newline or len(self._partial_line) > _READ_SIZE:
            self._append_redacted(whole + newline if newline else self._partial_line)
            self._partial_line = self._partial_line if newline else b""

    def close(self) -> None:
        """Close the file."""
        self._append_redacted(self._partial_line)
        os.close(self._handle)

    def _append_redacted(self, data: bytes) -> None:
        text = self._redact(data.decode("utf-8", "replace")).encode("utf-8", "replace")[-MAX_LOG_BYTES:]
        with contextlib.suppress(OSError):
            if self._size + len(text) > MAX_LOG_BYTES:
                os.ftruncate(self._handle, 0)
                self._size = 0
            self._size += os.write(self._handle, text)


class LineProgramTransport:
    """The standard streams of a program. It ends with its whole tree when this is closed, and when Hermes dies."""

    def __init__(self, program: LineProgram, supervisors: Supervisors) -> None:
        self._program = program
        self._supervisors = supervisors
        self._loop = asyncio.get_running_loop()
        self._lines = MessageLines(program.message_limit)
        self._error_bytes = 0
        self._process_tree: ProcessTree | None = None
        self._input: PipeWriter | None = None
        self._handles: list[int] = []
        """The handles that are read from: the program's output and its error stream."""
        self._log: ProgramLog | None = None
        self._on_message: Callable[[bytes], None] = lambda _: None
        self._on_lost: Callable[[str], None] = lambda _: None

    async def open(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Start the program. Raises `ToolError` when it cannot be started."""
        self._on_message, self._on_lost = on_message, on_lost
        try:
            self._log = await asyncio.to_thread(ProgramLog, self._program.log, self._program.redact)
            await self._start_program()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ToolError(
                f"its program {self._program.command} could not be started in {self._program.folder}: {reason}"
            ) from None

    async def _start_program(self) -> None:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            pipes = [os.pipe() for _ in range(3)]
            for near, far in ((pipes[0][1], pipes[0][0]), pipes[1], pipes[2]):
                ours.callback(os.close, near)
                theirs.callback(os.close, far)
                os.set_blocking(near, False)
            self._process_tree = await self._spawn_program(pipes[0][0], pipes[1][1], pipes[2][1])
            ours.pop_all()
        self._input = PipeWriter(pipes[0][1])
        self._handles = [pipes[1][0], pipes[2][0]]
        self._loop.add_reader(pipes[1][0], self._read_output, pipes[1][0])
        self._loop.add_reader(pipes[2][0], self._read_errors, pipes[2][0])
        self._process_tree.set_change_callback(self._check_ended)
        self._check_ended()  # it may have ended meanwhile

    async def _spawn_program(self, source: int, output: int, errors: int) -> ProcessTree:
        program = self._program
        request = LaunchRequest(
            folder=program.folder,
            arguments=(*_SHELL_CALL, program.command, *program.arguments),
            environment=program.environment,
            source=source,
            output=output,
            extra_handles=(errors, *program.handles),
        )
        started = await self._supervisors.start(request)
        if started is None and program.handles:
            raise OSError("there is no supervisor for it here")
        return started or _start_unsupervised(program, (source, output, errors))

    async def send_line(self, message: bytes) -> None:
        """Send a line, without waiting until it is read. Raises `ToolError` when too much is unread."""
        if self._input is not None:
            if self._input.waiting_bytes > _UNREAD_MESSAGES * self._program.message_limit:
                raise ToolError("it does not read what it is sent")
            self._input.write(message + b"\n")
        if self._input is None or self._input.is_closed:
            await asyncio.sleep(_EXIT_SECONDS)  # why it does not is learnt in a moment
            code = self._process_tree.code if self._process_tree is not None else None
            raise ToolError("it takes no messages any more" if code is None else self._describe_end(code))

    async def close(self) -> None:
        """End its input, then the program, with all that it started; cancelling this kills at once."""
        if self._input is not None:
            self._input.close()
        if self._handles:
            self._loop.remove_reader(self._handles[0])  # nobody listens, and it may print without end
        tree = self._process_tree
        try:
            gone = tree is None or await tree.wait_until_gone(_EXIT_SECONDS)
            for signum, patience in _STOP_STEPS:
                if tree is None or gone:
                    break
                await tree.send_signal(signum)
                gone = await tree.wait_until_gone(patience)
        finally:
            if tree is not None and tree.is_alive():
                tree.kill()
            for handle in self._handles:
                self._loop.remove_reader(handle)
                os.close(handle)
            self._handles = []
            if self._log is not None:
                self._log.close()
                self._log = None

    def _check_ended(self) -> None:
        """Report the loss if the first process has ended, whatever else it left."""
        if self._process_tree is not None and self._process_tree.code is not None:
            self._loop.call_later(_LAST_OUTPUT_SECONDS, self._on_lost, self._describe_end(self._process_tree.code))

    def _describe_end(self, code: int) -> str:
        # A program that was started may end with such a code, too: that of another one, which it did not find.
        path = self._program.environment.get("PATH")
        if code in _START_ERRORS and shutil.which(self._program.command, path=path) is None:
            return N_(
                "its program {command} {START_ERRORS} (exit code {code})",
                command=self._program.command,
                START_ERRORS=_START_ERRORS[code],
                code=code,
            )
        how = (
            N_("was killed by signal {code}", code=-code) if code < 0 else N_("ended with exit code {code}", code=code)
        )
        return N_("its program {how}; its output is in {log}", how=how, log=self._program.log)

    def _read_output(self, handle: int) -> None:
        data = _read_available(handle)
        if data is None:
            return
        try:
            for line in self._lines.feed(data):
                self._on_message(line)
        except ValueError:
            data = b""
            self._on_lost(
                N_(
                    "it sent a message of more than {MAX_MESSAGE_BYTES} MB",
                    MAX_MESSAGE_BYTES=self._program.message_limit >> 20,
                )
            )
        if not data:
            self._loop.remove_reader(handle)
            self._loop.call_later(_EXIT_SECONDS, self._on_lost, "it closed its output")

    def _read_errors(self, handle: int) -> None:
        data = _read_available(handle)
        if data and self._log is not None:
            self._log.write(data)
            self._error_bytes += len(data)
            if 0 < self._program.error_limit < self._error_bytes:
                self._loop.remove_reader(handle)
                self._on_lost(
                    N_("it printed more than {limit} kB on its error stream", limit=self._program.error_limit >> 10)
                )
        elif data == b"":
            self._loop.remove_reader(handle)


def _start_unsupervised(program: LineProgram, streams: tuple[int, int, int]) -> UnsupervisedProcess:
    return UnsupervisedProcess(
        subprocess.Popen(
            (program.command, *program.arguments),
            cwd=program.folder,
            env=program.environment,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
        )
    )


def _read_available(handle: int) -> bytes | None:
    """Return what can be read; empty at the end, None when there is nothing yet."""
    try:
        return os.read(handle, _READ_SIZE)
    except BlockingIOError:
        return None
    except OSError:
        return b""
