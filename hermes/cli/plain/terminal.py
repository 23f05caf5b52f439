"""Lines from a terminal, a pipe or a file, without blocking the event loop."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from enum import Enum
from typing import Protocol

from hermes.cli.errors import complain

LINE_LIMIT = 4095
"""Bytes after which the kernel drops what is typed into a line that nobody edits (N_TTY_BUF_SIZE - 1)."""

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Key(Enum):
    """What comes instead of a line."""

    END = "the input has ended"
    BREAK = "Ctrl-C at an empty prompt"
    CLEARED = "Ctrl-C threw away what was typed"


class Source(Protocol):
    """Where a person's lines come from."""

    @property
    def typed(self) -> bool:
        """Whether a person sits there: greetings and prompts are for them only."""
        ...

    def shown(self) -> str:
        """The prompt that waits, with what was typed behind it where that is known; empty while none does."""
        ...

    async def next(self, prompt: str) -> str | Key:
        """The next line without its end."""
        ...

    def during(self, stop: Callable[[], object]) -> AbstractContextManager[None]:
        """A context in which Ctrl-C calls `stop` in the event loop's thread."""
        ...


class Lines:
    """Reads lines from a file descriptor that it does not own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._ended = False

    async def next(self) -> str | None:
        """The next line without its end; None when there are no more."""
        while b"\n" not in self._buffer and not self._ended:
            await self._readable()
            try:
                chunk = os.read(self._descriptor, 65536)
            except OSError:
                chunk = b""
            self._buffer += chunk
            self._ended = not chunk
        line, found, self._buffer = self._buffer.partition(b"\n")
        if not found and not line:
            return None
        return line.decode("utf-8", "replace").rstrip("\r")

    def forget(self) -> None:
        """Throw away what was typed and not read: it cannot be the answer to a question that was not shown yet."""
        self._buffer = b""
        with contextlib.suppress(termios.error):
            termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(self._descriptor, _set, ready)
        except PermissionError:
            return  # a regular file: it cannot be waited for, and never needs to be
        try:
            await ready
        finally:
            loop.remove_reader(self._descriptor)


class PlainInput:
    """Standard input, read by an event loop in the main thread: a pipe, a file, or a terminal without readline."""

    def __init__(self) -> None:
        self.typed = sys.stdin.isatty()
        self._lines = Lines(sys.stdin.fileno())
        self._shown = ""

    def shown(self) -> str:
        """The prompt that waits."""
        return self._shown

    async def next(self, prompt: str) -> str | Key:
        """The next line; the prompt goes to standard error, and only where a person types."""
        while True:
            if self.typed:
                sys.stderr.write(prompt)
                sys.stderr.flush()
                self._shown = prompt
            try:
                line = await self._lines.next()
            finally:
                self._shown = ""
            if line is None:
                return Key.END
            if not self.typed or len(line.encode()) < LINE_LIMIT:
                return line
            complain(f"A line this long is cut by the terminal at {LINE_LIMIT:,} bytes; it was not sent.")

    @contextlib.contextmanager
    def during(self, stop: Callable[[], object]) -> Iterator[None]:
        """Ctrl-C, SIGTERM and a terminal that is closed call `stop`."""
        loop = asyncio.get_running_loop()
        # What the one who started us lets us ignore (nohup) stays ignored.
        numbers = [one for one in STOPPING if signal.getsignal(one) is not signal.SIG_IGN]
        for number in numbers:
            loop.add_signal_handler(number, stop)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


@contextlib.contextmanager
def terminal_kept(descriptor: int) -> Iterator[None]:
    """Leave the terminal's modes as they were."""
    try:
        before = termios.tcgetattr(descriptor)
    except termios.error:
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


def set_modes(descriptor: int, *, lines: bool, echo: bool) -> None:
    """Choose whether the terminal gives whole lines, and whether it shows what is typed.

    With `lines` it drops what is over `LINE_LIMIT`, and turns Ctrl-D into an end; without, every key waits to be read.
    """
    with contextlib.suppress(termios.error):
        before = termios.tcgetattr(descriptor)
        after = list(before)
        after[3] &= ~(termios.ICANON | termios.ECHO)
        after[3] |= (termios.ICANON if lines else 0) | (termios.ECHO if echo else 0)
        # Changing nothing must not stop a job in the background (SIGTTOU).
        if after != before:
            termios.tcsetattr(descriptor, termios.TCSANOW, after)


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
