"""Backups of a home: create, list and restore them. Shared by every front-end.

Backup archives: written completely or not at all, and read without trusting their contents.

A backup is a zip file with a `manifest.json` that names every other member with its size and hash.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import apsw
import msgspec
from msgspec import Struct

import hermes
from hermes.admin.backup_files import (
    MAX_BULK_FILES,
    LeftOutFiles,
    find_name_fault,
    list_tree,
    open_beneath,
    select_files,
)
from hermes.admin.restore_effects import list_restore_effects
from hermes.config import restore_journal
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import list_literal_keys, parse_document
from hermes.core.encoding import Plain, to_json
from hermes.core.errors import ConfigError, HermesError, NotFoundError, StoreError, UsageError
from hermes.i18n.messages import N_, tr
from hermes.sessions.open_sessions import require_no_gateway, require_no_open_session
from hermes.store.connection import explain_error
from hermes.store.database import migrate_schema
from hermes.store.database_copy import check_database, copy_database, list_programs, merge_log, require_usable_database
from hermes.store.schema import HERMES

FORMAT = 1


MANIFEST = "manifest.json"


_CHUNK_BYTES = 1 << 20


_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Error numbers of file systems without hard links, such as that of a memory stick."""


_MOST_FILES = 200_000


_LARGEST_MANIFEST = 64 << 20


class BackupMember(Struct, frozen=True):
    """A file in a backup; `mode` holds its permission bits."""

    name: str
    size: int
    sha256: str
    mode: int = 0o600


class BackupManifest(Struct, frozen=True, kw_only=True):
    """The contents of a backup. `schema` is the version of its database, 0 when it has none."""

    format: int
    made_at: float
    version: str
    schema: int
    quick: bool
    keys: bool
    files: tuple[BackupMember, ...]

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(one.size for one in self.files)

    def group_by_top(self) -> dict[str, list[BackupMember]]:
        """Group the files by the first part of their names: the entries of the home itself."""
        found: dict[str, list[BackupMember]] = {}
        for one in self.files:
            found.setdefault(one.name.partition("/")[0], []).append(one)
        return found


class BackupWriter:
    """Writes the members of a backup, then its manifest."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        self.files: list[BackupMember] = []

    def add_file(self, name: str, source: Path) -> None:
        """Add a file to the archive. Raises OSError."""
        with open(source, "rb", opener=_open_no_follow) as opened:
            self.add_handle(name, opened.fileno())

    def add_handle(self, name: str, handle: int) -> None:
        """Add an open file, as long as it is now: one that grows meanwhile does not grow the backup. Raises OSError."""
        status = os.fstat(handle)
        mode = stat.S_IMODE(status.st_mode)
        digest, size = hashlib.sha256(), 0
        entry = zipfile.ZipInfo(name, time.localtime(max(status.st_mtime, 315_619_200))[:6])
        entry.external_attr = (stat.S_IFREG | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        with self._file.open(entry, "w", force_zip64=True) as written:
            while chunk := os.read(handle, min(_CHUNK_BYTES, status.st_size - size)):
                digest.update(chunk)
                size += len(chunk)
                written.write(chunk)
        self.files.append(BackupMember(name=name, size=size, sha256=digest.hexdigest(), mode=mode))

    def write_manifest(self, manifest: BackupManifest) -> None:
        """Write the manifest as the archive's last member."""
        self._file.writestr(MANIFEST, msgspec.json.format(to_json(manifest)))


