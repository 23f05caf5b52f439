"""Lists the folders, and single files, outside of the workspace that commands may write, as parts of its listing."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import structs

from hermes.checkpoints.path_states import StateReader
from hermes.checkpoints.scan import FolderListing, FolderScan, ListingItem, ListingScope, ScanLimits, is_at_or_below
from hermes.core.checkpoints import FileState, Kind
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
        listed, seen = listing.get_folders(), known.get_folders()
        before = [item for key, item in listing.items.items() if key[:1] == b"/"]
        entries, left = _ENTRIES - len(before), self._total - _count_bytes(before)
        items: dict[bytes, ListingItem] = {}
        scope, roots = listing.scope, dict[bytes, ListingItem]()
        for folder in _drop_nested(folders):
            root = os.fsencode(folder)
            if is_at_or_below(root, listed):
                continue
            part = self._list_folder(folder, get_part(known, folder if root in seen else None), entries, left)
            roots[root] = ListingItem(FileState(Kind.LARGE) if part is None else self._reader.read_state(folder))
            if part is None:
                self._too_large.add(folder)
                continue
            items |= {root + b"/" + key: item for key, item in part.items.items()}
            scope = _join_scope(scope, part.scope, root + b"/")
            entries, left = entries - len(part.items), left - _count_bytes(part.items.values())
        # Of what was too large nothing was listed before commands could write it: what of it is new cannot be told.
        unseen = tuple(one for one in listing.list_too_large() if is_at_or_below(one, roots))
        scope = _join_scope(scope, ListingScope(left_out=unseen), b"")
        return structs.replace(listing, items=_join_items(listing, items, roots), stored_scope=scope)

    def _list_folder(self, folder: str, known: FolderListing, entries: int, left: int) -> FolderListing | None:
        """Return the listing of a folder; None where it is too large, and an empty one for a file, and for nothing."""
        limits = ScanLimits(
            entries=entries,
            total_bytes=left,
            seconds=_COPY_SECONDS,
            ignored_bytes=left // 2,
            ignored_entries=min(entries, _IGNORED_ENTRIES),
            ignored_seconds=_COPY_SECONDS,
        )
        if not os.path.isdir(folder) or os.path.islink(folder):
            is_copied = self._reader.read_state(folder).is_restorable
            return FolderListing(started_ns=time.time_ns()) if is_copied else None
        if folder in self._too_large or (not known.items and not self._fits(folder, limits)):
            return None
        scan = FolderScan(
            folder, self._places, self._reader, limits, self._stopped, trusts_tags=False, keeps_known=True
        )
        found = scan.scan_folder(known)
        return found if found.whole and not found.scope.uncopied and not found.scope.cut else None

    def _fits(self, folder: str, limits: ScanLimits) -> bool:
        """Return whether a folder that was never copied is small enough, by the sizes of its files."""
        by_stamps = StateReader(self._places, -1)
        seen = structs.replace(limits, total_bytes=1 << 62, ignored_bytes=1 << 62, seconds=_LOOK_SECONDS)
        scan = FolderScan(folder, self._places, by_stamps, seen, self._stopped, trusts_tags=False)
        found = scan.scan_folder()
        sizes = (one.state.size for one in found.items.values())
        return (
            found.whole
            and not found.scope.cut
            and sum(one for one in sizes if one <= self._reader.limit) <= limits.total_bytes
        )


def _join_items(
    listing: FolderListing, found: Mapping[bytes, ListingItem], roots: Mapping[bytes, ListingItem]
) -> dict[bytes, ListingItem]:
    """Return the entries of a listing with those of more opened folders, all opened folders themselves last. What was
    opened before, and lies in one of these, is listed as it was then.
    """
    listed = listing.get_folders()
    outer = {one: listing.items[one] for one in listed if not is_at_or_below(one, roots)}
    old = {key: item for key, item in listing.items.items() if key not in outer}
    new = {key: item for key, item in found.items() if not is_at_or_below(key, listed)}
    return {**old, **new, **outer, **roots}


def _join_scope(scope: ListingScope, part: ListingScope, start: bytes) -> ListingScope:
    """Return what a listing leaves out with what its new part, whose paths begin so, leaves out."""
    left_out = None if scope.left_out is None else (*scope.left_out, *(start + one for one in part.left_out or ()))
    ignored = (*scope.ignored, *(start + one for one in part.ignored))
    return structs.replace(scope, left_out=left_out, ignored=ignored)


def _count_bytes(items: Iterable[ListingItem]) -> int:
    """Return the bytes of the files among these that are copied."""
    return sum(one.state.size for one in items if one.state.kind is Kind.FILE)


def get_part(listing: FolderListing, folder: str | None) -> FolderListing:
    """Return what a listing has of an opened folder, by paths below that; "" is the workspace, and None nothing."""
    if folder is None:
        return FolderListing()
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
    for one in sorted(set(folders), key=lambda path: f"{path}/"):  # what lies in a folder follows it
        if not outer or not is_or_below(one, outer[-1]):
            outer.append(one)
    return outer
