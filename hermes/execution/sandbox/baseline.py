"""Keeps on disk, while commands run in a workspace, what the person had there that programs obey.

Whatever ends Hermes meanwhile, the next session knows by it what is the person's own.
"""

import contextlib
import fcntl
import os
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.util.atomic_write import write_atomic


class EntryStamp(Struct, frozen=True, array_like=True):
    """One state of a file or folder. Programs cannot set the time of change."""

    inode: int
    changed: int


class SavedFile(Struct, frozen=True, array_like=True):
    """A file as it was. `data` is None for what is no plain file, or is too large to be kept."""

    stamp: EntryStamp
    mode: int = 0
    data: bytes | None = None


class Baseline(Struct, frozen=True, array_like=True):
    """The repositories and the files that programs obey below some folders, by their paths as the system has them."""

    roots: tuple[bytes, ...]
    repositories: tuple[bytes, ...]
    files: dict[bytes, SavedFile]


class BaselineFile:
    """The baseline of a workspace, shared by the sessions whose commands run there. Used by one thread at a time.

    A lock tells whether any of them still lives: the kernel releases it with its holder. Methods raise OSError.
    """

    def __init__(self, folder: str, workspace: str) -> None:
        name = blake2b(os.fsencode(workspace), digest_size=12).hexdigest()
        self._file = Path(folder, name)
        self._lock = -1

    def open(self) -> tuple[bool, Baseline | None]:
        """Return whether no other session's commands run here, and the baseline that was left or is shared."""
        if self._lock >= 0:  # a command that could not be started came before
            os.close(self._lock)
        self._file.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._lock = os.open(self._file.with_suffix(".lock"), flags, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            return False, self._load()
        return True, self._load()

    def save(self, baseline: Baseline) -> None:
        """Write the baseline to the disk, and let other sessions share it."""
        write_atomic(self._file, msgspec.msgpack.encode(baseline), mode=0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def close(self) -> None:
        """Forget the baseline, unless another session's commands still run here."""
        if self._lock < 0:
            return
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = -1

    def _load(self) -> Baseline | None:
        with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
            return msgspec.msgpack.decode(self._file.read_bytes(), type=Baseline)
        return None
