"""Connections to SQLite with Hermes' settings, and SQLite's errors in words that a person can act on."""

import contextlib
import errno
import os
import random
import time
from pathlib import Path
from urllib.parse import quote

import apsw

from hermes.core.errors import StoreError, StoreFullError
from hermes.i18n.disk_errors import advise_on_write_error
from hermes.i18n.messages import N_

BUSY_SECONDS = 30.0
"""Seconds for which a write waits for other processes before it fails."""
_MIN_NAP = 0.0005
_MAX_NAP = 0.015
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SETTINGS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA journal_size_limit = 16777216",
)


class _BusyHandler:
    """A busy handler with naps of random length, so that many waiting writers take turns fairly.

    SQLite's own time-out lets late comers overtake: its longest wait is several times this one's.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._deadline = 0.0

    def __call__(self, attempt: int) -> bool:
        now = time.monotonic()
        if attempt == 0:
            self._deadline = now + self._limit
        elif now >= self._deadline:
            return False
        time.sleep(random.uniform(_MIN_NAP, _MAX_NAP))
        return True


def open_connection(path: Path, *, create: bool, vfs: str | None = None) -> apsw.Connection:
    """Open the database at `path`; with `create` make it, with mode 0600, when there is none. Raises `apsw.Error`.

    The connection belongs to the calling thread. The journal mode is left alone: see `enable_wal`. What exists is
    opened for reading alone where nothing can be written beside it.
    """
    fresh = create and not path.exists()
    flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOMUTEX | apsw.SQLITE_OPEN_READWRITE
    if create:
        flags |= apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    if fresh:
        path.chmod(0o600)  # before anything is in it; its -wal and -shm take the mode over
    if not create and _lacks_room_beside(connection, path):
        connection.close()
        connection = _open_without_writing(path)
    connection.set_busy_handler(_BusyHandler(BUSY_SECONDS))
    for setting in _SETTINGS:
        connection.execute(setting).fetchall()
    return connection


def _lacks_room_beside(connection: apsw.Connection, path: Path) -> bool:
    """Return whether a file cannot be read because others, which a log needs, cannot be made beside it: the disk is
    full, or the folder is read-only.
    """
    try:
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.IOError, apsw.FullError):
        return connection.system_errno in _NO_ROOM or not os.access(path.parent, os.W_OK)
    except apsw.Error:
        pass  # locked or damaged: that is told where it is read
    return False


def _open_without_writing(path: Path) -> apsw.Connection:
    """Open a file of which nobody has made the files beside it, so that nobody changes it. Raises `apsw.Error`.

    Its log is read with the index of it in this process's memory.
    """
    flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOMUTEX | apsw.SQLITE_OPEN_READONLY
    with contextlib.suppress(OSError):
        if os.path.getsize(f"{path}-wal"):
            connection = apsw.Connection(str(path), flags=flags, vfs="unix-none")
            connection.pragma("locking_mode", "EXCLUSIVE")
            return connection
    return apsw.Connection(f"file:{quote(str(path))}?immutable=1", flags=flags)


def enable_wal(connection: apsw.Connection, *, synchronous: str) -> bool:
    """Switch to write-ahead logging, or to a rollback journal where the file system has no shared memory.

    Returns whether WAL is in use. Several processes may do this to a new file at once: the lock that the
    switch needs is taken outside the busy handler's reach, so it is tried again here.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            mode = connection.pragma("journal_mode", "wal")
            break
        except apsw.BusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(random.uniform(_MIN_NAP, _MAX_NAP))
    if mode != "wal":
        connection.pragma("journal_mode", "delete")
    connection.execute(f"PRAGMA synchronous = {synchronous}").fetchall()
    return bool(mode == "wal")


def explain_error(error: apsw.Error, path: Path, system_errno: int = 0) -> StoreError:
    """Return the error in plain words. `system_errno` is the connection's, read before it is used again."""
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and system_errno in _NO_ROOM):
        return StoreFullError(
            N_("There is no room to write {path}.", path=path),
            "Free some disk space, or raise the process's file size limit; nothing of this was stored.",
        )
    for kind, what, hint in _MESSAGES:
        if isinstance(error, kind):
            unwritable = isinstance(error, _UNWRITABLE) and _find_disk_fault(path)
            return StoreError(N_(what, path=path), advise_on_write_error(unwritable) if unwritable else hint)
    return StoreError(N_("The database {path} cannot be used: {error}", path=path, error=error))


_UNWRITABLE = (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)


def _find_disk_fault(path: Path) -> OSError | None:
    """Return why nothing can be written where this file is, whoever asks: SQLite says less of it than the disk does."""
    with contextlib.suppress(OSError):
        disk = os.statvfs(path.parent)
        if disk.f_flag & os.ST_RDONLY:
            return OSError(errno.EROFS, os.strerror(errno.EROFS))
        if not disk.f_bavail:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return None


_MESSAGES: tuple[tuple[type[apsw.Error], str, str], ...] = (
    (apsw.BusyError, "{path} has been locked by another program for too long.", "End that program, or try again."),
    (apsw.LockedError, "{path} is in use by another step of this program.", "Try again."),
    (apsw.ReadOnlyError, "{path} cannot be written.", "Make the folder and the file writable for this user."),
    (apsw.CantOpenError, "{path} cannot be opened.", "Check that its folder exists and belongs to this user."),
    (apsw.PermissionsError, "{path} cannot be opened.", "Check that it belongs to this user."),
    (apsw.NotADBError, "{path} is not a database.", "Move it away, or put back a copy from the folder `backups`."),
    (apsw.CorruptError, "{path} is damaged.", "Move it away, or put back a copy from the folder `backups`."),
    (apsw.IOError, "The disk reported an error on {path}.", "Check the disk; nothing of this was stored."),
)
