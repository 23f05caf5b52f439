"""Finds and signals everything that a command started, using the process table of Linux (elsewhere: its group)."""

import contextlib
import os
import signal
import time
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
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
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
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return _ProcessRow(parent=int(fields[1]), group=int(fields[2]), session=int(fields[3]), start_time=int(fields[19]))
