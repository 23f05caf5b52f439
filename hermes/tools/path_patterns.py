"""The files that a pattern among a command's words stands for now, with a bound on the search."""

import fnmatch
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

_MAX_MATCHES = 500
"""The most files that a pattern is resolved to; beyond it all of the folder counts."""
_MAX_LOOKS = 50_000
"""The most entries that are looked at for the patterns of one call: over links in a circle there is no end of them."""
_LOOKS_A_FOLDER = 10
"""Opening a folder takes as long as looking at so many entries."""
_KNOWN_ENTRIES_A_LOOK = 5
"""So many entries of a folder that was looked at before cost as much as a new one."""
_NUMBER = re.compile(r"\$\{(?:[$!?#]|RANDOM|SECONDS)\}|\$[$!?#]|%\+")
"""Values of the shell that are numbers, as the analysis writes them; which ones is only known at run time."""
_MAGIC = re.compile(r"[*?[{\\]|[+@!]\(")
_SHELL_ONLY = re.compile(r"[{\\].*[]})*?]|[{\\].?|[?*+@!]\(.*[]})*?]|\[[!^]?\]?[^]/]*\[[^]].*[]})*?]")
"""What shells match otherwise than Python's `fnmatch` does: braces, choices, escapes, classes; up to the last sign."""
_OVER_FOLDERS = re.compile(r"[({][^)}]*/")
_BRACKET = re.compile(r"\[[!^]?\]?[^]]*\]")
_PLAIN_RANGE = re.compile(r"(?:[0-9]-[0-9]|[a-z]-[a-z]|[A-Z]-[A-Z])")
ALL_BELOW = "**"


class FoundPlace(NamedTuple):
    """A path; `is_whole`: or anything in that folder, because a pattern could not be resolved."""

    path: str
    is_whole: bool = False


EVERYWHERE = FoundPlace("/", is_whole=True)


