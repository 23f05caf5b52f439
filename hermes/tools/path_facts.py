"""What is known of the paths that a call names: where each leads, what of that commands do not see or may not write."""

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import CommandJudgement, EffectKind, SimpleCommand, Verdict
from hermes.tools.session import ToolContext
from hermes.tools.tool import PathUse

if TYPE_CHECKING:
    from hermes.safety.path_policy import Operation, PathJudgement


class PathFacts(Struct, frozen=True):
    """A path that a tool names by itself: where it leads, and what of the way commands do not see."""

    use: PathUse
    judged: "PathJudgement"
    real: str
    hidden: tuple[str, ...] = ()
    kept: str = ""
    """The folder that has to be opened before a command can write the path."""


def trace_use(use: PathUse, context: ToolContext) -> PathFacts:
    """Return the facts about a path that a call names. Links are followed as they are now."""
    from hermes.safety.path_policy import PathJudgement, judge_path
    from hermes.tools.path_access import explain_obeyed, trace_path

    path, outside, cwd = use.path, context.resolve_path(use.path), str(context.state.cwd)
    op: Operation = "write" if use.write else "read"
    judged = judge_path(outside, op, cwd, context.places)
    if judged.verdict is Verdict.ALLOW and path.startswith(("file:", "$")):
        judged = judge_path(path, op, cwd, context.places)
    why = explain_obeyed(judged.real, context) if use.write and judged.verdict is Verdict.ALLOW else ""
    if why:
        judged = PathJudgement(Verdict.DENY, "protected-path", why, judged.real)
    trace = trace_path(outside, context) if judged.verdict is Verdict.ALLOW else None
    if trace is None:
        return PathFacts(use, judged, judged.real)
    return PathFacts(use, judged, trace.real, trace.hidden)


def list_closed_paths(
    judged: CommandJudgement, named: Collection[str], changing: Iterable[SimpleCommand], context: ToolContext
) -> Iterator[PathFacts]:
    """Yield what a command names and does not see, or may not write, where a person may open it: its run would miss
    that, or stop halfway. `changing` are those of its programs that do more than look.
    """
    from hermes.tools.named_paths import list_targets
    from hermes.tools.outside_writes import find_outside_writes
    from hermes.tools.path_access import SessionView, list_opened_by_yes

    view = SessionView(context)
    named = {*named, *list_targets(judged.effects, EffectKind.READS)}
    kept = find_outside_writes(judged, changing, context)
    yield from (structs.replace(trace_use(PathUse(one, write=True), context), kept=kept[one]) for one in kept)
    read = (trace_use(PathUse(one), context) for one in sorted(named) if one not in kept and view.can_be_opened(one))
    for one in read:
        if not any(is_or_below(one.real, folder) for folder in kept.values()):
            yield structs.replace(one, hidden=list_opened_by_yes(one.real, one.hidden, context))


def resolve_link(path: str) -> str:
    """Return where a path leads when it is a link, or one of several names of a file; empty when it is neither."""
    if path[:1] != "/" or not os.path.lexists(path):
        return ""
    real = os.path.realpath(path)
    if real != os.path.normpath(path):
        return real
    status = os.lstat(real)
    return real if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 else ""
