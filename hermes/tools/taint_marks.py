"""Files that were written while strangers' words stood in a conversation, in this session or another one.

What such a file says is as strange as those words were, until somebody vouches for it: by changing it, or by
`hermes trust`. A file is known by its path and a hash of its content, so what the person has changed since is theirs.
"""

import os
import stat
from collections.abc import Callable, Iterable
from hashlib import blake2b

from msgspec import Struct

from hermes.safety.autorun_files import runs_later

_HASHED = 1 << 18
"""Bytes of a file that are looked at, a fraction of a millisecond; of a larger one the beginning, and its size."""


class Mark(Struct, frozen=True):
    """A file as it was written, and whose words stood in the conversation then."""

    path: str
    digest: bytes
    sources: tuple[str, ...]


class Marked:
    """The marks that a process knows. `keep` is told of each new one."""

    def __init__(self, marks: Iterable[Mark] = (), keep: Callable[[Mark], object] = lambda _: None) -> None:
        self._marks = {mark.path: mark for mark in marks}
        self._keep = keep

    def note(self, path: str, sources: Iterable[str]) -> None:
        """A file was written while these sources stood in the conversation. What acts later had a person's yes."""
        listed = tuple(sources)
        digest = b"" if runs_later(path) else digest_of(path)
        if listed and digest:
            mark = self._marks[path] = Mark(path, digest, listed)
            self._keep(mark)

    def sources(self, path: str) -> tuple[str, ...]:
        """Whose words a file holds, or a folder's files; nobody's when it is not marked, or has changed since."""
        mark = self._marks.get(path)
        if mark is not None:
            return mark.sources if digest_of(path) == mark.digest else ()
        if not self._marks or not os.path.isdir(path):
            return ()
        below = path.rstrip("/") + "/"
        inside = [one for one in self._marks if one.startswith(below)]
        return tuple(dict.fromkeys(source for one in inside for source in self.sources(one)))


def digest_of(path: str) -> bytes:
    """A hash of a regular file's content; nothing where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        return b""
    with open(handle, "rb") as file:
        return blake2b(file.read(_HASHED) + b"%d" % status.st_size, digest_size=16).digest()
