"""Writes archives for GNU tar and reads its archives: the GNU format of ustar, ordinary files only when reading.

Reading is our own: the host that writes an archive is not trusted, and the library's reader accepts many more forms
(sparse files, extended headers) than are asked for.
"""

import contextlib
import io
import os
import re
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

from hermes.execution.ssh.listing import SyncEntry

_BLOCK = 512
_COPY_SIZE = 1 << 16
_MAX_NAME_BYTES = 1 << 16
_OCTAL = re.compile(rb"[ ]*([0-7]{1,12})[ \0]*")

TAR_COMMAND = "tar -cf - --format=gnu --hard-dereference --no-recursion --null --verbatim-files-from -T -"
"""The command that writes the files whose names it is given, each ended by a null character."""


def iter_members(file: IO[bytes]) -> Iterator[tuple[str, int]]:
    """Yield the name and size of each ordinary file, while `file` stands at its first byte; stop after a mistake."""
    name = b""
    while len(head := file.read(_BLOCK)) == _BLOCK and (number := _OCTAL.fullmatch(head[124:136])):
        size, begin = int(number[1], 8), file.tell()
        if head[156:157] == b"L" and size <= _MAX_NAME_BYTES:
            name = file.read(size).partition(b"\0")[0]
        else:
            if head[156:157] in b"0\0":
                yield os.fsdecode(name or head[:100].partition(b"\0")[0]).removeprefix("./"), size
            name = b""
        file.seek(begin + -(-size // _BLOCK) * _BLOCK)


def copy_bytes(source: IO[bytes], size: int, target: IO[bytes]) -> None:
    """Copy this many bytes. Raises OSError when there are fewer."""
    while size:
        piece = source.read(min(size, _COPY_SIZE))
        if not piece:
            raise OSError("the archive ends too early")
        target.write(piece)
        size -= len(piece)


def write_archive(folder: str, names: Iterable[str], here: Mapping[str, SyncEntry], file: IO[bytes]) -> None:
    """Write an archive of what lies in `folder` under these names, with the folders that they are in."""
    wanted = set(names)
    parents = {name[:at] for name in wanted for at, letter in enumerate(name) if letter == "/"}
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(wanted | parents):
            with contextlib.suppress(OSError):  # it went away
                _add_entry(archive, folder, name, here.get(name))


def _add_entry(archive: tarfile.TarFile, folder: str, name: str, entry: SyncEntry | None) -> None:
    path = f"{folder}/{name}"
    info = archive.gettarinfo(path, f"./{name}")
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = int(os.lstat(path).st_mtime)
    if entry is None or entry.kind != "f":
        if info.isdir() or info.issym():  # else it has become something else meanwhile
            archive.addfile(info)
        return
    info.type = tarfile.REGTYPE  # a hard link is a file of its own there
    info.linkname = ""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as source:
        about = os.fstat(handle)
        if stat.S_ISREG(about.st_mode):
            info.size = about.st_size
            archive.addfile(info, _FixedSizeReader(source, info.size))


class _FixedSizeReader(io.RawIOBase):
    """Reads exactly this many bytes of a file that may grow or shrink meanwhile."""

    def __init__(self, source: IO[bytes], size: int) -> None:
        self._source = source
        self._bytes_left = size

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; zeros once the file has ended too early."""
        size = self._bytes_left if size < 0 else min(size, self._bytes_left)
        self._bytes_left -= size
        return self._source.read(size).ljust(size, b"\0")
