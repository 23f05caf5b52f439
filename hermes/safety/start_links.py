"""Finds what links in the hidden places of a home, and in the place of a workspace's settings, lead to: those who keep
their settings in one folder have such links, and a program of theirs obeys what is there.
"""

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, takewhile

from hermes.i18n.messages import N_
from hermes.safety.autorun_files import OBEYED_REASON, SETTING_FOLDERS, is_never_written, repository_refusal
from hermes.safety.home_places import CLOSED_FILES, CLOSED_FOLDERS, HISTORY_FILES, TOOL_CHAINS
from hermes.safety.paths import Places, is_or_below

_CACHE_SECONDS = 2.0
"""Seconds for which the links of a home are taken to be unchanged: people make them by hand."""
_MAX_DEPTH, _MAX_LISTED = 4, 20_000
"""The folders that one look goes down from the home, and the most entries of one of them."""
_LOOK_SECONDS = 0.5
"""Seconds that one look may take; what lies nearer to the home is looked at first."""
_CLOSED = CLOSED_FILES | CLOSED_FOLDERS
_HIDDEN = (".", "Library", "bin", "snap", "_netrc")
"""How names in a home begin that are no documents of the person's."""
_DATA = {*HISTORY_FILES, *str.split(".cache .hermes/people .hermes/workspace .venv .wine Trash node_modules objects")}
"""What of a home programs keep for themselves, by its name or its place: no link in it is obeyed."""
_NO_PLACES = ("/dev/", "/proc")
_CHAINS = tuple(f"/{one}/" for one in TOOL_CHAINS if not one.endswith("/bin"))
"""Where links lead to what people work on; those among programs count."""


def find_start_links(places: Places) -> tuple[tuple[str, str], ...]:
    """Return where links lead (real paths) that programs of the person's obey, each with the link: those in hidden
    places of the home and among its programs. Some lead to what is not there, and is obeyed once it is made.
    """
    return _choose_links(places.home, places.workspace, places.programs, int(time.monotonic() / _CACHE_SECONDS))


def explain_start_link(path: str, places: Places) -> str:
    """Return why programs obey what is written to `path` (absolute, resolved): by a link of the person's."""
    link = next((link for target, link in find_start_links(places) if is_or_below(path, target)), "")
    return link and N_(
        "{link} leads to it, so programs run or obey it: only file tools change it, and ask before", link=link
    )


def later_refusal(path: str, places: Places) -> str:
    """Return why `path` (absolute, resolved) may not be written, as the disk is now: a part of a repository under any
    name, or what a link in the place of settings leads to. Empty when it is neither.
    """
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
    with contextlib.suppress(OSError):
        return os.listdir(folder)
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


@lru_cache(maxsize=64)
def _choose_links(home: str, workspace: str, programs: Sequence[str], age: int) -> tuple[tuple[str, str], ...]:
    """Return the links of a home that count for who works in a workspace, by where they lead."""
    home, found = os.path.realpath(home), dict[str, str]()
    for link, real in _resolve_links(home, programs, age):
        # Commands make links in their workspace, and who works in what a link leads to has chosen to.
        below, is_own = link[len(home) + 1 :], is_or_below(link, workspace) and not is_or_below(home, workspace)
        is_own = is_own or is_or_below(workspace, real) or f"{real.removeprefix(home)}/".startswith(_CHAINS)
        if not (is_own and _CLOSED.isdisjoint((below, os.path.dirname(below)))):
            found.setdefault(real, link)
    return tuple(sorted(found.items()))


@lru_cache(maxsize=8)
def _resolve_links(home: str, programs: Sequence[str], _age: int) -> list[tuple[str, str]]:
    """Return the links in a home that lead to a place of somebody's, each with that: to no device, nor around it."""
    resolve_folder = lru_cache(maxsize=None)(os.path.realpath)
    found = ((link, _resolve_link(link, home, resolve_folder)) for link in _list_links(home, programs))
    return [one for one in found if one[0] != one[1] and not is_or_below(home, one[1]) and one[1][:5] not in _NO_PLACES]


def _resolve_link(link: str, home: str, resolve_folder: Callable[[str], str]) -> str:
    """Return where a path leads; nowhere when that lies beside it in a hidden folder, where it is looked at, too. The
    folders that links name are few: each is resolved once.
    """
    with contextlib.suppress(OSError):
        folder, name = os.path.split(os.path.join(os.path.dirname(link), target := os.readlink(link)))
        real = os.path.join(resolve_folder(folder), name)
        if name not in ("", ".", "..") and not os.path.islink(real):
            return real if "/" in target or folder == home else link
    return os.path.realpath(link)


def _list_links(home: str, programs: Sequence[str]) -> Iterator[str]:
    """Yield the links in hidden places of a home and among its programs, the nearer ones first."""
    yield from filter(os.path.islink, programs)
    until, queue = time.monotonic() + _LOOK_SECONDS, [(home, 0), *((one, _MAX_DEPTH) for one in programs)]
    for folder, depth in takewhile(lambda _: time.monotonic() < until, queue):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for one in islice(entries, _MAX_LISTED):
                below = one.path[len(home) + 1 :]
                if one.name in _DATA or below in _DATA or not (depth or one.name.startswith(_HIDDEN)):
                    continue
                if one.is_symlink():
                    yield one.path
                elif depth < _MAX_DEPTH and f"/{below}/" not in _CHAINS and one.is_dir(follow_symlinks=False):
                    queue.append((one.path, depth + 1))
