"""The background processes of a session: their output, their end, and the guarantee that none outlives its owner."""

import asyncio
import contextlib
import math
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct, field

from hermes.core.errors import ToolError
from hermes.execution.base import CommandExit, DeniedPath, RunningCommand, ShellCommand, StopOutcome, TerminalBackend
from hermes.tools.output import ForegroundCommand, RollingBuffer

MAX_PROCESSES = 64
_MAX_NOTICES = 64
_MAX_WATCHED_LINE = 4_000


class BackgroundProcess(Struct, eq=False):
    """One command that runs, or ran, in the background."""

    process_id: str
    command: str
    cwd: str
    started: float
    notify: bool = False
    patterns: tuple[str, ...] = ()
    output: RollingBuffer = field(default_factory=RollingBuffer)
    typed_text: str = ""
    """Everything that was typed into it: a line may come in pieces, and a folder or variable from an earlier one."""
    read_to: int = 0
    """The position up to which `poll` has shown the output."""
    exit: CommandExit | None = None
    running: RunningCommand | None = None
    stopped: StopOutcome | None = None
    """The outcome of ending it, if it was ended."""
    waiter: asyncio.Task[None] | None = None
    partial_line: bytes = b""
    """The last line as far as it has come, searched for patterns."""
    opened_paths: tuple[DeniedPath, ...] = ()
    """The folder that it began in and what was opened to it: what it prints or writes may be of these."""

    @property
    def contacted_hosts(self) -> frozenset[str] | None:
        """The hosts from which anything came to it so far; None where nobody sees that."""
        return self.running.contacted_hosts if self.running is not None else frozenset()

    @property
    def status(self) -> str:
        """`running`, or how it ended."""
        if self.exit is None:
            return "running"
        left = " and left processes running" if self.exit.left_running and self.stopped is not StopOutcome.GONE else ""
        return f"exited with code {self.exit.code}{left}"

    async def wait_for_end(self, seconds: float) -> bool:
        """Wait at most so many seconds for its end; return whether it has ended."""
        if self.waiter is not None and self.exit is None:
            await asyncio.wait({self.waiter}, timeout=seconds)
        return self.exit is not None

    def get_running(self) -> RunningCommand:
        """Return the running command, to write to. Raises `ToolError` when it has ended."""
        if self.running is None or self.exit is not None:
            raise ToolError(f"{self.process_id} has ended ({self.status}) and takes no input.")
        return self.running


