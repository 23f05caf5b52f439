"""Observes what calls change in a workspace, whoever changes it: paths by their stamps, no content is read."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from hermes.checkpoints.path_states import StateReader
from hermes.checkpoints.scan import FolderListing, FolderScan, ListingItem, ScanLimits, is_version_history
from hermes.core.checkpoints import Kind, WorkspaceChanges
from hermes.safety.paths import Places

_RACE_NS = 50_000_000
"""The nanoseconds before a scan within which a change may have the stamp of the state that was seen."""
_MAX_ENTRIES = 20_000
_TREE_SECONDS = 0.05
"""What may be spent on an ignored tree before it counts as changed."""
_NO_CHANGES = WorkspaceChanges()
T = TypeVar("T")


class WorkspaceObserver:
    """Tells what has changed from one call to the next. Calls of one session take turns."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._known: FolderListing | None = None
        self._lock = asyncio.Lock()
        self.is_watching = False
        """Whether processes go on in the background, so that what they change is observed across turns."""

    async def begin(self, listing: FolderListing | None = None) -> None:
        """Take the workspace as it is now, before a command; `listing` is a scan that was made for this turn."""
        async with self._lock:
            if self._known is None:
                self._known = listing if listing is not None else await self._scan_first()

    async def list_changes(self, others: Sequence[str], *, running: bool) -> WorkspaceChanges:
        """Return what differs from the last time, in the workspace and in `others`, folders that commands may write.

        `running`: processes go on and may change more.
        """
        async with self._lock:
            self.is_watching = running
            if self._known is None:
                return _NO_CHANGES
            before = self._known
            try:
                after, left_out = await _run(partial(self._scan, before))
            except OSError:  # then anything may have changed, and is seen by nobody
                return WorkspaceChanges(folders=(self._places.workspace, *others), whole=False)
            self._known = after
            return await _run(partial(self._compare, before, after, (*left_out, *others)))

    async def _scan_first(self) -> FolderListing:
        """Return the listing of the workspace; one that is not whole where it cannot be looked at."""
        try:
            return (await _run(partial(self._scan, FolderListing())))[0]
        except OSError:
            return FolderListing(whole=False)

    def end_turn(self) -> None:
        """Forget the workspace, unless processes go on: what a person changes between turns is theirs."""
        if not self.is_watching:
            self._known = None

    def _scan(self, known: FolderListing, stopped: threading.Event) -> tuple[FolderListing, list[str]]:
        """Return the workspace's listing, and what it leaves out: trees that count as one folder."""
        reader = StateReader(self._places, -1)  # every file is too large to be read: it is known by its stamp
        limits = ScanLimits(total_bytes=1 << 62)
        root = self._places.workspace
        scan = FolderScan(root, self._places, reader, limits, stopped.is_set)
        listing = scan.scan_folder(known)
        return listing, [os.path.join(root, one) for one in scan.skipped]

    def _compare(
        self, before: FolderListing, after: FolderListing, trees: Sequence[str], stopped: threading.Event
    ) -> WorkspaceChanges:
        root, since = self._places.workspace, before.started_ns - _RACE_NS
        changes = (
            (os.path.join(root, os.fsdecode(key)), before.items.get(key), item) for key, item in after.items.items()
        )
        files = {path: item.state for path, was, item in changes if self._has_changed(path, was, item, since)}
        whole = before.whole and after.whole and not stopped.is_set()
        changed = tuple(one for one in trees if _has_new_content(one, since))
        return WorkspaceChanges(files, changed if whole else (root, *changed), whole)

    def _has_changed(self, path: str, was: ListingItem | None, item: ListingItem, since: int) -> bool:
        if was is item or item.state.kind is Kind.FOLDER:
            return False
        return was is None or _stamp(was) != _stamp(item) or (was.changed >= since and self._differs(path, was))

    def _differs(self, path: str, was: ListingItem) -> bool:
        """Return whether a file that was written just before the listing has another content than was read then."""
        if was.state.kind is not Kind.FILE:
            return True
        try:
            return StateReader(self._places, was.state.size, copies_keys=True).read_state(path) != was.state
        except OSError:
            return True


async def _run(work: Callable[[threading.Event], T]) -> T:
    """Run in a thread; a stop does not wait for it, and it gives up soon."""
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(work, stopped)
    finally:
        stopped.set()


def _stamp(item: ListingItem) -> tuple[int, int, int]:
    return item.modified, item.changed, item.inode


def _has_new_content(tree: str, since: int) -> bool:
    """Return whether a tree may hold content that it did not hold at a time, in nanoseconds.

    git writes its index when it is asked anything; what it brings back later lies in its objects.
    """
    if not is_version_history(tree) or not os.path.isdir(os.path.join(tree, "objects")):
        return _has_changed_since(tree, since)
    stores = [os.path.join(tree, "objects")]
    for folder, names, _ in os.walk(os.path.join(tree, "modules")):
        if "objects" in names:
            names.remove("objects")
            stores.append(os.path.join(folder, "objects"))
    folders = (folder for one in stores for folder, _, _ in os.walk(one))
    return any(changed >= since for folder in folders for changed in _list_own_time(folder))


def _has_changed_since(tree: str, since: int) -> bool:
    """Return whether anything in a tree was changed since a time, in nanoseconds; a very large tree counts as that, and
    one that cannot be looked into. Of one that is gone there is nothing.
    """
    until = time.monotonic() + _TREE_SECONDS
    try:
        for number, changed in enumerate(_list_change_times(tree)):
            if changed >= since or number > _MAX_ENTRIES or time.monotonic() > until:
                return True
    except OSError:
        return os.path.lexists(tree)
    return False


def _list_own_time(path: str) -> list[int]:
    """Return when what is at a path was changed, in nanoseconds; nothing where it is gone."""
    try:
        return [os.lstat(path).st_ctime_ns]
    except OSError:
        return []


def _list_change_times(tree: str) -> Iterator[int]:
    """Yield when the entries of a tree were changed. Raises OSError for a tree that cannot be looked into."""
    yield from _list_own_time(tree)
    # What is gone meanwhile is told by its folder.
    for _, names, files, handle in os.fwalk(tree, follow_symlinks=False):
        yield os.fstat(handle).st_ctime_ns
        for name in (*names, *files):
            with contextlib.suppress(OSError):
                yield os.stat(name, dir_fd=handle, follow_symlinks=False).st_ctime_ns
