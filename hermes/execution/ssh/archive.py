"""Archives of files, written for GNU tar and read from it: the GNU format of ustar, ordinary files only when read.

Reading is our own: the host that writes an archive is not believed, and the library's reader knows many more forms
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

from hermes.execution.ssh.listing import Entry

_BLOCK = 512
_PIECE = 1 << 16
_LONGEST = 1 << 16
_OCTAL = re.compile(rb"[ ]*([0-7]{1,12})[ \0]*")

WRITE = "tar -cf - --format=gnu --hard-dereference --no-recursion --null --verbatim-files-from -T -"
"""The command that writes those files whose names it is given, each ended by a null character."""


def members(file: IO[bytes]) -> Iterator[tuple[str, int]]:
    """The name and size of each ordinary file, while `file` stands at its first byte; no more after a mistake."""
    name = b""
    while len(head := file.read(_BLOCK)) == _BLOCK and (number := _OCTAL.fullmatch(head[124:136])):
        size, begin = int(number[1], 8), file.tell()
        if head[156:157] == b"L" and size <= _LONGEST:
            name = file.read(size).partition(b"\0")[0]
        else:
            if head[156:157] in b"0\0":
                yield os.fsdecode(name or head[:100].partition(b"\0")[0]).removeprefix("./"), size
            name = b""
        file.seek(begin + -(-size // _BLOCK) * _BLOCK)


def copy(source: IO[bytes], size: int, target: IO[bytes]) -> None:
    """Copy so many bytes. Raises OSError when there are fewer."""
    while size:
        piece = source.read(min(size, _PIECE))
        if not piece:
            raise OSError("the archive ends too early")
        target.write(piece)
        size -= len(piece)


def pack(folder: str, names: Iterable[str], here: Mapping[str, Entry], file: IO[bytes]) -> None:
    """Write an archive of what lies in `folder` under these names, with the folders that they are in."""
    wanted = set(names)
    parents = {name[:at] for name in wanted for at, letter in enumerate(name) if letter == "/"}
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(wanted | parents):
            with contextlib.suppress(OSError):  # it went away
                _add(archive, folder, name, here.get(name))


def _add(archive: tarfile.TarFile, folder: str, name: str, entry: Entry | None) -> None:
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
            archive.addfile(info, _Exactly(source, info.size))


class _Exactly(io.RawIOBase):
    """So many bytes of a file that may grow or shrink meanwhile."""

    def __init__(self, source: IO[bytes], size: int) -> None:
        self._source = source
        self._rest = size

    def read(self, size: int = -1) -> bytes:
        """The next bytes; zeros once the file has come to an end too early."""
        size = self._rest if size < 0 else min(size, self._rest)
        self._rest -= size
        return self._source.read(size).ljust(size, b"\0")
