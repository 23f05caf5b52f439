"""Finding and signalling everything that a command started, from the process table of Linux (elsewhere: its group)."""

import contextlib
import os
import signal
import time
from pathlib import Path

from msgspec import Struct

_PROC = Path("/proc")


class Entry(Struct, frozen=True):
    """One live process. The start time tells it from a later one with the same number."""

    pid: int
    started: int


def members(leader: int) -> set[Entry]:
    """Live processes of the leader's session and group, and their descendants wherever those went."""
    table = _table()
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
    return {Entry(pid=pid, started=table[pid].started) for pid in found}


def alive(entries: set[Entry]) -> set[Entry]:
    """Those of `entries` that still run."""
    return {entry for entry in entries if (row := _row(entry.pid)) is not None and row.started == entry.started}


def entry(pid: int) -> Entry | None:
    """The process of that number, if one runs."""
    row = _row(pid)
    return Entry(pid=pid, started=row.started) if row is not None else None


def group_exists(leader: int) -> bool:
    """Whether the group has a process, if only one that waits to be reaped. Costs one system call."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def any_left(leader: int, entries: set[Entry]) -> bool:
    """Whether one of `entries` still runs, or a process of the group; those that wait to be reaped do not count."""
    if alive(entries):
        return True
    return group_exists(leader) and (bool(members(leader)) or not _PROC.is_dir())


def send(leader: int, entries: set[Entry], signum: signal.Signals) -> None:
    """Signal the group of `leader`, and those of `entries` that left it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signum)
    for entry in alive(entries):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(entry.pid) != leader:
                os.kill(entry.pid, signum)


def end(leader: int, seconds: float = 1.0) -> bool:
    """Kill everything of `leader`, again and again until nothing is left; whether that was reached in time."""
    deadline = time.monotonic() + seconds
    nap = 0.001
    while found := members(leader):
        if time.monotonic() > deadline:
            return False
        send(leader, found, signal.SIGKILL)
        time.sleep(nap)
        nap = min(2 * nap, 0.05)
    return True


class _Row(Struct, frozen=True):
    parent: int
    group: int
    session: int
    started: int


def _table() -> dict[int, _Row]:
    rows: dict[int, _Row] = {}
    if not _PROC.is_dir():
        return rows
    for name in os.listdir(_PROC):
        if name.isdigit() and (row := _row(int(name))) is not None:
            rows[int(name)] = row
    return rows


def _row(pid: int) -> _Row | None:
    """The process's row; None when it is gone or a zombie. Fields: proc(5), /proc/pid/stat."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return _Row(parent=int(fields[1]), group=int(fields[2]), session=int(fields[3]), started=int(fields[19]))
