"""Read a person's lines at a terminal: the main thread edits with readline, the event loop runs in a thread of its own.

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

from hermes.cli.output import EXIT_INTERRUPTED
from hermes.cli.plain.terminal import InputSignal, preserve_terminal_modes, set_terminal_modes

NUDGE_SIGNAL = signal.SIGURG
"""A signal that no program uses; it only ends a wait."""
NUDGE_DELAYS = (0.02, 0.1, 0.5)
"""Seconds after a signal at which the main thread is nudged."""
_LineRequest = tuple[str, "asyncio.Future[str | InputSignal]"]


def open_readline_input(term: str) -> "ReadlineInput | None":
    """Return the readline input when both ends of the conversation are a terminal and this Python has readline;
    `term` is $TERM.
    """
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
    tolerate_invalid_input()
    return ReadlineInput(readline.get_line_buffer)


def tolerate_invalid_input() -> None:
    """Have bytes that are no valid text read as replacement marks. Only possible before the first line is read."""
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
        sys.stdin.reconfigure(errors="replace")


class ReadlineInput:
    """A `LineSource` whose lines are edited in the main thread.

    `run_conversation` belongs to the main thread, everything else to the loop's. Ctrl-C stops the turn that
    runs; at the prompt it comes back as an `InputSignal`; before the first prompt it ends the conversation.
    SIGTERM and SIGHUP end it at any time, by cancellation, with the terminal's modes restored.
    """

    interactive = True

    def __init__(self, line_so_far: Callable[[], str]) -> None:
        self._line_so_far = line_so_far
        self._descriptor = sys.stdin.fileno()
        self._requests: SimpleQueue[_LineRequest | None] = SimpleQueue()
        self._reading = False
        self._prompt = ""
        self._interrupted_text = ""
        """The text of the line in which Ctrl-C came."""
        self._signal_receiver, self._signal_sender = socket.socketpair()
        """The socket from which the loop reads every signal that the interpreter writes."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[int] | None = None
        self._stop: Callable[[], object] | None = None
        self._prompted = False
        self._ending = False

    def run_conversation(self, conversation: Coroutine[object, object, int]) -> int:
        """Run the conversation beside this thread and read lines for it. Return its result or raise its error."""
        with (
            self._install_signal_handlers(),
            preserve_terminal_modes(self._descriptor),
            ThreadPoolExecutor(1, "conversation") as thread,
        ):
            # What was chosen here, the language above all, holds in that thread, too.
            ended = thread.submit(copy_context().run, asyncio.run, self._run_in_loop(conversation))
            ended.add_done_callback(lambda _: self._requests.put(None))
            while (question := self._requests.get()) is not None:
                self._answer_request(*question)
            try:
                return ended.result()
            except asyncio.CancelledError:
                return EXIT_INTERRUPTED

    def current_prompt(self) -> str:
        """Return the waiting prompt with what was typed behind it; empty while nobody is asked to type."""
        return f"{self._prompt}{self._line_so_far()}" if self._reading else ""

    async def read_line(self, prompt: str) -> str | InputSignal:
        """Have the main thread read a line.

        From the first one on the terminal keeps keys, not lines: what is typed or pasted while nobody reads stays
        whole. Readline echoes only where the terminal does.
        """
        self._prompted = True
        set_terminal_modes(self._descriptor, lines=False, echo=True)
        answer: asyncio.Future[str | InputSignal] = asyncio.get_running_loop().create_future()
        self._requests.put((prompt, answer))
        return await answer

    @contextlib.contextmanager
    def handle_interrupts(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call `stop` on Ctrl-C. What is typed meanwhile is not mixed into the answer, but shown at the next prompt."""
        self._stop = stop
        set_terminal_modes(self._descriptor, lines=False, echo=False)
        try:
            yield
        finally:
            self._stop = None

    async def _run_in_loop(self, conversation: Coroutine[object, object, int]) -> int:
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._signal_receiver, self._on_signal)
        self._task = asyncio.ensure_future(conversation)
        if self._ending:
            self._task.cancel()
        try:
            return await self._task
        finally:
            self._loop.remove_reader(self._signal_receiver)
            self._loop = None

    # The main thread.

    def _answer_request(self, prompt: str, answer: "asyncio.Future[str | InputSignal]") -> None:
        try:
            line = self._read_input(prompt)
        except SystemExit:
            return  # SIGTERM or SIGHUP: the conversation is being cancelled
        self._call_in_loop(_resolve_answer, answer, line)

    def _read_input(self, prompt: str) -> str | InputSignal:
        try:
            self._prompt = prompt
            self._reading = True
            try:
                return input(prompt)
            finally:
                self._reading = False
        except (EOFError, OSError):
            key = InputSignal.END
        except KeyboardInterrupt:
            key = InputSignal.CLEARED if self._interrupted_text else InputSignal.BREAK
        with contextlib.suppress(OSError):
            print(flush=True)
        return key

    @contextlib.contextmanager
    def _install_signal_handlers(self) -> Iterator[None]:
        handlers = {
            signal.SIGINT: self._on_interrupt,
            signal.SIGTERM: self._on_termination,
            signal.SIGHUP: self._on_termination,
            NUDGE_SIGNAL: lambda _number, _frame: None,
        }
        # What the one who started us lets us ignore (nohup) stays ignored.
        wanted = {one: handlers[one] for one in handlers if signal.getsignal(one) is not signal.SIG_IGN}
        before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
        self._signal_receiver.setblocking(False)
        self._signal_sender.setblocking(False)
        wakeup = signal.set_wakeup_fd(self._signal_sender.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)
            self._signal_receiver.close()
            self._signal_sender.close()

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._reading:
            self._reading = False
            self._interrupted_text = self._line_so_far()
            raise KeyboardInterrupt
        self._call_in_loop(self._stop_turn)

    def _on_termination(self, _number: int, _frame: FrameType | None) -> None:
        first, self._ending = not self._ending, True
        if first:
            self._call_in_loop(self._cancel_conversation)
        if self._reading:
            self._reading = False
            raise SystemExit

    def _call_in_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        """Run a callback in the loop's thread; a loop that has just ended is ignored."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(callback, *arguments)

    # The loop's thread.

    def _on_signal(self) -> None:
        """Make sure that the main thread runs its signal handlers.

        A signal that comes just before the thread begins to wait for a key does not end that wait; one that comes later
        does.
        """
        if any(number != NUDGE_SIGNAL for number in self._signal_receiver.recv(4096)):
            for seconds in NUDGE_DELAYS:
                asyncio.get_running_loop().call_later(seconds, _nudge_main_thread)

    def _stop_turn(self) -> None:
        if self._stop is not None:
            self._stop()
        elif not self._prompted:
            self._cancel_conversation()

    def _cancel_conversation(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _nudge_main_thread() -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, NUDGE_SIGNAL)


def _resolve_answer(answer: "asyncio.Future[str | InputSignal]", line: str | InputSignal) -> None:
    if not answer.done():
        answer.set_result(line)
