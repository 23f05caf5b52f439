"""Numbered schema steps, each applied once, after a copy of the database was made."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import apsw
from msgspec import Struct

from hermes.core.errors import StoreError
from hermes.store.sqlite.connection import transaction


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
            raise StoreError(f"{path} is a database of another program.", "Move it away, or choose another folder.")
        return 0
    if not isinstance(version, int) or version > len(schema.steps):
        raise StoreError(
            f"{path} was written by a newer Hermes (version {version}, this one knows {len(schema.steps)}).",
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
