"""Finds the keys in what a person opens outside of the workspace: they stay hidden in it, whatever they are called."""

import itertools
import os
import re
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from functools import lru_cache

from msgspec import Struct

from hermes.safety.home_places import AGENT_FOLDERS, SECRET_PLACES
from hermes.safety.paths import COPY_SIGN, is_key_name, is_or_below, is_ssh_public

_MAX_ENTRIES = 50_000
"""The most entries of an opened folder that are looked through for keys."""
MAX_KEYS = 500
"""The most keys that are hidden in what is opened: each is a mount of its own."""
_MAX_HOME_ENTRIES = 5_000
"""The most entries of the home's own keys that are looked at, those near to it first: browsers keep many more."""
_MAX_SECONDS = 1.0
"""The seconds of processor time that a look may take: names can be made to cost much."""
_ENTRIES_A_CHECK = 500
_MAX_SIGNS = 8
"""A name with more signs of a copy than this counts as a key's."""
_CACHE_SECONDS = 2.0
"""Seconds for which a folder counts as too large, or not, as it did: a call names many files of one."""
_COPY_END = re.compile(r"(?: ?\(\d{1,4}\)|\.sw[a-p])$")
"""What programs put behind the name of a copy, or of what somebody edits."""
_KEY_END = re.compile(r"(?:[\W_]id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|.\.env)$")
"""How names end that stand for a key with a word before it, such as `prod.env`."""
_ENDS: dict[str, tuple[str, ...]] = {}
"""How paths end at which a home has keys, by the last name. What other agents keep belongs to projects as well."""
for _place in sorted({*SECRET_PLACES} - {*AGENT_FOLDERS, ".env"}):
    _last = _place.lower().rpartition("/")[2]
    _ENDS[_last] = (*_ENDS.get(_last, ()), f"/{_place.lower()}")


class _Entry(Struct, frozen=True, gc=False):
    """Something below an opened folder; `is_own`: it is hidden itself, being no link and in no folder of keys. The
    number of a link is 0: what it leads to has another.
    """

    path: str
    inode: int
    is_key: bool
    is_own: bool


class KeyLook(Struct, frozen=True):
    """The keys in an opened folder, and whether all of it was looked through."""

    keys: tuple[str, ...]
    is_complete: bool


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


def look_for_keys(folder: str, home: str) -> KeyLook:
    """Look through an opened folder for keys, and for what other names in it lead to the same files, or to keys of the
    home. Of links only a key's are gone through; a folder that cannot be looked into counts as a key.

    The kernel hides what is named to it, so they have to be found first.
    """
    found: list[_Entry] = []
    until, is_late = time.thread_time() + _MAX_SECONDS, False
    for number, entry in enumerate(itertools.islice(_look_through((folder, False)), _MAX_ENTRIES + 1)):
        found.append(entry)
        if is_late := number % _ENTRIES_A_CHECK == 0 and time.thread_time() >= until:
            break
    keys = _choose_hidden(found, home)
    return KeyLook(keys, is_complete=not is_late and len(found) <= _MAX_ENTRIES and len(keys) <= MAX_KEYS)


def _choose_hidden(found: Sequence[_Entry], home: str) -> tuple[str, ...]:
    """Return the paths of keys, and of what else leads to the same files, that are hidden themselves."""
    same = {_identify(one.path) for one in found if one.is_key}
    same |= _identify_home_keys(home, {one.inode for one in found if one.is_own})
    numbers = {number for _, number in same}
    named = (one.path for one in found if one.is_own and (one.is_key or one.inode in numbers))
    return _drop_covered({path for path in named if _identify(path) in same})


def _drop_covered(paths: Set[str]) -> tuple[str, ...]:
    """Return the paths without those below others: these need no mounts of their own."""
    kept: list[str] = []
    for path in sorted(paths, key=lambda path: f"{path}/"):  # what lies in a folder follows it
        if not kept or not is_or_below(path, kept[-1]):
            kept.append(path)
    return tuple(kept)


