"""Jobs and instants as plain values, for whoever shows them."""

import msgspec
from msgspec import Struct

from hermes.core.money import NANO
from hermes.cron.job import Job
from hermes.store.jobs import InstantRow


class JobShown(Struct, frozen=True, kw_only=True):
    """A job as it is listed; times are in seconds since the epoch."""

    id: str
    name: str
    state: str
    schedule: str
    zone: str
    means: str
    next_at: float | None
    begun: int
    made_at: float
    spec: dict[str, object]


def job_shown(job: Job) -> JobShown:
    """The job with all that it has."""
    row = job.row
    return JobShown(
        id=row.id,
        name=row.name,
        state=str(row.state),
        schedule=row.schedule,
        zone=row.zone,
        means=job.schedule.words(),
        next_at=row.next_at,
        begun=row.begun,
        made_at=row.made_at,
        spec=msgspec.json.decode(row.spec),
    )


def instant_shown(row: InstantRow, name: str) -> dict[str, object]:
    """What became of an instant."""
    return {
        "job": name,
        "job_id": row.job_id,
        "at": row.at,
        "through": row.through,
        "instants": row.instants,
        "state": str(row.state),
        "reason": row.reason,
        "by_hand": row.by_hand,
        "began_at": row.began_at,
        "ended_at": row.ended_at,
        "session_id": row.session_id,
        "cost_usd": row.nano / NANO,
        "output": row.output,
        "delivery": str(row.delivery),
        "delivery_why": row.delivery_why,
    }
