"""Lists a folder: every file with its content's digest. What is unchanged since the last scan is not read again.

Links are listed, not followed; other devices are not entered. A scan has limits, and says when it has met one.

Ignore rules for the listing of a folder: what git ignores there, by its files alone, and what tools regenerate. What
is ignored and not regenerated may be listed, too, within limits of its own.
"""

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from itertools import groupby, islice, takewhile

import msgspec
from msgspec import Struct, structs

from hermes.checkpoints.path_states import MODE_BITS, StateReader, state_without_copy
from hermes.core.checkpoints import ABSENT, FileState, Kind
from hermes.safety.autorun_files import HELD_SUFFIX
from hermes.safety.paths import Places, read_refusal
from hermes.safety.shell.regenerable import is_regenerable_name
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


VERSION_HISTORIES = frozenset((".git", ".hg", ".svn", ".jj"))


_BUILD_FOLDERS = {"target": ("Cargo.toml", "pom.xml", "build.sbt")}


_CACHE_TAG = "CACHEDIR.TAG"


_MAX_BYTES = 256 * 1024


_MAX_RULES = 2_000
_MAX_DEEP_RULES = 20
"""The most rules with a `**` between names, each of which costs a look at every way to split a path."""


class IgnoreRule(Struct, frozen=True):
    """One line of a file of patterns, as in gitignore(5)."""

    negated: bool
    folders_only: bool
    anchored: bool
    regex: str
    is_deep: bool = False
    """Whether it has a `**` between names: what is left out of a listing for it is bounded."""


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
        left = _MAX_DEEP_RULES - sum(rule.is_deep for _, rule in self.rules)
        rules = (*self.rules, *((folder, rule) for rule in _drop_deep(more, left)))
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


def _drop_deep(rules: Iterable[IgnoreRule], left: int) -> Iterator[IgnoreRule]:
    """Yield the rules without those with a `**` between names beyond so many."""
    for rule in rules:
        left -= rule.is_deep
        if left >= 0 or not rule.is_deep:
            yield rule


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
                is_deep = "**" in bare.lstrip("/").split("/")[1:-1]
                rules.append(IgnoreRule(negated, folders_only, anchored, regex, is_deep))
    return rules