class PatternBudget:
    """The work that the patterns of one call may cost, and the folders that were looked at for them."""

    __slots__ = ("_known", "_left")

    def __init__(self) -> None:
        self._left = _MAX_LOOKS
        self._known: dict[str, list[os.DirEntry[str]]] = {}

    def spend(self, looks: int) -> bool:
        """Spend so many looks. Return whether there are enough left."""
        self._left -= looks
        return self._left >= 0

    def list_entries(self, folder: str) -> list[os.DirEntry[str]] | None:
        """Return what is in a folder, nothing where it is none or closed; None where that takes too many looks."""
        known = self._known.get(folder)
        if not self.spend(_LOOKS_A_FOLDER if known is None else 1 + len(known) // _KNOWN_ENTRIES_A_LOOK):
            return None
        if known is not None:
            return known
        found: list[os.DirEntry[str]] = []
        with suppress(OSError, ValueError), os.scandir(folder) as entries:
            for entry in entries:
                if not self.spend(1):
                    return None
                found.append(entry)
        self._known[folder] = found
        return found


def is_pattern(word: str) -> bool:
    """Return whether a word may stand for several files."""
    return _MAGIC.search(word) is not None


def list_matches(pattern: str, budget: PatternBudget) -> Iterator[FoundPlace]:
    """Yield what a pattern stands for now, in the reading of any shell with any options; for too many files, or in
    folders that cannot be told, anything in the folder that is known.

    A path that is none is yielded itself, and so is a file whose name looks like a pattern.
    """
    pattern = _NUMBER.sub("[0-9]*", pattern)
    if not _MAGIC.search(pattern) or os.path.lexists(pattern):
        yield FoundPlace(pattern)
    if not _MAGIC.search(pattern):
        return
    found = _find_matches(pattern, budget) if not _OVER_FOLDERS.search(pattern) else None
    if found is not None and len(found) <= _MAX_MATCHES:
        yield from map(FoundPlace, found)
        return
    known = pattern
    while _MAGIC.search(known):
        known = os.path.dirname(known)
    yield FoundPlace(known, is_whole=True)
    if "/" in pattern[len(known) :].strip("/") or _may_climb(os.path.basename(pattern)):
        yield EVERYWHERE  # by a link on the way, or from the folder around


def _may_climb(part: str) -> bool:
    """Return whether a part of a pattern may stand for the folder itself and the one around it."""
    return part[:1] in (".", "\\", "{") or part[1:2] == "("


def _find_around(folder: str) -> str:
    """Return the folder around another one, as the kernel finds it: behind links."""
    return os.path.dirname(os.path.realpath(folder))


def _find_matches(pattern: str, budget: PatternBudget) -> list[str] | None:
    """Return the files that a pattern stands for, hidden ones too; None where that takes too many looks."""
    *folders, last = pattern.split("/")
    if last == ALL_BELOW:
        folders, last = [*folders, ALL_BELOW], "*"
    found = [""]
    for part in folders:
        entered = _match_part(found, part, budget, is_folder=True)
        if entered is None:
            return None
        found = [f"{one}/" for one in entered]
    named = _match_part(found, last, budget, is_folder=False)
    if named is None or _MAGIC.search(last):
        return named
    if not budget.spend(len(named)):
        return None
    return [one for one in named if os.path.lexists(one)]


def _match_part(folders: list[str], part: str, budget: PatternBudget, *, is_folder: bool) -> list[str] | None:
    """Return the paths in folders that one part of a pattern stands for; None where that takes too many looks.

    Some shells take a pattern with a dot before it for the folder itself and the one around it, too (`.*`, `.?`).
    """
    if not _MAGIC.search(part):
        return [one + part for one in folders]
    if part == ALL_BELOW:
        return _list_below(folders, budget)
    matches = _read_part(part)
    found: list[str] = []
    for folder in folders:
        entries = budget.list_entries(folder or ".")
        if entries is None:
            return None
        named = (one for one in entries if matches(one.name))
        found += [folder + one.name for one in named if not is_folder or _is_folder(one)]
        found += _list_dots(folder, part, matches)
    return found


def _list_below(folders: Sequence[str], budget: PatternBudget) -> list[str] | None:
    """Return folders with all folders below them; None for too many looks. A link to one is not entered."""
    found, waiting = [], list(folders)
    while waiting:
        folder = waiting.pop()
        entries = budget.list_entries(folder or ".")
        if entries is None:
            return None
        found.append(folder.rstrip("/"))
        for one in filter(_is_folder, entries):
            if one.is_symlink():
                found.append(folder + one.name)
            else:
                waiting.append(f"{folder}{one.name}/")
    return found


def _list_dots(folder: str, part: str, matches: Callable[[str], bool]) -> list[str]:
    """Return the folder itself and the one around it, where a part of a pattern stands for them."""
    dots = {".": folder, "..": _find_around(folder)} if _may_climb(part) else {}
    return [path.rstrip("/") for name, path in dots.items() if matches(name)]


def _read_part(part: str) -> Callable[[str], bool]:
    """Return a test of whether a part of a pattern may stand for a name.

    A `^` negates a bracket in most shells, and is a sign as any other in the rest; options ignore case; and in some
    locales a letter that is not ASCII is several signs, and a range has other letters.
    """
    part = _BRACKET.sub(_widen_range, _SHELL_ONLY.sub("*", part))
    readings = {part, part.replace("[^", "[!")}
    flags = (0, re.IGNORECASE) if "[" in part else (re.IGNORECASE,)
    patterns = [re.compile(fnmatch.translate(one), flag) for one in readings for flag in flags]
    loose = re.compile(fnmatch.translate(_BRACKET.sub("*", part.replace("?", "*"))), re.IGNORECASE)
    return lambda name: any(one.match(name) for one in patterns) or (not name.isascii() and bool(loose.match(name)))


def _widen_range(found: re.Match[str]) -> str:
    """Return a bracket of a pattern; `*` where its range depends on the locale."""
    rest = _PLAIN_RANGE.sub(lambda one: "" if one[0][0] <= one[0][2] else one[0], found[0])
    return "*" if "-" in rest.strip("[!^-]") else found[0]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
