"""A lock between processes on a small file; the kernel releases it when its holder dies."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

_POLL_SECONDS = 0.01


@contextlib.asynccontextmanager
async def hold_file_lock(file: Path, seconds: float) -> AsyncIterator[None]:
    """Hold the lock on `file`, which is made when missing, with its folder.

    Raises TimeoutError when another process holds it for longer than `seconds`, and OSError when it cannot be made.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        async with asyncio.timeout(seconds):
            while not _try_lock(handle):  # noqa: ASYNC110 - the other side is another process
                await asyncio.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    """Take the lock without waiting. Return whether it was free."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
