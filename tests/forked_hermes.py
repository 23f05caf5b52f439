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
from pathlib import Path

from hermes.testing.home import ProgramResult, TempHome

_ROOT = Path(__file__).parents[1]
_READ_AT_START = "LANG", "LC_", "PYTHON"
"""What the names of variables begin with that an interpreter reads when it starts."""
_SERVER_VARIABLES = {"LANG": "C.UTF-8", "PYTHONPATH": str(_ROOT)}


async def run_hermes(home: TempHome, *words: str, stdin: bytes = b"", timeout: float = 60.0) -> ProgramResult:  # noqa: ASYNC109 - a test's limit
    """Run `hermes` with these words in a home, as `home.run(sys.executable, "-m", "hermes", *words)` does."""
    environ = home.environ
    if {name: environ[name] for name in environ if name.startswith(_READ_AT_START)} != _SERVER_VARIABLES:
        return await home.run(sys.executable, "-m", "hermes", *words, stdin=stdin, timeout=timeout)
    line, typed, *printed = _order_fork()
    told, orders = await asyncio.open_connection(sock=line)
    orders.write(json.dumps([words, environ, str(home.cwd)]).encode() + b"\n")
    process = int(await told.readline())
    ended = asyncio.create_task(told.readline())
    try:
        async with asyncio.timeout(timeout):
            out, err, _ = await asyncio.gather(*map(_read_pipe, printed), _write_all(typed, stdin))
            code = int(await asyncio.shield(ended))
    finally:
        if not ended.done():
            os.kill(process, signal.SIGKILL)
            await ended
        orders.close()
        await orders.wait_closed()
    return ProgramResult(code, out.decode(errors="replace"), err.decode(errors="replace"))


def _order_fork() -> tuple[socket.socket, socket.socket, int, int]:
    """Have a process forked; return its line to the server, and the other ends of its three standard streams."""
    line, far_line = socket.socketpair()
    typed, stdin = socket.socketpair()
    (out, stdout), (err, stderr) = os.pipe(), os.pipe()
    with far_line, stdin:
        socket.send_fds(_start_server(), [b"x"], [far_line.fileno(), stdin.fileno(), stdout, stderr])
    os.close(stdout)
    os.close(stderr)
    return line, typed, out, err


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


async def _read_pipe(handle: int) -> bytes:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(handle, "rb", 0)
    )
    try:
        return await reader.read()
    finally:
        transport.close()


async def _write_all(end: socket.socket, data: bytes) -> None:
    """Write to a standard input and close it; a program need not read all."""
    with end, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        end.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(end, data)
