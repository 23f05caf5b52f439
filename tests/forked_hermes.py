"""Runs `hermes` in a fork of a process that has imported it already: `run_hermes`.

A command that runs for a moment spends most of it on the start of its interpreter and on imports. A fork is a process
of its own all the same, with its own words, streams, environment, folder and exit code. What a test says about the
start of the program, about its parent or about its command line as others see it needs an interpreter of its own:
`TempHome.run`.
"""

import asyncio
import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from pathlib import Path

from hermes.testing.home import ProgramResult, TempHome

_ROOT = Path(__file__).parents[1]
_READ_AT_START = "LC_", "PYTHON"
"""What the names of variables begin with that an interpreter reads when it starts.

It reads `LANG`, too, of which only the encoding matters here: the language is for the program.
"""
_SERVER_VARIABLES = {"LANG": "C.UTF-8", "PYTHONPATH": str(_ROOT)}


async def run_hermes(home: TempHome, *words: str, stdin: bytes = b"", timeout: float = 60.0) -> ProgramResult:  # noqa: ASYNC109 - a test's limit
    """Run `hermes` with these words in a home, as `home.run(sys.executable, "-m", "hermes", *words)` does."""
    if not can_fork(home.environ):
        return await home.run(sys.executable, "-m", "hermes", *words, stdin=stdin, timeout=timeout)
    process = await start_hermes(home, *words, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate(stdin)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return ProgramResult(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))


class ForkedProcess:
    """A fork that runs `hermes`; what it has is what `asyncio.subprocess.Process` has."""

    def __init__(self, pid: int, told: asyncio.StreamReader, line: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._ending = asyncio.create_task(self._read_exit_code(told, line))

    async def _read_exit_code(self, told: asyncio.StreamReader, line: asyncio.StreamWriter) -> None:
        try:
            self.returncode = int(await told.readline())
        finally:
            line.close()

    async def wait(self) -> int:
        await asyncio.shield(self._ending)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and its exit code has not come yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def communicate(self, data: bytes = b"") -> tuple[bytes, bytes]:
        """Write to its standard input, which need not be read, read what it prints, and wait for its end."""
        if self.stdin is not None:
            self.stdin.write(data)
        readers = [one.read() for one in (self.stdout, self.stderr) if one is not None]
        *printed, _ = await asyncio.gather(*readers, self._close_input())
        await self.wait()
        out, err = [*printed, b"", b""][:2]
        return out, err

    async def _close_input(self) -> None:
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                await self.stdin.drain()
                self.stdin.close()
                await self.stdin.wait_closed()


async def start_hermes(
    home: TempHome,
    *words: str,
    stdin: int = DEVNULL,
    stdout: int = DEVNULL,
    stderr: int = DEVNULL,
    terminal: int | None = None,
    code_text: str = "",
) -> ForkedProcess:
    """Start `hermes` (or `python -c` with a text) and these words in a home, as `asyncio.create_subprocess_exec` would.

    Its streams are handles, `PIPE` or `DEVNULL`; with a `terminal` it begins a session that this one controls.
    """
    ours: list[int] = []
    line, far_line = socket.socketpair()
    with contextlib.ExitStack() as theirs:
        theirs.enter_context(far_line)
        handles = [far_line.fileno()]
        for number, wanted in enumerate((stdin, stdout, stderr)):
            near, far = _open_stream(number, wanted)
            ours.append(near)
            handles.append(far)
            if far != wanted:
                theirs.callback(os.close, far)
        socket.send_fds(_start_server(), [b"x"], handles if terminal is None else [*handles, terminal])
    told, orders = await asyncio.open_connection(sock=line)
    orders.write(json.dumps([words, home.environ, str(home.cwd), code_text]).encode() + b"\n")
    process = ForkedProcess(int(await told.readline()), told, orders)
    if stdin == PIPE:
        _, process.stdin = await asyncio.open_connection(sock=socket.socket(fileno=ours[0]))
    process.stdout, process.stderr = [await _open_reader(one) if one >= 0 else None for one in ours[1:]]
    return process


def can_fork(environ: Mapping[str, str]) -> bool:
    """Return whether an interpreter that starts with these variables is as the one that forks."""
    read = {name: environ[name] for name in environ if name.startswith(_READ_AT_START)}
    return {**read, "LANG": "C.UTF-8"} == _SERVER_VARIABLES and environ.get("LANG", "").endswith(".UTF-8")


def _open_stream(number: int, wanted: int) -> tuple[int, int]:
    """Return our end (or -1) and the process's own of a standard stream."""
    if wanted == DEVNULL:
        return -1, os.open(os.devnull, os.O_RDWR)
    if wanted != PIPE:
        return -1, wanted
    if number:
        return os.pipe()
    near, far = socket.socketpair()  # as asyncio has it
    return near.detach(), far.detach()


@functools.cache
def _start_server() -> socket.socket:
    """Start the process that forks; it ends with this one. Return its control socket."""
    control, far = socket.socketpair()
    with far:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", str(far.fileno())],
            cwd=_ROOT,
            env={"PATH": os.environ["PATH"], **_SERVER_VARIABLES},
            pass_fds=[far.fileno()],
            stdin=subprocess.DEVNULL,
        )

    def end() -> None:
        control.close()
        process.wait()

    atexit.register(end)
    return control


async def _open_reader(handle: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(handle, "rb", 0)
    )
    return reader
