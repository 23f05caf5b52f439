"""Backup archives: written completely or not at all, and read without trusting their contents.

A backup is a zip file with a `manifest.json` that names every other member with its size and hash.
"""

import contextlib
import errno
import hashlib
import os
import stat
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import msgspec
from msgspec import Struct

from hermes.core.errors import NotFoundError, StoreError, UsageError
from hermes.i18n.messages import phrase

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
            status = os.fstat(opened.fileno())
            mode = stat.S_IMODE(status.st_mode)
            digest, size = hashlib.sha256(), 0
            entry = zipfile.ZipInfo(name, time.localtime(max(status.st_mtime, 315_619_200))[:6])
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with self._file.open(entry, "w", force_zip64=True) as written:
                while chunk := opened.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    size += len(chunk)
                    written.write(chunk)
        self.files.append(BackupMember(name=name, size=size, sha256=digest.hexdigest(), mode=mode))

    def write_manifest(self, manifest: BackupManifest) -> None:
        """Write the manifest as the archive's last member."""
        self._file.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))


@contextlib.contextmanager
def create_archive(target: Path) -> Iterator[BackupWriter]:
    """Write a new archive, private to its owner, under its name only once it is complete.

    It gets its name when it is flushed to disk and was read back. Raises UsageError when there is such a
    file, StoreError when it cannot be written.
    """
    if os.path.lexists(target):
        raise UsageError(phrase("{file} is there already.", file=target), phrase("Name another file."))
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
        raise StoreError(phrase("{file} cannot be written: {reason}.", file=place, reason=error.strerror)) from None
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
                phrase("There is no backup {file}.", file=path), phrase("`hermes backup list` shows them.")
            ) from None
        except OSError as error:
            raise StoreError(phrase("{file} cannot be read: {reason}.", file=path, reason=error.strerror)) from None
        with contextlib.ExitStack() as undo:
            undo.callback(self._file.close)
            try:
                self._zip = zipfile.ZipFile(self._file)
                self.manifest = self._load_manifest()
            except (zipfile.BadZipFile, msgspec.MsgspecError, OSError, EOFError, NotImplementedError, RuntimeError):
                raise self._damage_error(phrase("it is no backup, or a damaged one")) from None
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
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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
            raise self._damage_error(phrase("{name} is not what the manifest says", name=member.name))

    def _load_manifest(self) -> BackupManifest:
        entries = self._zip.infolist()
        if len(entries) > _MOST_FILES:
            raise self._damage_error(phrase("it holds too many files"))
        names = [entry.filename for entry in entries]
        manifest = self._decode_manifest(entries)
        listed = [MANIFEST, *(one.name for one in manifest.files)]
        if sorted(listed) != sorted(names) or len(set(names)) != len(names):
            raise self._damage_error(phrase("its manifest and its members differ"))
        for one in entries:
            if (wrong := _find_member_fault(one)) is not None:
                raise self._damage_error(wrong)
        return manifest

    def _decode_manifest(self, entries: Sequence[zipfile.ZipInfo]) -> BackupManifest:
        """Decode the manifest, without a look at the other members."""
        entry = next((one for one in entries if one.filename == MANIFEST), None)
        if entry is None or entry.file_size > _LARGEST_MANIFEST:
            raise self._damage_error(phrase("it is no backup of Hermes"))
        text = self._zip.read(entry)
        if msgspec.json.decode(text, type=_FormatNumber).format > FORMAT:
            raise StoreError(
                phrase("{file} was written by a newer Hermes.", file=self.path), phrase("Update Hermes first.")
            )
        return msgspec.json.decode(text, type=BackupManifest)

    def _damage_error(self, why: str) -> StoreError:
        return StoreError(
            phrase("{file} is not taken: {why}.", file=self.path, why=why), phrase("Nothing was changed.")
        )


class _FormatNumber(Struct, frozen=True):
    format: int


def _find_member_fault(entry: zipfile.ZipInfo) -> str | None:
    """Return why a member is refused on its own, or None."""
    name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
    parts = PurePosixPath(name).parts
    odd = not parts or name != "/".join(parts) or "\\" in name or "\0" in name or ":" in parts[0]
    if odd or name.startswith("/") or ".." in parts:
        return phrase("the name {name!r} leads out of the home", name=name[:80])
    if kind not in (0, stat.S_IFREG):
        return phrase("{name} is a link or no plain file", name=name)
    return phrase("{name} is encrypted", name=name) if entry.flag_bits & 1 else None


def _open_no_follow(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file; never block on the other end of a pipe."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(22, phrase("it is not a regular file"))
    return handle