def _identify_home_keys(home: str, numbers: Set[int]) -> set[tuple[int, int]]:
    """Return the device and the number of each of the home's own keys that may have a second name of these numbers."""
    # Without numbers a single file was looked through, and a call may name many of them.
    places = [f"{home}/{place}" for place in SECRET_PLACES if numbers]
    below = itertools.islice(_look_through(*((place, True) for place in places)), _MAX_HOME_ENTRIES)
    # Packages that agents install are second names of a store's files, as those of projects are.
    met = (one.path for one in below if one.is_key and one.inode in {0, *numbers})
    named = (path for path in met if "/node_modules/" not in path)
    return {_identify(path) for path in (*places, *named)}


def can_hide_keys(folder: str, home: str) -> bool:
    """Return whether all of a folder can be looked through for keys, or could a moment ago."""
    return _is_small(folder, home, int(time.monotonic() / _CACHE_SECONDS))


@lru_cache(maxsize=64)
def _is_small(folder: str, home: str, _age: int) -> bool:
    return look_for_keys(folder, home).is_complete


def _look_through(*starts: tuple[str, bool]) -> Iterator[_Entry]:
    """Yield what lies below folders (each: whether it is one of keys), that near to them first. What a key's link leads
    to in them is gone through once more, as a folder of keys.
    """
    queue, seen = [*starts], set[tuple[str, bool]]()
    for path, is_covered in queue:
        listed = [] if (path, is_covered) in seen else _list_entries(path)
        seen.add((path, is_covered))
        if listed is None:  # whoever may change its rights may enter it all the same
            yield _Entry(path, _identify(path)[1], is_key=True, is_own=not is_covered)
        for entry in listed or ():
            is_key = _is_key_entry(path, entry, is_covered=is_covered)
            if entry.is_dir(follow_symlinks=False):
                queue.append((entry.path, is_covered or is_key))
            elif is_key and entry.is_symlink():
                queue += _follow_link(entry.path, starts)
            is_link = entry.is_symlink()
            number = entry.inode() * (not is_link)
            yield _Entry(entry.path, number, is_key and not is_ssh_public(entry.path), not is_covered and not is_link)


def _follow_link(path: str, starts: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Return where a key's link leads, as a folder of keys, if that lies in what is looked through."""
    target = os.path.realpath(path)
    return [(target, True)] if any(is_or_below(target, start) for start, _ in starts) else []


def _is_key_entry(folder: str, entry: os.DirEntry[str], *, is_covered: bool) -> bool:
    """Return whether an entry is a key; in a folder of keys (`is_covered`) all that is no folder is one."""
    is_folder = entry.is_dir(follow_symlinks=False)
    return not is_folder if is_covered else _is_key(folder, entry.name, is_file=not is_folder)


def _list_entries(folder: str) -> list[os.DirEntry[str]] | None:
    """Return the entries of a folder, None where it cannot be looked into."""
    try:
        with os.scandir(folder) as entries:
            listed = list(itertools.islice(entries, _MAX_ENTRIES + 1))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return None
    return listed if os.access(folder, os.X_OK) else None


def _is_key(folder: str, name: str, *, is_file: bool) -> bool:
    """Return whether a name in a folder is a key's, or a copy's of one. A folder is one only where a home has keys: an
    environment of Python's may be called `.env`.
    """
    plain = _COPY_END.sub("", name)
    signs = [sign.start() for sign in itertools.islice(COPY_SIGN.finditer(plain, 1), _MAX_SIGNS + 1)]
    if len(signs) > _MAX_SIGNS:
        return is_file
    for end in (len(plain), *signs):
        one = plain[:end].lower()
        if one in _ENDS and f"{folder.lower()}/{one}".endswith(_ENDS[one]):
            return True
        if is_file and (is_key_name(f"/{one}") or _KEY_END.search(one)):
            return True
    return False


def _identify(path: str) -> tuple[int, int]:
    """Return the device and the number of what a path leads to; zeros where that is nothing."""
    with suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return 0, 0