@contextlib.contextmanager
def create_archive(target: Path) -> Iterator[BackupWriter]:
    """Write a new archive, private to its owner, under its name only once it is complete.

    It gets its name when it is flushed to disk and was read back. Raises UsageError when there is such a
    file, StoreError when it cannot be written.
    """
    if os.path.lexists(target):
        raise UsageError(N_("{file} is there already.", file=target), N_("Name another file."))
    partial = target.with_name(f".{target.name[:60]}.{os.urandom(4).hex()}.partial")
    try:
        handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w+b") as file:
            with zipfile.ZipFile(file, "w", allowZip64=True, strict_timestamps=False) as archive:
                yield BackupWriter(archive)
            file.flush()
            os.fsync(file.fileno())
        with BackupArchive(partial) as written:
            written.verify_members()
        _publish_file(partial, target)
    except OSError as error:
        ours = error.filename in (None, str(partial), partial)
        place = str(target) if ours else str(error.filename)
        raise StoreError(N_("{file} cannot be written: {reason}.", file=place, reason=error.strerror)) from None
    finally:
        partial.unlink(missing_ok=True)


def _publish_file(partial: Path, target: Path) -> None:
    """Give a finished file its name without replacing a file that appeared meanwhile. Raises OSError."""
    try:
        os.link(partial, target)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if os.path.lexists(target):  # a moment is left in which somebody could make it; such disks know no better way
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.rename(partial, target)


class BackupArchive:
    """Reads a backup, as a context. Raises StoreError for everything that no backup of ours contains."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: BinaryIO = open(path, "rb", opener=_open_regular)  # noqa: SIM115 - closed by the context
        except FileNotFoundError:
            raise NotFoundError(
                N_("There is no backup {file}.", file=path), N_("`hermes backup list` shows them.")
            ) from None
        except OSError as error:
            raise StoreError(N_("{file} cannot be read: {reason}.", file=path, reason=error.strerror)) from None
        with contextlib.ExitStack() as undo:
            undo.callback(self._file.close)
            try:
                self._zip = zipfile.ZipFile(self._file)
                self.manifest = self._load_manifest()
            except (zipfile.BadZipFile, msgspec.MsgspecError, OSError, EOFError, NotImplementedError, RuntimeError):
                raise self._damage_error(N_("it is not a backup, or it is damaged")) from None
            undo.pop_all()

    def __enter__(self) -> "BackupArchive":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def verify_members(self) -> None:
        """Read every member and compare it with the manifest."""
        for one in self.manifest.files:
            self._copy_member(one, None)

    def extract_member(self, member: BackupMember, target: Path) -> None:
        """Write a member to a new file, creating its folders, when it matches the manifest."""
        _make_private_folders(target.parent)
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            self._copy_member(member, file)
            os.fchmod(file.fileno(), member.mode & 0o700)
            file.flush()
            os.fsync(file.fileno())

    def _copy_member(self, member: BackupMember, into: BinaryIO | None) -> None:
        digest, size = hashlib.sha256(), 0
        try:
            with self._zip.open(member.name) as opened:
                while chunk := opened.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    size += len(chunk)
                    if size > member.size:
                        break
                    if into is not None:
                        into.write(chunk)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
            size = -1
        if size != member.size or digest.hexdigest() != member.sha256:
            raise self._damage_error(N_("{name} is not what the manifest says", name=member.name))

    def _load_manifest(self) -> BackupManifest:
        entries = self._zip.infolist()
        if len(entries) > _MOST_FILES:
            raise self._damage_error(N_("it holds too many files"))
        names = [entry.filename for entry in entries]
        manifest = self._decode_manifest(entries)
        listed = [MANIFEST, *(one.name for one in manifest.files)]
        if sorted(listed) != sorted(names) or len(set(names)) != len(names):
            raise self._damage_error(N_("its manifest and its members differ"))
        for one in entries:
            if (wrong := _find_member_fault(one)) is not None:
                raise self._damage_error(wrong)
        return manifest

    def _decode_manifest(self, entries: Sequence[zipfile.ZipInfo]) -> BackupManifest:
        """Decode the manifest, without a look at the other members."""
        entry = next((one for one in entries if one.filename == MANIFEST), None)
        if entry is None or entry.file_size > _LARGEST_MANIFEST:
            raise self._damage_error(N_("it is not a backup of Hermes"))
        text = self._zip.read(entry)
        if msgspec.json.decode(text, type=_FormatNumber).format > FORMAT:
            raise StoreError(N_("{file} was written by a newer Hermes.", file=self.path), N_("Update Hermes first."))
        return msgspec.json.decode(text, type=BackupManifest)

    def _damage_error(self, why: str) -> StoreError:
        return StoreError(N_("{file} is not taken: {why}.", file=self.path, why=why), N_("Nothing was changed."))


class _FormatNumber(Struct, frozen=True):
    format: int


def _make_private_folders(folder: Path) -> None:
    """Make a folder and those above it that are missing, for the user alone."""
    if not folder.is_dir():
        _make_private_folders(folder.parent)
        folder.mkdir(mode=0o700)


def _find_member_fault(entry: zipfile.ZipInfo) -> str | None:
    """Return why a member is refused on its own, or None."""
    name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
    if find_name_fault(name):
        return N_("the name {name!r} leads out of the home", name=name[:80])
    if kind not in (0, stat.S_IFREG):
        return N_("{name} is a link or no plain file", name=name)
    return N_("{name} is encrypted", name=name) if entry.flag_bits & 1 else None


def _open_no_follow(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file; never block on the other end of a pipe."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(22, N_("it is not a regular file"))
    return handle


DATABASE = "hermes.db"
KEY_FILES = (".env", "auth.json", "webhooks.json")
_SMALL_ENTRIES = (
    *("config.yaml", *KEY_FILES, "trust.json", "plugins.json"),
    *("models.json", "SOUL.md", "memories", "memory"),
)
_LARGE_ENTRIES = ("skills", "spill", "trajectories")
_BULK_ENTRIES = ("cron", "people", "media", "workspace")
"""Folders of people's own files: as much of them as the limit allows. What a restore replaces of them is kept."""
BACKED_UP = (DATABASE, *_SMALL_ENTRIES, "scripts", "commands", "agents", "plugins", *_LARGE_ENTRIES, *_BULK_ENTRIES)
"""The entries of a home that a backup holds. The search index is rebuilt from the database; all else is
reported as left out.
"""
USUAL_LIMIT = 1_000_000_000
"""Bytes of people's own files that a backup holds, where nobody says otherwise."""
_EXCLUDED = frozenset({"search.db", "cache", "logs", "run", "backups", "browser", "profiles", "active_profile"})
"""Entries that a backup excludes silently: rebuilt by themselves, sign-ins of the browser, or no part of this home."""
_AUTOMATIC_PREFIX = "auto-"
_MAX_AUTOMATIC = 5
_INDEX_FILES = ("search.db", "search.db-wal", "search.db-shm", "search.db-journal", "hermes.db-wal", "hermes.db-shm")

