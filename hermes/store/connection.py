"""Connections to SQLite with Hermes' settings, its errors in words that a person can act on, and the steps
that bring an older file to today's tables, each applied once, after a copy of the database was made.
"""

import contextlib
import errno
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
from msgspec import Struct

from hermes.core.errors import StoreError, StoreFullError
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

    The connection belongs to the calling thread. The journal mode is left alone: see `enable_wal`.
    """
    fresh = create and not path.exists()
    flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOMUTEX | apsw.SQLITE_OPEN_READWRITE
    if create:
        flags |= apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    if fresh:
        path.chmod(0o600)  # before anything is in it; its -wal and -shm take the mode over
    connection.set_busy_handler(_BusyHandler(BUSY_SECONDS))
    for setting in _SETTINGS:
        connection.execute(setting).fetchall()
    return connection


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


@contextlib.contextmanager
def transaction(connection: apsw.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Run the statements inside in one transaction, rolled back when one of them fails."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def explain_error(error: apsw.Error, path: Path, system_errno: int = 0) -> StoreError:
    """Return the error in plain words. `system_errno` is the connection's, read before it is used again."""
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and system_errno in _NO_ROOM):
        return StoreFullError(
            N_("There is no room to write {path}.", path=path),
            "Free some disk space, or raise the process's file size limit; nothing of this was stored.",
        )
    for kind, what, hint in _MESSAGES:
        if isinstance(error, kind):
            return StoreError(what.format(path=path), hint)
    return StoreError(N_("The database {path} cannot be used: {error}", path=path, error=error))


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


class DatabaseSchema(Struct, frozen=True):
    """The schema of a file. Step n (counted from 1) brings version n-1 to version n; steps are never changed."""

    application_id: int
    steps: tuple[str, ...]


def migrate_schema(
    connection: apsw.Connection, path: Path, schema: DatabaseSchema, prepare: Callable[[], object]
) -> None:
    """Bring the file to the newest version. `prepare` is called once the file is known to be ours or empty.

    Safe when several processes do it at once. Raises `StoreError` for a file of another program or of a
    newer Hermes, and `apsw.Error`; the file is then as it was.
    """
    version = _read_version(connection, path, schema)
    prepare()
    if version == len(schema.steps):
        return
    if version:
        _back_up(connection, path, version)
    with transaction(connection):
        for step in schema.steps[_read_version(connection, path, schema) :]:
            connection.execute(step).fetchall()
        connection.execute(f"PRAGMA application_id = {schema.application_id}")
        connection.execute(f"PRAGMA user_version = {len(schema.steps)}")


def _read_version(connection: apsw.Connection, path: Path, schema: DatabaseSchema) -> int:
    # All of it from one state: another process may be making this file at this moment.
    with contextlib.nullcontext() if connection.in_transaction else transaction(connection, "DEFERRED"):
        filled = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get is not None
        identity = connection.pragma("application_id")
        version = connection.pragma("user_version")
    if identity != schema.application_id:
        if identity or version or filled:
            raise StoreError(
                N_("{path} is a database of another program.", path=path), "Move it away, or choose another folder."
            )
        return 0
    if not isinstance(version, int) or version > len(schema.steps):
        raise StoreError(
            N_(
                "{path} was written by a newer Hermes (version {version}, this one knows {steps}).",
                path=path,
                version=version,
                steps=len(schema.steps),
            ),
            "Update Hermes, or put back a copy from the folder `backups`.",
        )
    return version


def _back_up(connection: apsw.Connection, path: Path, version: int) -> None:
    """Copy the whole database to `backups/`; an incomplete copy never carries a backup's name."""
    folder = path.parent / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    final = folder / f"{path.stem}-v{version}-{stamp}-{os.getpid()}.db"
    partial = final.with_suffix(".partial")
    try:
        connection.execute("VACUUM INTO ?", (str(partial),)).fetchall()
        partial.chmod(0o600)
        partial.rename(final)
    finally:
        partial.unlink(missing_ok=True)
