"""Finds the files that a command is known to change before it runs, so that copies of them can be kept."""

import os

from hermes.safety.paths import is_or_below
from hermes.tools.named_paths import FILE_CHANGES, MAX_PATH, list_targets
from hermes.tools.path_patterns import PatternBudget, list_matches
from hermes.tools.permissions.gate import PermissionDecision
from hermes.tools.session import ToolContext


def find_changed_files(decision: PermissionDecision, context: ToolContext) -> list[str]:
    """Return the files that a command names and changes, and those that it makes outside of the workspace. A listing of
    their folder may lack them: git ignores them, or the folder is too large to be listed.
    """
    budget, to_local = PatternBudget(), context.backend.to_local_path
    named = (one for one in list_targets(decision.effects, *FILE_CHANGES) if one[:1] == "/" and len(one) <= MAX_PATH)
    found = {place.path for target in named for place in list_matches(to_local(target), budget) if not place.is_whole}
    is_made = (path for path in found if not os.path.lexists(path) and not is_or_below(path, context.places.workspace))
    return sorted({*filter(os.path.isfile, found), *is_made})
