"""A program on a pseudo-terminal that is its controlling one."""

import asyncio
import fcntl
import os
import signal
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hermes.testing.home import TempHome
from tests.forked_hermes import ForkedProcess, can_fork, start_hermes

HERMES = "-m", "hermes"


class Screen:
    """What a process shows on its terminal, and a way to type."""

    def __init__(self, master: int, process: asyncio.subprocess.Process | ForkedProcess) -> None:
        self.master = master
        self.process = process
        self.text = ""
        """Everything it has shown so far."""
        self._mark = 0
        self._news = asyncio.Event()
        os.set_blocking(master, False)
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self.master)
        self.text += data.decode("utf-8", "replace")
        self._news.set()

    async def shows(self, text: str) -> None:
        """Wait until it has shown `text`, now or before."""
        await self._until(lambda: text in self.text, text)

    async def shows_next(self, text: str) -> None:
        """Wait until it shows `text` after what was waited for last."""
        await self._until(lambda: text in self.text[self._mark :], text)
        self._mark = self.text.index(text, self._mark) + len(text)

    async def _until(self, condition: Callable[[], bool], text: str) -> None:
        try:
            async with asyncio.timeout(60):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(
                f"{text!r} is not shown: {self.text[: self._mark]!r} then {self.text[self._mark :]!r}"
            ) from None

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    async def paste(self, text: str) -> None:
        """Type more than the terminal takes at once, as fast as it takes it."""
        data = text.encode()
        while data:
            try:
                data = data[os.write(self.master, data) :]
            except BlockingIOError:
                writable = asyncio.Event()
                asyncio.get_running_loop().add_writer(self.master, writable.set)
                try:
                    async with asyncio.timeout(60):
                        await writable.wait()
                finally:
                    asyncio.get_running_loop().remove_writer(self.master)

    async def end(self) -> int:
        async with asyncio.timeout(60):
            return await self.process.wait()


@asynccontextmanager
async def on_a_terminal(
    home: TempHome,
    *arguments: str,
    piped: bool = False,
    program: tuple[str, ...] = HERMES,
    size: tuple[int, int] = (0, 0),
) -> AsyncIterator[Screen]:
    """Run Python with `program` and the arguments on a terminal of its own; `piped`: only as its controlling one.

    `size`: columns and rows; without it the terminal does not know them.
    """
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, size[::-1])
    stdin = asyncio.subprocess.DEVNULL if piped else slave
    shown = asyncio.subprocess.PIPE if piped else slave
    process: asyncio.subprocess.Process | ForkedProcess
    if (program == HERMES or program[0] == "-c") and can_fork(home.environ):
        text = "" if program == HERMES else program[1]
        process = await start_hermes(
            home, *arguments, stdin=stdin, stdout=shown, stderr=shown, terminal=slave, code_text=text
        )
    else:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *program,
            *arguments,
            cwd=home.cwd,
            env=home.environ,
            stdin=stdin,
            stdout=shown,
            stderr=shown,
            start_new_session=True,
            preexec_fn=lambda: _on_its_own(slave),
        )
    try:
        # Our own end of the terminal stays open: a terminal that nobody has open hangs up its reader.
        yield Screen(master, process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        asyncio.get_running_loop().remove_reader(master)
        os.close(master)
        os.close(slave)


def _on_its_own(slave: int) -> None:
    """As a login does: the terminal is the process's, and Ctrl-C works even if the suite runs in the background."""
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
