"""Consistent copies of a database that others use, and checks whether a file is a usable database."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import apsw

from hermes.core.errors import BusyError, StoreError
from hermes.i18n.messages import N_
from hermes.store.connection import explain_error, open_connection
from hermes.store.database import transaction
from hermes.store.schema import HERMES

_PAGES_PER_STEP = 4_096
_BUSY_SECONDS = 2.0
"""Seconds to wait for other programs where nothing is written."""


def copy_database(source: Path, target: Path, report_progress: Callable[[float], object] = float) -> None:
    """Copy a database to a new file, in the state of one moment, whoever writes meanwhile. One file, without a log.

    `report_progress` is called from time to time with the share that is done. Raises StoreError.
    """
    try:
        with (
            contextlib.closing(open_connection(source, create=False)) as one,
            contextlib.closing(open_connection(target, create=True)) as other,
        ):
            with transaction(one, "DEFERRED"), other.backup("main", one, "main") as copying:
                one.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
                while not copying.done:
                    copying.step(_PAGES_PER_STEP)
                    report_progress(1 - copying.remaining / copying.page_count if copying.page_count else 1.0)
            other.pragma("journal_mode", "delete")
    except apsw.Error as error:
        raise explain_error(error, source) from error


def check_database(path: Path, *, thorough: bool = True) -> list[str]:
    """Return what SQLite finds wrong with a database, at most ten lines; empty when it is sound. Raises StoreError.

    Without `thorough` only the links between pages are checked, which takes a tenth of the time.
    """
    try:
        with contextlib.closing(open_connection(path, create=False)) as connection:
            check = "integrity_check" if thorough else "quick_check"
            return [str(row[0]) for row in connection.execute(f"PRAGMA main.{check}(10)") if row[0] != "ok"]
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [str(error)]
    except apsw.Error as error:
        raise explain_error(error, path) from error


def require_usable_database(path: Path) -> int:
    """Return the version of a Hermes database that this program can use. Raises StoreError with what is
    wrong with it.
    """
    try:
        with contextlib.closing(open_connection(path, create=False)) as connection:
            identity, version = connection.pragma("application_id"), connection.pragma("user_version")
    except apsw.Error as error:
        raise explain_error(error, path) from error
    if identity != HERMES.application_id or not isinstance(version, int):
        raise StoreError(N_("{name} is no database of Hermes.", name=path.name))
    if version > len(HERMES.steps):
        raise StoreError(
            N_(
                "{name} was written by a newer Hermes (version {version}, this one knows {steps}).",
                name=path.name,
                version=version,
                steps=len(HERMES.steps),
            ),
            "Update Hermes first.",
        )
    return version


def list_programs(path: Path) -> list[str]:
    """Return the names of triggers, views and virtual tables: what changes or makes rows while others are written or
    read. Hermes makes none. Raises StoreError.
    """
    query = "SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view') OR sql LIKE 'create virtual%'"
    try:
        with contextlib.closing(open_connection(path, create=False)) as connection:
            return [str(name) for (name,) in connection.execute(query)]
    except apsw.Error as error:
        raise explain_error(error, path) from error


def merge_log(path: Path) -> None:
    """Merge the log of a database into its file, which then holds everything.

    Raises BusyError when another process has it open, and StoreError.
    """
    try:
        with contextlib.closing(open_connection(path, create=False)) as connection:
            connection.set_busy_timeout(int(_BUSY_SECONDS * 1000))
            connection.pragma("journal_mode", "delete")
    except apsw.BusyError:
        raise BusyError(N_("{path} is open in another process.", path=path), "End it, and try again.") from None
    except apsw.Error as error:
        raise explain_error(error, path) from error


def list_session_ids(path: Path) -> set[str]:
    """Return the ids of all sessions in a database. Raises StoreError. Nothing is changed, not even in an older
    version.
    """
    try:
        with contextlib.closing(open_connection(path, create=False)) as connection:
            return {str(row[0]) for row in connection.execute("SELECT id FROM sessions")}
    except apsw.Error as error:
        raise explain_error(error, path) from error