ProgressCallback = Callable[[str], object]


def create_backup(
    environ: Mapping[str, str],
    target: Path | None = None,
    *,
    quick: bool = False,
    keys: bool = True,
    limit: int = USUAL_LIMIT,
    report: ProgressCallback = str,
) -> Plain:
    """Create a backup of the home, by default in its folder `backups`; report what it holds and leaves out.

    `quick` leaves out skills, large results, trajectories and people's own files; `keys` off leaves out the files with
    keys. Of people's own files it holds `limit` bytes at most, the smallest first.
    `report` is called with the progress. Raises HermesError; then there is no new file.
    """
    home = locate_home(environ)
    home.check_usable(writes=target is None)
    if not home.root.is_dir():
        raise NotFoundError(N_("There is nothing in {home} yet.", home=home.root))
    if target is None:
        home.backups.mkdir(mode=0o700, exist_ok=True)
        target = _choose_file_name(home.backups, "hermes")
    left_out = (*(() if keys else KEY_FILES), *((*_LARGE_ENTRIES, *_BULK_ENTRIES) if quick else ()))
    return _write_backup(home, target.absolute(), left_out=left_out, limit=limit, report=report)


def create_automatic_backup(home: HermesHome, *, report: ProgressCallback = str, database: bool = True) -> Plain | None:
    """Create a backup before something is changed and delete the oldest automatic ones; None for an empty home.

    Without `database` everything but the database is in it. People's own files are not: nothing changes them.
    """
    if not any((home.root / name).exists() for name in BACKED_UP):
        return None
    home.backups.mkdir(mode=0o700, exist_ok=True)
    target = _choose_file_name(home.backups, f"{_AUTOMATIC_PREFIX}hermes")
    left_out = (*_BULK_ENTRIES, *(() if database else (DATABASE,)))
    made = _write_backup(home, target, left_out=left_out, limit=0, report=report)
    for old in sorted(home.backups.glob(f"{_AUTOMATIC_PREFIX}*.zip"), key=_modification_key)[:-_MAX_AUTOMATIC]:
        old.unlink(missing_ok=True)
    return made


