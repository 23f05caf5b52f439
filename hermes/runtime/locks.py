"""Who owns a session: an operating system lock on a small file, released by the kernel when its owner dies.

The wardens of a session's commands keep the lock's handle too (`execution/supervisor_main.py`): after a kill -9 it is
free only when nothing of the dead process's commands is alive. Who comes next waits for that, and helps a warden that
was stopped.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from hermes.core.errors import BusyError, StoreError

_POLL = 0.02
_PATIENCE = 10.0
"""Seconds that the processes of a dead owner may take to end."""
_HELP = 1.0
"""Seconds between attempts to make stopped wardens go on; from the third on their commands are killed for them."""
_UNNAMED = 0.5
"""Seconds in which an owner may have the lock and not have written its name yet."""


@contextlib.asynccontextmanager
async def session_lock(folder: Path, session_id: str) -> AsyncIterator[int]:
    """Hold a session for this process; yields the lock's handle, for those who are to hold it after a death of ours.

    Raises BusyError that names the owner at once when a living process has it, and when the processes of a dead one
    do not end.
    """
    file = folder / f"{session_id}.lock"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle = await _taken(file, session_id)
    except OSError as error:
        raise StoreError(
            f"The lock of session {session_id} cannot be made: {error.strerror}.", f"Make {folder} writable."
        ) from None
    try:
        with contextlib.suppress(OSError):  # a full disk takes no name; the lock itself holds
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()} {_started(os.getpid())}\n".encode(), 0)
        yield handle
    finally:
        # Closing alone would leave it to the wardens of what was left running on purpose.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


async def _taken(file: Path, session_id: str) -> int:
    """The handle of the lock, once this process has it."""
    waited = 0.0
    help_at = _HELP
    while (handle := _try(file)) is None:
        owner = _owner(file)
        if owner is None:
            if waited > _UNNAMED:
                raise _busy(session_id, "open in another process (pid unknown)")
        elif _lives(*owner):
            raise _busy(session_id, f"open in another process (pid {owner[0]})")
        elif waited > _PATIENCE:
            raise _busy(session_id, f"held by what process {owner[0]}, which died, has left running")
        elif waited > help_at:
            help_at += _HELP
            await asyncio.to_thread(_help, file, owner, by_hand=help_at > 3 * _HELP)
        await asyncio.sleep(_POLL)
        waited += _POLL
    return handle


def _help(file: Path, owner: tuple[int, str], *, by_hand: bool) -> None:
    """Make the wardens of a dead owner go on, which a command can have stopped; `by_hand`: kill what they stand over.

    They are who has the file open under a warden's name. The helper above one is woken too.
    """
    from hermes.execution import supervisor_main

    for holder in _holders(file):
        for pid in (supervisor_main.parent(holder), holder):
            if supervisor_main.named(pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGCONT)
        if by_hand and supervisor_main.named(holder) and _owner(file) == owner:
            supervisor_main.end_below(holder)


def _holders(file: Path) -> list[int]:
    """The processes that have a file open, of those that can be looked into; none where there is no `/proc`."""
    path = os.path.realpath(file)
    found = []
    for number in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with contextlib.suppress(OSError):
            links = f"/proc/{number}/fd"
            if number.isdigit() and any(_link(f"{links}/{name}") == path for name in os.listdir(links)):
                found.append(int(number))
    return found


def _link(path: str) -> str:
    """Where a link leads, which is not asked whether it is there; empty when the link is gone."""
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return ""


def _try(file: Path) -> int | None:
    """Take the lock; None when it is taken, or its file is no longer the one of that name."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(file)):
                kept, handle = handle, -1
                return kept
    except BlockingIOError:
        pass
    finally:
        if handle >= 0:
            os.close(handle)
    return None


def lock_owner(folder: Path, session_id: str) -> int | None:
    """The process that lives and has written its name on a session's lock; None when there is none."""
    owner = _owner(folder / f"{session_id}.lock")
    return owner[0] if owner is not None and _lives(*owner) else None


def _owner(file: Path) -> tuple[int, str] | None:
    """Process id and start time of who has the lock; None while nobody has written them."""
    try:
        pid, _, started = file.read_text("ascii", "replace").strip().partition(" ")
        return int(pid), started
    except (FileNotFoundError, ValueError):
        return None


def _lives(pid: int, started: str) -> bool:
    """Whether that very process runs: another one may have got its number since."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    now = _started(pid)
    return now != _ZOMBIE and (not started or not now or now == started)


_ZOMBIE = "-"


def _started(pid: int) -> str:
    """When a process began, in the kernel's ticks (proc(5)); empty where that cannot be known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return _ZOMBIE if fields[0] in (b"Z", b"X") else fields[19].decode()


def _busy(session_id: str, how: str) -> BusyError:
    return BusyError(f"Session {session_id} is {how}.", "Close it there, or start a new session.")
