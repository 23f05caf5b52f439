"""Finds the keys in what a person opens outside of the workspace: they stay hidden in it, whatever they are called."""

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from functools import lru_cache

from hermes.safety.home_places import AGENT_FOLDERS, SECRET_PLACES
from hermes.safety.paths import COPY_SIGN, is_key_name, is_ssh_public

_MAX_ENTRIES = 50_000
"""The most entries of an opened folder that are looked through for keys."""
_LOOK_SECONDS = 2.0
"""Seconds for which a folder counts as too large, or not, as it did: a call names many files of one."""
_ENDS: dict[str, tuple[str, ...]] = {}
"""How paths end at which a home has keys, by the last name. What other agents keep belongs to projects as well."""
for _place in sorted({*SECRET_PLACES} - {*AGENT_FOLDERS, ".env"}):
    _last = _place.lower().rpartition("/")[2]
    _ENDS[_last] = (*_ENDS.get(_last, ()), f"/{_place.lower()}")

_Found = tuple[os.DirEntry[str], bool, bool]
"""An entry of a folder, whether it is a key, and whether it is hidden itself: no link, in no folder of keys."""


def is_kept_key(path: str) -> bool:
    """Return whether a path (absolute, resolved) stays hidden in what is opened: it, or a folder above it, is called as
    keys are, or as a copy of them.
    """
    folder, _, name = path.rpartition("/")
    found = _is_key(folder, name, is_file=True)
    while folder and not found:
        folder, _, name = folder.rpartition("/")
        found = _is_key(folder, name, is_file=False)
    return found and not is_ssh_public(path)


def find_keys_below(*folders: str) -> tuple[str, ...]:
    """Return the keys in opened folders, and what other names there lead to the same files. Links are not gone through.

    The kernel hides what is named to it, so they have to be found first.
    """
    looks = (itertools.islice(_look_through(folder), _MAX_ENTRIES) for folder in folders)
    found = [*itertools.chain.from_iterable(looks)]
    same = {_identify(entry.path) for entry, is_key, _ in found if is_key}
    numbers = {number for _, number in same}
    named = (entry.path for entry, is_key, is_own in found if is_own and (is_key or entry.inode() in numbers))
    return tuple(path for path in named if _identify(path) in same)


def can_hide_keys(folder: str) -> bool:
    """Return whether all of a folder can be looked through for keys, or could a moment ago."""
    return _is_small(folder, int(time.monotonic() / _LOOK_SECONDS))


@lru_cache(maxsize=64)
def _is_small(folder: str, _age: int) -> bool:
    return next(itertools.islice(_look_through(folder), _MAX_ENTRIES, None), None) is None


def _look_through(folder: str) -> Iterator[_Found]:
    """Yield what lies below a folder, that near to it first."""
    queue = [(folder, False)]
    for path, is_covered in queue:
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                is_key = is_covered or _is_key(path, entry.name, is_file=True)
                if is_key and entry.is_dir():
                    is_key = not is_covered and _is_key(path, entry.name, is_file=False)
                if entry.is_dir(follow_symlinks=False):
                    queue.append((entry.path, is_covered or is_key))
                yield entry, is_key and not is_ssh_public(entry.path), not is_covered and not entry.is_symlink()


def _is_key(folder: str, name: str, *, is_file: bool) -> bool:
    """Return whether a name in a folder is a key's, or a copy's of one. A folder is one only where a home has keys: an
    environment of Python's may be called `.env`.
    """
    for end in (len(name), *(sign.start() for sign in COPY_SIGN.finditer(name, 1))):
        one = name[:end].lower()
        if one in _ENDS and f"{folder.lower()}/{one}".endswith(_ENDS[one]):
            return True
        if is_file and is_key_name(f"/{one}"):
            return True
    return False


def _identify(path: str) -> tuple[int, int]:
    """Return the device and the number of what a path leads to; zeros where that is nothing."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
