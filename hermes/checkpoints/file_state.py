"""What stands at a path: looked at without following a link, and copied where a copy may be kept."""

import contextlib
import os
import stat

from hermes.checkpoints.object_store import ObjectStore, digest_of
from hermes.core.checkpoints import ABSENT, FileState, Kind
from hermes.safety.path_policy import opened_refused
from hermes.safety.paths import read_refused, write_refused
from hermes.safety.places import Places
from hermes.safety.shell.key_files import called_key

FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASSED = FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
MODE = 0o777
"""The bits of a mode that are kept: none that lends a program somebody else's rights."""


def open_folder(path: str) -> int:
    """A handle on the folder of this absolute path, none of whose names is a link. Raises OSError."""
    handle = os.open("/", _PASSED)
    for name in path.split("/"):
        if name:
            try:
                below = os.open(name, _PASSED, dir_fd=handle)
            finally:
                os.close(handle)
            handle = below
    return handle


def hidden(path: str, places: Places) -> bool:
    """Whether the rules keep a file's content from the agent, or from being changed: no copy is made of it."""
    return bool(read_refused(path, places) or write_refused(path, places)) or called_key(path)


class Looker:
    """Looks at paths. With `objects` what is seen is copied there; files over `limit` bytes are not."""

    def __init__(self, places: Places, limit: int, objects: ObjectStore | None = None) -> None:
        self.limit = limit
        self._places = places
        self._objects = objects

    def of(self, path: str) -> FileState:
        """What stands at an absolute path. A link in its folders is nothing that is followed: then nothing is there.

        Raises OSError for what cannot be told.
        """
        folder, name = os.path.split(path)
        try:
            handle = open_folder(folder)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        try:
            status = os.lstat(name, dir_fd=handle)
            return self.at(handle, name, path, status)
        except FileNotFoundError:
            return ABSENT
        finally:
            os.close(handle)

    def at(self, folder: int, name: str, path: str, status: os.stat_result) -> FileState:
        """What stands under a name of an open folder. Raises OSError."""
        mode = status.st_mode & MODE
        if stat.S_ISREG(status.st_mode):
            return self._file(folder, name, path, status)
        if stat.S_ISLNK(status.st_mode):
            return FileState(Kind.LINK, target=os.fsencode(os.readlink(name, dir_fd=folder)))
        if stat.S_ISDIR(status.st_mode):
            return FileState(Kind.FOLDER, mode)
        return FileState(Kind.OTHER, mode, f"{status.st_rdev}")

    def _file(self, folder: int, name: str, path: str, status: os.stat_result) -> FileState:
        if status.st_size > self.limit:
            return uncopied(Kind.LARGE, status)
        if hidden(path, self._places):
            return uncopied(Kind.HIDDEN, status)
        try:
            handle = os.open(name, _READ, dir_fd=folder)
        except PermissionError:
            return uncopied(Kind.HIDDEN, status)
        with os.fdopen(handle, "rb", buffering=0):
            now = os.fstat(handle)
            if not stat.S_ISREG(now.st_mode) or (now.st_nlink > 1 and opened_refused(handle, self._places)):
                return uncopied(Kind.HIDDEN, now)
            data = b""
            with contextlib.suppress(BlockingIOError):
                data = _all(handle, self.limit + 1)
        if len(data) > self.limit:
            return uncopied(Kind.LARGE, now)
        mark = self._objects.put(data) if self._objects is not None else digest_of(data)
        return FileState(Kind.FILE, now.st_mode & MODE, mark, len(data))


def uncopied(kind: Kind, status: os.stat_result) -> FileState:
    """A file of which no copy is made."""
    mark = f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
    return FileState(kind, status.st_mode & MODE, mark, status.st_size)


def _all(handle: int, limit: int) -> bytes:
    """What is in a file, up to so many bytes."""
    pieces, left = [], limit
    while left > 0 and (piece := os.read(handle, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
