"""Backups of a home: made, listed, and put back. Shared by every front-end."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import hermes
from hermes.admin.archive import FORMAT, Archive, Manifest, Member, Packer, packing
from hermes.config import restoring
from hermes.config.home import Home, locate_home
from hermes.core.errors import HermesError, NotFoundError, StoreError
from hermes.i18n.messages import phrase, say
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.open_sessions import must_be_idle
from hermes.store.database_copy import close_log, copy_database, examine_database, must_be_usable

DATABASE = "hermes.db"
KEYS = (".env", "auth.json")
_SMALL = ("config.yaml", *KEYS, "trust.json", "SOUL.md", "memories", "memory")
_LARGE = ("skills", "spill", "trajectories")
KEPT = (DATABASE, *_SMALL, *_LARGE)
"""What of a home is in a backup. The search index is made of the database again; the rest is left out by name."""
_NEVER = frozenset({"search.db", "cache", "logs", "run", "backups", "profiles", "active_profile"})
"""What nobody misses in a backup: made again by itself, or no part of this home."""
_AUTOMATIC = "auto-"
_KEPT_COPIES = 5
_INDEX = ("search.db", "search.db-wal", "search.db-shm", "search.db-journal", "hermes.db-wal", "hermes.db-shm")

Told = Callable[[str], object]


def back_up(
    environ: Mapping[str, str], target: Path | None = None, *, quick: bool = False, keys: bool = True, told: Told = str
) -> Plain:
    """Make a backup of the home, by itself in the folder `backups`; what is in it, and what is not.

    `quick` leaves out skills, large results and trajectories, `keys` off the files with keys. `told` hears what is
    being done. Raises HermesError; then there is no new file.
    """
    home = locate_home(environ)
    home.check()
    if not home.root.is_dir():
        raise NotFoundError(phrase("There is nothing in {home} yet.", home=home.root))
    if target is None:
        home.backups.mkdir(mode=0o700, exist_ok=True)
        target = _unused(home.backups, "hermes")
    left_out = (*(() if keys else KEYS), *(_LARGE if quick else ()))
    return _written(home, target.absolute(), left_out=left_out, told=told)


def back_up_by_itself(home: Home, *, told: Told = str, database: bool = True) -> Plain | None:
    """Make a backup before something is changed, and let the oldest such ones go; None when there is nothing yet.

    Without `database` the rest alone is in it.
    """
    if not any((home.root / name).exists() for name in KEPT):
        return None
    home.backups.mkdir(mode=0o700, exist_ok=True)
    target = _unused(home.backups, f"{_AUTOMATIC}hermes")
    made = _written(home, target, left_out=() if database else (DATABASE,), told=told)
    for old in sorted(home.backups.glob(f"{_AUTOMATIC}*.zip"), key=_age)[:-_KEPT_COPIES]:
        old.unlink(missing_ok=True)
    return made


def backups(environ: Mapping[str, str]) -> list[Plain]:
    """The backups in the home, the newest first; copies of the database that an update made are among them."""
    home = locate_home(environ)
    found = [one for one in home.backups.glob("*") if one.suffix in (".zip", ".db")] if home.backups.is_dir() else []
    return [_row(one) for one in sorted(found, key=_age, reverse=True)]


def newest_backup(home: Home) -> Path | None:
    """The newest backup in the home; None when there is none."""
    return max(home.backups.glob("*.zip"), key=_age, default=None) if home.backups.is_dir() else None


def named_backup(environ: Mapping[str, str], name: str) -> Path:
    """The file that is meant: the name of one in the folder `backups`, or else a path (`./NAME`: in this folder)."""
    inside = locate_home(environ).backups / name
    return inside if os.sep not in name and inside.exists() else Path(name).expanduser().absolute()


def restore_plan(environ: Mapping[str, str], file: Path) -> Plain:
    """What restoring would do, once everything in the archive was read and found whole. Nothing is changed.

    Raises StoreError for what is damaged, hostile, or of a newer Hermes, and NotFoundError.
    """
    home = locate_home(environ)
    with Archive(file) as archive:
        archive.verify()
        with _database_of(archive, home):
            pass
        return _plan(home, file, archive.manifest)


def restore(environ: Mapping[str, str], file: Path, *, told: Told = str) -> Plain:
    """Put what is in a backup in the place of what the home has; what came of it, with the backup made before.

    A death in the middle leaves the old home or the new one. Raises as `restore_plan`, and BusyError while a session
    is open; then nothing has changed.
    """
    home = locate_home(environ)
    home.ensure()
    with Archive(file) as archive, restoring.alone(home.root):
        what = say("Nothing can be restored")
        must_be_idle(home, what)
        plan = _plan(home, file, archive.manifest)
        with _staged(home, archive, told) as stage:
            told(say("backing up what is there now"))
            before = _kept_before(home)
            _commit(home, stage, list(archive.manifest.tops()), what)
        for _ in restoring.steps(home.root):
            pass
    return plan | {"before": None if before is None else before["file"]}


def _kept_before(home: Home) -> Plain | None:
    """A backup of what is there now. A damaged database cannot be in one: it is kept as the file that it is."""
    try:
        return back_up_by_itself(home)
    except StoreError:
        if not home.database.exists() or not _is_damaged(home.database):
            raise
    # Nobody has it open, this process neither: a plain copy disturbs no lock of SQLite's.
    shutil.copyfile(home.database, home.backups / f"damaged-{time.strftime('%Y%m%d-%H%M%S')}.db")
    return back_up_by_itself(home, database=False)


def _is_damaged(database: Path) -> bool:
    try:
        return bool(examine_database(database))
    except StoreError:
        return True


def _commit(home: Home, stage: Path, names: list[str], what: str) -> None:
    """Let the restored files count, unless somebody uses the home by now."""
    gone = list(_INDEX) if DATABASE in names else []
    if DATABASE in names and home.database.exists():
        with contextlib.suppress(StoreError):  # what is damaged is what a restore is for
            close_log(home.database)
    restoring.commit(home.root, stage, names, gone)
    try:
        must_be_idle(home, what)
    except HermesError:
        restoring.withdraw(home.root)
        raise


@contextlib.contextmanager
def _staged(home: Home, archive: Archive, told: Told) -> Iterator[Path]:
    """The files of a backup beside the home's, ready to be moved. The folder goes when nothing came of it."""
    stage = home.root / f"{restoring.STAGE}{os.urandom(4).hex()}"
    try:
        (stage / "new").mkdir(mode=0o700, parents=True)
        _must_fit(home.root, archive.manifest.size)
        for number, member in enumerate(archive.manifest.files, 1):
            if number % 200 == 1:
                told(say("reading {n} of {all} files", n=number, all=len(archive.manifest.files)))
            archive.extract(member, stage / "new" / member.name)
        database = stage / "new" / DATABASE
        if database.exists():
            _must_be_sound(database)
        yield stage
    except OSError as error:
        raise StoreError(
            phrase("The backup cannot be unpacked: {reason}.", reason=error.strerror), phrase("Nothing was changed.")
        ) from None
    finally:
        if not (home.root / restoring.JOURNAL).exists():
            shutil.rmtree(stage, ignore_errors=True)


