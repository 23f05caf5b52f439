"""Reads skills from elsewhere: unpacked in memory, inspected, never run. The user decides whether one is installed."""

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
from hermes.i18n.messages import N_
from hermes.safety.injection import find_injections
from hermes.skills.catalog import read_head
from hermes.skills.diff import hash_files
from hermes.skills.files import (
    ALL_LIMIT,
    FILE_LIMIT,
    MAIN_FILE,
    MOST_FILES,
    Files,
    check_path,
    decode_text,
    read_folder,
)
from hermes.skills.skill_library import check_skill
from hermes.util.text import escape_unseen_characters, to_one_line

ARCHIVE_LIMIT = 16 << 20
"""Bytes of an archive."""
_MAX_MEMBERS = 2_000
_MAX_SHOWN_LINES = 20
_PROGRAM_SUFFIXES = (
    ".py",
    ".sh",
    ".bash",
    ".js",
    ".mjs",
    ".ts",
    ".rb",
    ".pl",
    ".ps1",
    ".bat",
    ".cmd",
    ".exe",
    ".so",
    ".lua",
)
_NETWORK = re.compile(
    r"\b(?:curl|wget|ncat|netcat|scp|sftp|ssh|rsync|telnet|urllib|requests|httpx|aiohttp|socket|fetch|XMLHttpRequest)\b"
    r"|\bnc -|https?://|ftp://"
)
_ARCHIVE_ERRORS = (
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


class SkillPackage(Struct, frozen=True, kw_only=True):
    """A skill that could be installed. `sha256` is of the file that it came in, or of a folder's files together."""

    name: str
    files: Files
    source: str
    sha256: str
    findings: tuple[str, ...]
    """What it would run or reach, and what reads like an order to the agent; each a line to be shown."""


def package_from_path(path: Path) -> SkillPackage:
    """Read a skill in a folder, an archive, or a single SKILL.md. Raises UsageError."""
    path = path.expanduser()
    if path.is_dir():
        files = read_folder(str(path))
        return _build_package(files, str(path), hash_files(files))
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(N_("{path} is neither a file nor a folder.", path=path))
            raw = file.read(ARCHIVE_LIMIT + 1)
    except OSError as error:
        hint = "Name a folder, a .zip or .tar.gz, a SKILL.md, or an https address."
        raise UsageError(
            N_("{path} cannot be read: {strerror}.", path=str(path)[:300], strerror=error.strerror), hint
        ) from None
    return package_from_bytes(raw, str(path))


def package_from_bytes(raw: bytes, source: str) -> SkillPackage:
    """Read a skill in the bytes of an archive (zip, tar.gz), or of a SKILL.md. Raises UsageError."""
    if len(raw) > ARCHIVE_LIMIT:
        raise UsageError(
            N_("{source} has more than {ARCHIVE_LIMIT} bytes.", source=source, ARCHIVE_LIMIT=format(ARCHIVE_LIMIT, ","))
        )
    try:
        if raw.startswith(b"PK\x03\x04"):
            files = _collect_skill_files(_iter_zip(raw))
        elif raw.startswith(b"\x1f\x8b"):
            files = _collect_skill_files(_iter_tar(raw))
        else:
            files = {MAIN_FILE: raw}
    except _ARCHIVE_ERRORS as error:
        raise UsageError(
            N_("{source} is damaged: {error}.", source=source, error=to_one_line(str(error), 200))
        ) from None
    return _build_package(files, source, hashlib.sha256(raw).hexdigest())


def _build_package(files: Files, source: str, sha256: str) -> SkillPackage:
    text = decode_text(files.get(MAIN_FILE, b"\0"))
    if text is None or not text.lstrip("\ufeff").startswith("---"):
        raise UsageError(
            N_(
                "{source} is not a skill: it has no {MAIN_FILE} that begins with ---.",
                source=source,
                MAIN_FILE=MAIN_FILE,
            )
        )
    name = read_head(text, "").name
    check_skill(files, name)
    return SkillPackage(name=name, files=files, source=source, sha256=sha256, findings=tuple(_iter_findings(files)))


def _iter_zip(raw: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        if len(archive.infolist()) > _MAX_MEMBERS:
            raise UsageError(
                N_("The archive has more than {MAX_MEMBERS} entries.", MAX_MEMBERS=format(_MAX_MEMBERS, ","))
            )
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise UsageError(
                    N_("The archive holds a link or device: {filename}.", filename=repr(entry.filename[:80]))
                )
            if entry.flag_bits & 1:
                raise UsageError("The archive is encrypted.")
            if entry.is_dir():
                continue
            with archive.open(entry) as file:
                yield entry.filename, file.read(FILE_LIMIT + 1)


def _iter_tar(raw: bytes) -> Iterator[tuple[str, bytes]]:
    # Unpacked here, in bounded memory: the headers of a bomb are read for nothing else.
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
        plain = packed.read(4 * ALL_LIMIT + 1)
    if len(plain) > 4 * ALL_LIMIT:
        raise UsageError("The archive is too large when it is unpacked.")
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
        for number, entry in enumerate(archive):
            if number >= _MAX_MEMBERS:
                raise UsageError(
                    N_("The archive has more than {MAX_MEMBERS} entries.", MAX_MEMBERS=format(_MAX_MEMBERS, ","))
                )
            if entry.isdir():
                continue
            file = archive.extractfile(entry) if entry.isreg() else None
            if file is None:
                raise UsageError(N_("The archive holds a link or device: {name}.", name=repr(entry.name[:80])))
            yield entry.name, file.read(FILE_LIMIT + 1)


def _collect_skill_files(entries: Iterator[tuple[str, bytes]]) -> Files:
    """Return the files of the one skill in an archive, by their paths below its folder."""
    files: dict[str, bytes] = {}
    room = ALL_LIMIT
    for name, data in entries:
        path = _parse_entry_path(name)
        if not path:
            continue
        if path in files:
            raise UsageError(N_("The archive holds {path} twice.", path=repr(path[:80])))
        files[path] = data
        room -= len(data)
        if room < 0 or len(files) > 2 * MOST_FILES:
            raise UsageError("The archive holds more than a skill may have.")
    mains = [path for path in files if path.rpartition("/")[2] == MAIN_FILE]
    if len(mains) != 1:
        raise UsageError(
            N_(
                "The archive holds {mains} {MAIN_FILE}; it must hold one skill.",
                mains=len(mains) or "no",
                MAIN_FILE=MAIN_FILE,
            )
        )
    root = mains[0].removesuffix(MAIN_FILE)
    return {check_path(path.removeprefix(root)): data for path, data in files.items() if path.startswith(root)}


def _parse_entry_path(name: str) -> str:
    """Return the path of an entry; empty for one to be ignored, such as `.git`. Raises UsageError when it leads out."""
    path = name.removeprefix("./")
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\\" in path:
        raise UsageError(N_("The archive holds a path that leads out of it: {name}.", name=repr(name[:80])))
    nobodys = any(part.startswith(".") or part in ("__MACOSX", "__pycache__") for part in parts)
    return "" if nobodys else path


def _iter_findings(files: Files) -> Iterator[str]:
    for path in sorted(files):
        text = decode_text(files[path])
        runs = path.endswith(_PROGRAM_SUFFIXES) or path.startswith("scripts/") or files[path].startswith(b"#!")
        if runs:
            yield f"{path}: a program, which the agent may be told to run"
        if text is None:
            yield f"{path}: binary, {len(files[path]):,} bytes; nobody can read it here"
            continue
        lines = [
            f"{path}:{number}: {escape_unseen_characters(to_one_line(line, 120))}"
            for number, line in enumerate(text.splitlines(), 1)
            if _NETWORK.search(line)
        ]
        yield from (f"reaches out? {line}" for line in lines[:_MAX_SHOWN_LINES])
        if len(lines) > _MAX_SHOWN_LINES:
            yield f"reaches out? {path}: {len(lines) - _MAX_SHOWN_LINES} more lines"
        for mark in find_injections(text):
            hidden = f" ({mark.form})" if mark.form else ""
            yield f"reads like an order, {mark.rule}{hidden}: {path}: {escape_unseen_characters(mark.excerpt)}"
