"""Marks files that were written while untrusted content was in a conversation, in this session or another one.

A marked file is as untrusted until a person trusts it: by changing it, or by `hermes trust`. It is known by its path
and a digest of its content, so what the person has changed since is theirs. A marked folder stands for all that lies in
it.
"""

import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

from msgspec import Struct

from hermes.core.checkpoints import FileChange, FileState, Kind

MAX_MARKS = 20_000
"""The marks that are kept one by one; of more the deepest are replaced by marks of their folders."""
_FOLDER = b"folder"
_WINDOW = "//"
"""Stands between a folder and a session's id in the path of a mark that holds while a command of the session runs."""
_OLD_BYTES = 16
"""The length of a digest of earlier versions: of the first bytes of a file, and its size."""
_SEPARATOR = b"\0"
_MAX_DIGESTS = 32
"""The contents by which a path is known, the newest first: an earlier one may come back from a history or a copy."""
_OLD_HASHED_BYTES = 1 << 18
_MAX_HASHED_BYTES = 50_000_000
"""A larger file is known by its stamp."""


class TaintMark(Struct, frozen=True, gc=False):
    """A file as it was written, and the sources that were in the conversation then. `digest` holds the digests of all
    that was written to it.
    """

    path: str
    digest: bytes
    sources: tuple[str, ...]

    def list_digests(self) -> list[bytes]:
        """Return the digests of the contents that are marked, the newest first."""
        return [self.digest] if len(self.digest) == _OLD_BYTES else self.digest.split(_SEPARATOR)

    @property
    def folder(self) -> str:
        """The folder that it stands for; empty for the mark of a file."""
        return self.path.partition(_WINDOW)[0] if self.digest == _FOLDER else ""


SaveMarks = Callable[[Sequence[TaintMark], Sequence[str]], Awaitable[object]]
"""Stores marks, and deletes those of some paths. It is durable when it returns."""


async def _save_nothing(_marks: Sequence[TaintMark], _gone: Sequence[str]) -> None:
    return


