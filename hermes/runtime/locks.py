"""Ownership of a session: an operating system lock on a small file, released by the kernel when its owner dies.

The supervisors of a session's commands keep the lock's handle too: after a kill -9 it is free only when nothing of the
dead process's commands is alive. The next owner waits for that, and helps a supervisor that was stopped.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from hermes.core.errors import BusyError, StoreError
from hermes.i18n.messages import N_

_POLL = 0.02
_MAX_WAIT = 10.0
"""Seconds that the processes of a dead owner may take to end."""
_WAKE_INTERVAL = 1.0
"""Seconds between attempts to continue stopped supervisors; from the third on their commands are killed for them."""
_UNNAMED_SECONDS = 0.5
"""Seconds in which an owner may hold the lock without having written its name yet."""


@contextlib.asynccontextmanager
async def session_lock(folder: Path, session_id: str) -> AsyncIterator[int]:
    """Hold a session for this process; yield the lock's handle, for those who are to hold it after this process dies.

    Raises BusyError that names the owner at once when a living process has it, and when the processes of a dead one do
    not end. Raises StoreError when the lock cannot be made.
    """
    file = folder / f"{session_id}.lock"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle = await _acquire_lock(file, session_id)
    except OSError as error:
        raise StoreError(
            N_(
                "The lock of session {session_id} cannot be made: {strerror}.",
                session_id=session_id,
                strerror=error.strerror,
            ),
            N_("Make {folder} writable.", folder=folder),
        ) from None
    try:
        with contextlib.suppress(OSError):  # a full disk takes no name; the lock itself holds
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()} {_read_start_time(os.getpid())}\n".encode(), 0)
        yield handle
    finally:
        # Closing alone would leave it to the wardens of what was left running on purpose.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


async def _acquire_lock(file: Path, session_id: str) -> int:
    """Wait for the lock, and return its handle."""
    waited = 0.0
    help_at = _WAKE_INTERVAL
    while (handle := _try_lock(file)) is None:
        owner = _read_owner(file)
        if owner is None:
            if waited > _UNNAMED_SECONDS:
                raise _make_busy_error(session_id, "open in another process (pid unknown)")
        elif _is_alive(*owner):
            raise _make_busy_error(session_id, N_("open in another process (pid {owner})", owner=owner[0]))
        elif waited > _MAX_WAIT:
            raise _make_busy_error(
                session_id, N_("held by a process that {owner}, which died, left running", owner=owner[0])
            )
        elif waited > help_at:
            help_at += _WAKE_INTERVAL
            await asyncio.to_thread(_wake_supervisors, file, owner, by_hand=help_at > 3 * _WAKE_INTERVAL)
        await asyncio.sleep(_POLL)
        waited += _POLL
    return handle


def _wake_supervisors(file: Path, owner: tuple[int, str], *, by_hand: bool) -> None:
    """Continue a dead owner's supervisors, which a command can have stopped; with `by_hand` kill their commands.

    They are the processes that have the file open under a supervisor's name. The helper above one is woken too.
    """
    from hermes.execution import supervisor_main

    for holder in _find_holders(file):
        for pid in filter(None, (supervisor_main.parent_pid(holder), holder)):
            if supervisor_main.is_supervisor(pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGCONT)
        if by_hand and supervisor_main.is_supervisor(holder) and _read_owner(file) == owner:
            supervisor_main.kill_descendants(holder)


def _find_holders(file: Path) -> list[int]:
    """Return the processes that have a file open, of those that can be inspected; empty where there is no `/proc`."""
    path = os.path.realpath(file)
    found = []
    for number in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with contextlib.suppress(OSError):
            links = f"/proc/{number}/fd"
            if number.isdigit() and any(_read_link(f"{links}/{name}") == path for name in os.listdir(links)):
                found.append(int(number))
    return found


def _read_link(path: str) -> str:
    """Return a link's target, whether or not that exists; empty when the link is gone."""
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return ""


def _try_lock(file: Path) -> int | None:
    """Take the lock; return None when it is taken, or when its file no longer has that name."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(file)):
                locked, handle = handle, -1
                return locked
    except BlockingIOError:
        pass
    finally:
        if handle >= 0:
            os.close(handle)
    return None


def find_lock_owner(folder: Path, session_id: str) -> int | None:
    """Return the living process that has written its id on a session's lock, or None."""
    owner = _read_owner(folder / f"{session_id}.lock")
    return owner[0] if owner is not None and _is_alive(*owner) else None


def _read_owner(file: Path) -> tuple[int, str] | None:
    """Return process id and start time of the lock's owner, or None while nobody has written them."""
    try:
        pid, _, started = file.read_text("ascii", "replace").strip().partition(" ")
        return int(pid), started
    except (FileNotFoundError, ValueError):
        return None


def _is_alive(pid: int, started: str) -> bool:
    """Return whether that very process runs: another one may have got its id since."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    now = _read_start_time(pid)
    return now != _ZOMBIE and (not started or not now or now == started)


_ZOMBIE = "-"


def _read_start_time(pid: int) -> str:
    """Return when a process began, in the kernel's ticks (proc(5)); empty where that cannot be known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return _ZOMBIE if fields[0] in (b"Z", b"X") else fields[19].decode()


def _make_busy_error(session_id: str, how: str) -> BusyError:
    return BusyError(
        N_("Session {session_id} is {how}.", session_id=session_id, how=how), "Close it there, or start a new session."
    )