def read_rules(folder: int, name: str = ".gitignore") -> list[IgnoreRule]:
    """Return the rules that a file in an open folder holds; none when there is no plain file of that name."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return []
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # a folder would be no file to Python, which leaves it open then
        os.close(handle)
        return []
    with contextlib.suppress(OSError), os.fdopen(handle, "rb") as file:
        return parse_rules(file.read(_MAX_BYTES).decode("utf-8", "surrogateescape"))
    return []


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
    return path.rpartition("/")[2] in VERSION_HISTORIES


def is_made_again(path: str) -> bool:
    """Return whether a path (below the root) is build output or a cache by a name on the way to it, and no history.

    A tag in a folder says nothing here: any command can put one there.
    """
    return not is_version_history(path) and any(
        one in REGENERABLE_FOLDERS or is_regenerable_name(one) for one in path.split("/")
    )


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


class ListingScope(Struct, frozen=True, array_like=True):
    """What a listing holds, and what it leaves out."""

    uncopied: int = 0
    """The number of files without a copy because all together were too large."""
    left_out: tuple[bytes, ...] | None = None
    """The paths that were not looked at, or not wholly: of what is below them it is unknown whether it was there. None:
    all that is not listed."""
    ignored: tuple[bytes, ...] = ()
    """The listed paths that git ignores; so is what lies below them."""
    cut: bytes = b""
    """The first ignored path that is not wholly copied because a limit was met."""


class FolderListing(Struct, frozen=True, array_like=True):
    """The entries of a folder at one moment, by paths below it; behind them those of opened folders, by absolute paths.

    An opened folder has an entry of its own in any case: absent where it was not there, and large where it is more
    than may be copied, so that nothing in it is listed. These come last.
    """

    items: dict[bytes, ListingItem] = {}
    started_ns: int = 0
    """The time when the scan began, in nanoseconds since the epoch."""
    whole: bool = True
    """Whether nothing was left out because a limit was met."""
    stored_scope: int | ListingScope = 0
    """What is held and left out; a number, of the files without a copy, as Hermes 0.1 stored it."""

    @property
    def scope(self) -> ListingScope:
        """What the listing holds, and what it leaves out."""
        scope = self.stored_scope
        return ListingScope(scope) if isinstance(scope, int) else scope

    def get_folders(self) -> dict[bytes, FileState]:
        """Return the opened folders, each with its own state."""
        items = self.items
        found = takewhile(lambda key: key[:1] == b"/" and os.path.dirname(key) not in items, reversed(items))
        return {key: items[key].state for key in found}

    def list_too_large(self) -> list[bytes]:
        """Return the opened folders of which nothing is listed."""
        return [key for key, state in self.get_folders().items() if state.kind is Kind.LARGE]

    def without(self, folders: Container[bytes]) -> "FolderListing":
        """Return the listing without these opened folders, and what is in them."""
        kept = {key: item for key, item in self.items.items() if not is_at_or_below(key, folders)}
        return structs.replace(self, items=kept)

    def has_folders(self, folders: Iterable[str]) -> bool:
        """Return whether these opened folders (absolute) are listed, or known to be too large for that."""
        known = self.get_folders() if folders else {}
        return all(is_at_or_below(os.fsencode(one), known) for one in folders)

    def knows_absence(self) -> Callable[[bytes], bool]:
        """Return what tells whether a path was not there, given that it is not listed."""
        left_out = self.scope.left_out
        if not self.whole or left_out is None:
            return lambda _: False
        unknown = frozenset(left_out)
        opened = self.get_folders().keys() - self.list_too_large()
        return lambda path: not is_at_or_below(path, unknown) and (path[:1] != b"/" or is_at_or_below(path, opened))


def is_at_or_below(path: bytes, roots: Container[bytes]) -> bool:
    """Return whether a path of a listing is one of these, or below one."""
    while path and path not in roots:
        path = path.rpartition(b"/")[0]
    return bool(path)


class ScanLimits(Struct, frozen=True, kw_only=True):
    """The limits of one scan. Those of what git ignores count apart: without entries, nothing of it is listed."""

    total_bytes: int = 250_000_000
    entries: int = 50_000
    seconds: float = 8.0
    ignored_bytes: int = 0
    ignored_entries: int = 0
    ignored_seconds: float = 2.0


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
    """One scan of a folder (absolute, resolved); a workspace in it is left out. `stopped` tells that nobody waits any
    more. With `trusts_tags` a folder that is marked as a cache counts as one where it did so in the first listing: any
    command can mark one later. With `keeps_known` what was copied before stays copied, whatever has come in its way.
    """

    def __init__(
        self,
        root: str,
        places: Places,
        reader: StateReader,
        limits: ScanLimits,
        stopped: Callable[[], bool] = lambda: False,
        *,
        trusts_tags: bool = True,
        keeps_known: bool = False,
    ) -> None:
        self._root = root
        self._trusts_tags = trusts_tags
        self._keeps_known = keeps_known
        self._other_roots = {places.workspace, places.hermes} - {root}
        self._places = places
        self._reader = reader
        self._limits = limits
        self._stopped = stopped
        self._items: dict[bytes, ListingItem] = {}
        self._known: dict[bytes, ListingItem] = {}
        self._known_scope: ListingScope | None = None
        self._unchanged_before = 0
        self._budget = self._listed = _Budget(limits.entries, limits.total_bytes, limits.seconds)
        self._ignored = _Budget(limits.ignored_entries, limits.ignored_bytes, limits.ignored_seconds)
        self.skipped: list[str] = []
        """What is no part of the listing proper (paths below the root): what tools regenerate, and what git ignores."""
        self._left_out: list[str] = []
        self._closed: set[str] = set()
        """What of that no listing may hold, whatever it held before."""
        self._has_unlisted = False
        """Whether something could not be looked at that commands may open, and of which nothing was known before."""
        self._ignored_roots: list[str] = []
        self._ignored_folders: list[str] = []
        self._device = 0
        self._in_repository = False

    def scan_folder(self, known: FolderListing | None = None) -> FolderListing:
        """Return the folder's listing as it is now; of what is as in `known` nothing is read."""
        self._known_scope = known.scope if known is not None else None
        known = known or FolderListing()
        self._known, self._unchanged_before = known.items, known.started_ns - _RACE_NS
        began = time.time_ns()
        self._listed.start()
        self._ignored.deadline = self._listed.deadline
        self._in_repository, ignored = read_rules_above(self._root)
        whole = True
        handle = open_folder(self._root, listed=True)
        try:
            self._device = os.fstat(handle).st_dev
            self._list_folder(handle, "", ignored, 0)
            self._list_ignored_folders()
        except _LimitError:
            whole = False
        finally:
            os.close(handle)
        if self._keeps_known and self._known:
            self._keep_known(is_cut=not whole)
        whole = whole and not self._has_unlisted
        left_out, ignored_roots = (tuple(map(os.fsencode, one)) for one in (self._left_out, self._ignored_roots))
        scope = ListingScope(self._listed.uncopied, left_out, ignored_roots, os.fsencode(self._ignored.cut))
        return FolderListing(self._items, began, whole, scope)

    def _list_folder(self, handle: int, path: str, ignored: IgnoreRules, depth: int) -> None:
        """List what is in an open folder, and below."""
        most = self._budget.entries + 1 if self._budget is self._ignored else None
        with os.scandir(handle) as found:
            entries = sorted(islice(found, most), key=lambda entry: entry.name)
        names = {entry.name for entry in entries}
        if path and self._is_passed_over(path, names):
            return
        if self._in_repository and ".gitignore" in names:
            ignored = ignored.with_rules(path, read_rules(handle))
        for entry in entries:
            below = f"{path}/{entry.name}" if path else entry.name
            folder = entry.is_dir(follow_symlinks=False)
            if self._is_left_out(entry.name, names, folder=folder):
                self._skip(below)
            elif ignored.is_ignored(below, entry.name, folder=folder):
                self._skip_ignored(handle, entry.name, below, folder=folder)
            else:
                self._check_limits()
                self._try_entry(handle, entry.name, below, ignored, depth)

    def _is_passed_over(self, path: str, names: Collection[str]) -> bool:
        """Return whether a folder is not listed here since it is marked as a cache. Where the mark has come since the
        first listing, it is listed with what git ignores.
        """
        if not self._trusts_tags or not is_cache_folder(names):
            return False
        scope, key = self._known_scope, os.fsencode(path)
        was_ignored = scope is not None and key in scope.ignored
        if self._copies_any(path, names) and not was_ignored:
            return False
        is_old = scope is None or scope.left_out is None or key in scope.left_out
        if not self._limits.ignored_entries or (is_old and not was_ignored):
            self._skip(path)
            return True
        if self._budget is self._listed:
            self.skipped.append(path)
            self._ignored_roots.append(path)
            self._ignored_folders.append(path)
            return True
        return False

    def _is_left_out(self, name: str, beside: Collection[str], *, folder: bool) -> bool:
        by_name = self._budget is self._ignored and is_regenerable_name(name)
        return by_name or (folder and is_regenerable(name, beside))

    def _copies_any(self, folder: str, names: Collection[str]) -> bool:
        """Return whether something in a folder was copied before: a tag that came since does not end that."""
        was_listed = (os.fsencode(f"{folder}/{name}") in self._known for name in names)
        return self._limits.ignored_entries > 0 and any(was_listed)

    def _try_entry(self, handle: int, name: str, path: str, ignored: IgnoreRules, depth: int) -> None:
        try:
            self._list_entry(handle, name, path, ignored, depth)
        except (FileNotFoundError, NotADirectoryError):
            self._left_out.append(path)  # gone meanwhile: there is nothing to be listed
        except OSError:
            self._note_unlisted(path)

    def _note_unlisted(self, path: str) -> None:
        """Note what could not be listed: whoever names it is asked, and what is not ours commands do not open, too."""
        self.skipped.append(path)
        self._left_out.append(path)
        start = os.fsencode(path) + b"/"
        with contextlib.suppress(OSError):
            is_ours = os.lstat(os.path.join(self._root, path)).st_uid == os.geteuid()
            self._has_unlisted |= is_ours and not any(key.startswith(start) for key in self._known)

    def _keep_known(self, *, is_cut: bool) -> None:
        """Keep what was copied before and the scan has passed over, because of a limit, or an ignore rule or a mark of
        a cache that came later: as it is now, within limits as large as those of what git ignores.
        """
        left_out, closed = (frozenset(map(os.fsencode, some)) for some in (self._left_out, self._closed))
        missing = [
            key
            for key in self._known
            if key not in self._items and key[:1] != b"/" and (is_cut or is_at_or_below(key, left_out))
        ]
        limits = self._limits
        self._budget = budget = _Budget(limits.entries, limits.ignored_bytes, limits.ignored_seconds)
        budget.start()
        for folder, keys in groupby(missing, key=os.path.dirname):
            try:
                handle = open_folder(os.path.join(self._root, os.fsdecode(folder)).rstrip("/"))
            except OSError:
                continue
            try:
                self._keep_known_entries(handle, [one for one in keys if not is_at_or_below(one, closed)])
            except _LimitError:
                break
            finally:
                os.close(handle)

    def _keep_known_entries(self, handle: int, keys: Iterable[bytes]) -> None:
        """Keep what is still there of paths in an open folder; what may not be looked at stays as it was."""
        for key in keys:
            self._check_limits()
            path = os.fsdecode(key)
            name, item = os.path.basename(path), self._known[key]
            try:
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if status.st_dev != self._device:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    item = ListingItem(FileState(Kind.FOLDER, status.st_mode & MODE_BITS))
                elif item.state.kind is not Kind.FOLDER:
                    item = self._build_item(handle, name, path, status, item)
            except PermissionError:
                pass
            except OSError:
                continue
            if item.state.is_restorable:
                self._add_item(path, item)

    def _list_entry(self, handle: int, name: str, path: str, ignored: IgnoreRules, depth: int) -> None:
        status = os.stat(name, dir_fd=handle, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            real = os.path.join(self._root, path)
            if real in self._other_roots or read_refusal(real, self._places):
                self._left_out.append(path)
                self._closed.add(path)
                return
            if status.st_dev != self._device or depth >= _MAX_DEPTH:
                self._skip(path)
                return
            self._add_item(path, ListingItem(FileState(Kind.FOLDER, status.st_mode & MODE_BITS)))
            below = os.open(name, LISTED_FOLDER_FLAGS, dir_fd=handle)
            try:
                self._list_folder(below, path, ignored, depth + 1)
            finally:
                os.close(below)
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            known = self._known.get(os.fsencode(path))
            self._add_item(path, self._build_item(handle, name, path, status, known))
        else:
            self._left_out.append(path)

    def _add_item(self, path: str, item: ListingItem) -> None:
        self._items[os.fsencode(path)] = item
        self._budget.entries -= 1

    def _build_item(
        self, handle: int, name: str, path: str, status: os.stat_result, known: ListingItem | None
    ) -> ListingItem:
        stamps, budget = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino), self._budget
        if (
            known is not None
            and (known.modified, known.changed, known.inode) == stamps
            and known.changed < self._unchanged_before
            and known.state.kind not in (Kind.LARGE, Kind.HIDDEN)
        ):
            budget.bytes -= known.state.size
            return known
        if stat.S_ISREG(status.st_mode) and status.st_size > budget.bytes:
            budget.uncopied += 1
            budget.cut = budget.cut or path
            return ListingItem(state_without_copy(Kind.LARGE, status), *stamps)
        state = self._reader.read_entry(handle, name, os.path.join(self._root, path), status)
        budget.bytes -= state.size if state.kind is Kind.FILE else 0
        return ListingItem(state, *stamps)

    def _skip(self, path: str) -> None:
        self.skipped.append(path)
        self._left_out.append(path)
        self._budget.entries -= 1
        self._check_limits()

    def _skip_ignored(self, handle: int, name: str, path: str, *, folder: bool) -> None:
        """Pass over what git ignores; what nothing makes again is listed as such, the folders after all else."""
        if not self._limits.ignored_entries or is_made_again(path):
            self._skip(path)
            return
        self.skipped.append(path)
        self._ignored_roots.append(path)
        self._listed.entries -= 1
        self._check_limits()
        if folder:
            self._ignored_folders.append(path)
            return
        self._budget = self._ignored
        try:
            self._check_limits()
            self._try_entry(handle, name, path, IgnoreRules(), 0)
        except _LimitError:
            self._leave_out_ignored(path)
        finally:
            self._budget = self._listed

    def _list_ignored_folders(self) -> None:
        """List the ignored folders that nothing makes again; all is ignored there. A limit ends that, not the scan."""
        self._budget, self._in_repository = self._ignored, False
        self._ignored.start()
        for path in self._ignored_folders:
            above, name = os.path.split(os.path.join(self._root, path))
            try:
                self._check_limits()
                handle = open_folder(above)
                try:
                    self._list_entry(handle, name, path, IgnoreRules(), path.count("/"))
                finally:
                    os.close(handle)
            except _LimitError:
                self._leave_out_ignored(path)
            except (FileNotFoundError, NotADirectoryError):
                self._left_out.append(path)
            except OSError:
                self._note_unlisted(path)

    def _leave_out_ignored(self, path: str) -> None:
        self._left_out.append(path)
        self._ignored.cut = self._ignored.cut or path

    def _check_limits(self) -> None:
        if self._budget.entries <= 0 or self._stopped() or time.monotonic() > self._budget.deadline:
            raise _LimitError


