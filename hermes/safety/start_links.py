"""Finds what the start files of a home and the settings of a workspace lead to, where they are links, as those who keep
their settings in one folder have them: it is protected as the files are.
"""

import contextlib
import os
import time
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache, partial

from hermes.safety.autorun_files import OBEYED_REASON, SETTING_FOLDERS, is_never_written, repository_refusal
from hermes.safety.home_places import CLOSED_FILES, CLOSED_FOLDERS, START_FOLDERS, TOOL_CHAINS
from hermes.safety.paths import Places, is_or_below

_CACHE_SECONDS = 2.0
"""Seconds for which the links of a home are taken to be unchanged: people make them by hand."""
_MAX_ENTRIES = 1_000
_LISTED = tuple(
    one for one in START_FOLDERS if not any(is_or_below(chain, one) or is_or_below(one, chain) for chain in TOOL_CHAINS)
)
"""The folders whose entries are looked at, too. Where tool chains lie, links lead to what people work on."""


def find_start_targets(home: str) -> tuple[str, ...]:
    """Return the files and folders (real paths) that start files and key places of a home lead to by links."""
    return _resolve_links(home, int(time.monotonic() / _CACHE_SECONDS))


def later_refusal(path: str, places: Places) -> str:
    """Return why `path` (absolute, resolved) may not be written, as the disk is now: a part of a repository under any
    name, or what a start file or a link in the place of settings leads to. Empty when it is none of them.
    """
    if any(is_or_below(path, one) for one in find_start_targets(places.home)):
        return "a start file in the home leads to it"
    if any(is_never_written(one) for one in list_linked_names(path, find_setting_links(places.workspace))):
        return OBEYED_REASON
    return repository_refusal(path, list_names)


def find_setting_links(workspace: str) -> tuple[tuple[str, str], ...]:
    """Return where links lead (real paths) that stand in a workspace for folders of settings, each with the link."""
    return _find_setting_links(workspace, int(time.monotonic() / _CACHE_SECONDS))


def list_linked_names(path: str, links: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the other names that a path (absolute, resolved) has by links, given with what each leads to."""
    return (link + path[len(target) :] for target, link in links if is_or_below(path, target))


def list_names(folder: str) -> Collection[str]:
    """Return the entries of a folder; none where there is none to read."""
    try:
        return os.listdir(folder)
    except OSError:
        return ()


@lru_cache(maxsize=8)
def _find_setting_links(workspace: str, _age: int) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    folders: list[tuple[str, ...]] = [()]
    for above in folders:
        here = "/".join((workspace, *above))
        for name in list_names(here):
            names = (*above, name)
            if tuple(one.casefold() for one in names) in SETTING_FOLDERS:
                path = f"{here}/{name}"
                folders.append(names)
                found += [(os.path.realpath(path), path)] if os.path.islink(path) else []
    return tuple(found)


@lru_cache(maxsize=8)
def _resolve_links(home: str, _age: int) -> tuple[str, ...]:
    there, home = set(list_names(home)), os.path.realpath(home)

    def list_paths(names: Iterable[str]) -> list[str]:
        return [f"{home}/{one}" for one in names if one.partition("/")[0] in there]

    named = list_paths((*CLOSED_FILES, *CLOSED_FOLDERS))
    listed = [path for folder in list_paths(_LISTED) for path in _list_links(folder)]
    targets = {real for path in (*named, *listed) if (real := os.path.realpath(path)) != path}
    return tuple(sorted(filter(partial(_is_own_place, home), targets)))


def _is_own_place(home: str, path: str) -> bool:
    """Return whether a path is a place of somebody's settings: no device, and not the home as a whole."""
    return os.path.exists(path) and not is_or_below(home, path) and path[:5] not in ("/dev/", "/proc")


def _list_links(folder: str) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for _, entry in zip(range(_MAX_ENTRIES), entries, strict=False):
            if entry.is_symlink():
                yield f"{folder}/{entry.name}"
