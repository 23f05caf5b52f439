"""Locks between processes on small files; the kernel releases one when its holder dies."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_POLL_SECONDS = 0.02


@contextlib.contextmanager
def hold_file_lock(file: Path, seconds: float) -> Iterator[None]:
    """Hold the lock on `file`, which is made when missing.

    Raises TimeoutError when another process holds it for longer than `seconds`, and OSError when it cannot be made.
    """
    with open_lock_file(file) as handle:
        deadline = time.monotonic() + seconds
        while not try_lock(handle):
            if time.monotonic() >= deadline:
                raise TimeoutError
            time.sleep(_POLL_SECONDS)
        yield


@contextlib.contextmanager
def open_lock_file(file: Path) -> Iterator[int]:
    """Open a lock's file; closing it releases the lock."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Take the lock without waiting. Return whether it was free."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def is_lock_held(file: Path) -> bool:
    """Return whether a process holds the lock on a file. A free one is locked only for the moment of the test."""
    try:
        handle = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.close(handle)
    return False