class _Budget:
    """What one part of a scan may still take, and what it had to leave."""

    def __init__(self, entries: int, total_bytes: int, seconds: float) -> None:
        self.entries = entries
        self.bytes = total_bytes
        self._seconds = seconds
        self.deadline = 0.0
        self.uncopied = 0
        self.cut = ""

    def start(self) -> None:
        """Let the time run from now on."""
        self.deadline = time.monotonic() + self._seconds


def find_differences(
    before: FolderListing, after: FolderListing, look: Callable[[bytes], FileState]
) -> dict[bytes, tuple[FileState, FileState]]:
    """Return what differs in the second listing, as (before, after); `look` tells what a listing that is cut omits.

    What is new among what git ignores and has no copy is left out: undoing would lose it for good. So is what the look
    after commands has moved aside: the only version of a person's may be among it.
    """
    found: dict[bytes, tuple[FileState, FileState]] = {}
    is_gone, is_new = after.knows_absence(), before.knows_absence()
    for path, item in before.items.items():
        there = after.items.get(path)
        if there is item:
            continue
        now = there.state if there is not None else ABSENT if is_gone(path) else look(path)
        if now != item.state:
            found[path] = (item.state, now)
    ignored = frozenset(after.scope.ignored)
    for path, item in after.items.items():
        is_kept = item.state.is_restorable or not is_at_or_below(path, ignored)
        if is_kept and path not in before.items and is_new(path):
            found[path] = (ABSENT, item.state)
    return dict(filter(lambda change: not _is_held(change[0], before, after), found.items()))


def _is_held(path: bytes, before: FolderListing, after: FolderListing) -> bool:
    """Return whether something was moved to a path by the look after commands, as its name says."""
    was, now = (one.items.get(path) for one in (before, after))
    return path.endswith(os.fsencode(HELD_SUFFIX)) and now is not None and (was is None or was.inode != now.inode)
