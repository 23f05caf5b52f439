"""Which calls of a batch run side by side."""

from collections.abc import Sequence

from msgspec import Struct

from hermes.tools.tool import Parallel, PathUse


class Step(Struct, frozen=True):
    """What the plan has to know of one call; paths are real ones, symlinks followed."""

    parallel: Parallel
    paths: tuple[PathUse, ...] = ()


def stages(steps: Sequence[Step]) -> list[list[int]]:
    """Indices of the calls in stages: stages run one after another, the calls of a stage side by side.

    Order is kept: a call never runs before one that stands in an earlier stage. A batch with a `NEVER` call is serial
    as a whole; a `SERIAL` call is a stage of its own; a `PATHS` call that conflicts with the last begins a new one.
    """
    if any(step.parallel is Parallel.NEVER for step in steps):
        return [[index] for index in range(len(steps))]
    planned: list[list[int]] = []
    for index, step in enumerate(steps):
        last = planned[-1] if planned else []
        alone = step.parallel is Parallel.SERIAL or any(steps[other].parallel is Parallel.SERIAL for other in last)
        if not last or alone or any(_conflict(step, steps[other]) for other in last):
            planned.append([index])
        else:
            last.append(index)
    return planned


def _conflict(one: Step, other: Step) -> bool:
    return any(
        (mine.write or theirs.write) and overlap(mine.path, theirs.path) for mine in one.paths for theirs in other.paths
    )


def overlap(one: str, other: str) -> bool:
    """Whether two real paths are the same, or one is a folder above the other."""
    return one == other or one.startswith(other.rstrip("/") + "/") or other.startswith(one.rstrip("/") + "/")
