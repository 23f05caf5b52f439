"""Planning of due instants: which run, which are missed, and why. Pure."""

from msgspec import Struct

from hermes.cron.job import CatchUp, CronJob
from hermes.i18n.messages import N_
from hermes.store.jobs import InstantState, NewInstant

MAX_STEP = 1_000
"""The number of instants handled in one step; where there are more, all but the newest become one row."""
_HELD_BACK = 100
"""The number of newest instants of a full step that wait for the next one: they may be among those that run."""
ONCE_GRACE = 120.0
_MIN_GRACE, _MAX_GRACE = 120.0, 7_200.0


class DuePlan(Struct, frozen=True):
    """Rows for the due instants, the job's cursor after them, and whether there may be more at once."""

    rows: tuple[NewInstant, ...]
    next_at: float | None
    more: bool = False


def plan_due(job: CronJob, now: float) -> DuePlan:
    """Plan a job's due instants at `now`; its cursor must be set."""
    assert job.row.next_at is not None
    due: list[float] = []
    following: float | None = job.row.next_at
    while following is not None and following + job.offset <= now and len(due) < MAX_STEP:
        due.append(following)
        following = job.schedule.next_after(following)
    if len(due) == MAX_STEP and following is not None and following + job.offset <= now:
        old, rest = due[:-_HELD_BACK], due[-_HELD_BACK]
        late = now - old[-1] - job.offset > get_grace(job, old[-1])
        must_tell = late and not job.spec.quiet
        row = NewInstant(
            at=old[0],
            through=old[-1],
            instants=len(old),
            state=InstantState.MISSED,
            reason=_explain_absent() if late else _explain_replaced(),
            owed=must_tell,
        )
        return DuePlan((row,), rest, more=True)
    return DuePlan(tuple(_make_rows(job, due, now)), following)


def _make_rows(job: CronJob, due: list[float], now: float) -> list[NewInstant]:
    if not due:
        return []
    late = [at for at in due if now - at - job.offset > get_grace(job, at)]
    chosen = _choose_instants(job, due, late)
    if job.spec.repeat is not None:
        chosen = chosen[: max(0, job.spec.repeat - job.row.begun)]
    wanted, lost = set(chosen), set(late)
    rows = []
    for at in due:
        if at in wanted:
            rows.append(NewInstant(at=at, state=InstantState.DUE))
        else:
            absent = at in lost
            reason = _explain_absent() if absent else _explain_replaced()
            rows.append(NewInstant(at=at, state=InstantState.MISSED, reason=reason, owed=absent and not job.spec.quiet))
    return rows


def _choose_instants(job: CronJob, due: list[float], late: list[float]) -> list[float]:
    """Return the instants that are run."""
    if job.spec.catch_up is CatchUp.ALL:
        return due[-max(1, min(job.spec.catch_up_limit, _HELD_BACK)) :]
    newest = due[-1:]
    return newest if job.spec.catch_up is CatchUp.LAST or newest[0] not in late else []


def get_grace(job: CronJob, at: float) -> float:
    """Return the seconds by which the run of an instant may be late."""
    if job.spec.grace is not None:
        return job.spec.grace
    following = job.schedule.next_after(at)
    if following is None:
        return ONCE_GRACE
    return min(max((following - at) / 2, _MIN_GRACE), _MAX_GRACE)


def _explain_absent() -> str:
    return N_("nobody was there to run it in time")


def _explain_replaced() -> str:
    return N_("coalesced: a later instant runs in its place")
