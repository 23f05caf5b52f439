"""What is to become of the instants that are due by now: which run, and which are missed, and why. Pure."""

from msgspec import Struct

from hermes.cron.job import CatchUp, Job
from hermes.i18n.messages import phrase
from hermes.store.jobs import Accounted, InstantState

CHUNK = 1_000
"""Instants that are looked at in one step; where there are more, all but the newest become one row."""
_KEPT_BACK = 100
"""The newest of a full step wait for the next one: they may be among those that run."""
ONCE_GRACE = 120.0
_LEAST_GRACE, _MOST_GRACE = 120.0, 7_200.0


class Plan(Struct, frozen=True):
    """Rows for the instants that are due, where the job's cursor stands then, and whether there may be more at once."""

    rows: tuple[Accounted, ...]
    next_at: float | None
    more: bool = False


def plan(job: Job, now: float) -> Plan:
    """What to do about a job at `now`; its cursor must stand somewhere."""
    assert job.row.next_at is not None
    due: list[float] = []
    following: float | None = job.row.next_at
    while following is not None and following + job.offset <= now and len(due) < CHUNK:
        due.append(following)
        following = job.schedule.after(following)
    if len(due) == CHUNK and following is not None and following + job.offset <= now:
        old, rest = due[:-_KEPT_BACK], due[-_KEPT_BACK]
        late = now - old[-1] - job.offset > grace_of(job, old[-1])
        told = late and not job.spec.quiet
        row = Accounted(
            at=old[0],
            through=old[-1],
            instants=len(old),
            state=InstantState.MISSED,
            reason=_absent() if late else _replaced(),
            owed=told,
        )
        return Plan((row,), rest, more=True)
    return Plan(tuple(_rows(job, due, now)), following)


def _rows(job: Job, due: list[float], now: float) -> list[Accounted]:
    if not due:
        return []
    late = [at for at in due if now - at - job.offset > grace_of(job, at)]
    chosen = _chosen(job, due, late)
    if job.spec.repeat is not None:
        chosen = chosen[: max(0, job.spec.repeat - job.row.begun)]
    wanted, lost = set(chosen), set(late)
    rows = []
    for at in due:
        if at in wanted:
            rows.append(Accounted(at=at, state=InstantState.DUE))
        else:
            absent = at in lost
            reason = _absent() if absent else _replaced()
            rows.append(Accounted(at=at, state=InstantState.MISSED, reason=reason, owed=absent and not job.spec.quiet))
    return rows


def _chosen(job: Job, due: list[float], late: list[float]) -> list[float]:
    """The instants that are run."""
    if job.spec.catch_up is CatchUp.ALL:
        return due[-max(1, min(job.spec.catch_up_limit, _KEPT_BACK)) :]
    newest = due[-1:]
    return newest if job.spec.catch_up is CatchUp.LAST or newest[0] not in late else []


def grace_of(job: Job, at: float) -> float:
    """Seconds by which the run of an instant may be late."""
    if job.spec.grace is not None:
        return job.spec.grace
    following = job.schedule.after(at)
    if following is None:
        return ONCE_GRACE
    return min(max((following - at) / 2, _LEAST_GRACE), _MOST_GRACE)


def _absent() -> str:
    return phrase("nobody was there to run it in time")


def _replaced() -> str:
    return phrase("coalesced: a later instant runs in its place")
