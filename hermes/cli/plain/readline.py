"""A person at a terminal: the main thread edits lines with readline, the event loop runs in a thread of its own.

Readline blocks the thread that reads, and Python runs signal handlers in the main thread only. So the main thread reads
and hears Ctrl-C, and the conversation runs beside it. Nothing reads the terminal while a turn runs: then it belongs to
the questions of `hermes.cli.plain.prompts`.
"""

import asyncio
import contextlib
import io
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from queue import SimpleQueue
from types import FrameType

from hermes.cli.plain.terminal import Key, set_modes, terminal_kept

STOPPED = 130
NUDGE = signal.SIGURG
"""A signal that means nothing to anybody: it only ends a wait."""
NUDGES = (0.02, 0.1, 0.5)
"""Seconds after a signal."""
_Question = tuple[str, "asyncio.Future[str | Key]"]


def keyboard(term: str) -> "Keyboard | None":
    """The keyboard, when both ends of the conversation are a terminal and this Python has readline; `term` is $TERM."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        import readline
    except ImportError:
        return None
    if "libedit" not in (readline.__doc__ or ""):
        plain = term in ("", "dumb", "unknown")
        readline.parse_and_bind(f"set enable-bracketed-paste {'off' if plain else 'on'}")
        readline.parse_and_bind("set enable-meta-key off")
    lenient()
    return Keyboard(readline.get_line_buffer)


def lenient() -> None:
    """Have bytes that are no text read as marks. It can be done before the first line is read only."""
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
        sys.stdin.reconfigure(errors="replace")


class Keyboard:
    """A `Source` whose lines are edited in the main thread.

    `serve` belongs to the main thread, everything else to the loop's. Ctrl-C stops the turn that runs; at the prompt
    it comes back as a `Key`; before the first prompt it ends the conversation. SIGTERM and SIGHUP end it at any time,
    by cancellation, with the terminal as it was.
    """

    typed = True

    def __init__(self, line_so_far: Callable[[], str]) -> None:
        self._line_so_far = line_so_far
        self._descriptor = sys.stdin.fileno()
        self._wanted: SimpleQueue[_Question | None] = SimpleQueue()
        self._reading = False
        self._prompt = ""
        self._rest = ""
        """What stood in the line when Ctrl-C came."""
        self._heard, self._written = socket.socketpair()
        """Where the interpreter writes every signal as it comes."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[int] | None = None
        self._stop: Callable[[], object] | None = None
        self._prompted = False
        self._ending = False

    def serve(self, conversation: Coroutine[object, object, int]) -> int:
        """Run the conversation beside this thread and read for it; returns its result or raises its error."""
        with self._signals(), terminal_kept(self._descriptor), ThreadPoolExecutor(1, "conversation") as thread:
            # What was chosen here, the language above all, holds in that thread, too.
            ended = thread.submit(copy_context().run, asyncio.run, self._hold(conversation))
            ended.add_done_callback(lambda _: self._wanted.put(None))
            while (question := self._wanted.get()) is not None:
                self._answer(*question)
            try:
                return ended.result()
            except asyncio.CancelledError:
                return STOPPED

    def shown(self) -> str:
        """The prompt that waits, with what was typed behind it; empty while nobody is asked to type."""
        return f"{self._prompt}{self._line_so_far()}" if self._reading else ""

    async def next(self, prompt: str) -> str | Key:
        """Have the main thread read a line.

        From the first one on the terminal keeps keys, not lines: what is typed or pasted while nobody reads stays
        whole. Readline echoes only where the terminal does.
        """
        self._prompted = True
        set_modes(self._descriptor, lines=False, echo=True)
        answer: asyncio.Future[str | Key] = asyncio.get_running_loop().create_future()
        self._wanted.put((prompt, answer))
        return await answer

    @contextlib.contextmanager
    def during(self, stop: Callable[[], object]) -> Iterator[None]:
        """Ctrl-C calls `stop`; what is typed meanwhile is not mixed into the answer, but shown at the next prompt."""
        self._stop = stop
        set_modes(self._descriptor, lines=False, echo=False)
        try:
            yield
        finally:
            self._stop = None

    async def _hold(self, conversation: Coroutine[object, object, int]) -> int:
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._heard, self._signalled)
        self._task = asyncio.ensure_future(conversation)
        if self._ending:
            self._task.cancel()
        try:
            return await self._task
        finally:
            self._loop.remove_reader(self._heard)
            self._loop = None

    # The main thread.

    def _answer(self, prompt: str, answer: "asyncio.Future[str | Key]") -> None:
        try:
            line = self._line(prompt)
        except SystemExit:
            return  # SIGTERM or SIGHUP: the conversation is being cancelled
        self._tell(_give, answer, line)

    def _line(self, prompt: str) -> str | Key:
        try:
            self._prompt = prompt
            self._reading = True
            try:
                return input(prompt)
            finally:
                self._reading = False
        except (EOFError, OSError):
            key = Key.END
        except KeyboardInterrupt:
            key = Key.CLEARED if self._rest else Key.BREAK
        with contextlib.suppress(OSError):
            print(flush=True)
        return key

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        handlers = {
            signal.SIGINT: self._interrupted,
            signal.SIGTERM: self._ended,
            signal.SIGHUP: self._ended,
            NUDGE: lambda _number, _frame: None,
        }
        # What the one who started us lets us ignore (nohup) stays ignored.
        wanted = {one: handlers[one] for one in handlers if signal.getsignal(one) is not signal.SIG_IGN}
        before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
        self._heard.setblocking(False)
        self._written.setblocking(False)
        wakeup = signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)
            self._heard.close()
            self._written.close()

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        if self._reading:
            self._reading = False
            self._rest = self._line_so_far()
            raise KeyboardInterrupt
        self._tell(self._stop_turn)

    def _ended(self, _number: int, _frame: FrameType | None) -> None:
        first, self._ending = not self._ending, True
        if first:
            self._tell(self._leave)
        if self._reading:
            self._reading = False
            raise SystemExit

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        """Have something done in the loop's thread; a loop that has just ended needs nothing any more."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(callback, *arguments)

    # The loop's thread.

    def _signalled(self) -> None:
        """Make sure that the main thread runs its handlers.

        A signal that comes just before it begins to wait for a key does not end that wait; one that comes later does.
        """
        if any(number != NUDGE for number in self._heard.recv(4096)):
            for seconds in NUDGES:
                asyncio.get_running_loop().call_later(seconds, _nudge)

    def _stop_turn(self) -> None:
        if self._stop is not None:
            self._stop()
        elif not self._prompted:
            self._leave()

    def _leave(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _nudge() -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, NUDGE)


def _give(answer: "asyncio.Future[str | Key]", line: str | Key) -> None:
    if not answer.done():
        answer.set_result(line)
