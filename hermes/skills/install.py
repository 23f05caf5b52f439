"""Skills from elsewhere: unpacked in memory, looked through, never run. Whether one is kept is the person's word."""

import gzip
import hashlib
import io
import lzma
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import UsageError
from hermes.safety.injection import marks
from hermes.skills.diff import digest
from hermes.skills.files import ALL_LIMIT, FILE_LIMIT, MAIN, MOST_FILES, Files, as_text, check_path, read_folder
from hermes.skills.skill import read_head
from hermes.skills.validate import check
from hermes.util.text import escaped, one_line

ARCHIVE_LIMIT = 16 << 20
"""Bytes of an archive."""
_MEMBERS = 2_000
_SHOWN = 20
_RUNS = (".py", ".sh", ".bash", ".js", ".mjs", ".ts", ".rb", ".pl", ".ps1", ".bat", ".cmd", ".exe", ".so", ".lua")
_NETWORK = re.compile(
    r"\b(?:curl|wget|ncat|netcat|scp|sftp|ssh|rsync|telnet|urllib|requests|httpx|aiohttp|socket|fetch|XMLHttpRequest)\b"
    r"|\bnc -|https?://|ftp://"
)
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    OverflowError,
    RuntimeError,
)
"""All that the readers of archives, whose bytes are anyone's, raise."""


class Package(Struct, frozen=True, kw_only=True):
    """A skill that could be installed. `sha256` is of the file that it came in, or of a folder's files together."""

    name: str
    files: Files
    source: str
    sha256: str
    findings: tuple[str, ...]
    """What it would run or reach, and what reads like an order to the agent; each a line to be shown."""


def from_path(path: Path) -> Package:
    """A skill in a folder, an archive, or a single SKILL.md. Raises UsageError."""
    path = path.expanduser()
    if path.is_dir():
        files = read_folder(str(path))
        return _package(files, str(path), digest(files))
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is neither a file nor a folder.")
            raw = file.read(ARCHIVE_LIMIT + 1)
    except OSError as error:
        hint = "Name a folder, a .zip or .tar.gz, a SKILL.md, or an https address."
        raise UsageError(f"{str(path)[:300]} cannot be read: {error.strerror}.", hint) from None
    return from_bytes(raw, str(path))


def from_bytes(raw: bytes, source: str) -> Package:
    """A skill in the bytes of an archive (zip, tar.gz), or of a SKILL.md. Raises UsageError."""
    if len(raw) > ARCHIVE_LIMIT:
        raise UsageError(f"{source} has more than {ARCHIVE_LIMIT:,} bytes.")
    try:
        if raw.startswith(b"PK\x03\x04"):
            files = _rooted(_zipped(raw))
        elif raw.startswith(b"\x1f\x8b"):
            files = _rooted(_tarred(raw))
        else:
            files = {MAIN: raw}
    except _DAMAGED as error:
        raise UsageError(f"{source} is damaged: {one_line(str(error), 200)}.") from None
    return _package(files, source, hashlib.sha256(raw).hexdigest())


def _package(files: Files, source: str, sha256: str) -> Package:
    text = as_text(files.get(MAIN, b"\0"))
    if text is None or not text.lstrip("\ufeff").startswith("---"):
        raise UsageError(f"{source} is no skill: it has no {MAIN} that begins with ---.")
    name = read_head(text, "").name
    check(files, name)
    return Package(name=name, files=files, source=source, sha256=sha256, findings=tuple(_findings(files)))


def _zipped(raw: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        if len(archive.infolist()) > _MEMBERS:
            raise UsageError(f"The archive has more than {_MEMBERS:,} entries.")
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise UsageError(f"The archive holds a link or device: {entry.filename[:80]!r}.")
            if entry.flag_bits & 1:
                raise UsageError("The archive is encrypted.")
            if entry.is_dir():
                continue
            with archive.open(entry) as file:
                yield entry.filename, file.read(FILE_LIMIT + 1)


def _tarred(raw: bytes) -> Iterator[tuple[str, bytes]]:
    # Unpacked here, in bounded memory: the headers of a bomb are read for nothing else.
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
        plain = packed.read(4 * ALL_LIMIT + 1)
    if len(plain) > 4 * ALL_LIMIT:
        raise UsageError("The archive is too large when it is unpacked.")
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
        for number, entry in enumerate(archive):
            if number >= _MEMBERS:
                raise UsageError(f"The archive has more than {_MEMBERS:,} entries.")
            if entry.isdir():
                continue
            file = archive.extractfile(entry) if entry.isreg() else None
            if file is None:
                raise UsageError(f"The archive holds a link or device: {entry.name[:80]!r}.")
            yield entry.name, file.read(FILE_LIMIT + 1)


def _rooted(entries: Iterator[tuple[str, bytes]]) -> Files:
    """The files of the one skill in an archive, by their paths below its folder."""
    files: dict[str, bytes] = {}
    room = ALL_LIMIT
    for name, data in entries:
        path = _inside(name)
        if not path:
            continue
        if path in files:
            raise UsageError(f"The archive holds {path[:80]!r} twice.")
        files[path] = data
        room -= len(data)
        if room < 0 or len(files) > 2 * MOST_FILES:
            raise UsageError("The archive holds more than a skill may have.")
    mains = [path for path in files if path.rpartition("/")[2] == MAIN]
    if len(mains) != 1:
        raise UsageError(f"The archive holds {len(mains) or 'no'} {MAIN}; it must hold one skill.")
    root = mains[0].removesuffix(MAIN)
    return {check_path(path.removeprefix(root)): data for path, data in files.items() if path.startswith(root)}


def _inside(name: str) -> str:
    """The path of an entry; empty for one that is nobody's, such as `.git`. Raises UsageError when it leads out."""
    path = name.removeprefix("./")
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\\" in path:
        raise UsageError(f"The archive holds a path that leads out of it: {name[:80]!r}.")
    nobodys = any(part.startswith(".") or part in ("__MACOSX", "__pycache__") for part in parts)
    return "" if nobodys else path


def _findings(files: Files) -> Iterator[str]:
    for path in sorted(files):
        text = as_text(files[path])
        runs = path.endswith(_RUNS) or path.startswith("scripts/") or files[path].startswith(b"#!")
        if runs:
            yield f"{path}: a program, which the agent may be told to run"
        if text is None:
            yield f"{path}: binary, {len(files[path]):,} bytes; nobody can read it here"
            continue
        lines = [
            f"{path}:{number}: {escaped(one_line(line, 120))}"
            for number, line in enumerate(text.splitlines(), 1)
            if _NETWORK.search(line)
        ]
        yield from (f"reaches out? {line}" for line in lines[:_SHOWN])
        if len(lines) > _SHOWN:
            yield f"reaches out? {path}: {len(lines) - _SHOWN} more lines"
        for mark in marks(text):
            hidden = f" ({mark.form})" if mark.form else ""
            yield f"reads like an order, {mark.rule}{hidden}: {path}: {escaped(mark.excerpt)}"
