"""A server that is a program: started under a warden, spoken to over its standard streams, one message a line."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.local import Tree
from hermes.execution.supervisor import Order, Wardens
from hermes.execution.unsupervised import Direct
from hermes.mcp.rpc import MAX_MESSAGE

_CHUNK = 65_536
_UNREAD = 4 * MAX_MESSAGE
"""Bytes that may wait for a program that does not read its input."""
_LAST_WORDS = 0.05
"""Seconds between a program's end and ours of listening: what it said last is still on its way then."""
_PATIENCE = ((signal.SIGTERM, 1.0), (signal.SIGKILL, 2.0))
_LEAVE = 0.5
"""Seconds that a program may take to end by itself when its input or its output has ended."""
_SHELL = ("/bin/sh", "-c", 'exec "$@" 2>&4 4>&-', "sh")
"""A warden gives one output for both streams; here the messages of errors go their own way."""
_CANNOT = {126: "cannot be run", 127: "cannot be found"}
LOG_BYTES = 256 * 1024


class Program(Struct, frozen=True, kw_only=True):
    """What to start; `environment` is all that it gets. What it says on standard error goes to `log`,
    without secrets."""

    command: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    log: Path
    redact: Callable[[str], str]


class Lines:
    """Cuts bytes into lines. Raises ValueError for one that is too long."""

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, empty ones left out."""
        self._rest += data
        lines: list[bytes] = []
        if b"\n" in data:
            *whole, rest = bytes(self._rest).split(b"\n")
            lines = [line for one in whole if (line := one.strip())]
            self._rest = bytearray(rest)
        if len(self._rest) > self._limit or any(len(line) > self._limit for line in lines):
            raise ValueError
        return lines


class Log:
    """A file of a bounded size, private to its owner; when it is full it begins anew.

    Whole lines go through `redact`, which costs: more than the file holds in a minute is not kept.
    """

    def __init__(self, file: Path, redact: Callable[[str], str]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._handle = os.open(file, flags, 0o600)
        self._redact = redact
        self._rest = b""
        self._size = self._taken = 0
        self._minute = 0.0

    def write(self, data: bytes) -> None:
        """Add to it. A full disk loses the words of a server, nothing else."""
        minute = time.monotonic() // 60
        if minute != self._minute:
            self._minute, self._taken = minute, 0
        self._taken += len(data)
        if self._taken > LOG_BYTES:
            return
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if newline or len(self._rest) > _CHUNK:
            self._put(whole + newline if newline else self._rest)
            self._rest = self._rest if newline else b""

    def close(self) -> None:
        """Close the file."""
        self._put(self._rest)
        os.close(self._handle)

    def _put(self, data: bytes) -> None:
        text = self._redact(data.decode("utf-8", "replace")).encode("utf-8", "replace")[-LOG_BYTES:]
        with contextlib.suppress(OSError):
            if self._size + len(text) > LOG_BYTES:
                os.ftruncate(self._handle, 0)
                self._size = 0
            self._size += os.write(self._handle, text)


class StdioLink:
    """The standard streams of a program. It ends with its whole tree when this is closed, and when Hermes dies."""

    answers_in_place = False

    def __init__(self, program: Program, wardens: Wardens) -> None:
        self._program = program
        self._wardens = wardens
        self._loop = asyncio.get_running_loop()
        self._lines = Lines()
        self._tree: Tree | None = None
        self._input: asyncio.WriteTransport | None = None
        self._handles: list[int] = []
        """What is read from: the program's output and its messages of errors."""
        self._log: Log | None = None
        self._received: Callable[[bytes], None] = lambda _: None
        self._lost: Callable[[str], None] = lambda _: None

    async def open(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """Start the program. Raises `ToolError` when it cannot be started."""
        self._received, self._lost = received, lost
        try:
            self._log = await asyncio.to_thread(Log, self._program.log, self._program.redact)
            await self._start()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ToolError(
                f"its program {self._program.command} could not be started in {self._program.folder}: {reason}"
            ) from None

    async def _start(self) -> None:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            pipes = [os.pipe() for _ in range(3)]
            for near, far in ((pipes[0][1], pipes[0][0]), pipes[1], pipes[2]):
                ours.callback(os.close, near)
                theirs.callback(os.close, far)
                os.set_blocking(near, False)
            self._tree = await self._spawn(pipes[0][0], pipes[1][1], pipes[2][1])
            write_end = os.fdopen(os.dup(pipes[0][1]), "wb", 0)
            self._input, _ = await self._loop.connect_write_pipe(asyncio.BaseProtocol, write_end)
            os.close(pipes[0][1])
            ours.pop_all()
        self._handles = [pipes[1][0], pipes[2][0]]
        self._loop.add_reader(pipes[1][0], self._read, pipes[1][0])
        self._loop.add_reader(pipes[2][0], self._read_errors, pipes[2][0])
        self._tree.watch(self._changed)
        self._changed()  # it may have ended meanwhile

    async def _spawn(self, source: int, output: int, errors: int) -> Tree:
        program = self._program
        order = Order(
            folder=program.folder,
            arguments=(*_SHELL, program.command, *program.arguments),
            environment=program.environment,
            source=source,
            output=output,
            others=(errors,),
        )
        return await self._wardens.start(order) or _without_warden(program, (source, output, errors))

    async def agreed(self, version: str) -> None:
        """Nothing changes here."""

    async def send(self, message: bytes) -> None:
        """Send a line, without waiting until it is read. Raises `ToolError` when too much is unread."""
        if self._input is None or self._input.is_closing():
            await asyncio.sleep(_LEAVE)  # why it does not is learnt in a moment
            code = self._tree.code if self._tree is not None else None
            raise ToolError("it takes no messages any more" if code is None else self._ending(code))
        if self._input.get_write_buffer_size() > _UNREAD:
            raise ToolError("it does not read what it is sent")
        self._input.write(message + b"\n")

    async def close(self) -> None:
        """End its input, then it, with all that it started; cancelling this kills at once."""
        if self._input is not None:
            self._input.abort() if self._input.get_write_buffer_size() else self._input.close()
        tree = self._tree
        try:
            gone = tree is None or await tree.gone(_LEAVE)
            for signum, patience in _PATIENCE:
                if tree is None or gone:
                    break
                await tree.signal(signum)
                gone = await tree.gone(patience)
        finally:
            if tree is not None and tree.left():
                tree.kill()
            for handle in self._handles:
                self._loop.remove_reader(handle)
                os.close(handle)
            self._handles = []
            if self._log is not None:
                self._log.close()
                self._log = None

    def _changed(self) -> None:
        """Its first process may have ended: then it is over, whatever else it left."""
        if self._tree is not None and self._tree.code is not None:
            self._loop.call_later(_LAST_WORDS, self._lost, self._ending(self._tree.code))

    def _ending(self, code: int) -> str:
        if code in _CANNOT:
            return f"its program {self._program.command} {_CANNOT[code]} (exit code {code})"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"its program {how}; what it said is in {self._program.log}"

    def _read(self, handle: int) -> None:
        data = _there(handle)
        if data is None:
            return
        try:
            for line in self._lines.feed(data):
                self._received(line)
        except ValueError:
            data = b""
            self._lost(f"it sent a message of more than {MAX_MESSAGE >> 20} MB")
        if not data:
            self._loop.remove_reader(handle)
            self._loop.call_later(_LEAVE, self._lost, "it closed its output")

    def _read_errors(self, handle: int) -> None:
        data = _there(handle)
        if data and self._log is not None:
            self._log.write(data)
        elif data == b"":
            self._loop.remove_reader(handle)


def _without_warden(program: Program, streams: tuple[int, int, int]) -> Direct:
    return Direct(
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


def _there(handle: int) -> bytes | None:
    """What can be read; empty at the end, None when there is nothing yet."""
    try:
        return os.read(handle, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
