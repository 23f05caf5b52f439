"""The files that a pattern among a command's words stands for now, and where they lead, with a bound on the search."""

import fnmatch
import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from hermes.safety.shell.findings import CommandEffect
from hermes.tools.named_paths import SEARCHES
from hermes.tools.session import ToolContext

_MAX_MATCHES = 500
"""The most files that a pattern is resolved to; beyond it all of the folder counts."""
_MAX_LOOKS = 50_000
"""The most entries that are looked at for the patterns of one call: over links in a circle there is no end of them."""
_LOOKS_A_FOLDER = 10
"""Opening a folder takes as long as looking at so many entries."""
_SHELL_ONLY = re.compile(r"[{\\]|[?*+@!]\(|\*\*|\[[!^]?\]?[^]/]*\[[^]]")
"""What shells match otherwise than Python's `fnmatch` does: braces, choices, escapes, all folders below, classes."""


class PatternBudget:
    """The work that the patterns of one call may cost."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MAX_LOOKS

    def spend(self, looks: int) -> bool:
        """Spend so many looks. Return whether there are enough left."""
        self._left -= looks
        return self._left >= 0


def list_matches(pattern: str, budget: PatternBudget) -> Iterator[str]:
    """Yield the files that a pattern stands for now; for too many, or in unknown folders, the folder that is known.

    A path that is none is yielded itself, and so is a file whose name looks like a pattern.
    """
    if not glob.has_magic(pattern) or os.path.lexists(pattern):
        yield pattern
    if not glob.has_magic(pattern):
        return
    found = _find_matches(pattern, budget) if not _SHELL_ONLY.search(pattern) else None
    if found is not None and len(found) <= _MAX_MATCHES:
        yield from found
        return
    known = pattern
    while glob.has_magic(known) or _SHELL_ONLY.search(known):
        known = os.path.dirname(known)
    yield known
    yield from _list_above(known, pattern[len(known) :].strip("/").split("/"), budget)


def _list_above(known: str, parts: Sequence[str], budget: PatternBudget) -> Iterator[str]:
    """Yield what is meant below a folder that is known, or the one around it, by the parts of a pattern behind one that
    may be the folder around.
    """
    climbing = next((number for number, part in enumerate(parts, 1) if _may_climb(part)), 0)
    for folder in dict.fromkeys((known, _find_around(known))) if climbing and budget.spend(_LOOKS_A_FOLDER) else ():
        yield from list_matches(os.path.join(folder, *parts[climbing:]), budget)


def _may_climb(part: str) -> bool:
    """Return whether a part of a pattern that cannot be resolved here may stand for the folder around."""
    return part[:1] == "." and (glob.has_magic(part) or _SHELL_ONLY.search(part) is not None)


def _find_around(folder: str) -> str:
    """Return the folder around another one, as the kernel finds it: behind links."""
    return os.path.dirname(os.path.realpath(folder))


def list_places(target: str, effect: CommandEffect, context: ToolContext, budget: PatternBudget) -> Iterator[str]:
    """Yield where the target of a deletion leads, by the links on the way as they are now.

    A folder above the workspace may be the session's own in the eyes of its commands: both are named. A link that is
    named itself is only unlinked, unless it is entered.
    """
    enters = effect.argv[:1] in SEARCHES or any(word.endswith(("/", "/.")) for word in effect.argv)
    for path in {os.path.normpath(one) for one in (target, context.backend.to_local_path(target))}:
        for one in list_matches(path, budget):
            folder, name = os.path.split(one)
            yield one
            yield os.path.realpath(one) if enters else os.path.join(os.path.realpath(folder), name)


def _find_matches(pattern: str, budget: PatternBudget) -> list[str] | None:
    """Return the files that a pattern stands for, hidden ones too; None where that takes too many looks."""
    *folders, last = pattern.split("/")
    found = [""]
    for part in folders:
        entered = _match_part(found, part, budget, is_folder=True)
        if entered is None:
            return None
        found = [f"{one}/" for one in entered]
    named = _match_part(found, last, budget, is_folder=False)
    if named is None or glob.has_magic(last):
        return named
    if not budget.spend(len(named)):
        return None
    return [one for one in named if os.path.lexists(one)]


def _match_part(folders: list[str], part: str, budget: PatternBudget, *, is_folder: bool) -> list[str] | None:
    """Return the paths in folders that one part of a pattern stands for; None where that takes too many looks.

    Some shells take a pattern with a dot before it for the folder itself and the one around it, too (`.*`, `.?`).
    """
    if not glob.has_magic(part):
        return [one + part for one in folders]
    matches = _read_part(part)
    found: list[str] = []
    for folder in folders:
        entries = _list_entries(folder or ".", budget)
        if entries is None:
            return None
        named = (one for one in entries if matches(one.name))
        found += [folder + one.name for one in named if not is_folder or _is_folder(one)]
        found += _list_dots(folder, part, matches)
    return found


def _list_dots(folder: str, part: str, matches: Callable[[str], bool]) -> list[str]:
    """Return the folder itself and the one around it, where a part of a pattern stands for them."""
    dots = {".": folder, "..": _find_around(folder)} if part[:1] == "." else {}
    return [path.rstrip("/") for name, path in dots.items() if matches(name)]


def _read_part(part: str) -> Callable[[str], bool]:
    """Return a test of whether a part of a pattern stands for a name: a `^` negates a bracket in most shells, and is a
    sign as any other in the rest.
    """
    patterns = [re.compile(fnmatch.translate(one)) for one in {part, part.replace("[^", "[!")}]
    return lambda name: any(one.match(name) for one in patterns)


def _list_entries(folder: str, budget: PatternBudget) -> list[os.DirEntry[str]] | None:
    """Return what is in a folder, nothing where it is none or closed; None where that takes too many looks."""
    found: list[os.DirEntry[str]] = []
    if not budget.spend(_LOOKS_A_FOLDER):
        return None
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        for entry in entries:
            if not budget.spend(1):
                return None
            found.append(entry)
    return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
