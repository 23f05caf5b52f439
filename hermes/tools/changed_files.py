"""Finds the files that a command is known to change before it runs, so that copies of them can be kept."""

import glob
import os
from collections.abc import Iterator
from itertools import islice

from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import CommandEffect, EffectKind
from hermes.tools.named_paths import MAX_PATH
from hermes.tools.path_patterns import PatternBudget, list_matches
from hermes.tools.permissions.gate import PermissionDecision
from hermes.tools.session import ToolContext

_CHANGES = (EffectKind.WRITES, EffectKind.OVERWRITES, EffectKind.DELETES)
_MAX_FILLED = 2_000
"""The most files of folders outside of the workspace that are looked for, for one command."""


def find_changed_files(decision: PermissionDecision, context: ToolContext) -> list[str]:
    """Return the files that a command is known to change: in the workspace those that exist, since a listing of it may
    lack what git ignores; outside of it those that it makes, too, and those that it puts into a folder.
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
        elif effect.kind is EffectKind.OVERWRITES:
            filled.append(_list_filled(path, effect, decision.cwd or str(context.state.cwd), context, budget))
    return sorted(found.union(islice((one for names in filled for one in names), _MAX_FILLED)))


def _list_changed(
    decision: PermissionDecision, context: ToolContext, budget: PatternBudget
) -> Iterator[tuple[str, CommandEffect]]:
    """Yield what the effects of a command change by their words, each with the effect."""
    for effect in decision.effects:
        for target in effect.targets if effect.kind in _CHANGES else ():
            if target[:1] == "/" and len(target) <= MAX_PATH:
                yield from ((path, effect) for path in list_matches(context.backend.to_local_path(target), budget))


def _list_filled(
    folder: str, effect: CommandEffect, cwd: str, context: ToolContext, budget: PatternBudget
) -> Iterator[str]:
    """Yield what a command that is given a folder puts into it under the names of its words: what is there by these
    names, and what comes.
    """
    for word in (one for one in effect.argv[1:] if one[:1] != "-" and len(one) <= MAX_PATH):
        name = os.path.basename(word.rstrip("/"))
        name = "*" if name in ("", ".", "..") else name
        for path in list_matches(f"{glob.escape(folder)}/{name}", budget):
            yield from _list_files(path)
        source = context.backend.to_local_path(context.places.expand_path(word, cwd))
        for path in filter(os.path.lexists, list_matches(source, budget)):
            is_whole = name == "*" and os.path.isdir(path)
            start = path if is_whole else os.path.dirname(path.rstrip("/"))
            yield from (os.path.join(folder, os.path.relpath(one, start)) for one in _list_files(path))


def _list_files(path: str) -> Iterator[str]:
    """Yield a path that is no folder, or what lies in the folder."""
    if os.path.islink(path) or not os.path.isdir(path):
        yield path
        return
    for at, _, names in os.walk(path):
        yield from (os.path.join(at, name) for name in names)
