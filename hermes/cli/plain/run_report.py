"""Write a run for programs: one JSON object at its end (`--json`), or one event a line (`--stream-json`).

A line is written whole and in order by a thread of its own, so that a reader that reads slowly or not at all keeps
neither the turn nor Ctrl-C waiting. `docs/scripting.md` is the description of what is written.
"""

import asyncio
import errno
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from queue import SimpleQueue

import msgspec
from msgspec import Struct

from hermes.cli.output import EXIT_INTERRUPTED, format_error
from hermes.cli.plain.renderer import CheckedAnswer
from hermes.cli.plain.terminal import STOP_SIGNALS
from hermes.core.encoding import Plain, to_json, to_plain
from hermes.core.errors import HermesError
from hermes.core.events import Event, MessageAppended, TurnEnded, TurnStarted
from hermes.core.outcomes import ExitReason
from hermes.core.usage import Usage
from hermes.i18n.messages import localize, tr

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes away; new fields and new types of events do not raise it."""
NOT_STARTED = "not_started"
"""The outcome of a run whose turn never began."""
CRASHED = "internal_error"
"""The outcome of a run that ended with an internal error."""
LOST = "lost"
"""The outcome of a run whose gateway has ended before its turn did."""
INVALID_ANSWER = "invalid_answer"
"""The outcome of a run whose answer does not have the form that `--output-schema` demands."""
_MAX_WAITING_BYTES = 64 << 20
"""Bytes that may wait for a reader; beyond that nobody reads, and the turn is stopped."""
_DRAIN_SECONDS = 2.0
"""Seconds after which a reader that has taken nothing is not waited for any more, after a stop."""


class ReportMode(StrEnum):
    """What is written of a run."""

    JSON = "json"
    STREAM = "stream"


class ReportedEnd(Struct, frozen=True, kw_only=True):
    """How a run ended. `ended` is None where no turn came to its end; `error` says why."""

    exit_code: int
    outcome: str
    ended: TurnEnded | None = None
    error: str = ""
    answer: str = ""
    structured: object = None
    files_changed: tuple[str, ...] | None = None


class LineWriter:
    """Writes lines to standard output in a thread. `on_error` is called there when nothing can be written any more."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[bytes | Callable[[], object]] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self.error: OSError | None = None
        self.on_error: Callable[[], object] | None = None

    def put(self, line: bytes) -> None:
        """Write a line after those before it; nothing once one has failed."""
        with self._lock:
            self._waiting += len(line)
            is_unread = self._waiting > _MAX_WAITING_BYTES
        if self.error is None and is_unread:
            self._fail(OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS)))
        if self.error is None:
            self._send(line)

    async def drain(self, give_up: asyncio.Event) -> None:
        """Wait until all is written or has failed; once `give_up` is set, only as long as the reader goes on
        reading.
        """
        loop = asyncio.get_running_loop()
        written = asyncio.Event()
        self._send(lambda: _call_in_loop(loop, written.set))
        waits = [asyncio.create_task(written.wait()), asyncio.create_task(give_up.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        before = -1
        while not written.is_set() and before != self._waiting:
            before = self._waiting
            await asyncio.wait(waits[:1], timeout=_DRAIN_SECONDS)
        for one in waits:
            one.cancel()

    def drain_now(self) -> None:
        """Wait, without an event loop, until all is written."""
        written = threading.Event()
        self._send(written.set)
        written.wait()

    def _send(self, item: bytes | Callable[[], object]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_lines, name="report", daemon=True)
            self._thread.start()
        self._queue.put(item)

    def _write_lines(self) -> None:
        while True:
            item = self._queue.get()
            if not isinstance(item, bytes):
                item()
                continue
            if self.error is None:
                try:
                    _write_all(item)
                except OSError as error:
                    self._fail(error)
            with self._lock:
                self._waiting -= len(item)

    def _fail(self, error: OSError) -> None:
        self.error = error
        if self.on_error is not None:
            self.on_error()


def _write_all(data: bytes) -> None:
    """Write a line by one call where the system takes it whole, as pipes take short ones."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(1, left) :]
        except BlockingIOError:
            select.select([], [1], [])


def _call_in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(call)


class RunReport:
    """The report of one run. Its last line names the outcome, whatever happened before."""

    def __init__(self, mode: ReportMode) -> None:
        self._mode = mode
        self._writer = LineWriter()
        self._began = time.monotonic()
        self._usage = Usage()
        self._calls = 0
        self._refused = 0
        self._head: Plain = {}
        self._has_begun = False
        self.give_up = asyncio.Event()
        """Set when the person does not wait for a reader any more."""
        self.finished = False
        self.exit_code = EXIT_INTERRUPTED
        """What the last line says, once there is one."""

    @property
    def output_error(self) -> OSError | None:
        """The error after which nothing is written any more: the output is closed or full."""
        return self._writer.error

    def begin(self, *, session_id: str, cwd: str, model: str, provider: str) -> None:
        """Note what is known before the turn. It is written with the first event, once the session is stored."""
        self._head = {"session_id": session_id, "cwd": cwd, "model": model, "provider": provider}

    def on_output_error(self, stop: Callable[[], object]) -> None:
        """Call `stop` in this event loop when nothing can be written any more."""
        loop = asyncio.get_running_loop()
        self._writer.on_error = lambda: _call_in_loop(loop, stop)
        if self._writer.error is not None:
            stop()

    def __call__(self, event: Event) -> None:
        """Write one event of the session. Left out are messages of the transcript, of which
        other events tell, and the turn's end, which the result tells."""
        if self._mode is ReportMode.STREAM and not self.finished and not isinstance(event, MessageAppended | TurnEnded):
            if not self._has_begun:
                from hermes import __version__

                self._has_begun = True
                self._put({"type": "start", "schema": SCHEMA_VERSION, "version": __version__, **self._head})
            plain = to_plain(event)
            if isinstance(event, TurnStarted):
                del plain["text"]  # the caller's own words
            self._put(plain)

    def add_totals(self, ended: TurnEnded) -> None:
        """Count what a turn used. A run has several where the answer had to be asked for again."""
        self._usage += ended.usage
        self._calls += ended.calls
        self._refused += ended.refused

    def finish(self, run: ReportedEnd) -> None:
        """Write the last line; only the first call counts."""
        if self.finished:
            return
        self.finished = True
        self.exit_code = run.exit_code
        self._put(self._build_result(run))

    async def drain(self) -> None:
        """Wait until everything is written, or nobody waits for it any more."""
        await self._writer.drain(self.give_up)

    def drain_now(self) -> None:
        """Wait until everything is written, without an event loop."""
        self._writer.drain_now()

    def _build_result(self, run: ReportedEnd) -> Plain:
        ended, usage = run.ended, self._usage
        result: Plain = {
            "type": "result",
            "schema": SCHEMA_VERSION,
            "outcome": run.outcome,
            "completed": run.outcome in (ExitReason.TEXT_RESPONSE, ExitReason.PRIOR_CONTENT),
            "exit_code": run.exit_code,
            "answer": run.answer,
            "result": run.answer,
            "error": run.error or None,
            "session_id": None,
            **self._head,
            "turn_id": ended.turn_id if ended is not None else None,
            "calls": self._calls,
            "refused": self._refused,
            "usage": {
                "input_tokens": usage.input - usage.cache_read - usage.cache_write,
                "output_tokens": usage.output,
                "cache_read_tokens": usage.cache_read,
                "cache_write_tokens": usage.cache_write,
                "reasoning_tokens": usage.reasoning,
                "total_tokens": usage.total,
            },
            "cost_usd": ended.cost.usd if ended is not None else None,
            "cost_status": ended.cost.certainty.value if ended is not None else None,
            "files_changed": None if run.files_changed is None else list(run.files_changed),
            "seconds": round(time.monotonic() - self._began, 3),
        }
        return result if run.structured is None else {**result, "structured": run.structured}

    def _put(self, plain: Plain) -> None:
        try:
            line = to_json(plain)
        except (UnicodeEncodeError, msgspec.MsgspecError):  # lone surrogates, as in the names of files
            import json

            line = json.dumps(to_plain(plain)).encode()
        self._writer.put(line + b"\n")


async def report_turn(
    report: RunReport, checked: CheckedAnswer, code: int, files_changed: tuple[str, ...] | None
) -> None:
    """Write the last line of a report: how the turn ended."""
    ended = checked.ended
    problem = checked.problem and tr(
        "The answer does not have the form that was asked for: {problem}.", problem=checked.problem
    )
    report.finish(
        ReportedEnd(
            exit_code=code,
            outcome=INVALID_ANSWER if problem else ended.reason.value,
            ended=ended,
            error=problem or localize(ended.error),
            answer=checked.text,
            structured=checked.structured,
            files_changed=files_changed,
        )
    )
    await report.drain()


def run_reported(report: RunReport, work: Callable[[], int]) -> int:
    """Run what is reported. Whatever ends it before its own last line, the last line names the outcome."""
    outcome = ReportedEnd(exit_code=EXIT_INTERRUPTED, outcome=ExitReason.INTERRUPTED.value)
    try:
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _interrupt)
        return work()
    except KeyboardInterrupt:
        # Whoever called is told by the code: raised further, it would be reported a second time.
        return report.exit_code if report.finished else EXIT_INTERRUPTED
    except HermesError as error:
        outcome = ReportedEnd(exit_code=error.exit_code, outcome=NOT_STARTED, error=format_error(error))
        raise
    except BaseException as error:
        outcome = ReportedEnd(exit_code=1, outcome=CRASHED, error=f"{type(error).__name__}: {error}")
        raise
    finally:
        if not report.finished:
            report.finish(outcome)
            report.drain_now()


def _interrupt(*_signal: object) -> None:
    """Handle SIGTERM or a closed terminal as Ctrl-C, while no event loop does it."""
    raise KeyboardInterrupt