def list_backups(environ: Mapping[str, str]) -> list[Plain]:
    """List the backups in the home, the newest first, with the database copies that updates made."""
    home = locate_home(environ)
    found = [one for one in home.backups.glob("*") if one.suffix in (".zip", ".db")] if home.backups.is_dir() else []
    return [_describe_backup(one) for one in sorted(found, key=_modification_key, reverse=True)]


def find_newest_backup(home: HermesHome) -> Path | None:
    """Return the newest backup in the home, or None."""
    return max(home.backups.glob("*.zip"), key=_modification_key, default=None) if home.backups.is_dir() else None


def resolve_backup_path(environ: Mapping[str, str], name: str) -> Path:
    """Return the file that a name means: one in the folder `backups`, else a path (`./NAME`: in this folder)."""
    inside = locate_home(environ).backups / name
    return inside if os.sep not in name and inside.exists() else Path(name).expanduser().absolute()


def plan_restore(environ: Mapping[str, str], file: Path) -> Plain:
    """Return what restoring would do, once the archive was read completely and found sound. Changes nothing.

    `effects` are lines about what would start or be open that is not so now. Raises StoreError for an archive that is
    damaged, hostile, or of a newer Hermes, and NotFoundError.
    """
    home = locate_home(environ)
    with BackupArchive(file) as archive:
        archive.verify_members()
        plan = _build_plan(home, file, archive.manifest)
        hashes = {one.name: one.sha256 for one in archive.manifest.files}
        with _unpack_small_entries(archive, home) as folder:
            return plan | {"effects": list_restore_effects(HermesHome(folder), home, hashes)}


def require_unused_home(environ: Mapping[str, str]) -> None:
    """Raise BusyError while the gateway runs or a session is open: then nothing can be restored."""
    home, what = locate_home(environ), tr("Nothing can be restored")
    require_no_gateway(home, what)
    require_no_open_session(home, what)


def restore_backup(
    environ: Mapping[str, str], file: Path, *, planned: Plain | None = None, report: ProgressCallback = str
) -> Plain:
    """Replace the contents of the home with those of a backup; return the plan and the backup made before.

    With the plan that a person has seen, nothing but the archive of that plan is restored.

    A crash in the middle leaves the old home or the new one. Raises as `plan_restore`, and BusyError while
    a session is open; then nothing has changed.
    """
    home = locate_home(environ)
    home.ensure_exists()
    with BackupArchive(file) as archive, restore_journal.hold_restore_lock(home.root):
        require_unused_home(environ)
        what = tr("Nothing can be restored")
        plan = _build_plan(home, file, archive.manifest)
        if planned is not None and planned["digest"] != plan["digest"]:
            raise StoreError(N_("{file} was changed meanwhile.", file=file), N_("Nothing was changed."))
        with _stage_files(home, archive, report) as stage:
            report(tr("backing up what is there now"))
            before = _back_up_current(home)
            kept = _commit_restore(home, stage, list(archive.manifest.group_by_top()), what)
        for _ in restore_journal.iter_restore_steps(home.root):
            pass
    return plan | {"before": None if before is None else before["file"], "kept_in": kept}


