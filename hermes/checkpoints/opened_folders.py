"""Lists the folders, and single files, outside of the workspace that commands may write, as parts of its listing."""

import os
import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from hermes.checkpoints.path_states import StateReader
from hermes.checkpoints.scan import FolderListing, FolderScan, ListingItem, ListingScope, ScanLimits, is_at_or_below
from hermes.core.checkpoints import ABSENT, Kind
from hermes.safety.paths import Places, is_or_below

_ENTRIES = 10_000
"""The most files and folders that all opened folders together may hold: they are looked at before a turn's first
command, and after its last.
"""
_IGNORED_ENTRIES = 5_000
_LOOK_SECONDS, _COPY_SECONDS = 4.0, 60.0
"""The seconds that it may take to tell how large a folder is, and those after which it is not copied any further."""


class OpenedFolderScan:
    """Adds opened folders to the listing of a workspace, as far as they are small enough to be copied whole.

    `total` is the bytes of files that they may hold together. A folder that holds more has no part in the listing:
    which of its files had a copy would be a matter of chance. Those in `too_large` are not looked at again.
    """

    def __init__(
        self, places: Places, reader: StateReader, total: int, stopped: Callable[[], bool], too_large: set[str]
    ) -> None:
        self._places = places
        self._reader = reader
        self._total = total
        self._stopped = stopped
        self._too_large = too_large

    def add_folders(self, listing: FolderListing, folders: Sequence[str], known: FolderListing) -> FolderListing:
        """Return the listing with these folders (absolute, resolved); of what is as in `known` nothing is read."""
        entries = _ENTRIES - sum(key[:1] == b"/" for key in listing.items)
        left = self._total - sum(_count_bytes(get_part(listing, os.fsdecode(one))) for one in listing.folders)
        for folder in _drop_nested(one for one in folders if not listing.has_folders([one])):
            limits = ScanLimits(
                entries=entries,
                total_bytes=left,
                seconds=_COPY_SECONDS,
                ignored_bytes=left // 2,
                ignored_entries=min(entries, _IGNORED_ENTRIES),
            )
            part = self._list_folder(folder, get_part(known, folder), limits)
            listing = self._join_part(listing, folder, part)
            if part is None:
                self._too_large.add(folder)
            else:
                entries -= len(part.items)
                left -= _count_bytes(part)
        return listing

    def _list_folder(self, folder: str, known: FolderListing, limits: ScanLimits) -> FolderListing | None:
        """Return the listing of a folder; None where it is too large, and an empty one for a file, and for nothing."""
        if not os.path.isdir(folder) or os.path.islink(folder):
            is_copied = self._reader.read_state(folder).is_restorable
            return FolderListing(started_ns=time.time_ns()) if is_copied else None
        if folder in self._too_large or (not known.items and not self._fits(folder, limits)):
            return None
        scan = FolderScan(folder, self._places, self._reader, limits, self._stopped)
        found = scan.scan_folder(known)
        return found if found.whole and not found.scope.uncopied else None

    def _fits(self, folder: str, limits: ScanLimits) -> bool:
        """Return whether a folder that was never copied is small enough, by the sizes of its files."""
        by_stamps = StateReader(self._places, -1)
        seen = structs.replace(limits, total_bytes=1 << 62, ignored_bytes=1 << 62, seconds=_LOOK_SECONDS)
        found = FolderScan(folder, self._places, by_stamps, seen, self._stopped).scan_folder()
        sizes = (one.state.size for one in found.items.values())
        return found.whole and sum(one for one in sizes if one <= self._reader.limit) <= limits.total_bytes

    def _join_part(self, listing: FolderListing, folder: str, part: FolderListing | None) -> FolderListing:
        """Return a listing with a folder as its part; `part` is None for one that is too large."""
        root, scope = os.fsencode(folder), listing.scope
        if part is None:
            return structs.replace(listing, stored_scope=structs.replace(scope, too_large=(*scope.too_large, root)))
        own = {root + b"/" + key: item for key, item in part.items.items()}
        state = self._reader.read_state(folder)
        if state != ABSENT:
            own[root] = ListingItem(state)
        if listed := frozenset(listing.folders):
            # What was opened before, and is in this folder, is listed as it was then.
            own = {key: item for key, item in own.items() if not is_at_or_below(key, listed)}
        left_out, ignored = (
            tuple(root + b"/" + one for one in some or ()) for some in (part.scope.left_out, part.scope.ignored)
        )
        scope = structs.replace(
            scope,
            left_out=(*scope.left_out, *left_out) if scope.left_out is not None else None,
            ignored=(*scope.ignored, *ignored),
            cut=scope.cut or (root + b"/" + part.scope.cut if part.scope.cut else b""),
        )
        return structs.replace(listing, items=listing.items | own, stored_scope=scope, folders=(*listing.folders, root))


def _count_bytes(listing: FolderListing) -> int:
    """Return the bytes of a listing's files that are copied."""
    return sum(one.state.size for one in listing.items.values() if one.state.kind is Kind.FILE)


def get_part(listing: FolderListing, folder: str) -> FolderListing:
    """Return what a listing has of an opened folder, by paths below that; "" is the workspace."""
    if not folder:
        return structs.replace(listing, items={key: one for key, one in listing.items.items() if key[:1] != b"/"})
    start = os.fsencode(folder) + b"/"
    size = len(start)
    scope = listing.scope
    left_out, ignored = (
        tuple(one[size:] for one in some or () if one.startswith(start)) for some in (scope.left_out, scope.ignored)
    )
    items = {key[size:]: item for key, item in listing.items.items() if key.startswith(start)}
    return FolderListing(items, listing.started_ns, True, ListingScope(0, left_out, ignored))


def _drop_nested(folders: Iterable[str]) -> list[str]:
    """Return the folders that lie in no other of them."""
    outer: list[str] = []
    for one in sorted(set(folders)):
        if not any(is_or_below(one, above) for above in outer):
            outer.append(one)
    return outer
