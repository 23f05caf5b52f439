"""The files of one skill: read, written and stored as a whole, by names that cannot lead out of its folder."""

import base64
import contextlib
import logging
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_
from hermes.util.atomic_write import sync_folder
from hermes.util.text import compile_late

MAIN_FILE = "SKILL.md"
EXTRA_FOLDERS = ("references", "templates", "assets", "scripts")
"""The folders of a skill's other files, by the specification (agentskills.io)."""
FILE_LIMIT = 1 << 20
"""Bytes of one file."""
ALL_LIMIT = 8 << 20
"""Bytes of all files of a skill."""
MOST_FILES = 200
_DEPTH = 6
_PATH_LENGTH = 200
_MAX_PART_BYTES = 255
"""The most bytes of a name in a file system."""
_UNUSABLE = compile_late("[\x00-\x1f\x7f-\x9f\\\\:\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_LOG = logging.getLogger(__name__)
STAGING_PREFIX = ".hermes-"
"""The prefix of folders that stand in the skills' folder while a change is being made."""

Files = Mapping[str, bytes]
"""A skill's files by their paths below its folder, `/` between the parts."""


class _Binary(Struct, frozen=True):
    base64: str


def encode_files(files: Files | None) -> bytes | None:
    """Encode a skill as a revision stores it: a JSON object of path and text; binary contents are in base64."""
    if files is None:
        return None
    return to_json({path: _to_stored(files[path]) for path in sorted(files)})


def decode_files(raw: bytes | None) -> Files | None:
    """Decode that form; None means no skill at all."""
    if raw is None:
        return None
    found = msgspec.json.decode(raw, type=dict[str, str | _Binary])
    return {
        path: value.encode() if isinstance(value, str) else base64.b64decode(value.base64)
        for path, value in found.items()
    }


def decode_text(data: bytes) -> str | None:
    """Return the text of a file; None when it is not text."""
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def check_path(path: str) -> str:
    """Return the path, when it can only mean a file in the skill's own folder. Raises UsageError."""
    parts = path.split("/")
    wrong = (
        not path
        or len(path) > _PATH_LENGTH
        or len(parts) > _DEPTH
        or _UNUSABLE.search(path) is not None
        or any(part in ("", ".", "..") or part.startswith((".", "~")) or part != part.strip() for part in parts)
        or any(len(part.encode()) > _MAX_PART_BYTES for part in parts)
    )
    if wrong:
        raise UsageError(
            N_("{path} cannot be a file of a skill.", path=repr(path[:80])),
            N_(
                "Use a plain path below it: {MAIN_FILE}, or a file in {EXTRA_FOLDERS}.",
                MAIN_FILE=MAIN_FILE,
                EXTRA_FOLDERS=", ".join(EXTRA_FOLDERS),
            ),
        )
    return path


def check_extra_path(path: str) -> str:
    """Return the path of a file beside SKILL.md, which is in one of `EXTRA_FOLDERS`. Raises UsageError."""
    if check_path(path).partition("/")[0] not in EXTRA_FOLDERS or "/" not in path:
        raise UsageError(
            N_(
                "{path} is not in one of the folders {EXTRA_FOLDERS}.",
                path=repr(path),
                EXTRA_FOLDERS=", ".join(EXTRA_FOLDERS),
            )
        )
    return path


def check_files(files: Files) -> None:
    """Raise UsageError when files are too many, too large, or have names that cannot be."""
    if len(files) > MOST_FILES:
        raise UsageError(
            N_("A skill has {MOST_FILES} files at the most, not {files}.", MOST_FILES=MOST_FILES, files=len(files))
        )
    for path, data in files.items():
        check_path(path)
        if len(data) > FILE_LIMIT:
            raise UsageError(
                N_(
                    "{path} has {data} bytes; a file of a skill has 1 MiB at the most.",
                    path=path,
                    data=format(len(data), ","),
                )
            )
        above = path.rpartition("/")[0]
        while above:
            if above in files:
                raise UsageError(N_("{above} cannot be a file and a folder.", above=repr(above)))
            above = above.rpartition("/")[0]
    if sum(map(len, files.values())) > ALL_LIMIT:
        raise UsageError("The files of a skill have 8 MiB at the most together.")


def read_file(folder: str, path: str) -> bytes:
    """Read one file of the skill in `folder`. No link is followed on the way. Raises UsageError."""
    check_path(path)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.ExitStack() as opened:
        try:
            at = os.open(folder, flags | os.O_DIRECTORY)
            opened.callback(os.close, at)
            *above, name = path.split("/")
            for part in above:
                at = os.open(part, flags | os.O_DIRECTORY, dir_fd=at)
                opened.callback(os.close, at)
            handle = os.open(name, flags | os.O_NONBLOCK, dir_fd=at)
            opened.callback(os.close, handle)
        except OSError as error:
            why = _describe_os_error(error)
            raise UsageError(N_("{path} cannot be read: {why}.", path=path, why=why)) from None
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(N_("{path} is not a regular file.", path=path))
        if status.st_size > FILE_LIMIT:
            raise UsageError(
                N_(
                    "{path} has {st_size} bytes; a file of a skill has 1 MiB at the most.",
                    path=path,
                    st_size=format(status.st_size, ","),
                )
            )
        with open(handle, "rb", closefd=False) as file:
            return file.read(FILE_LIMIT + 1)


def list_files(folder: str) -> list[str]:
    """Return the paths of a skill's files, sorted. Raises UsageError for links, devices and too many files.

    Names that begin with a dot are not the skill's.
    """
    found: list[str] = []
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            entries = sorted(os.scandir(os.path.join(folder, below)), key=lambda entry: entry.name)
        except OSError as error:
            why = _describe_os_error(error)
            raise UsageError(N_("{below} cannot be read: {why}.", below=below or folder, why=why)) from None
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "__pycache__":
                continue
            path = f"{below}/{entry.name}" if below else entry.name
            if entry.is_symlink():
                raise UsageError(N_("{path} is a link, which a skill may not have.", path=path))
            if entry.is_dir():
                check_path(f"{path}/x")
                waiting.append(path)
            elif entry.is_file():
                found.append(check_path(path))
            else:
                raise UsageError(N_("{path} is neither a file nor a folder.", path=path))
            if len(found) > MOST_FILES:
                raise UsageError(N_("A skill has {MOST_FILES} files at the most.", MOST_FILES=MOST_FILES))
    return sorted(found)


def read_folder(folder: str) -> Files:
    """Read all files of a skill. Raises UsageError."""
    files: dict[str, bytes] = {}
    room = ALL_LIMIT
    for path in list_files(folder):
        files[path] = read_file(folder, path)
        room -= len(files[path])
        if room < 0:
            raise UsageError("The files of a skill have 8 MiB at the most together.")
    return files


def write_staged(root: Path, name: str, files: Files | None) -> Path:
    """Write the files into a new folder in `root`, on disk; it is empty where the skill is to go. Raises OSError."""
    staged = root / f"{STAGING_PREFIX}{os.urandom(6).hex()}-{name}"
    staged.mkdir(parents=True, mode=0o755)
    try:
        _fill_folder(staged, files or {})
    except OSError:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return staged


def _fill_folder(staged: Path, files: Files) -> None:
    folders = {staged}
    for path, data in files.items():
        target = staged / check_path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        folders |= {target.parent}
        with open(target, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    for folder in folders:
        sync_folder(folder)


def swap_folder(staged: Path, target: Path, *, gone: bool) -> None:
    """Put a staged folder in the place of `target`; with `gone` only take `target` away. Raises OSError.

    What begins with a dot, such as `.git`, is not the skill's and stays where it was. A crash in between
    leaves a folder whose name begins with `STAGING_PREFIX`; nothing is lost.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    old = staged.with_name(f"{staged.name}.old")
    if os.path.lexists(target):
        os.rename(target, old)
    if gone:
        staged.rmdir()
    else:
        os.rename(staged, target)
    _carry_over(old, target)
    sync_folder(target.parent)


def list_leftovers(root: Path) -> list[Path]:
    """Return what changes under way, or broken off, have left in the skills' folder."""
    try:
        return [Path(entry.path) for entry in os.scandir(root) if entry.name.startswith(STAGING_PREFIX)]
    except OSError:
        return []


def clear_leftovers(root: Path) -> None:
    """Remove what is left over, where no change is under way.

    Files in it that are not a skill's are carried over to the skill's folder, or kept beside.
    """
    for path in list_leftovers(root):
        name = path.name.removeprefix(STAGING_PREFIX).partition("-")[2].removesuffix(".old")
        if name and _carry_over(path, root / name):
            shutil.rmtree(path, ignore_errors=True)
        else:
            kept = path.with_name(f".kept-{path.name.removeprefix(STAGING_PREFIX)}")
            os.rename(path, kept)
            _LOG.warning("files that are no skill's were kept in %s", kept)


def _carry_over(old: Path, target: Path) -> bool:
    """Move what is not the skill's to the same place below `target`; return whether all of it is there now."""
    whole = True
    for above, folders, names in os.walk(old):
        for name in (*folders, *names):
            there = target / os.path.relpath(above, old) / name
            if not name.startswith("."):
                continue
            if os.path.lexists(there):
                whole = False
                continue
            try:
                there.parent.mkdir(parents=True, exist_ok=True)
                os.rename(os.path.join(above, name), there)
            except OSError:  # a file is in the way: it stays in the old folder, which is kept
                whole = False
        folders[:] = [name for name in folders if not name.startswith(".")]
    return whole


def _to_stored(data: bytes) -> str | _Binary:
    text = decode_text(data)
    return _Binary(base64.b64encode(data).decode()) if text is None else text


def _describe_os_error(error: OSError) -> str:
    import errno

    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a link stands in the way, which a skill may not have" if error.errno == errno.ELOOP else "no such file"
    return (error.strerror or str(error)).lower()