def _back_up_current(home: HermesHome) -> Plain | None:
    """Back up the current home; a damaged database is copied as a plain file, since no backup can hold it."""
    try:
        return create_automatic_backup(home)
    except StoreError:
        if not home.database.exists() or not _is_damaged(home.database):
            raise
    # Nobody has it open, this process neither: a plain copy disturbs no lock of SQLite's.
    shutil.copyfile(home.database, home.backups / f"damaged-{time.strftime('%Y%m%d-%H%M%S')}.db")
    return create_automatic_backup(home, database=False)


def _is_damaged(database: Path) -> bool:
    try:
        return bool(check_database(database))
    except StoreError:
        return True


def _commit_restore(home: HermesHome, stage: Path, names: list[str], what: str) -> str:
    """Make the restored files current, unless somebody uses the home by now. Return the folder in which people's own
    files are kept that were replaced; empty where there were none.
    """
    gone = list(_INDEX_FILES) if DATABASE in names else []
    if DATABASE in names and home.database.exists():
        with contextlib.suppress(StoreError):  # what is damaged is what a restore is for
            merge_log(home.database)
    kept = [name for name in _BULK_ENTRIES if name in names and os.path.lexists(home.root / name)]
    folder = f"replaced-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}" if kept else ""
    restore_journal.commit_restore(home.root, stage, names, gone, kept=kept, kept_in=folder)
    try:
        require_no_open_session(home, what)
    except HermesError:
        restore_journal.withdraw_restore(home.root)
        raise
    return str(home.root / folder) if folder else ""


@contextlib.contextmanager
def _stage_files(home: HermesHome, archive: BackupArchive, report: ProgressCallback) -> Iterator[Path]:
    """Unpack a backup beside the home, ready to be moved; delete the folder when nothing came of it."""
    stage = home.root / f"{restore_journal.STAGE_PREFIX}{os.urandom(4).hex()}"
    try:
        (stage / "new").mkdir(mode=0o700, parents=True)
        _require_space(home.root, archive.manifest.size)
        for number, member in enumerate(archive.manifest.files, 1):
            if number % 200 == 1:
                report(tr("reading {n} of {all} files", n=number, all=len(archive.manifest.files)))
            archive.extract_member(member, stage / "new" / member.name)
        database = stage / "new" / DATABASE
        if database.exists():
            _require_sound(database)
            _keep_taint_marks(home.database, database)
        yield stage
    except OSError as error:
        raise StoreError(
            N_("The backup cannot be unpacked: {reason}.", reason=error.strerror), N_("Nothing was changed.")
        ) from None
    finally:
        if not (home.root / restore_journal.JOURNAL).exists():
            shutil.rmtree(stage, ignore_errors=True)


@contextlib.contextmanager
def _unpack_small_entries(archive: BackupArchive, home: HermesHome) -> Iterator[Path]:
    """Unpack a backup's database and its files of settings and keys into a folder for the time of the context.

    The database must be ours, sound, and of a version that this Hermes supports.
    """
    import tempfile

    near = home.root if home.root.is_dir() else None
    with tempfile.TemporaryDirectory(
        prefix=restore_journal.STAGE_PREFIX, dir=near, ignore_cleanup_errors=True
    ) as folder:
        for member in archive.manifest.files:
            if member.name == DATABASE or member.name in _SMALL_ENTRIES:
                archive.extract_member(member, Path(folder, member.name))
        if Path(folder, DATABASE).exists():
            _require_sound(Path(folder, DATABASE))
        yield Path(folder)


def _require_sound(database: Path) -> None:
    require_usable_database(database)
    if programs := list_programs(database):
        raise StoreError(
            N_("The database in the backup runs statements of its own ({names}).", names=", ".join(programs)[:200]),
            N_("Nothing was changed."),
        )
    if wrong := check_database(database):
        raise StoreError(
            N_("The database in the backup is damaged: {what}.", what=wrong[0]), N_("Nothing was changed.")
        )


