"""Lists a folder: every file with its content's digest. What is unchanged since the last scan is not read again.

Links are listed, not followed; other devices are not entered. A scan has limits, and says when it has met one.

Ignore rules for the listing of a folder: what git ignores there, by its files alone, and what tools regenerate.
"""

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Sequence

import msgspec
from msgspec import Struct

from hermes.checkpoints.path_states import MODE_BITS, StateReader, state_without_copy
from hermes.core.checkpoints import FileState, Kind
from hermes.safety.paths import Places, read_refusal
from hermes.util.file_handles import LISTED_FOLDER_FLAGS, open_folder
from hermes.util.globs import regex_from_glob

REGENERABLE_FOLDERS = frozenset(
    {
        *(".git", ".hg", ".svn", ".jj", "node_modules", "bower_components", ".venv", "venv", ".tox", ".nox"),
        *("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".gradle", ".terraform"),
        *(".next", ".nuxt", ".cache", ".eggs", ".direnv"),
    }
)
"""Folders that tools regenerate, or that are a program's own history."""


_HISTORIES = frozenset((".git", ".hg", ".svn", ".jj"))


_BUILD_FOLDERS = {"target": ("Cargo.toml", "pom.xml", "build.sbt")}


_CACHE_TAG = "CACHEDIR.TAG"


_MAX_BYTES = 256 * 1024


_MAX_RULES = 2_000


class IgnoreRule(Struct, frozen=True):
    """One line of a file of patterns, as in gitignore(5)."""

    negated: bool
    folders_only: bool
    anchored: bool
    regex: str


class IgnoreRules(Struct, frozen=True):
    """The rules that hold in a folder, each with the path (below the root) of the folder that it comes from."""

    rules: tuple[tuple[str, IgnoreRule], ...] = ()
    names: re.Pattern[str] | None = None
    paths: re.Pattern[str] | None = None
    """Match whatever any rule could be about: most files match none, and one test tells."""

    def with_rules(self, folder: str, more: Sequence[IgnoreRule]) -> "IgnoreRules":
        """Return these rules and those that a folder (its path below the root, empty for the root) adds."""
        if not more or len(self.rules) > _MAX_RULES:
            return self
        rules = (*self.rules, *((folder, rule) for rule in more))
        names = [rule.regex for _, rule in rules if not rule.anchored]
        paths = [(re.escape(f"{owner}/") if owner else "") + rule.regex for owner, rule in rules if rule.anchored]
        return IgnoreRules(rules, _join_patterns(names), _join_patterns(paths))

    def is_ignored(self, path: str, name: str, *, folder: bool) -> bool:
        """Return whether a path below the root, with this last name, is left out."""
        if not (self.names and self.names.fullmatch(name)) and not (self.paths and self.paths.fullmatch(path)):
            return False
        for owner, rule in reversed(self.rules):
            if rule.folders_only and not folder:
                continue
            below = path[len(owner) + 1 :] if owner else path
            if re.fullmatch(rule.regex, below if rule.anchored else name, re.DOTALL):
                return not rule.negated
        return False


def _join_patterns(patterns: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{one})" for one in patterns), re.DOTALL) if patterns else None


def parse_rules(text: str) -> list[IgnoreRule]:
    """Return the rules of a file of patterns; a line that is none is skipped."""
    rules = []
    for line in text.splitlines()[:_MAX_RULES]:
        kept = line if line.endswith("\\ ") else line.rstrip()
        if not kept or kept.startswith("#"):
            continue
        negated = kept.startswith("!")
        bare = kept[negated:]
        folders_only, bare = bare.endswith("/"), bare.rstrip("/")
        anchored = "/" in bare
        with contextlib.suppress(re.error):
            regex = regex_from_glob(bare.lstrip("/"))
            re.compile(regex)
            if regex:
                rules.append(IgnoreRule(negated, folders_only, anchored, regex))
    return rules


def read_rules(folder: int, name: str = ".gitignore") -> list[IgnoreRule]:
    """Return the rules that a file in an open folder holds; none when there is no such file."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return []
    with os.fdopen(handle, "rb") as file:
        return parse_rules(file.read(_MAX_BYTES).decode("utf-8", "surrogateescape"))


def read_rules_above(root: str) -> tuple[bool, IgnoreRules]:
    """Return whether a folder is in a repository, and the rules of the folders above it, up to the repository's."""
    above: list[str] = []
    at = root
    while not os.path.lexists(os.path.join(at, ".git")):
        at, name = os.path.split(at)
        if not name:
            return False, IgnoreRules()
        above.insert(0, name)
    ignored = IgnoreRules()
    known: list[IgnoreRule] = []
    for depth in range(len(above)):
        # What is above matches by name only: paths in it are of another root.
        folder = os.path.join(at, *above[:depth])
        known += [rule for rule in _read_rules_at(folder, ".gitignore") if not rule.anchored]
    known = [*_read_rules_at(os.path.join(at, ".git", "info"), "exclude"), *known] if at == root else known
    return True, ignored.with_rules("", known)


def is_regenerable(name: str, beside: Collection[str]) -> bool:
    """Return whether a folder of this name is one that tools regenerate; `beside` are the names next to it."""
    return name in REGENERABLE_FOLDERS or any(one in beside for one in _BUILD_FOLDERS.get(name, ()))


def is_version_history(path: str) -> bool:
    """Return whether a folder is a program's own history of the files around it."""
    return path.rpartition("/")[2] in _HISTORIES


def is_cache_folder(names: Collection[str]) -> bool:
    """Return whether a folder is marked as a cache by what it holds."""
    return _CACHE_TAG in names


def _read_rules_at(folder: str, name: str) -> list[IgnoreRule]:
    try:
        handle = open_folder(folder)
    except OSError:
        return []
    try:
        return read_rules(handle, name)
    finally:
        os.close(handle)


_RACE_NS = 50_000_000
"""The nanoseconds before a scan within which a change may have the stamp of the state that was seen."""
_MAX_DEPTH = 100


class ListingItem(Struct, frozen=True, array_like=True, gc=False):
    """A path of a listing, and what tells that it is unchanged: times of change in nanoseconds, and its inode."""

    state: FileState
    modified: int = 0
    changed: int = 0
    inode: int = 0


class FolderListing(Struct, frozen=True, array_like=True):
    """The entries of a folder at one moment, by paths below it."""

    items: dict[bytes, ListingItem] = {}
    started_ns: int = 0
    """The time when the scan began, in nanoseconds since the epoch."""
    whole: bool = True
    """Whether nothing was left out because a limit was met."""
    uncopied: int = 0
    """The number of files without a copy because all together were too large."""


class ScanLimits(Struct, frozen=True, kw_only=True):
    """The limits of one scan."""

    total_bytes: int = 250_000_000
    entries: int = 50_000
    seconds: float = 8.0


_DECODER = msgspec.msgpack.Decoder(FolderListing)


def encode_listing(listing: FolderListing) -> bytes:
    """Return the form in which a listing is stored."""
    return msgspec.msgpack.encode(listing)


def decode_listing(data: bytes | None) -> FolderListing | None:
    """Return a listing from its stored form, or None for what cannot be read."""
    try:
        return _DECODER.decode(data) if data is not None else None
    except msgspec.MsgspecError:
        return None


class _LimitError(Exception):
    """A limit was met."""


class FolderScan:
    """One scan of a folder (absolute, resolved). `stopped` tells that nobody waits for it any more."""

    def __init__(
        self,
        root: str,
        places: Places,
        reader: StateReader,
        limits: ScanLimits,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._root = root
        self._places = places
        self._reader = reader
        self._limits = limits
        self._stopped = stopped
        self._items: dict[bytes, ListingItem] = {}
        self._known: dict[bytes, ListingItem] = {}
        self._unchanged_before = 0
        self._bytes = 0
        self._uncopied = 0
        self.skipped: list[str] = []
        """What the scan has left out (paths below the root): what tools regenerate, and what git ignores."""
        self._deadline = 0.0
        self._device = 0
        self._in_repository = False

    def scan_folder(self, known: FolderListing | None = None) -> FolderListing:
        """Return the folder's listing as it is now; of what is as in `known` nothing is read."""
        known = known or FolderListing()
        self._known, self._unchanged_before = known.items, known.started_ns - _RACE_NS
        began, self._deadline = time.time_ns(), time.monotonic() + self._limits.seconds
        self._in_repository, ignored = read_rules_above(self._root)
        whole = True
        handle = open_folder(self._root, listed=True)
        try:
            self._device = os.fstat(handle).st_dev
            self._list_folder(handle, "", ignored, 0)
        except _LimitError:
            whole = False
        finally:
            os.close(handle)
        return FolderListing(self._items, began, whole, self._uncopied)

    def is_listed(self, path: str) -> bool:
        """Return whether a path below the root is one that a scan lists, as the ignore files are now."""
        self._in_repository, ignored = read_rules_above(self._root)
        names = path.split("/")
        handle = open_folder(self._root, listed=True)
        try:
            for depth, name in enumerate(names):
                above, last = "/".join(names[:depth]), depth == len(names) - 1
                if self._in_repository:
                    ignored = ignored.with_rules(above, read_rules(handle))
                beside = set(os.listdir(handle))
                here = f"{above}/{name}".lstrip("/")
                folder = not last
                if (folder and is_regenerable(name, beside)) or ignored.is_ignored(here, name, folder=folder):
                    return False
                if last or name not in beside:
                    return True
                below = os.open(name, LISTED_FOLDER_FLAGS, dir_fd=handle)
                os.close(handle)
                handle = below
        except OSError:
            return False
        finally:
            os.close(handle)
        return True

    def _list_folder(self, handle: int, path: str, ignored: IgnoreRules, depth: int) -> None:
        """List what is in an open folder, and below."""
        with os.scandir(handle) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        names = {entry.name for entry in entries}
        if path and is_cache_folder(names):
            self._skip(path)
            return
        if self._in_repository and ".gitignore" in names:
            ignored = ignored.with_rules(path, read_rules(handle))
        for entry in entries:
            below = f"{path}/{entry.name}" if path else entry.name
            folder = entry.is_dir(follow_symlinks=False)
            if (folder and is_regenerable(entry.name, names)) or ignored.is_ignored(below, entry.name, folder=folder):
                self._skip(below)
                continue
            self._check_limits()
            try:
                self._list_entry(handle, entry, below, ignored, depth)
            except OSError:
                continue  # gone meanwhile, or not ours to read: there is nothing to be listed

    def _list_entry(self, handle: int, entry: os.DirEntry[str], path: str, ignored: IgnoreRules, depth: int) -> None:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            real = os.path.join(self._root, path)
            if real == self._places.hermes or read_refusal(real, self._places):
                return
            if status.st_dev != self._device:
                self._skip(path)
                return
            self._items[os.fsencode(path)] = ListingItem(FileState(Kind.FOLDER, status.st_mode & MODE_BITS))
            if depth >= _MAX_DEPTH:
                raise _LimitError
            below = os.open(entry.name, LISTED_FOLDER_FLAGS, dir_fd=handle)
            try:
                self._list_folder(below, path, ignored, depth + 1)
            finally:
                os.close(below)
            return
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            key = os.fsencode(path)
            self._items[key] = self._build_item(handle, entry.name, path, status, self._known.get(key))

    def _build_item(
        self, handle: int, name: str, path: str, status: os.stat_result, known: ListingItem | None
    ) -> ListingItem:
        stamps = status.st_mtime_ns, status.st_ctime_ns, status.st_ino
        if (
            known is not None
            and (known.modified, known.changed, known.inode) == stamps
            and known.changed < self._unchanged_before
            and known.state.kind is not Kind.LARGE
        ):
            self._bytes += known.state.size
            return known
        if stat.S_ISREG(status.st_mode) and self._bytes + status.st_size > self._limits.total_bytes:
            self._uncopied += 1
            return ListingItem(state_without_copy(Kind.LARGE, status), *stamps)
        state = self._reader.read_entry(handle, name, os.path.join(self._root, path), status)
        self._bytes += state.size if state.kind is Kind.FILE else 0
        return ListingItem(state, *stamps)

    def _skip(self, path: str) -> None:
        self.skipped.append(path)
        self._check_limits()

    def _check_limits(self) -> None:
        if (
            len(self._items) + len(self.skipped) >= self._limits.entries
            or self._stopped()
            or time.monotonic() > self._deadline
        ):
            raise _LimitError


def find_differences(
    before: FolderListing, after: FolderListing, look: Callable[[bytes], FileState]
) -> dict[bytes, tuple[FileState, FileState]]:
    """Return what differs in the second listing, as (before, after); `look` tells what a listing that is cut omits."""
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
