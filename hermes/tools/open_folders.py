"""Tells which folders outside of the workspace commands may write."""

from collections.abc import Iterable

from hermes.execution.base import DeniedPath
from hermes.execution.layout import PathAccess
from hermes.safety.paths import is_or_below
from hermes.tools.session import ToolContext


def list_written_folders(context: ToolContext) -> list[str]:
    """Return the folders outside of the workspace that commands may write."""
    backend = context.backend_handle.backend
    layout = backend.current_layout() if backend is not None else None
    roots = layout.paths_with(PathAccess.WRITE) if layout is not None else ()
    return [one for one in roots if not is_or_below(one, context.places.workspace)]


def list_open_folders(
    context: ToolContext, opened: Iterable[DeniedPath], command: str
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the folders and files outside of the workspace that a command may write, and the places that a person's
    answers have opened: to all commands, to processes that still run, or to this one, now (`opened`) or when it is run
    once more.

    A folder of git's own counts as none.
    """
    once, processes = context.state.one_time_paths.get(command), context.state.started_processes
    more = (*opened, *(once.paths if once is not None else ()), *(processes.list_opened() if processes else ()))
    answered = frozenset(one.path for one in (*context.backend.list_opened(), *more) if one.is_write)
    found = {*list_written_folders(context), *answered}
    outer = (one for one in found if not is_or_below(one, context.places.workspace))
    return tuple(sorted(one for one in outer if ".git" not in one.split("/"))), answered