def _keep_taint_marks(current: Path, restored: Path) -> None:
    """Add the marks of files that are not trusted now: the files stay, whatever the backup knows of them.

    A backup of an older Hermes is brought up to date for it. Raises StoreError where the marks are not taken.
    """
    rows: list[tuple[apsw.SQLiteValue, ...]] = []
    if current.exists():
        with (
            contextlib.suppress(apsw.Error),
            contextlib.closing(apsw.Connection(str(current), flags=apsw.SQLITE_OPEN_READONLY)) as source,
        ):
            rows = source.execute("SELECT path, digest, sources, at FROM marked_files").fetchall()
    if not rows:
        return
    try:
        with contextlib.closing(apsw.Connection(str(restored))) as target:
            migrate_schema(target, restored, HERMES, lambda: None)
            target.executemany("REPLACE INTO marked_files (path, digest, sources, at) VALUES (?, ?, ?, ?)", rows)
            taken = target.execute("SELECT path, digest, sources, at FROM marked_files").fetchall()
    except apsw.Error as error:
        raise explain_error(error, restored) from error
    if not {*rows} <= {*taken}:
        raise StoreError(
            N_("The database in the backup is damaged: {what}.", what="marked_files"), N_("Nothing was changed.")
        )


def _require_space(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise StoreError(
            N_("There is no room for it: {size:,} bytes are needed, {free:,} are free.", size=size, free=free),
            N_("Nothing was changed."),
        )


def _require_known_entries(file: Path, manifest: BackupManifest) -> None:
    """Raise StoreError for entries that no backup of ours holds."""
    for name in manifest.group_by_top():
        if name not in BACKED_UP:
            raise StoreError(
                N_("{file} is not taken: {name} belongs into no backup.", file=file, name=name),
                N_("Nothing was changed."),
            )


def _build_plan(home: HermesHome, file: Path, manifest: BackupManifest) -> Plain:
    """Return what restoring replaces, adds and keeps. Raises StoreError as `_require_known_entries` does."""
    _require_known_entries(file, manifest)
    tops = manifest.group_by_top()
    ordered = [name for name in BACKED_UP if name in tops]
    there = {name for name in tops if os.path.lexists(home.root / name)}
    return {
        "file": str(file),
        "home": str(home.root),
        "made_at": manifest.made_at,
        "version": manifest.version,
        "replaced": [_summarize_entry(name, tops[name]) for name in ordered if name in there],
        "added": [_summarize_entry(name, tops[name]) for name in ordered if name not in there],
        "kept": [name for name in BACKED_UP if name not in tops and os.path.lexists(home.root / name)],
        "keys": manifest.keys,
        "digest": hashlib.sha256(to_json(manifest)).hexdigest(),
    }


def _summarize_entry(name: str, members: list[BackupMember]) -> Plain:
    return {"name": name, "files": len(members), "bytes": sum(one.size for one in members)}


def _write_backup(
    home: HermesHome, target: Path, *, left_out: Sequence[str], limit: int, report: ProgressCallback
) -> Plain:
    quick = "skills" in left_out
    wanted = [name for name in BACKED_UP if name not in left_out]
    schema = 0
    with create_archive(target) as packer, _open_folder(home.root) as root:
        if DATABASE in wanted and home.database.exists():
            schema = _add_database(packer, home, target.parent, report)
        notes = _add_entries(packer, root, [name for name in wanted if name != DATABASE], limit)
        report(tr("checking what was written"))
        manifest = BackupManifest(
            format=FORMAT,
            made_at=time.time(),
            version=hermes.__version__,
            schema=schema,
            quick=quick,
            keys=bool(_list_key_files(packer.files)),
            files=tuple(packer.files),
        )
        packer.write_manifest(manifest)
    return {
        "file": str(target),
        "bytes": target.stat().st_size,
        "files": len(manifest.files),
        "quick": quick,
        "keys": _list_key_files(manifest.files),
        "key_settings": _list_key_settings(home),
        "left_out": [*_list_left_out(home, wanted), *(str(home.root / one) for note in notes for one in note.odd)],
        "skipped": [line for note in notes for line in note.describe(limit)],
    }


def _add_entries(packer: BackupWriter, root: int, names: Sequence[str], limit: int) -> list[LeftOutFiles]:
    """Add the files of entries of the home, of people's own `limit` bytes at most; return what is left out."""
    notes = [LeftOutFiles(name) for name in names]
    bulk = 0
    for note in notes:
        before, is_bulk = len(packer.files), note.entry in _BULK_ENTRIES
        _add_entry(packer, root, note, limit=limit - bulk if is_bulk else None, room=MAX_BULK_FILES - before)
        bulk += sum(one.size for one in packer.files[before:]) if is_bulk else 0
    return notes


def _list_key_files(files: Sequence[BackupMember]) -> list[str]:
    return [one.name for one in files if one.name in KEY_FILES]


def _list_key_settings(home: HermesHome) -> list[str]:
    """Return the names of the settings whose values in config.yaml are keys; none of a file that cannot be read."""
    try:
        return list_literal_keys(parse_document(home.config_file.read_bytes(), home.config_file))
    except (OSError, ConfigError):
        return []


@contextlib.contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _add_entry(packer: BackupWriter, root: int, note: LeftOutFiles, *, limit: int | None, room: int) -> None:
    """Add the files of one entry of the home, with a `limit` as many as it allows. Left out is what is gone meanwhile,
    and what cannot be read of people's own files.
    """
    files = list_tree(root, note.entry, note, bulk=limit is not None)
    names = [name for name, _ in files] if limit is None else select_files(files, limit, max(room, 0), note)
    for name in names:
        try:
            with open_beneath(root, name) as handle:
                packer.add_handle(name, handle)
        except FileNotFoundError:
            note.unreadable.append(name)
        except OSError:
            if limit is None:
                raise
            note.unreadable.append(name)


def _add_database(packer: BackupWriter, home: HermesHome, folder: Path, report: ProgressCallback) -> int:
    """Add a checked copy of the database, which is made in a folder, to the archive; return its schema version."""
    copy = folder / f".{DATABASE}.{os.urandom(4).hex()}"
    try:
        copy_database(home.database, copy, lambda share: report(tr("copying the database: {share:.0%}", share=share)))
        if wrong := check_database(copy):
            raise StoreError(
                N_("The database {file} is damaged: {what}.", file=home.database, what=wrong[0]),
                N_("`hermes doctor` says more."),
            )
        packer.add_file(DATABASE, copy)
        return require_usable_database(copy)
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)