class TaintMarks:
    """The marks that a process knows, of all its sessions. `flush` stores what has changed."""

    def __init__(self, marks: Iterable[TaintMark] = (), save: SaveMarks = _save_nothing) -> None:
        self._marks: dict[str, TaintMark] = {}
        self._folders: dict[str, dict[str, TaintMark]] = {}
        """The marks of folders, by the folder and then by their paths: several sessions may mark the same one."""
        self._by_digest: dict[bytes, TaintMark] = {}
        self._verified: dict[str, tuple[bytes, tuple[int, int]]] = {}
        """The digest of a file, and its stamp when it last had that."""
        self._unsaved: dict[str, TaintMark | None] = {}
        self._save = save
        self.reload(marks)

    def reload(self, marks: Iterable[TaintMark]) -> None:
        """Take these for the marks that are stored; those that are not stored yet stay."""
        known = {one.path: one for one in marks}
        for path, mark in self._unsaved.items():
            known.pop(path, None)
            known |= {path: mark} if mark is not None else {}
        self._marks.clear()
        self._folders.clear()
        self._by_digest.clear()
        for mark in known.values():
            self._keep(mark)
        self._compact()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is marked."""
        return not self._marks and not self._folders

    async def flush(self) -> None:
        """Store what has changed, in one transaction."""
        if self._unsaved:
            unsaved, self._unsaved = self._unsaved, {}
            marks = [one for one in unsaved.values() if one is not None]
            await self._save(marks, [path for path, one in unsaved.items() if one is None])

    def mark_states(self, states: Mapping[str, FileState], sources: Iterable[str]) -> None:
        """Mark what is in these states at paths while these sources are in the conversation."""
        self.mark_digests({path: _digest_state(state) for path, state in states.items()}, sources)

    def mark_digests(self, digests: Mapping[str, bytes], sources: Iterable[str]) -> None:
        """Mark files with these digests; nothing is marked where a digest is empty."""
        listed = tuple(dict.fromkeys(sources))
        for path, digest in digests.items() if listed else ():
            if digest:
                self._add(path, digest, listed)
        self._compact()

    def mark_folder(self, folder: str, sources: Iterable[str]) -> None:
        """Mark a folder with all that lies in it."""
        self._add(folder, _FOLDER, tuple(dict.fromkeys(sources)))

    def open_window(self, folder: str, session_id: str, sources: Iterable[str]) -> None:
        """Mark a folder for as long as a command of a session runs there: what it changes is only known afterwards."""
        self._add(f"{folder}{_WINDOW}{session_id}", _FOLDER, tuple(dict.fromkeys(sources)))

    def close_window(self, folder: str, session_id: str) -> None:
        """Take back what `open_window` has marked, since what was changed is marked by now."""
        if (mark := self._folders.get(folder, {}).get(f"{folder}{_WINDOW}{session_id}")) is not None:
            self._drop(mark)

    def settle_contents(self, changes: Iterable[FileChange]) -> None:
        """Tie marks to the contents that a turn has left, and mark copies of marked contents as these are."""
        for change in changes:
            digest = _digest_state(change.after) if change.after is not None else b""
            mark = self._marks.get(change.path)
            if not digest:
                continue
            if mark is not None and mark.list_digests()[0] != digest:
                self._add(change.path, digest, mark.sources)
            elif mark is None and (copied := self._by_digest.get(digest)) is not None:
                self._add(change.path, digest, copied.sources)
        self._compact()

    def find_sources(self, path: str) -> tuple[str, ...]:
        """Return the sources of a file's content, or of a folder's files; none when it is not marked, or has changed
        since.
        """
        found: dict[str, None] = {}
        at = path
        while self._folders and at:
            for mark in list(self._folders.get(at, {}).values()):
                found |= dict.fromkeys(mark.sources)
            at = at.rpartition("/")[0]
        mine = self._marks.get(path)
        if mine is not None:
            found |= dict.fromkeys(mine.sources if self._is_current(mine) else ())
        elif (self._marks or self._folders) and os.path.isdir(path):
            found |= dict.fromkeys(self._list_sources_below(path.rstrip("/") + "/"))
        return tuple(found)

    def get_known_sources(self, path: str) -> tuple[str, ...]:
        """Return the sources that a file was marked with, whatever it holds by now."""
        mark = self._marks.get(path)
        return mark.sources if mark is not None else ()

    def _list_sources_below(self, below: str) -> Iterator[str]:
        """Yield the sources of what is marked in a folder; one current file is enough for the sources that it has."""
        seen: set[tuple[str, ...]] = set()
        for folder, marks in list(self._folders.items()):  # others may add to it meanwhile
            if folder.startswith(below):
                yield from (source for mark in list(marks.values()) for source in mark.sources)
        for path, mark in list(self._marks.items()):
            if path.startswith(below) and mark.sources not in seen and self._is_current(mark):
                seen.add(mark.sources)
                yield from mark.sources

    def _is_current(self, mark: TaintMark) -> bool:
        """Return whether a file still has the content that was marked."""
        try:
            status = os.lstat(mark.path)
        except (OSError, ValueError):
            return False
        known = mark.digest, (status.st_ino, status.st_ctime_ns)
        if self._verified.get(mark.path) == known:
            return True
        forms = {_find_form(one): one for one in mark.list_digests()}
        if not any(digest_file(mark.path, like=one) in mark.list_digests() for one in forms.values()):
            return False
        self._verified[mark.path] = known
        return True

    def _add(self, path: str, digest: bytes, sources: tuple[str, ...]) -> None:
        """Add a mark. Of two writers both are sources: which of them wrote is not known."""
        while not _is_storable(path):
            path, digest = os.path.dirname(path), _FOLDER
        folder = path.partition(_WINDOW)[0]
        before = self._folders.get(folder, {}).get(path) if digest == _FOLDER else self._marks.get(path)
        if before is not None:
            sources = before.sources if before.sources == sources else tuple(dict.fromkeys((*before.sources, *sources)))
            digest = digest if digest == _FOLDER else _join_digests(digest, before.list_digests())
        mark = TaintMark(path, digest, sources)
        if sources and mark != before:
            self._keep(mark)
            self._unsaved[path] = mark

    def _keep(self, mark: TaintMark) -> None:
        if mark.folder:
            self._folders.setdefault(mark.folder, {})[mark.path] = mark
            return
        self._marks[mark.path] = mark
        for digest in mark.list_digests():
            if b":" not in digest:
                self._by_digest[digest] = mark

    def _drop(self, mark: TaintMark) -> None:
        self._unsaved[mark.path] = None
        self._verified.pop(mark.path, None)
        if mark.folder:
            self._folders[mark.folder].pop(mark.path)
            if not self._folders[mark.folder]:
                del self._folders[mark.folder]
            return
        del self._marks[mark.path]
        for digest in mark.list_digests():
            if self._by_digest.get(digest) is mark:
                del self._by_digest[digest]

    def _compact(self) -> None:
        """Replace the deepest marks by marks of their folders when there are too many: none is forgotten."""
        while len(self._marks) > MAX_MARKS:
            depth = max(path.count("/") for path in self._marks)
            for mark in [one for one in self._marks.values() if one.path.count("/") == depth]:
                self._drop(mark)
                self.mark_folder(os.path.dirname(mark.path) or "/", mark.sources)


def _is_storable(path: str) -> bool:
    """Return whether a path is text; one that is not is known by its folder."""
    try:
        return path.isascii() or bool(path.encode())
    except UnicodeEncodeError:
        return False


def _find_form(digest: bytes) -> int:
    """Return by which way a digest is made: an old one, a stamp or a link, or of a content."""
    return 0 if len(digest) == _OLD_BYTES else 1 if b":" in digest else 2


def _join_digests(newest: bytes, earlier: Iterable[bytes]) -> bytes:
    """Return one digest for several contents. A stamp never comes back, and an old digest may not be joined."""
    kept = [one for one in earlier if one != newest and (one[:5] == b"link:" or _find_form(one) == 2)]
    return _SEPARATOR.join([newest, *kept][:_MAX_DIGESTS])


def _digest_state(state: FileState) -> bytes:
    """Return what tells the content of a path in this state; nothing for a folder, and where nothing is."""
    if state.kind is Kind.LINK:
        return b"link:" + state.target
    return state.mark.encode() if state.kind in (Kind.FILE, Kind.LARGE, Kind.HIDDEN) else b""


def digest_file(path: str, *, like: bytes = b"") -> bytes:
    """Return what tells the content of a path, by the same way as an earlier digest; nothing where there is none."""
    try:
        if stat.S_ISLNK(os.lstat(path).st_mode):
            return b"link:" + os.fsencode(os.readlink(path))
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        return b""
    with open(handle, "rb") as file:
        if len(like) == _OLD_BYTES:
            return blake2b(file.read(_OLD_HASHED_BYTES) + b"%d" % status.st_size, digest_size=_OLD_BYTES).digest()
        if b":" in like or status.st_size > _MAX_HASHED_BYTES:
            return b"%d:%d:%d" % (status.st_ino, status.st_size, status.st_mtime_ns)
        from hermes.checkpoints.object_store import digest_content

        return digest_content(file.read()).encode()
