"""Lists what a folder holds, here or on another host, and checks which of the names from there are trusted."""

import fnmatch
import os
import re
import shlex
import stat
import sys
from collections.abc import Container, Sequence

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.safety.autorun_files import is_never_written

MAX_ENTRIES = 100_000
MAX_LISTING_BYTES = 64 * 1024 * 1024
"""The most bytes of a list of files that are accepted from a host."""
_MAX_PATH_BYTES = 4_000
"""The most bytes of a path here; the system would not open a longer one (PATH_MAX)."""
_MAX_DEPTH = 256
"""The most nested folders that are accepted from a host: walking through more would take too long."""
_ENTRY_PATTERN = re.compile(
    rb"([fdl]) (\d{1,15}) ((-?\d{1,11})[.,]?\d{0,10}) (-?\d{1,11}[.,]?\d{0,10}) ([0-7]{1,5}) (.+)", re.DOTALL
)
_GIT_CONTROL_FILES = frozenset({"hooks", "config", "config.worktree", "commondir"})
_LIST_COMMAND = (
    r"find . -mindepth 1 \( %s \) -prune -o \( -type f -o -type d -o -type l \) "
    r"-printf '%%y %%s %%T@ %%C@ %%m %%P\0%%l\0'"
)


class SyncEntry(Struct, frozen=True):
    """A file (`f`), folder (`d`) or link (`l`) as one side has it. `stamp` changes whenever it does."""

    kind: str
    size: int
    mtime: int
    """The time of the last change, in whole seconds."""
    mode: int
    stamp: str
    target: str = ""


FileListing = dict[str, SyncEntry]


def build_list_command(exclude: Sequence[str]) -> str:
    """Build the command that lists the current folder on a host."""
    tests = [f"-path {shlex.quote(f'./{one}')}" if "/" in one else f"-name {shlex.quote(one)}" for one in exclude]
    return _LIST_COMMAND % (" -o ".join(tests) or "-false")


def parse_listing(data: bytes) -> FileListing:
    """Parse what the list command printed.

    Raises `ToolError` when the list is incomplete: a missing entry would be taken for deleted.
    """
    fields = data.split(b"\0")
    if fields.pop() or len(fields) % 2:
        raise ToolError("The host's list of files was cut off.")
    if len(fields) > 4 * MAX_ENTRIES:
        raise ToolError(f"The folder there has more than {2 * MAX_ENTRIES} files; no file was carried over.")
    found: FileListing = {}
    for about, target in zip(fields[::2], fields[1::2], strict=True):
        match = _ENTRY_PATTERN.fullmatch(about)
        if match is None:
            raise ToolError("The host's list of files is none.")
        kind, size, mtime, seconds, ctime, mode, name = match.groups()
        plain = kind == b"f"
        found[os.fsdecode(name)] = SyncEntry(
            kind=kind.decode(),
            size=int(size) if plain else 0,
            mtime=int(seconds) if plain else 0,
            mode=int(mode, 8) & 0o777 if kind != b"l" else 0,
            stamp=f"{mtime.decode()} {ctime.decode()}" if plain else "",
            target=os.fsdecode(target),
        )
    return found


def entry_from_stat(about: os.stat_result, target: str) -> SyncEntry | None:
    """Return the entry for these attributes; None for what is not transferred (a socket, a device)."""
    if stat.S_ISREG(about.st_mode):
        stamp = f"{about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}"
        return SyncEntry("f", about.st_size, int(about.st_mtime), about.st_mode & 0o777, stamp)
    if stat.S_ISDIR(about.st_mode):
        return SyncEntry("d", 0, 0, about.st_mode & 0o777, "")
    return SyncEntry("l", 0, 0, 0, "", target) if stat.S_ISLNK(about.st_mode) else None


def is_below_folder(name: str) -> bool:
    """Return whether a name leads below the folder, as it is written."""
    return bool(name) and not any(part in ("", ".", "..") for part in name.split("/"))


def is_name_short_enough(name: str, folder: str) -> bool:
    """Return whether the system would open a path of this length, and each part of it."""
    parts = [len(os.fsencode(part)) for part in name.split("/")]
    return (
        len(parts) <= _MAX_DEPTH
        and sum(parts) + len(parts) + len(os.fsencode(folder)) <= _MAX_PATH_BYTES
        and max(parts) <= 255
    )


def is_link_inside(name: str, target: str) -> bool:
    """Return whether a link at this name leads to something in the same folder, whatever other links of it lead to.

    A `..` after a name is not trusted: that name may be a link, and what lies above it is elsewhere.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    return not target.startswith("/") and ".." not in parts[up:] and up <= name.count("/")


def is_obeyed_name(name: str) -> bool:
    """Return whether programs here would do what a file or folder of this name says, on any file system."""
    return is_never_written(f"/{name}")


def is_repository_control(name: str, here: Container[str]) -> bool:
    """Return whether this would make a folder a git repository, or change what git does in one that is not called
    `.git`.
    """
    parts = name.split("/")
    last = parts[-1].upper() if sys.platform == "darwin" else parts[-1]
    return (last == "HEAD" and ".git" not in parts) or any(
        part in _GIT_CONTROL_FILES and "/".join([*parts[:number], "HEAD"]) in here for number, part in enumerate(parts)
    )


def is_excluded(name: str, patterns: Sequence[str]) -> bool:
    """Return whether this name is one of those that are not transferred."""
    last = name.rpartition("/")[2]
    return any(fnmatch.fnmatchcase(name if "/" in one else last, one) for one in patterns)


def is_below_excluded(name: str, patterns: Sequence[str]) -> bool:
    """Return whether this, or a folder that it is in, is not transferred."""
    parts = name.split("/")
    return any(is_excluded("/".join(parts[: number + 1]), patterns) for number in range(len(parts)))