@contextlib.contextmanager
def _database_of(archive: Archive, home: Home) -> Iterator[None]:
    """Look at the database of a backup: it must be ours, sound, and of a version that this Hermes knows."""
    import tempfile

    member = next((one for one in archive.manifest.files if one.name == DATABASE), None)
    if member is None:
        yield
        return
    near = home.root if home.root.is_dir() else None
    with tempfile.TemporaryDirectory(prefix=restoring.STAGE, dir=near, ignore_cleanup_errors=True) as folder:
        copy = Path(folder, DATABASE)
        archive.extract(member, copy)
        _must_be_sound(copy)
        yield


def _must_be_sound(database: Path) -> None:
    must_be_usable(database)
    if wrong := examine_database(database):
        raise StoreError(
            phrase("The database in the backup is damaged: {what}.", what=wrong[0]), phrase("Nothing was changed.")
        )


def _must_fit(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise StoreError(
            phrase("There is no room for it: {size:,} bytes are needed, {free:,} are free.", size=size, free=free),
            phrase("Nothing was changed."),
        )


def _must_be_known(file: Path, manifest: Manifest) -> None:
    """Raise StoreError for what no backup of ours holds."""
    for name in manifest.tops():
        if name not in KEPT:
            raise StoreError(
                phrase("{file} is not taken: {name} belongs into no backup.", file=file, name=name),
                phrase("Nothing was changed."),
            )


def _plan(home: Home, file: Path, manifest: Manifest) -> Plain:
    """What restoring replaces, adds, and leaves as it is. Raises StoreError as `_must_be_known` does."""
    _must_be_known(file, manifest)
    tops = manifest.tops()
    ordered = [name for name in KEPT if name in tops]
    there = {name for name in tops if os.path.lexists(home.root / name)}
    return {
        "file": str(file),
        "home": str(home.root),
        "made_at": manifest.made_at,
        "version": manifest.version,
        "replaced": [_part(name, tops[name]) for name in ordered if name in there],
        "added": [_part(name, tops[name]) for name in ordered if name not in there],
        "kept": [name for name in KEPT if name not in tops and os.path.lexists(home.root / name)],
        "keys": manifest.keys,
    }


def _part(name: str, members: list[Member]) -> Plain:
    return {"name": name, "files": len(members), "bytes": sum(one.size for one in members)}


def _written(home: Home, target: Path, *, left_out: Sequence[str], told: Told) -> Plain:
    quick = "skills" in left_out
    wanted = [name for name in KEPT if name not in left_out]
    links: list[str] = []
    schema = 0
    with packing(target) as packer:
        for name in wanted:
            source = home.root / name
            if name == DATABASE and source.exists():
                schema = _add_database(packer, home, told)
                continue
            _add_files(packer, home, source, links)
        told(say("checking what was written"))
        manifest = Manifest(
            format=FORMAT,
            made_at=time.time(),
            version=hermes.__version__,
            schema=schema,
            quick=quick,
            keys=bool(_keys(packer.files)),
            files=tuple(packer.files),
        )
        packer.seal(manifest)
    return {
        "file": str(target),
        "bytes": target.stat().st_size,
        "files": len(manifest.files),
        "quick": quick,
        "keys": _keys(manifest.files),
        "left_out": [*_others(home, wanted), *links],
    }


def _keys(files: Sequence[Member]) -> list[str]:
    return [one.name for one in files if one.name in KEYS]


def _add_files(packer: Packer, home: Home, source: Path, links: list[str]) -> None:
    for path in _files(source, links):
        packer.add(path.relative_to(home.root).as_posix(), path)


def _add_database(packer: Packer, home: Home, told: Told) -> int:
    """Put a copy of the database into the archive, checked before; its version."""
    copy = home.backups if home.backups.is_dir() else home.root
    copy = copy / f".{DATABASE}.{os.urandom(4).hex()}"
    try:
        copy_database(home.database, copy, lambda share: told(say("copying the database: {share:.0%}", share=share)))
        if wrong := examine_database(copy):
            raise StoreError(
                phrase("The database {file} is damaged: {what}.", file=home.database, what=wrong[0]),
                phrase("`hermes doctor` says more."),
            )
        packer.add(DATABASE, copy)
        return must_be_usable(copy)
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)


