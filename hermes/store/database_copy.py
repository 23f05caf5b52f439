"""Whole copies of a database while others use it, and whether a file is a database that can be used."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import apsw

from hermes.core.errors import BusyError, StoreError
from hermes.store.schema import HERMES
from hermes.store.sqlite.connection import connect, explain, transaction

_PAGES = 4_096
_SHORT = 2.0
"""Seconds that are waited for other programs where nothing is written."""


def copy_database(source: Path, target: Path, told: Callable[[float], object] = float) -> None:
    """Copy a database to a new file, as it is at one moment, whoever writes meanwhile. One file, without a log.

    `told` hears from time to time which share is done. Raises StoreError.
    """
    try:
        with (
            contextlib.closing(connect(source, create=False)) as one,
            contextlib.closing(connect(target, create=True)) as other,
        ):
            with transaction(one, "DEFERRED"), other.backup("main", one, "main") as copying:
                one.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
                while not copying.done:
                    copying.step(_PAGES)
                    told(1 - copying.remaining / copying.page_count if copying.page_count else 1.0)
            other.pragma("journal_mode", "delete")
    except apsw.Error as error:
        raise explain(error, source) from error


def examine_database(path: Path, *, thorough: bool = True) -> list[str]:
    """What SQLite finds wrong with a database, at most ten things; none when it is sound. Raises StoreError.

    Without `thorough` it is only looked whether its pages hang together, which takes a tenth of the time.
    """
    try:
        with contextlib.closing(connect(path, create=False)) as connection:
            check = "integrity_check" if thorough else "quick_check"
            return [str(row[0]) for row in connection.execute(f"PRAGMA main.{check}(10)") if row[0] != "ok"]
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [str(error)]
    except apsw.Error as error:
        raise explain(error, path) from error


def must_be_usable(path: Path) -> int:
    """The version of a database of ours that this Hermes can use. Raises StoreError with what is wrong with it."""
    try:
        with contextlib.closing(connect(path, create=False)) as connection:
            identity, version = connection.pragma("application_id"), connection.pragma("user_version")
    except apsw.Error as error:
        raise explain(error, path) from error
    if identity != HERMES.application_id or not isinstance(version, int):
        raise StoreError(f"{path.name} is no database of Hermes.")
    if version > len(HERMES.steps):
        raise StoreError(
            f"{path.name} was written by a newer Hermes (version {version}, this one knows {len(HERMES.steps)}).",
            "Update Hermes first.",
        )
    return version


def close_log(path: Path) -> None:
    """Move the log of a database into its file, which then is all there is of it.

    Raises BusyError when another process has it open, and StoreError.
    """
    try:
        with contextlib.closing(connect(path, create=False)) as connection:
            connection.set_busy_timeout(int(_SHORT * 1000))
            connection.pragma("journal_mode", "delete")
    except apsw.BusyError:
        raise BusyError(f"{path} is open in another process.", "End it, and try again.") from None
    except apsw.Error as error:
        raise explain(error, path) from error


def session_ids(path: Path) -> set[str]:
    """Every session in a database. Raises StoreError; nothing is changed, an older version not either."""
    try:
        with contextlib.closing(connect(path, create=False)) as connection:
            return {str(row[0]) for row in connection.execute("SELECT id FROM sessions")}
    except apsw.Error as error:
        raise explain(error, path) from error