class ProcessTable:
    """The background processes of one session. `close` ends them all. `tell_end` is called when one has ended whose end
    is to be told.
    """

    def __init__(self, tell_end: Callable[[BackgroundProcess], None] | None = None) -> None:
        self._tell_end = tell_end
        self._processes: dict[str, BackgroundProcess] = {}
        self._notices: deque[str] = deque(maxlen=_MAX_NOTICES)
        self._contacted_hosts: set[str] = set()
        """The hosts contacted by processes that are no longer kept."""
        self._opened_paths: set[DeniedPath] = set()
        """The places that were opened to processes that are no longer kept."""

    async def start(
        self,
        backend: TerminalBackend,
        command: ShellCommand,
        started: float,
        *,
        notify: bool = False,
        patterns: Sequence[str] = (),
    ) -> BackgroundProcess:
        """Start a command and keep it. Raises `ToolError` when there are too many already or it cannot start."""
        self._make_room()
        process = BackgroundProcess(
            process_id=self._new_id(),
            command=command.text,
            cwd=command.cwd,
            started=started,
            notify=notify,
            patterns=tuple(patterns),
            opened_paths=(DeniedPath(command.cwd, False), *command.opened_paths, *backend.list_opened()),
        )
        running = await backend.start(command, lambda data: self._take_output(process, data))
        process.running = running
        process.waiter = asyncio.create_task(self._watch_end(process, running), name=f"process {process.process_id}")
        self._processes[process.process_id] = process
        return process

    def list_all(self) -> list[BackgroundProcess]:
        """Return every process that is known, oldest first."""
        return list(self._processes.values())

    def list_running(self) -> list[BackgroundProcess]:
        """Return the processes that have not ended, oldest first."""
        return [one for one in self._processes.values() if one.running is not None and one.exit is None]

    def has_running(self) -> bool:
        """Return whether any process runs, or has left others running."""
        return any(
            one.exit is None or (one.exit.left_running and one.stopped is not StopOutcome.GONE)
            for one in self._processes.values()
        )

    def find(self, process_id: str) -> BackgroundProcess:
        """Return the process of that id. Raises `ToolError` naming the ones there are."""
        process = self._processes.get(process_id)
        if process is None:
            known = ", ".join(self._processes) or "none"
            raise ToolError(f"There is no process {process_id!r}. Known: {known}.")
        return process

    def adopt(self, command: ShellCommand, running: RunningCommand, exit: CommandExit, started: float) -> None:  # noqa: A002 - its field
        """Register a command that has ended and left processes running, so that they are listed and can be ended."""
        with contextlib.suppress(ToolError):
            self._make_room()
        process_id = self._new_id()
        self._processes[process_id] = BackgroundProcess(
            process_id,
            command.text,
            command.cwd,
            started,
            exit=exit,
            running=running,
            opened_paths=(DeniedPath(command.cwd, False), *command.opened_paths),
        )

    def keep_running(
        self, command: ShellCommand, running: RunningCommand, foreground: ForegroundCommand, started: float
    ) -> BackgroundProcess:
        """Keep a command that a call has waited for; its end is told. Raises `ToolError` when there are too many."""
        self._make_room()
        process = BackgroundProcess(
            process_id=self._new_id(),
            command=command.text,
            cwd=command.cwd,
            started=started,
            notify=True,
            running=running,
            opened_paths=(DeniedPath(command.cwd, False), *command.opened_paths),
        )
        foreground.sink = partial(self._take_output, process)
        process.waiter = asyncio.create_task(self._watch_end(process, running), name=f"process {process.process_id}")
        self._processes[process.process_id] = process
        return process

    async def kill(self, process: BackgroundProcess) -> StopOutcome:
        """End a process with everything that it started; return whether it is known that nothing of it is left."""
        process.stopped = StopOutcome.GONE if process.running is None else await process.running.stop()
        await process.wait_for_end(1.0)
        return process.stopped

    async def stop_all(self) -> list[BackgroundProcess]:
        """End every running process and what ended ones left running; return those, each with its `stopped`.

        Cancelling this kills what is left at once.
        """
        ended = [one for one in self._processes.values() if one.exit is None or one.exit.left_running]
        ended = [one for one in ended if one.running is not None and one.stopped is not StopOutcome.GONE]
        await asyncio.gather(*(self.kill(process) for process in ended))
        return ended

    def find_typed_text(self, process_id: str) -> tuple[str, str]:
        """Return the command of a running process, and what was typed into it before; empty when there is none."""
        one = self._processes.get(process_id)
        return (one.command, one.typed_text) if one is not None and one.exit is None else ("", "")

    def list_contacted_hosts(self, until: float = math.inf) -> set[str]:
        """Return the hosts, as far as they are seen, from which anything came to
        processes that began before `until`.
        """
        known = (one.contacted_hosts for one in self._processes.values() if one.started <= until)
        return self._contacted_hosts.union(*(one for one in known if one is not None))

    def list_opened(self) -> set[DeniedPath]:
        """Return the places that processes began in or that were opened to them."""
        return self._opened_paths.union(*(one.opened_paths for one in self._processes.values()))

    def add_notice(self, line: str) -> None:
        """Add a line for the model to the next notices."""
        self._notices.append(line)

    def take_notices(self) -> list[str]:
        """Return lines for the model about processes that ended or printed a watched pattern, since the last call."""
        notices = list(self._notices)
        self._notices.clear()
        return notices

    async def close(self) -> None:
        """End every process. Cancelling this kills what is left at once."""
        await asyncio.gather(*(self.kill(process) for process in self.list_running()))
        for process in self._processes.values():
            if process.waiter is not None and not process.waiter.done():
                process.waiter.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await process.waiter
        self._processes.clear()

    def _new_id(self) -> str:
        return f"proc_{os.urandom(3).hex()}"

    def _make_room(self) -> None:
        while len(self._processes) >= MAX_PROCESSES:
            ended = next((one for one in self._processes.values() if one.exit is not None), None)
            if ended is None:
                raise ToolError(f"{MAX_PROCESSES} background processes are running already. Kill one first.")
            self._contacted_hosts |= ended.contacted_hosts or frozenset()
            self._opened_paths |= set(ended.opened_paths)
            del self._processes[ended.process_id]

    async def _watch_end(self, process: BackgroundProcess, running: RunningCommand) -> None:
        process.exit = await running.wait()
        if process.notify:
            self._notices.append(f"{process.process_id} ({process.command[:80]}) {process.status}.")
            if self._tell_end is not None and process.stopped is None:
                self._tell_end(process)

    def _take_output(self, process: BackgroundProcess, data: bytes) -> None:
        process.output.feed(data)
        if not process.patterns:
            return
        *lines, rest = (process.partial_line + data).split(b"\n")
        process.partial_line = rest[-_MAX_WATCHED_LINE:]
        for line in lines:
            text = line[:_MAX_WATCHED_LINE].decode("utf-8", "replace")
            if any(pattern in text for pattern in process.patterns):
                self._notices.append(f"{process.process_id} printed: {text[:300]}")
