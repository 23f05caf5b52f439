"""Finds the files that a command is known to change before it runs, so that copies of them can be kept."""

import glob
import os
from collections.abc import Iterator
from itertools import islice

from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import CommandEffect, EffectKind
from hermes.tools.named_paths import FILE_CHANGES, MAX_PATH
from hermes.tools.path_patterns import PatternBudget, list_matches
from hermes.tools.permissions.gate import PermissionDecision
from hermes.tools.session import ToolContext

_MAX_FILLED = 2_000
"""The most files of folders outside of the workspace that are looked for, for one command."""


def find_changed_files(decision: PermissionDecision, context: ToolContext) -> list[str]:
    """Return the files that a command is known to change: in the workspace those that exist, since a listing of it may
    lack what git ignores; outside of it those that it makes, too, those that it puts into a folder, and those of a
    folder that it moves.
    """
    found: set[str] = set()
    filled: list[Iterator[str]] = []
    budget = PatternBudget()
    for path, effect in _list_changed(decision, context, budget):
        if os.path.isfile(path):
            found.add(path)
        elif is_or_below(path, context.places.workspace):
            continue
        elif not os.path.isdir(path):
            found.add(path)
        elif effect.kind is EffectKind.DELETES or any(map(glob.has_magic, effect.targets)):
            # A folder that is moved away, or all that is known of what a pattern stands for.
            filled.append(filter(context.backend.is_writable, _list_files(path, budget, with_folders=True)))
        elif effect.kind is EffectKind.OVERWRITES:
            filled.append(_list_filled(path, effect, decision.cwd or str(context.state.cwd), context, budget))
    return sorted(found.union(islice((one for names in filled for one in names), _MAX_FILLED)))


def _list_changed(
    decision: PermissionDecision, context: ToolContext, budget: PatternBudget
) -> Iterator[tuple[str, CommandEffect]]:
    """Yield what the effects of a command change by their words, each with the effect."""
    for effect in decision.effects:
        for target in effect.targets if effect.kind in FILE_CHANGES else ():
            if target[:1] == "/" and len(target) <= MAX_PATH:
                yield from ((path, effect) for path in list_matches(context.backend.to_local_path(target), budget))


def _list_filled(
    folder: str, effect: CommandEffect, cwd: str, context: ToolContext, budget: PatternBudget
) -> Iterator[str]:
    """Yield what a command that is given a folder puts into it under the names of its words: what is there by these
    names, and what comes.
    """
    for word in (one for one in effect.argv[1:] if one[:1] != "-" and len(one) <= MAX_PATH):
        source = context.backend.to_local_path(context.places.expand_path(word, cwd))
        if os.path.realpath(source) != os.path.realpath(folder):  # the folder itself is among the words
            yield from _list_replaced(folder, os.path.basename(word.rstrip("/")), source, budget)


def _list_replaced(folder: str, name: str, source: str, budget: PatternBudget) -> Iterator[str]:
    """Yield where the files of a source, whose last name is given, come to lie in a folder, and what has that name."""
    is_whole = name in ("", ".", "..")
    found = [path for path in list_matches(source, budget) if os.path.lexists(path)]
    for path in found:
        start = path if is_whole and os.path.isdir(path) else os.path.dirname(path.rstrip("/"))
        yield from (os.path.join(folder, os.path.relpath(one, start)) for one in _list_files(path, budget))
    # The command may run in another folder than the line: what has these names may be replaced as well.
    for path in list_matches(f"{glob.escape(folder)}/{name}", budget) if not is_whole else ():
        yield from _list_files(path, budget)


def _list_files(path: str, budget: PatternBudget, *, with_folders: bool = False) -> Iterator[str]:
    """Yield a path that is no folder, or what lies in the folder, as far as the budget goes."""
    if os.path.islink(path) or not os.path.isdir(path):
        yield path
        return
    for at, folders, names in os.walk(path):
        if not budget.spend(1 + len(folders) + len(names)):
            return
        yield from [at] if with_folders else []
        yield from (os.path.join(at, name) for name in names)