def _files(path: Path, links: list[str]) -> Iterator[Path]:
    """The plain files at or below a path, sorted; what is a link or something else is noted in `links`."""
    if path.is_symlink():
        links.append(str(path))
    elif path.is_file():
        yield path
    elif path.is_dir():
        for one in sorted(path.iterdir()):
            yield from _files(one, links)
    elif path.exists():
        links.append(str(path))


def _others(home: Home, wanted: list[str]) -> list[str]:
    """What lies in the home and was not taken, by name."""
    known = _NEVER | {*wanted, restoring.JOURNAL}
    return sorted(
        one.name
        for one in os.scandir(home.root)
        if one.name not in known and not one.name.startswith(("hermes.db-", "search.db-", ".restore", ".hermes.db."))
    )


def _row(file: Path) -> Plain:
    status = file.stat()
    row: Plain = {"file": str(file), "name": file.name, "bytes": status.st_size, "made_at": status.st_mtime}
    row["automatic"] = file.name.startswith(_AUTOMATIC) or file.suffix == ".db"
    row["wrong"] = ""
    if file.suffix == ".zip":
        try:
            with Archive(file) as archive:
                found = archive.manifest
            row |= {"made_at": found.made_at, "version": found.version, "keys": found.keys, "quick": found.quick}
            row["files"] = len(found.files)
        except HermesError as error:
            row["wrong"] = str(error)
    return row


def _age(file: Path) -> tuple[float, str]:
    try:
        return file.stat().st_mtime, file.name
    except OSError:
        return 0.0, file.name


def _unused(folder: Path, stem: str) -> Path:
    """A file name with the time in it that nothing has yet."""
    named = f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while os.path.lexists(file := folder / (f"{named}.zip" if number == 1 else f"{named}-{number}.zip")):
        number += 1
    return file
