"""Tells what of the files that a command would lose a checkpoint could not bring back."""

import os
from collections.abc import Mapping, Sequence

from hermes.checkpoints.path_states import StateReader
from hermes.checkpoints.scan import (
    REGENERABLE_FOLDERS,
    FolderListing,
    FolderScan,
    ScanLimits,
    is_version_history,
)
from hermes.core.checkpoints import FileLoss
from hermes.safety.paths import Places, is_or_below
from hermes.safety.shell.regenerable import is_regenerable_name


def find_uncovered(losses: Sequence[FileLoss], base: FolderListing, places: Places) -> Mapping[FileLoss, str]:
    """Return for each loss the first path that no copy stands for; empty where all of it can be brought back.

    `base` is the workspace before the turn's first command, with the copies that were made of it. What was made since
    then is no loss: undoing the turn takes it away.
    """
    root = places.workspace
    reader = StateReader(places, -1)  # every new file is too large to be read: it is known by its stamp
    scan = FolderScan(root, places, reader, ScanLimits(total_bytes=1 << 62))
    now = scan.scan_folder(base)
    if not (base.whole and now.whole):
        return {one: one.path for one in losses}
    lost = _LostFiles(places, base, scan.skipped)
    return {one: lost.find_first(one) for one in losses}


class _LostFiles:
    """The paths of a workspace that no copy stands for, by the reason."""

    def __init__(self, places: Places, base: FolderListing, skipped: Sequence[str]) -> None:
        self._root = places.workspace
        self._uncopied = [os.fsdecode(key) for key, item in base.items.items() if not item.state.is_restorable]
        self._histories = [one for one in skipped if is_version_history(one)]
        self._builds = [one for one in skipped if _is_made_again(one)]
        known = {*self._histories, *self._builds}
        self._ignored = [one for one in skipped if one not in known]

    def find_first(self, loss: FileLoss) -> str:
        """Return the first such path of a loss; the loss's own where that lies below one; empty for none."""
        lost = list(self._uncopied)
        lost += self._histories if loss.history else ()
        lost += self._ignored if loss.ignored else ()
        lost += self._builds if loss.builds else ()
        paths = (os.path.join(self._root, one) for one in lost)
        met = (one for one in paths if is_or_below(one, loss.path) or is_or_below(loss.path, one))
        first = next(met, "")
        return loss.path if first and is_or_below(loss.path, first) else first


def _is_made_again(path: str) -> bool:
    """Return whether a path that a scan leaves out is build output or a cache by its name, and no history.

    A tag in a folder says nothing here: any command can put one there.
    """
    return not is_version_history(path) and any(
        one in REGENERABLE_FOLDERS or is_regenerable_name(one) for one in path.split("/")
    )
