"""The listing of a folder: every file with its content's digest. What is as it was at the last look is not read again.

Links are listed, not followed; other devices are not entered. A look has bounds, and says when it has met one.
"""

import os
import stat
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from hermes.checkpoints.file_state import FOLDER, MODE, Looker, uncopied
from hermes.checkpoints.ignore_rules import Ignored, is_cache, made_anew, rules_above, rules_in
from hermes.core.checkpoints import FileState, Kind
from hermes.safety.paths import read_refused
from hermes.safety.places import Places

_RACE = 50_000_000
"""Nanoseconds before a look within which a change may have the stamp of the state that was seen."""
_DEEPEST = 100


class Item(Struct, frozen=True, array_like=True, gc=False):
    """A path of a listing, and what tells that it is unchanged: times of change in nanoseconds, and its number."""

    state: FileState
    modified: int = 0
    changed: int = 0
    inode: int = 0


class Listing(Struct, frozen=True, array_like=True):
    """A folder at one moment, by paths below it."""

    items: dict[bytes, Item] = {}
    at: int = 0
    """When the look began, in nanoseconds since the epoch."""
    whole: bool = True
    """Whether nothing was left out because a bound was met."""
    uncopied: int = 0
    """Files of which there is no copy because all together were too large."""

    def same_as(self, other: "Listing") -> bool:
        """Whether nothing has changed, stamps included."""
        return self.whole == other.whole and self.items == other.items


class Bounds(Struct, frozen=True, kw_only=True):
    """How far one look goes."""

    total_bytes: int = 250_000_000
    entries: int = 50_000
    seconds: float = 8.0


_DECODER = msgspec.msgpack.Decoder(Listing)


def encoded(listing: Listing) -> bytes:
    """The form in which a listing is kept."""
    return msgspec.msgpack.encode(listing)


def decoded(data: bytes | None) -> Listing | None:
    """Back from that form; None for what cannot be read."""
    try:
        return _DECODER.decode(data) if data is not None else None
    except msgspec.MsgspecError:
        return None


class _BoundError(Exception):
    """A bound was met."""


class Scan:
    """One look at a folder (absolute, resolved). `stopped` tells that nobody waits for it any more."""

    def __init__(
        self, root: str, places: Places, looker: Looker, bounds: Bounds, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._root = root
        self._places = places
        self._looker = looker
        self._bounds = bounds
        self._stopped = stopped
        self._items: dict[bytes, Item] = {}
        self._known: dict[bytes, Item] = {}
        self._trusted = 0
        self._bytes = 0
        self._uncopied = 0
        self._until = 0.0
        self._device = 0
        self._repository = False

    def look(self, known: Listing | None = None) -> Listing:
        """The folder as it is now; of what is as in `known` nothing is read."""
        known = known or Listing()
        self._known, self._trusted = known.items, known.at - _RACE
        began, self._until = time.time_ns(), time.monotonic() + self._bounds.seconds
        self._repository, ignored = rules_above(self._root)
        whole = True
        handle = os.open(self._root, FOLDER | os.O_RDONLY)
        try:
            self._device = os.fstat(handle).st_dev
            self._folder(handle, "", ignored, 0)
        except _BoundError:
            whole = False
        finally:
            os.close(handle)
        return Listing(self._items, began, whole, self._uncopied)

    def covers(self, path: str) -> bool:
        """Whether a path below the root is one that a look lists, as the files of patterns are now."""
        self._repository, ignored = rules_above(self._root)
        names = path.split("/")
        handle = os.open(self._root, FOLDER | os.O_RDONLY)
        try:
            for depth, name in enumerate(names):
                above, last = "/".join(names[:depth]), depth == len(names) - 1
                if self._repository:
                    ignored = ignored.with_rules(above, rules_in(handle))
                beside = set(os.listdir(handle))
                here = f"{above}/{name}".lstrip("/")
                folder = not last
                if (folder and made_anew(name, beside)) or ignored.leaves_out(here, name, folder=folder):
                    return False
                if last or name not in beside:
                    return True
                below = os.open(name, FOLDER | os.O_RDONLY, dir_fd=handle)
                os.close(handle)
                handle = below
        except OSError:
            return False
        finally:
            os.close(handle)
        return True

    def _folder(self, handle: int, path: str, ignored: Ignored, depth: int) -> None:
        """List what is in an open folder, and below."""
        with os.scandir(handle) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        names = {entry.name for entry in entries}
        if path and is_cache(names):
            return
        if self._repository and ".gitignore" in names:
            ignored = ignored.with_rules(path, rules_in(handle))
        for entry in entries:
            below = f"{path}/{entry.name}" if path else entry.name
            folder = entry.is_dir(follow_symlinks=False)
            if (folder and made_anew(entry.name, names)) or ignored.leaves_out(below, entry.name, folder=folder):
                continue
            self._within_bounds()
            try:
                self._entry(handle, entry, below, ignored, depth)
            except OSError:
                continue  # gone meanwhile, or not ours to read: there is nothing to be listed

    def _entry(self, handle: int, entry: os.DirEntry[str], path: str, ignored: Ignored, depth: int) -> None:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            real = os.path.join(self._root, path)
            if status.st_dev != self._device or real == self._places.hermes or read_refused(real, self._places):
                return
            self._items[os.fsencode(path)] = Item(FileState(Kind.FOLDER, status.st_mode & MODE))
            if depth >= _DEEPEST:
                raise _BoundError
            below = os.open(entry.name, FOLDER | os.O_RDONLY, dir_fd=handle)
            try:
                self._folder(below, path, ignored, depth + 1)
            finally:
                os.close(below)
            return
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            key = os.fsencode(path)
            self._items[key] = self._item(handle, entry.name, path, status, self._known.get(key))

    def _item(self, handle: int, name: str, path: str, status: os.stat_result, known: Item | None) -> Item:
        stamps = status.st_mtime_ns, status.st_ctime_ns, status.st_ino
        if (
            known is not None
            and (known.modified, known.changed, known.inode) == stamps
            and known.changed < self._trusted
            and known.state.kind is not Kind.LARGE
        ):
            self._bytes += known.state.size
            return known
        if stat.S_ISREG(status.st_mode) and self._bytes + status.st_size > self._bounds.total_bytes:
            self._uncopied += 1
            return Item(uncopied(Kind.LARGE, status), *stamps)
        state = self._looker.at(handle, name, os.path.join(self._root, path), status)
        self._bytes += state.size if state.kind is Kind.FILE else 0
        return Item(state, *stamps)

    def _within_bounds(self) -> None:
        if len(self._items) >= self._bounds.entries or self._stopped() or time.monotonic() > self._until:
            raise _BoundError


def differences(
    before: Listing, after: Listing, look: Callable[[bytes], FileState]
) -> dict[bytes, tuple[FileState, FileState]]:
    """What is another in the second listing, as (before, after); `look` tells what a listing that is cut omits."""
    absent = FileState(Kind.ABSENT)
    found: dict[bytes, tuple[FileState, FileState]] = {}
    for path, item in before.items.items():
        there = after.items.get(path)
        if there is item:
            continue
        now = there.state if there is not None else absent if after.whole else look(path)
        if now != item.state:
            found[path] = (item.state, now)
    if before.whole:
        for path, item in after.items.items():
            if path not in before.items:
                found[path] = (absent, item.state)
    return found
