"""Reads the state of paths: without following a link, and copied where a copy may be kept."""

import contextlib
import os
import stat

from hermes.checkpoints.object_store import ObjectStore, digest_content
from hermes.core.checkpoints import ABSENT, FileState, Kind
from hermes.safety.path_policy import iter_protected_identities
from hermes.safety.paths import Places, is_key_name, list_secret_paths, read_refusal, write_refusal
from hermes.safety.shell import key_files
from hermes.util.file_handles import open_folder

_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
MODE_BITS = 0o777
"""The bits of a mode that are stored: none that lends a program somebody else's rights."""


def is_hidden_file(path: str, places: Places, *, copies_keys: bool = False) -> bool:
    """Return whether the rules keep a file's content from the agent, or from being changed: no copy is made of it.

    With `copies_keys`, what is named like a key is copied, unless its place forbids that.
    """
    if copies_keys and has_key_name(path):
        return bool(read_refusal(os.path.dirname(path), places)) or path in list_secret_paths(places)
    return bool(read_refusal(path, places) or write_refusal(path, places)) or has_key_name(path)


def has_key_name(path: str) -> bool:
    """Return whether a file is named like one that holds keys: losing it asks, and its content is not shown."""
    return is_key_name(path) or key_files.is_key_name(path)


class StateReader:
    """Reads the state of paths. With `objects` the contents are copied there; files over `limit` bytes are not, and
    keys only with `copies_keys`.
    """

    def __init__(
        self, places: Places, limit: int, objects: ObjectStore | None = None, *, copies_keys: bool = False
    ) -> None:
        self.limit = limit
        self._copies_keys = copies_keys
        self._places = places
        self._objects = objects
        self._protected: frozenset[tuple[int, int]] | None = None
        """Device and inode of each protected file, once a file with several names is met."""

    def read_state(self, path: str) -> FileState:
        """Return the state of an absolute path. A link among its folders is not followed: then nothing is there.

        Raises OSError for what cannot be told.
        """
        folder, name = os.path.split(path)
        try:
            handle = open_folder(folder)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        try:
            status = os.lstat(name, dir_fd=handle)
            return self.read_entry(handle, name, path, status)
        except FileNotFoundError:
            return ABSENT
        finally:
            os.close(handle)

    def read_entry(self, folder: int, name: str, path: str, status: os.stat_result) -> FileState:
        """Return the state of a name in an open folder. Raises OSError."""
        mode = status.st_mode & MODE_BITS
        if stat.S_ISREG(status.st_mode):
            return self._read_file(folder, name, path, status)
        if stat.S_ISLNK(status.st_mode):
            return FileState(Kind.LINK, target=os.fsencode(os.readlink(name, dir_fd=folder)))
        if stat.S_ISDIR(status.st_mode):
            return FileState(Kind.FOLDER, mode)
        return FileState(Kind.OTHER, mode, f"{status.st_rdev}")

    def _read_file(self, folder: int, name: str, path: str, status: os.stat_result) -> FileState:
        if status.st_size > self.limit:
            return state_without_copy(Kind.LARGE, status)
        if is_hidden_file(path, self._places, copies_keys=self._copies_keys):
            return state_without_copy(Kind.HIDDEN, status)
        try:
            handle = os.open(name, _READ_FLAGS, dir_fd=folder)
        except PermissionError:
            return state_without_copy(Kind.HIDDEN, status)
        with os.fdopen(handle, "rb", buffering=0):
            now = os.fstat(handle)
            if not stat.S_ISREG(now.st_mode) or self._is_protected(now):
                return state_without_copy(Kind.HIDDEN, now)
            data = b""
            with contextlib.suppress(BlockingIOError):
                data = _read_all(handle, self.limit + 1)
        if len(data) > self.limit:
            return state_without_copy(Kind.LARGE, now)
        mark = self._objects.put(data) if self._objects is not None else digest_content(data)
        return FileState(Kind.FILE, now.st_mode & MODE_BITS, mark, len(data))

    def _is_protected(self, status: os.stat_result) -> bool:
        """Return whether a file is a second name of a protected one. A reader lives for one scan: it looks once."""
        if status.st_nlink <= 1:
            return False
        if self._protected is None:
            self._protected = frozenset(iter_protected_identities(self._places))
        return (status.st_dev, status.st_ino) in self._protected


def state_without_copy(kind: Kind, status: os.stat_result) -> FileState:
    """Return the state of a file of which no copy is made."""
    mark = f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
    return FileState(kind, status.st_mode & MODE_BITS, mark, status.st_size)


def _read_all(handle: int, limit: int) -> bytes:
    """Return the content of a file, up to so many bytes."""
    pieces, left = [], limit
    while left > 0 and (piece := os.read(handle, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
