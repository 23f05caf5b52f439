"""Finds what a command would write outside of what commands may write, before it runs: kept from it, it would stop
halfway.
"""

import os
import re
from collections.abc import Iterable

from hermes.execution.base import DeniedPath
from hermes.safety.home_places import TOOL_CHAINS
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import CommandJudgement, EffectKind, SimpleCommand
from hermes.tools.named_paths import list_command_paths, list_targets
from hermes.tools.path_access import find_openable_project
from hermes.tools.session import ToolContext

_NO_PLAIN_PATH = re.compile(r"[\s*?\[\]{}()<>$:;|&'\"]")
"""What makes a word rather a pattern, a text or an address than the name of a file that is to be made."""


def find_outside_writes(
    judged: CommandJudgement, changing: Iterable[SimpleCommand], context: ToolContext
) -> dict[str, str]:
    """Return the paths (absolute) that a command would write and may not, each with the folder (resolved) that a person
    has to open before.

    `changing` are those of its programs that do more than look: a path in their words at which nothing is they are
    about to make. Only what lies in the home or beside the workspace is looked at, and what can be opened.
    """
    removed = list_targets(judged.effects, EffectKind.DELETES)
    named = set(filter(_is_plain, list_command_paths(changing, context.places, is_slashed=True)))
    missing = {one for one in removed | named if not os.path.lexists(context.backend.to_local_path(one))}
    folders = list_command_paths(filter(_makes_folders, judged.commands), context.places)
    written = (list_targets(judged.effects) - removed) | (named & missing) | (removed - missing)
    found: dict[str, str] = {}
    for path in sorted(one for one in written if one[:1] == "/"):
        real = os.path.realpath(context.backend.to_local_path(path))
        folder = _find_folder(os.path.dirname(real) if path in removed else real, context, is_folder=path in folders)
        if folder and not context.backend.is_writable(real):
            found[path] = folder
    return found


def _is_plain(word: str) -> bool:
    return _NO_PLAIN_PATH.search(word) is None


def _makes_folders(command: SimpleCommand) -> bool:
    return command.argv[:1] == ("mkdir",)


def _find_folder(path: str, context: ToolContext, *, is_folder: bool) -> str:
    """Return the folder that a person has to open before a path (resolved) can be written: its project, or the nearest
    that exists; empty where nobody can open it.

    A home is never opened itself. A folder that is to be made in it is, if it is for tool chains or has no dot before
    its name.
    """
    missing, folder, home = "", path, context.places.home
    while not os.path.isdir(folder):
        missing, folder = folder, os.path.dirname(folder)
    if not any(is_or_below(folder, one) for one in (home, os.path.dirname(context.places.workspace))):
        return ""
    is_ordinary = not missing.startswith(f"{home}/.") or missing.removeprefix(f"{home}/") in TOOL_CHAINS
    if folder == home and (missing != path or is_folder) and is_ordinary:
        folder = missing or folder
    folder = find_openable_project(folder, context, is_write=True)
    return folder if context.backend.can_open(DeniedPath(folder, is_write=True)) else ""
