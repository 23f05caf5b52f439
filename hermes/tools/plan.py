"""Plans which calls of a batch run side by side."""

from collections.abc import Sequence

from msgspec import Struct

from hermes.tools.tool import Parallel, PathUse


class PlannedCall(Struct, frozen=True):
    """The facts of one call that the plan needs; paths are real ones, symlinks followed."""

    parallel: Parallel
    paths: tuple[PathUse, ...] = ()


def plan_stages(calls: Sequence[PlannedCall]) -> list[list[int]]:
    """Return the indices of the calls in stages: stages run one after another, the calls of a stage side by side.

    Order is kept: a call never runs before one that is in an earlier stage. A batch with a `NEVER` call is serial as a
    whole; a `SERIAL` call is a stage of its own; a `PATHS` call that conflicts with the last begins a new one.
    """
    if any(step.parallel is Parallel.NEVER for step in calls):
        return [[index] for index in range(len(calls))]
    planned: list[list[int]] = []
    for index, step in enumerate(calls):
        last = planned[-1] if planned else []
        alone = step.parallel is Parallel.SERIAL or any(calls[other].parallel is Parallel.SERIAL for other in last)
        if not last or alone or any(_has_conflict(step, calls[other]) for other in last):
            planned.append([index])
        else:
            last.append(index)
    return planned


def _has_conflict(one: PlannedCall, other: PlannedCall) -> bool:
    return any(
        (mine.write or theirs.write) and has_path_overlap(mine.path, theirs.path)
        for mine in one.paths
        for theirs in other.paths
    )


def has_path_overlap(one: str, other: str) -> bool:
    """Return whether two real paths are the same, or one is a folder above the other."""
    return one == other or one.startswith(other.rstrip("/") + "/") or other.startswith(one.rstrip("/") + "/")
