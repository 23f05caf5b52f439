"""What a folder holds, here or on another host, and which of the names from there are believed."""

import fnmatch
import os
import re
import shlex
import stat
import sys
from collections.abc import Container, Sequence

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.sandbox.policy import PROJECT_FILES

MOST_ENTRIES = 100_000
LARGEST_LISTING = 64 * 1024 * 1024
"""Bytes of a list of files that are taken from a host."""
_LONGEST = 4_000
"""Bytes of a path here; what is longer the system would not open (PATH_MAX)."""
_DEEPEST = 256
"""Folders in one another, of what is taken from a host: to walk through more would take its time."""
_ABOUT = re.compile(
    rb"([fdl]) (\d{1,15}) ((-?\d{1,11})[.,]?\d{0,10}) (-?\d{1,11}[.,]?\d{0,10}) ([0-7]{1,5}) (.+)", re.DOTALL
)
_OBEYED = re.compile(
    r"(^|/)\.git(/((modules|worktrees)/.*)?(hooks(/.*)?|config(\.worktree)?|info/attributes)|/commondir)?$", re.DOTALL
)
_COMMANDING = frozenset({"hooks", "config", "config.worktree", "commondir"})
_LIST = (
    r"find . -mindepth 1 \( %s \) -prune -o \( -type f -o -type d -o -type l \) "
    r"-printf '%%y %%s %%T@ %%C@ %%m %%P\0%%l\0'"
)


class Entry(Struct, frozen=True):
    """A file (`f`), folder (`d`) or link (`l`) as one side has it. `stamp` changes whenever it does."""

    kind: str
    size: int
    mtime: int
    """Whole seconds."""
    mode: int
    stamp: str
    target: str = ""


Listing = dict[str, Entry]


def lister(exclude: Sequence[str]) -> str:
    """The command that lists the current folder on a host."""
    tests = [f"-path {shlex.quote(f'./{one}')}" if "/" in one else f"-name {shlex.quote(one)}" for one in exclude]
    return _LIST % (" -o ".join(tests) or "-false")


def parsed(data: bytes) -> Listing:
    """What `lister` printed. Raises `ToolError` when that is no whole list: what is missing would be taken for gone."""
    fields = data.split(b"\0")
    if fields.pop() or len(fields) % 2:
        raise ToolError("The host's list of files was cut off.")
    if len(fields) > 4 * MOST_ENTRIES:
        raise ToolError(f"The folder there has more than {2 * MOST_ENTRIES} files; no file was carried over.")
    found: Listing = {}
    for about, target in zip(fields[::2], fields[1::2], strict=True):
        match = _ABOUT.fullmatch(about)
        if match is None:
            raise ToolError("The host's list of files is none.")
        kind, size, mtime, seconds, ctime, mode, name = match.groups()
        plain = kind == b"f"
        found[os.fsdecode(name)] = Entry(
            kind=kind.decode(),
            size=int(size) if plain else 0,
            mtime=int(seconds) if plain else 0,
            mode=int(mode, 8) & 0o777 if kind != b"l" else 0,
            stamp=f"{mtime.decode()} {ctime.decode()}" if plain else "",
            target=os.fsdecode(target),
        )
    return found


def entry_of(about: os.stat_result, target: str) -> Entry | None:
    """What stands here; None for what is not carried over (a socket, a device)."""
    if stat.S_ISREG(about.st_mode):
        stamp = f"{about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}"
        return Entry("f", about.st_size, int(about.st_mtime), about.st_mode & 0o777, stamp)
    if stat.S_ISDIR(about.st_mode):
        return Entry("d", 0, 0, about.st_mode & 0o777, "")
    return Entry("l", 0, 0, 0, "", target) if stat.S_ISLNK(about.st_mode) else None


def inside(name: str) -> bool:
    """Whether a name leads below the folder, as it is written."""
    return bool(name) and not any(part in ("", ".", "..") for part in name.split("/"))


def fits(name: str, folder: str) -> bool:
    """Whether the system would open a path of this length, and each part of it, before long."""
    parts = [len(os.fsencode(part)) for part in name.split("/")]
    return (
        len(parts) <= _DEEPEST and sum(parts) + len(parts) + len(os.fsencode(folder)) <= _LONGEST and max(parts) <= 255
    )


def link_inside(name: str, target: str) -> bool:
    """Whether a link at this name leads to something in the same folder, whatever other links of it lead to.

    A `..` after a name is not believed: that name may be a link, and what lies above it is elsewhere.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    return not target.startswith("/") and ".." not in parts[up:] and up <= name.count("/")


def obeyed(name: str) -> bool:
    """Whether programs here would do what a file or folder of this name says, on any file system."""
    name = name.casefold()
    return bool(_OBEYED.search(name)) or any(name == one or name.startswith(f"{one}/") for one in PROJECT_FILES)


def of_repository(name: str, here: Container[str]) -> bool:
    """Whether this would make a folder a repository of git's, or change what git does in one that is none of `.git`."""
    parts = name.split("/")
    last = parts[-1].upper() if sys.platform == "darwin" else parts[-1]
    return (last == "HEAD" and ".git" not in parts) or any(
        part in _COMMANDING and "/".join([*parts[:number], "HEAD"]) in here for number, part in enumerate(parts)
    )


def excluded(name: str, patterns: Sequence[str]) -> bool:
    """Whether this name is one of those that stay on their side."""
    last = name.rpartition("/")[2]
    return any(fnmatch.fnmatchcase(name if "/" in one else last, one) for one in patterns)


def below_excluded(name: str, patterns: Sequence[str]) -> bool:
    """Whether this, or a folder that it is in, stays on its side."""
    parts = name.split("/")
    return any(excluded("/".join(parts[: number + 1]), patterns) for number in range(len(parts)))
