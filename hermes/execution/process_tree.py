"""Finds and signals everything that a command started, using the process table of Linux (elsewhere: its group); and
holds commands that have no supervisor, on systems that have none.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

_PROC_FOLDER = Path("/proc")


class ProcessIdentity(Struct, frozen=True):
    """One live process. The start time tells it from a later one with the same number."""

    pid: int
    start_time: int


def find_processes(leader: int) -> set[ProcessIdentity]:
    """Return the live processes of the leader's session and group, and all their descendants."""
    table = _read_process_table()
    found = {pid for pid, row in table.items() if pid == leader or leader in (row.group, row.session)}
    children: dict[int, list[int]] = {}
    for pid, row in table.items():
        children.setdefault(row.parent, []).append(pid)
    queue = list(found | {leader})
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return {ProcessIdentity(pid=pid, start_time=table[pid].start_time) for pid in found}


def filter_alive(entries: set[ProcessIdentity]) -> set[ProcessIdentity]:
    """Return those of `entries` that still run."""
    return {
        entry
        for entry in entries
        if (row := _read_process(entry.pid)) is not None and row.start_time == entry.start_time
    }


def identify_process(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process with this number, or None if none runs."""
    row = _read_process(pid)
    return ProcessIdentity(pid=pid, start_time=row.start_time) if row is not None else None


def has_group_members(leader: int) -> bool:
    """Return whether the group has a process, even one that waits to be reaped. Costs one system call."""
    try:
        os.killpg(leader, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def is_any_left(leader: int, entries: set[ProcessIdentity]) -> bool:
    """Return whether one of `entries`, or a process of the group, still runs; those
    waiting to be reaped do not count.
    """
    if filter_alive(entries):
        return True
    return has_group_members(leader) and (bool(find_processes(leader)) or not _PROC_FOLDER.is_dir())


def signal_processes(leader: int, entries: set[ProcessIdentity], signum: signal.Signals) -> None:
    """Signal the group of `leader`, and those of `entries` that left it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signum)
    for entry in filter_alive(entries):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(entry.pid) != leader:
                os.kill(entry.pid, signum)


def kill_until_gone(leader: int, seconds: float = 1.0) -> bool:
    """Kill everything of `leader` repeatedly until nothing is left; return whether that was reached in time."""
    deadline = time.monotonic() + seconds
    nap = 0.001
    while found := find_processes(leader):
        if time.monotonic() > deadline:
            return False
        signal_processes(leader, found, signal.SIGKILL)
        time.sleep(nap)
        nap = min(2 * nap, 0.05)
    return True


class _ProcessRow(Struct, frozen=True):
    parent: int
    group: int
    session: int
    start_time: int


def _read_process_table() -> dict[int, _ProcessRow]:
    rows: dict[int, _ProcessRow] = {}
    if not _PROC_FOLDER.is_dir():
        return rows
    for name in os.listdir(_PROC_FOLDER):
        if name.isdigit() and (row := _read_process(int(name))) is not None:
            rows[int(name)] = row
    return rows


def _read_process(pid: int) -> _ProcessRow | None:
    """Return the process's row; None when it is gone or a zombie. Fields: proc(5), /proc/pid/stat."""
    gone = contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError)
    with gone, open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
        if len(fields) >= 20 and fields[0] not in (b"Z", b"X"):
            parent, group, session, start_time = (int(fields[at]) for at in (1, 2, 3, 19))
            return _ProcessRow(parent=parent, group=group, session=session, start_time=start_time)
    return None


_POLL_SECONDS = 0.02


class UnsupervisedProcess:
    """A child process of Hermes and what it started.

    `code` is how it ended, negative for a signal; None while it runs.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self.code: int | None = None
        self._process = process
        self._known_processes: set[ProcessIdentity] = set()
        self._on_change: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._watch_exit()

    def set_change_callback(self, callback: Callable[[], None]) -> None:
        """Set the callback that is called when the shell has ended."""
        self._on_change = callback

    def is_alive(self) -> bool:
        """Return whether the shell, or anything that stayed in its group, still lives."""
        return self.code is None or has_group_members(self.pid)

    async def send_signal(self, signum: signal.Signals) -> None:
        """Signal everything that can be found. The process table is read in a thread, since that takes milliseconds."""
        self._known_processes |= await asyncio.to_thread(find_processes, self.pid)
        await asyncio.to_thread(signal_processes, self.pid, self._known_processes, signum)

    def kill(self) -> None:
        """Kill everything that can be found, at once."""
        signal_processes(self.pid, self._known_processes | find_processes(self.pid), signal.SIGKILL)

    async def wait_until_gone(self, seconds: float) -> bool:
        """Wait until nothing is left, at most this many seconds; return whether that was reached."""
        deadline = self._loop.time() + seconds
        while self.code is None or await asyncio.to_thread(is_any_left, self.pid, self._known_processes):
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def release(self) -> None:
        """Do nothing: no process holds what is left."""

    def _watch_exit(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            handle = os.pidfd_open(self.pid)
            self._loop.add_reader(handle, self._on_exit_ready, handle)
            return
        # Not Linux, or too old a kernel: a thread waits.
        exit_wait = self._loop.run_in_executor(None, self._process.wait)
        exit_wait.add_done_callback(lambda _: self._record_exit())

    def _on_exit_ready(self, handle: int) -> None:
        self._loop.remove_reader(handle)
        os.close(handle)
        self._record_exit()

    def _record_exit(self) -> None:
        self.code = self._process.wait()
        self._on_change()
