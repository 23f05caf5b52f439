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
from hermes.util.file_lock import try_lock

SEVERAL_NAMES = 1 << 20
"""Marks a file that can be changed by another name."""


class EntryStamp(Struct, frozen=True, array_like=True):
    """One state of a file or folder. Programs cannot set the time of change."""

    inode: int
    changed: int


class SavedFile(Struct, frozen=True, array_like=True):
    """A file as it was. `data` is None for what is no plain file, or is too large to be kept; of a link, whose `mode`
    says that it is one, it is where the link leads. The `mode` also says whether the file has `SEVERAL_NAMES`.
    """

    stamp: EntryStamp
    mode: int = 0
    data: bytes | None = None


class Baseline(Struct, frozen=True, array_like=True):
    """The repositories and the files that programs obey below some folders, by their paths as the system has them; of
    what is `kept` everything is obeyed.
    """

    roots: frozenset[bytes]
    repositories: frozenset[bytes]
    files: dict[bytes, SavedFile]
    kept: frozenset[bytes] = frozenset()
    included: frozenset[bytes] = frozenset()
    """The files that git's settings include."""


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
        while True:  # until the lock is the one that others find: its last holder removes it
            self._file.parent.mkdir(mode=0o700, exist_ok=True)
            path = self._file.with_suffix(".lock")
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            is_alone = try_lock(self._lock)
            if not is_alone:
                fcntl.flock(self._lock, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_ino == os.fstat(self._lock).st_ino:
                    return is_alone, self._load()
            os.close(self._lock)
            self._lock = -1

    def save(self, baseline: Baseline, *, is_shared: bool) -> None:
        """Write the baseline to the disk, and let other sessions share it; beside what they have written where it is
        shared. Nothing is written while no commands run.
        """
        if self._lock < 0:
            return
        if is_shared and (left := self._load()) is not None:
            baseline = Baseline(
                left.roots | baseline.roots,
                left.repositories | baseline.repositories,
                left.files | baseline.files,
                left.kept | baseline.kept,
                left.included | baseline.included,
            )
        write_atomic(self._file, msgspec.msgpack.encode(baseline), mode=0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def close(self) -> None:
        """Forget the baseline, unless another session's commands still run here."""
        if self._lock < 0:
            return
        if try_lock(self._lock):
            self._file.unlink(missing_ok=True)
            self._file.with_suffix(".lock").unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # that of another workspace is there
            self._file.parent.rmdir()
        os.close(self._lock)
        self._lock = -1

    def _load(self) -> Baseline | None:
        with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
            return msgspec.msgpack.decode(self._file.read_bytes(), type=Baseline)
        return None
