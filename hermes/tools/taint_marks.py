"""Marks files that were written while untrusted content was in a conversation, in this session or another one.

Such a file's content is as untrusted as that content was, until a person trusts it: by changing it, or by `hermes
trust`. A file is known by its path and a hash of its content, so what the person has changed since is theirs.
"""

import os
import stat
from collections.abc import Callable, Iterable
from hashlib import blake2b

from msgspec import Struct

from hermes.safety.paths import is_autorun_file

_HASHED_BYTES = 1 << 18
"""The bytes of a file that are hashed, a fraction of a millisecond; of a larger one the beginning, and its size."""


class TaintMark(Struct, frozen=True):
    """A file as it was written, and the sources that were in the conversation then."""

    path: str
    digest: bytes
    sources: tuple[str, ...]


class TaintMarks:
    """The marks that a process knows. `save` is called with each new one."""

    def __init__(self, marks: Iterable[TaintMark] = (), save: Callable[[TaintMark], object] = lambda _: None) -> None:
        self._marks = {mark.path: mark for mark in marks}
        self._save = save

    def mark_file(self, path: str, sources: Iterable[str]) -> None:
        """Mark a file that was written while these sources were in the conversation.

        A file that runs later is not marked: a person approved it.
        """
        listed = tuple(sources)
        digest = b"" if is_autorun_file(path) else digest_file(path)
        if listed and digest:
            mark = self._marks[path] = TaintMark(path, digest, listed)
            self._save(mark)

    def find_sources(self, path: str) -> tuple[str, ...]:
        """Return the sources of a file's content, or of a folder's files; none when it is not marked, or has changed
        since.
        """
        mark = self._marks.get(path)
        if mark is not None:
            return mark.sources if digest_file(path) == mark.digest else ()
        if not self._marks or not os.path.isdir(path):
            return ()
        below = path.rstrip("/") + "/"
        inside = [one for one in self._marks if one.startswith(below)]
        return tuple(dict.fromkeys(source for one in inside for source in self.find_sources(one)))


def digest_file(path: str) -> bytes:
    """Return a hash of a regular file's content, or nothing where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        return b""
    with open(handle, "rb") as file:
        return blake2b(file.read(_HASHED_BYTES) + b"%d" % status.st_size, digest_size=16).digest()