def _list_left_out(home: HermesHome, wanted: list[str]) -> list[str]:
    """List the names of the home's entries that the backup left out."""
    known = _EXCLUDED | {*wanted, restore_journal.JOURNAL}
    return sorted(
        one.name
        for one in os.scandir(home.root)
        if one.name not in known and not one.name.startswith(("hermes.db-", "search.db-", ".restore", ".hermes.db."))
    )


def _describe_backup(file: Path) -> Plain:
    status = file.stat()
    row: Plain = {"file": str(file), "name": file.name, "bytes": status.st_size, "made_at": status.st_mtime}
    row["automatic"] = file.name.startswith(_AUTOMATIC_PREFIX) or file.suffix == ".db"
    row["wrong"] = ""
    if file.suffix == ".zip":
        try:
            with BackupArchive(file) as archive:
                found = archive.manifest
            row |= {"made_at": found.made_at, "version": found.version, "keys": found.keys, "quick": found.quick}
            row["files"] = len(found.files)
        except HermesError as error:
            row["wrong"] = str(error)
    return row


def _modification_key(file: Path) -> tuple[float, str]:
    try:
        return file.stat().st_mtime, file.name
    except OSError:
        return 0.0, file.name


def _choose_file_name(folder: Path, stem: str) -> Path:
    """Return an unused file name with the current time in it."""
    named = f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while os.path.lexists(file := folder / (f"{named}.zip" if number == 1 else f"{named}-{number}.zip")):
        number += 1
    return file
