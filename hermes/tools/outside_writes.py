"""Finds what a command would write outside of what commands may write, before it runs: kept from it, it would stop
halfway.
"""

import os
import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import accumulate

from hermes.execution.base import DeniedPath
from hermes.safety.git_addresses import find_local_path
from hermes.safety.home_places import TOOL_CHAINS
from hermes.safety.paths import is_or_below
from hermes.safety.shell.call import MAX_ARGV
from hermes.safety.shell.findings import CommandJudgement, EffectKind, SimpleCommand
from hermes.tools.named_paths import CHANGING_KINDS, MAX_PATH, list_command_paths, list_targets
from hermes.tools.path_access import find_openable_project, trace_path
from hermes.tools.path_patterns import PatternBudget, list_matches
from hermes.tools.session import ToolContext

_NO_PLAIN_PATH = re.compile(r"[\s*?\[\]{}()<>$:;|&'\"]")
"""What makes a word rather a pattern, a text or an address than the name of a file that is to be made."""


def find_outside_writes(
    judged: CommandJudgement, changing: Iterable[SimpleCommand], context: ToolContext
) -> dict[str, str]:
    """Return the paths (absolute) that a command would write and may not, each with the folder (resolved) that a person
    has to open before; the home stands for a folder in it that would go as a whole, which nobody can allow.

    `changing` are those of its programs that do more than look. Where nothing else is known of what one of them writes,
    a path in its words at which nothing is counts as what it is about to make. Only what lies in the home or beside the
    workspace is looked at, and what can be opened.
    """
    removed = list_targets(judged.effects, EffectKind.DELETES) | _list_gone_work_trees(judged, context)
    written = list_targets(judged.effects) - removed | _list_made(judged, changing, context)
    made = _list_made_folders(judged, context)
    find_folder, budget = cache(partial(_find_folder, context)), PatternBudget()
    found: dict[str, str] = {}
    for path in filter(_is_usable, sorted(written | removed)):
        if path in removed:
            found[path] = _find_folder_around(path, context, find_folder, budget)
        elif (real := _resolve(path, context)) and not context.backend.is_writable(real):
            found[path] = find_folder(*_find_way(real), is_made=os.path.normpath(path) in made)
    # A folder around others is opened with them, and a command may want to make those itself.
    folders = sorted({*found.values()} - {""}, key=lambda one: one.split("/"))  # a folder, then all that is below it
    widest = dict(zip(folders, accumulate(folders, _pick_around), strict=True))
    return {path: widest[folder] for path, folder in found.items() if folder}


def _pick_around(folder: str, below: str) -> str:
    """Return the first of two folders where the second lies in it, else the second."""
    return folder if is_or_below(below, folder) else below


def _list_made_folders(judged: CommandJudgement, context: ToolContext) -> set[str]:
    """Return the folders that a line makes and that may as well be there, and those that it makes in the home."""
    home = context.places.home
    named = list_command_paths(filter(_takes_empty_folder, judged.commands), context.places)
    named |= {one for one in list_command_paths(judged.commands, context.places) if one[-1:] == "/"}
    in_home = list_command_paths((one for one in judged.commands if one.argv[:1] == ("mkdir",)), context.places)
    named |= {one for one in in_home if os.path.dirname(os.path.normpath(one)) == home}
    return set(map(os.path.normpath, named))


def _find_folder_around(path: str, context: ToolContext, find_folder: Callable[..., str], budget: PatternBudget) -> str:
    """Return the folder that has to be opened so that a path can be removed from it."""
    folder = _resolve(os.path.dirname(path), context)
    if os.path.join(folder, os.path.basename(path)) == context.places.workspace:
        return ""  # what runs there cannot take the folder itself away, whoever opens what is around it
    is_there = any(os.path.lexists(one.path) for one in list_matches(context.backend.to_local_path(path), budget))
    if not folder or not is_there or context.backend.is_writable(folder):
        return ""
    whole = folder == context.places.home and os.path.isdir(path)
    return folder if whole else find_folder(*_find_way(folder), is_made=False)


def _list_made(judged: CommandJudgement, changing: Iterable[SimpleCommand], context: ToolContext) -> set[str]:
    """Return what programs are given a path of at which nothing is, where what they write is not known otherwise."""
    known = {one.argv for one in judged.effects if one.kind in CHANGING_KINDS}
    guessed = [one for one in changing if one.argv[: 1 + MAX_ARGV] not in known]
    words = (SimpleCommand(tuple(map(_decode_address, one.argv[1:])), one.cwd) for one in guessed)
    named = set(filter(_is_plain, list_command_paths(words, context.places, is_slashed=True)))
    named |= list_command_paths(filter(_takes_empty_folder, guessed), context.places, is_slashed=True)
    return {one for one in named if _is_usable(one) and not os.path.lexists(context.backend.to_local_path(one))}


def _decode_address(word: str) -> str:
    """Return a word, or the path that it stands for as an address of a file."""
    return find_local_path(word) if word.startswith("file://") else word


def _list_gone_work_trees(judged: CommandJudgement, context: ToolContext) -> set[str]:
    """Return the work trees that git is told to remove or to move: it forgets each before it takes its files away."""
    calls = (one for one in judged.commands if one.argv[1:3] in (("worktree", "remove"), ("worktree", "move")))
    named = ((one.cwd, [word for word in one.argv[3:] if word[:1] != "-"][:1]) for one in calls)
    return {context.places.expand_path(word, cwd) for cwd, words in named for word in words}


def _is_usable(path: str) -> bool:
    return path[:1] == "/" and len(path) <= MAX_PATH


def _resolve(path: str, context: ToolContext) -> str:
    """Return where a path leads in the eyes of commands, to which some folders are their own; empty where nobody can
    tell.
    """
    trace = trace_path(context.backend.to_local_path(path), context)
    return trace.real if trace is not None else ""


def _find_way(path: str) -> tuple[str, str, bool]:
    """Return the nearest folder that exists, what is missing in it, and whether more is missing below that."""
    missing, folder = "", path
    while not os.path.isdir(folder):
        missing, folder = folder, os.path.dirname(folder)
    return folder, missing, missing != path


def _is_plain(word: str) -> bool:
    return _NO_PLAIN_PATH.search(word) is None


def _takes_empty_folder(command: SimpleCommand) -> bool:
    """Return whether a program makes a folder, and is as content with an empty one that is there."""
    program, *words = command.argv
    if program == "mkdir":
        return any(one == "--parents" or (one[:1] == "-" and one[:2] != "--" and "p" in one) for one in words)
    return words[:2] in (["worktree", "add"], ["-m", "venv"]) or (program == "git" and words[:1] == ["clone"])


def _find_folder(context: ToolContext, folder: str, missing: str, is_deep: bool, *, is_made: bool) -> str:
    """Return the folder that a person has to open before what is missing in a folder can be made: its project, or the
    folder itself; empty where nobody can open it.

    What is to be made is made and opened alone, where the command can do with that; in a home, which is never opened
    itself, if it is for tool chains or has no dot before its name.
    """
    home = context.places.home
    if not any(is_or_below(folder, one) for one in (home, os.path.dirname(context.places.workspace))):
        return ""
    is_ordinary = not missing.startswith(f"{home}/.") or missing.removeprefix(f"{home}/") in TOOL_CHAINS
    if missing and (is_deep or is_made) and (folder != home or is_ordinary):
        folder = missing
    folder = find_openable_project(folder, context, is_write=True)
    return folder if context.backend.can_open(DeniedPath(folder, is_write=True)) else ""
