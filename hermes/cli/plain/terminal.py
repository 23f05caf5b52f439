"""Read lines from a terminal, a pipe or a file without blocking the event loop."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from enum import Enum
from typing import Protocol, TypeVar

from hermes.cli.output import print_error
from hermes.i18n.messages import N_

MAX_LINE_BYTES = 4095
"""Bytes after which the kernel drops what is typed into a line that no program edits (N_TTY_BUF_SIZE - 1)."""

T = TypeVar("T")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InputSignal(Enum):
    """What `read_line` returns instead of a line."""

    END = "the input has ended"
    BREAK = "Ctrl-C at an empty prompt"
    CLEARED = "Ctrl-C threw away what was typed"


class LineSource(Protocol):
    """A source of a person's input lines."""

    @property
    def interactive(self) -> bool:
        """Whether a person sits at the input: greetings and prompts are for them only."""
        ...

    def current_prompt(self) -> str:
        """Return the waiting prompt, with what was typed behind it where that is known; empty while none waits."""
        ...

    async def read_line(self, prompt: str) -> str | InputSignal:
        """Read the next line, without its end, or the signal that came instead."""
        ...

    def handle_interrupts(self, stop: Callable[[], object]) -> AbstractContextManager[None]:
        """Return a context in which Ctrl-C calls `stop` in the event loop's thread."""
        ...


class DescriptorLineReader:
    """Reads lines from a file descriptor that it does not own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._ended = False

    async def read_line(self) -> str | None:
        """Read the next line without its end; None when there are no more."""
        while b"\n" not in self._buffer and not self._ended:
            await self._wait_readable()
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

    def discard_input(self) -> None:
        """Throw away what was typed and not read: it cannot be the answer to a question that was not shown yet."""
        self._buffer = b""
        with contextlib.suppress(termios.error):
            termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def _wait_readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(self._descriptor, _resolve_future, ready)
        except PermissionError:
            return  # a regular file: it cannot be waited for, and never needs to be
        try:
            await ready
        finally:
            loop.remove_reader(self._descriptor)


class PlainInput:
    """Standard input, read by an event loop in the main thread: a pipe, a file, or a terminal without readline."""

    def __init__(self) -> None:
        self.interactive = sys.stdin.isatty()
        self._lines = DescriptorLineReader(sys.stdin.fileno())
        self._current_prompt = ""

    def current_prompt(self) -> str:
        """Return the waiting prompt."""
        return self._current_prompt

    async def read_line(self, prompt: str) -> str | InputSignal:
        """Read the next line. The prompt goes to standard error, and only where a person types."""
        while True:
            if self.interactive:
                sys.stderr.write(prompt)
                sys.stderr.flush()
                self._current_prompt = prompt
            try:
                line = await self._lines.read_line()
            finally:
                self._current_prompt = ""
            if line is None:
                return InputSignal.END
            if not self.interactive or len(line.encode()) < MAX_LINE_BYTES:
                return line
            print_error(
                N_(
                    "A line this long is cut by the terminal at {MAX_LINE_BYTES} bytes; it was not sent.",
                    MAX_LINE_BYTES=format(MAX_LINE_BYTES, ","),
                )
            )

    def handle_interrupts(self, stop: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `stop` on Ctrl-C, SIGTERM and a closed terminal while the context lasts."""
        return handle_signals(dict.fromkeys(STOP_SIGNALS, stop))


def run_stoppable(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine that handles the stop signals itself (`handle_signals`) in an event loop, and return its result.

    A signal that comes before the coroutine handles it waits until then. A handler that raises, such as Python's own of
    Ctrl-C, would otherwise raise it between two steps of the loop: the step that was due is lost, and so the loop
    waits for ever.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        return asyncio.run(work)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def handle_signals(handlers: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    """Call a function of the event loop's thread for each signal while the context lasts. What the one who started us
    lets us ignore (nohup) stays ignored.
    """
    loop = asyncio.get_running_loop()
    before = {one: handler for one in handlers if (handler := signal.getsignal(one)) is not signal.SIG_IGN}
    for number in before:
        loop.add_signal_handler(number, handlers[number])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, before)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler or signal.SIG_DFL)


def ignore_signals(numbers: Iterable[signal.Signals]) -> None:
    """Ignore these signals until the process ends."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def open_controlling_terminal() -> Iterator[int | None]:
    """Open /dev/tty while the context lasts; None when this process has no terminal."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def preserve_terminal_modes(descriptor: int) -> Iterator[None]:
    """Restore the terminal's modes when the context ends."""
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


def set_terminal_modes(descriptor: int, *, lines: bool, echo: bool) -> None:
    """Choose whether the terminal gives whole lines, and whether it shows what is typed.

    With `lines` it drops what is over `MAX_LINE_BYTES`, and turns Ctrl-D into an end; without, every key
    waits to be read.
    """
    with contextlib.suppress(termios.error):
        before = termios.tcgetattr(descriptor)
        after = list(before)
        after[3] &= ~(termios.ICANON | termios.ECHO)
        after[3] |= (termios.ICANON if lines else 0) | (termios.ECHO if echo else 0)
        # Changing nothing must not stop a job in the background (SIGTTOU).
        if after != before:
            termios.tcsetattr(descriptor, termios.TCSANOW, after)


def _resolve_future(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
