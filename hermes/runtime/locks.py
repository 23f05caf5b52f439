"""Who owns a session: an operating system lock on a small file, released by the kernel when its owner dies."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from hermes.core.errors import BusyError, StoreError


@contextlib.contextmanager
def session_lock(folder: Path, session_id: str) -> Iterator[None]:
    """Hold a session for this process. Raises BusyError that names the owner when another process has it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / f"{session_id}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"The lock of session {session_id} cannot be made: {error.strerror}.", f"Make {folder} writable."
        ) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise BusyError(
                f"Session {session_id} is open in another process (pid {owner}).",
                "Close it there, or start a new session.",
            ) from None
        with contextlib.suppress(OSError):  # a full disk takes no pid; the lock itself holds
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)
