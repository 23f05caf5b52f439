"""What `hermes doctor` examines in a home: each check with a name, a state, what to do, and where it is safe, a repair.

A repair is never more than: permissions made narrower, what is made again by itself, what belongs to nothing any more.
Settings, words and memories are never touched by one.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from hermes.admin.backup import newest_backup
from hermes.config import restoring
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.core.errors import HermesError
from hermes.i18n.formats import number
from hermes.i18n.messages import phrase, say_many
from hermes.sessions.open_sessions import is_held, lock_files
from hermes.store.database_copy import examine_database, must_be_usable, session_ids
from hermes.store.search.index import behind
from hermes.store.store import Store
from hermes.util.clock import SystemClock

OK, WARNING, PROBLEM = "ok", "warning", "problem"
_LARGE = 200_000_000
"""Bytes of a database above which only its structure is looked at."""
_LITTLE = 500_000_000
_OLD = 3_600.0
"""Seconds after which a half-made file belongs to nobody any more."""
_SECRET = (".env", "auth.json", "trust.json", "hermes.db", "search.db", "config.yaml")


class Check(Struct, frozen=True, kw_only=True):
    """One thing that was examined: how it stands, what to do, and what a repair did."""

    name: str
    state: str
    said: str
    advice: str = ""
    fixed: str = ""


async def examine_home(environ: Mapping[str, str], *, fix: bool = False) -> list[Check]:
    """Examine the home; with `fix` mend what is safe to mend, and say so. Without it nothing is changed."""
    try:
        home = locate_home(environ)
        home.check()
    except HermesError as error:
        return [Check(name="home", state=PROBLEM, said=error.message, advice=error.hint)]
    if not home.root.is_dir():
        return [_missing(home, fix=fix)]
    return [await check(home, fix) for check in _CHECKS]


def _missing(home: Home, *, fix: bool) -> Check:
    if fix:
        home.ensure()
    fixed = phrase("The folder was made.") if fix else ""
    said = phrase("{home} is not there yet; the first start makes it.", home=home.root)
    return Check(name="home", state=OK, said=said, fixed=fixed)


async def _permissions(home: Home, fix: bool) -> Check:
    """Nobody else may look into the home, nor at the files with keys and conversations."""
    open_ones = [path for path in _private(home) if _seen_by_others(path)]
    if not open_ones:
        return Check(name="permissions", state=OK, said=phrase("Only you can read the home."))
    shown = ", ".join(one.name or str(one) for one in open_ones[:5])
    exposed = home.root in open_ones and any(one.is_file() for one in open_ones)
    said = phrase("Others on this machine can read: {names}.", names=shown)
    if not fix:
        state = PROBLEM if exposed else WARNING
        return Check(name="permissions", state=state, said=said, advice=phrase("`hermes doctor --fix` closes them."))
    for one in open_ones:
        one.chmod(stat.S_IMODE(one.stat().st_mode) & 0o700)
    return Check(name="permissions", state=OK, said=said, fixed=phrase("They can be read by you only now."))


def _there(path: Path) -> bool:
    return os.path.lexists(path)


def _private(home: Home) -> Iterator[Path]:
    yield home.root
    for name in (*_SECRET, "backups", "spill", "memories"):
        if (home.root / name).exists() and not (home.root / name).is_symlink():
            yield home.root / name
    if home.backups.is_dir():
        yield from (one for one in home.backups.iterdir() if one.is_file() and not one.is_symlink())


def _seen_by_others(path: Path) -> bool:
    status = path.stat()
    return status.st_uid == os.getuid() and bool(status.st_mode & 0o077)


async def _folders(home: Home, fix: bool) -> Check:
    """Where a folder is to be there must be nothing else."""
    del fix
    names = ("memories", "skills", "cache", "logs", "run", "spill", "trajectories", "backups")
    wrong = [name for name in names if _there(home.root / name) and not (home.root / name).is_dir()]
    if not wrong:
        return Check(name="folders", state=OK, said=phrase("Every folder of the home can be used."))
    return Check(
        name="folders",
        state=PROBLEM,
        said=phrase("These should be folders and are not: {names}.", names=", ".join(wrong)),
        advice=phrase("Move them away."),
    )


async def _settings(home: Home, fix: bool) -> Check:
    """What is wrong with the settings is named, and never changed."""
    del fix
    try:
        loaded = load_settings(home)
    except HermesError as error:
        return Check(name="settings", state=PROBLEM, said=error.message, advice=error.hint)
    if loaded.warnings:
        return Check(
            name="settings",
            state=WARNING,
            said=" ".join(loaded.warnings[:5]),
            advice=phrase("Mend it in {file}.", file=home.config_file),
        )
    said = (
        phrase("config.yaml is understood.")
        if home.config_file.exists()
        else phrase("There is no config.yaml; defaults hold.")
    )
    return Check(name="settings", state=OK, said=said)


async def _database(home: Home, fix: bool) -> Check:
    """The database with everything that was said. It is never mended here: a backup may be put back by the person."""
    del fix
    if not home.database.exists():
        return Check(name="database", state=OK, said=phrase("There is no database yet."))
    try:
        must_be_usable(home.database)
        wrong = await asyncio.to_thread(examine_database, home.database, thorough=_size(home.database) < _LARGE)
    except HermesError as error:
        wrong = [error.message]
    if not wrong:
        return Check(name="database", state=OK, said=phrase("hermes.db is sound."))
    newest = newest_backup(home)
    advice = phrase("No backup is in the home; keep the file as it is, and copy it before anything else.")
    if newest is not None:
        advice = phrase("`hermes restore {name}` puts the newest backup back.", name=newest.name)
    return Check(
        name="database", state=PROBLEM, said=phrase("hermes.db: {what}.", what=wrong[0].rstrip(".")), advice=advice
    )


async def _index(home: Home, fix: bool) -> Check:
    """The search index, which can always be made again."""
    file = home.root / "search.db"
    if not file.exists() or not home.database.exists():
        return Check(name="search", state=OK, said=phrase("The search index is made when it is wanted."))
    missing = await asyncio.to_thread(behind, file, home.database)
    wrong = await asyncio.to_thread(examine_database, file, thorough=False) if missing is not None else ["?"]
    if not missing and not wrong:
        return Check(name="search", state=OK, said=phrase("The search index is sound and knows every message."))
    said = phrase("The search index is damaged.")
    state = WARNING
    if not wrong:
        state, said = (
            OK,
            say_many(
                "The search index lacks {n} message; the next search takes it in.",
                "The search index lacks {n} messages; the next search takes them in.",
                missing or 0,
            ),
        )
    if not fix:
        return Check(name="search", state=state, said=said, advice=phrase("`hermes doctor --fix` makes it anew."))
    try:
        store = await Store.open(home.root, SystemClock())
        try:
            report = await store.follow()
        finally:
            await store.close()
    except HermesError as error:
        return Check(name="search", state=PROBLEM, said=said, advice=error.message)
    fixed = phrase("It was brought up to date: {n} messages taken in.", n=number(report.messages))
    return Check(name="search", state=OK, said=said, fixed=fixed)


async def _locks(home: Home, fix: bool) -> Check:
    """Locks of sessions that are gone. One that is held is never touched."""
    known = await _session_ids(home)
    stale = [file for file in lock_files(home) if known is not None and file.stem not in known and not is_held(file)]
    return _swept(
        "locks",
        stale,
        fix,
        phrase("No lock is left over."),
        _unlock,
        (
            "{n} lock is left of a session that is gone.",
            "{n} locks are left of sessions that are gone.",
        ),
    )


async def _spill(home: Home, fix: bool) -> Check:
    """Large results of sessions that are gone."""
    known = await _session_ids(home)
    held = {file.stem for file in lock_files(home) if is_held(file)}
    folders = sorted(home.spill.iterdir()) if home.spill.is_dir() else []
    lost = [one for one in folders if known is not None and one.name not in known and one.name not in held]
    return _swept(
        "results",
        lost,
        fix,
        phrase("Every large result belongs to a session."),
        _remove,
        (
            "{n} folder of results is of a session that is gone.",
            "{n} folders of results are of sessions that are gone.",
        ),
    )


async def _leftovers(home: Home, fix: bool) -> Check:
    """What backups and restores that died have left."""
    found = restoring.leftovers(home.root)
    for folder in (home.root, home.backups):
        if folder.is_dir():
            found += [one for one in folder.iterdir() if one.name.startswith(".hermes.db.") or one.suffix == ".partial"]
    old = [one for one in found if time.time() - one.lstat().st_mtime > _OLD]
    return _swept(
        "leftovers",
        old,
        fix,
        phrase("Nothing half-made lies about."),
        _remove,
        (
            "{n} half-made file or folder lies about.",
            "{n} half-made files or folders lie about.",
        ),
    )


async def _space(home: Home, fix: bool) -> Check:
    """Room on the disk."""
    del fix
    free = shutil.disk_usage(home.root).free
    shown = phrase("{free} MB are free where the home is.", free=number(free // 1_000_000))
    if free >= _LITTLE:
        return Check(name="space", state=OK, said=shown)
    return Check(name="space", state=WARNING, said=shown, advice=phrase("Make room: without it nothing can be stored."))


def _swept(
    name: str, found: list[Path], fix: bool, none: str, sweep: Callable[[Path], bool], many: tuple[str, str]
) -> Check:
    """A check for what belongs to nothing any more; with `fix` it is taken away."""
    if not found:
        return Check(name=name, state=OK, said=none)
    said = say_many(*many, len(found))
    if not fix:
        return Check(name=name, state=WARNING, said=said, advice=phrase("`hermes doctor --fix` takes that away."))
    gone = sum(sweep(one) for one in found)
    left = len(found) - gone
    fixed = phrase("Taken away: {n}.", n=number(gone))
    return Check(name=name, state=WARNING if left else OK, said=said, fixed=fixed)


def _unlock(file: Path) -> bool:
    """Remove a lock file, unless somebody takes it at this moment."""
    with contextlib.suppress(OSError):
        handle = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()
        finally:
            os.close(handle)
        return True
    return False


def _remove(path: Path) -> bool:
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        return True
    return False


async def _session_ids(home: Home) -> set[str] | None:
    """Every session there is; None when that cannot be told, and nothing may be taken for left over."""
    if not home.database.exists():
        return set()
    try:
        return await asyncio.to_thread(session_ids, home.database)
    except HermesError:
        return None


def _size(file: Path) -> int:
    with contextlib.suppress(OSError):
        return file.stat().st_size
    return 0


_CHECKS: tuple[Callable[[Home, bool], Awaitable[Check]], ...] = (
    _permissions,
    _folders,
    _settings,
    _database,
    _index,
    _locks,
    _spill,
    _leftovers,
    _space,
)
"""In the order in which they are shown."""
