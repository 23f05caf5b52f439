"""Find and open the files of a home for a backup, without following a link anywhere.

Agents' commands write in some of these folders, also while a backup is made: every folder and file is opened below the
one above it, so that a link that is put in the place of a folder meanwhile leads nowhere.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, field

from hermes.i18n.formats import format_bytes
from hermes.i18n.messages import tr, tr_plural

MAX_BULK_FILES = 100_000
"""Files of the large folders that a backup holds at most."""
_MAX_DEPTH = 64
_REGENERATED = frozenset({"node_modules", "__pycache__", ".venv"})
"""Folders that tools make again from what lies beside them."""
_MAX_EXAMPLES = 3


class LeftOutFiles(Struct):
    """The files of one entry of the home that a backup leaves out, by reason."""

    entry: str
    too_large: list[tuple[str, int]] = field(default_factory=list)
    """Names and sizes of files above the limit."""
    odd: list[str] = field(default_factory=list)
    """Links, pipes, sockets, and names that an archive cannot hold."""
    unreadable: list[str] = field(default_factory=list)
    """Files that cannot be opened, or are gone meanwhile."""
    regenerated: list[str] = field(default_factory=list)

    def describe(self, limit: int) -> list[str]:
        """Return a line for each reason."""
        lines = []
        if self.too_large:
            lines.append(
                tr_plural(
                    "{entry}: {n} file ({size}) is above the limit of {limit} in all (--limit): {names}",
                    "{entry}: {n} files ({size}) are above the limit of {limit} in all (--limit): {names}",
                    len(self.too_large),
                    entry=self.entry,
                    size=format_bytes(sum(size for _, size in self.too_large)),
                    limit=format_bytes(limit),
                    names=_join_examples([name for name, _ in self.too_large]),
                )
            )
        if self.unreadable:
            lines.append(
                tr("{entry}: cannot be read: {names}", entry=self.entry, names=_join_examples(self.unreadable))
            )
        if self.regenerated:
            lines.append(
                tr("{entry}: made again by tools: {names}", entry=self.entry, names=_join_examples(self.regenerated))
            )
        return lines


def _join_examples(names: Sequence[str]) -> str:
    more = f" (+{len(names) - _MAX_EXAMPLES})" if len(names) > _MAX_EXAMPLES else ""
    return ", ".join(names[:_MAX_EXAMPLES]) + more


def find_name_fault(name: str) -> bool:
    """Return whether an archive cannot hold a name, or a restore would refuse it."""
    parts = PurePosixPath(name).parts
    odd = not parts or name != "/".join(parts) or "\\" in name or "\0" in name or ":" in parts[0] or ".." in parts
    try:
        name.encode()
    except UnicodeEncodeError:
        return True
    return odd or name.startswith("/")


def list_tree(root: int, entry: str, left_out: LeftOutFiles, *, bulk: bool) -> list[tuple[str, int]]:
    """Return the names, from the home on, and sizes of the regular files of an entry, sorted by name.

    `root` is a handle of the home. Of `bulk` folders those that tools make again are left out.
    """
    found: list[tuple[str, int]] = []
    try:
        status = os.stat(entry, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return found
    if stat.S_ISREG(status.st_mode):
        return [(entry, status.st_size)]
    if not stat.S_ISDIR(status.st_mode):
        left_out.odd.append(entry)
        return found
    _list_folder(root, entry, entry, found, left_out, bulk=bulk)
    return sorted(found)


def _list_folder(
    parent: int, base: str, name: str, found: list[tuple[str, int]], left_out: LeftOutFiles, *, bulk: bool
) -> None:
    try:
        handle = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        left_out.unreadable.append(name)
        return
    try:
        with os.scandir(handle) as entries:
            listed = list(entries)
        for one in listed:
            _list_entry(handle, one, f"{name}/{one.name}", found, left_out, bulk=bulk)
    finally:
        os.close(handle)


def _list_entry(
    folder: int,
    entry: "os.DirEntry[str]",
    name: str,
    found: list[tuple[str, int]],
    left_out: LeftOutFiles,
    *,
    bulk: bool,
) -> None:
    is_folder = entry.is_dir(follow_symlinks=False)
    if is_folder and bulk and entry.name in _REGENERATED:
        left_out.regenerated.append(name)
    elif is_folder and name.count("/") < _MAX_DEPTH:
        _list_folder(folder, entry.name, name, found, left_out, bulk=bulk)
    elif entry.is_file(follow_symlinks=False) and not find_name_fault(name):
        with contextlib.suppress(FileNotFoundError):
            found.append((name, entry.stat(follow_symlinks=False).st_size))
    else:
        left_out.odd.append(name)


def select_files(files: Sequence[tuple[str, int]], room: int, count: int, left_out: LeftOutFiles) -> Iterator[str]:
    """Yield the names of files that fit into so many bytes and files, the smallest first; note the others."""
    for name, size in sorted(files, key=lambda one: (one[1], one[0])):
        if size > room or not count:
            left_out.too_large.append((name, size))
            continue
        room, count = room - size, count - 1
        yield name


@contextlib.contextmanager
def open_beneath(root: int, name: str) -> Iterator[int]:
    """Open a regular file below the home for reading; no part of its name may be a link. Raises OSError."""
    *folders, last = name.split("/")
    with contextlib.ExitStack() as stack:
        folder = root
        for one in folders:
            folder = os.open(one, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            stack.callback(os.close, folder)
        handle = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        stack.callback(os.close, handle)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FileNotFoundError(name)
        yield handle
