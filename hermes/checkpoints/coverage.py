"""Tells what of the files that a command would lose a checkpoint could not bring back."""

import os
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, takewhile

from hermes.checkpoints.opened_folders import get_part
from hermes.checkpoints.path_states import StateReader, has_key_name
from hermes.checkpoints.scan import (
    VERSION_HISTORIES,
    FolderListing,
    FolderScan,
    ScanLimits,
    is_at_or_below,
    is_made_again,
    is_version_history,
)
from hermes.core.checkpoints import FileLoss
from hermes.safety.paths import Places, is_or_below

_TREE_ENTRIES, _TREE_SECONDS = 300_000, 4.0
"""What may be looked through of build output for a repository: an ordinary `node_modules` is a third of that."""


def find_uncovered(losses: Sequence[FileLoss], base: FolderListing, places: Places) -> Mapping[FileLoss, str]:
    """Return for each loss the first path that no copy stands for; empty where all of it can be brought back.

    `base` is the workspace, with the opened folders, before the turn's first command, with the copies that were made
    of it. What was made since then is no loss: undoing the turn takes it away.
    """
    copies = _KeptCopies(base, places)
    return {one: copies.find_first(one) for one in losses}


class _KeptCopies:
    """The copies that are kept of the workspace and of opened folders; each is looked at when a loss may be in it."""

    def __init__(self, base: FolderListing, places: Places) -> None:
        self._base = base
        self._places = places
        self._workspace = places.workspace
        self._too_large = list(map(os.fsdecode, base.list_too_large()))
        opened = map(os.fsdecode, base.get_folders())
        self._folders = [self._workspace, *(one for one in opened if one not in self._too_large)]
        self._looked_at: dict[str, _LostFiles | None] = {}

    def find_first(self, loss: FileLoss) -> str:
        """Return the first path of a loss that no copy stands for; empty for none."""
        if large := next(self._find_met(self._too_large, loss), ""):
            return large if is_or_below(large, loss.path) else loss.path
        met = [] if loss.unlisted else list(self._find_met(self._folders, loss))
        found = (looked.find_first(loss) if (looked := self._look_at(one)) is not None else loss.path for one in met)
        return next(filter(None, found), "") if met or loss.unlisted else loss.path

    def _find_met(self, folders: Iterable[str], loss: FileLoss) -> Iterator[str]:
        return (one for one in folders if is_or_below(one, loss.path) or is_or_below(loss.path, one))

    def _look_at(self, folder: str) -> "_LostFiles | None":
        """Return what a command loses in a folder for which no copy stands; None where that cannot be told."""
        if folder not in self._looked_at:
            is_opened = folder != self._workspace
            base = get_part(self._base, folder if is_opened else "")
            reader = StateReader(self._places, -1)  # every new file is too large to be read: it is known by its stamp
            limits = ScanLimits(total_bytes=1 << 62)
            scan = FolderScan(folder, self._places, reader, limits, trusts_tags=not is_opened)
            is_gone = is_opened and not os.path.isdir(folder)
            whole = is_gone or (base.whole and scan.scan_folder(base).whole)
            self._looked_at[folder] = _LostFiles(folder, base, scan.skipped) if whole else None
        return self._looked_at[folder]


class _LostFiles:
    """The paths of a folder that a command which names them loses, by the reason.

    What git ignores counts although the checkpoint copies what it can of it, and so do files that are named like keys:
    those copies are for what no command names.
    """

    def __init__(self, root: str, base: FolderListing, skipped: Sequence[str]) -> None:
        self._root = root
        histories = [one for one in skipped if is_version_history(one)]
        builds = [one for one in skipped if is_made_again(one)]
        known = {*histories, *builds}
        ignored = (one for one in skipped if one not in known)
        uncopied = map(os.fsdecode, _list_uncopied(base))
        self._uncopied, self._histories, self._builds, self._ignored = (
            _SortedPaths(os.path.join(root, one) for one in some) for some in (uncopied, histories, builds, ignored)
        )

    def find_first(self, loss: FileLoss) -> str:
        """Return the first such path of a loss; the loss's own where that lies below one; empty for none."""
        is_build = not loss.builds and is_made_again(os.path.relpath(loss.path, self._root))
        counts = (
            (self._uncopied, not is_build),
            (self._histories, loss.history),
            (self._ignored, loss.ignored),
            (self._builds, loss.builds),
        )
        met = (path for lost, counted in counts if counted for path in lost.find_met(loss.path))
        first = next(met, "")
        if not first and loss.history:
            trees = (loss.path if is_or_below(loss.path, one) else one for one in self._builds.find_met(loss.path))
            first = next(filter(None, map(find_repository, trees)), "")
        return loss.path if first and is_or_below(loss.path, first) else first


class _SortedPaths:
    """Paths (absolute) of which those are found fast that lie below another one, or around it."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._sorted = sorted(f"{one}/" for one in paths)  # with the slash what lies in a folder follows it
        self._all = frozenset(self._sorted)

    def find_met(self, path: str) -> Iterator[str]:
        """Yield the paths that are this one or lie below it, and those that it lies in."""
        start = path if path.endswith("/") else f"{path}/"
        below = islice(self._sorted, bisect_left(self._sorted, start), None)
        yield from (one[:-1] for one in takewhile(lambda one: one.startswith(start), below))
        around = accumulate(path.split("/")[:-1], lambda above, name: f"{above}/{name}")
        yield from (one for one in around if f"{one}/" in self._all)


def _list_uncopied(base: FolderListing) -> Iterator[bytes]:
    """Yield what is listed without a copy that counts, but for what git ignores."""
    ignored = frozenset(base.scope.ignored)
    for key, item in base.items.items():
        if (not item.state.is_restorable or _has_key_name(key)) and not is_at_or_below(key, ignored):
            yield key


def _has_key_name(key: bytes) -> bool:
    return has_key_name(f"/{os.fsdecode(key)}")


def find_repository(tree: str, *, entries: int = _TREE_ENTRIES, seconds: float = _TREE_SECONDS) -> str:
    """Return a repository in a folder that is made again; the folder itself where it is too large to be looked through.

    Whatever is there cannot be made again: a person, or a tool that clones sources, has put it there.
    """
    until = time.monotonic() + seconds
    for folder, names, files in os.walk(tree):
        found = VERSION_HISTORIES & {*names, *files}
        if found or ({"objects", "refs"} <= {*names} and "HEAD" in files):
            return os.path.join(folder, *sorted(found)[:1])
        entries -= len(names) + len(files)
        if entries < 0 or time.monotonic() > until:
            return tree
    return ""
