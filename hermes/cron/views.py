"""Jobs and instants as plain values, for output."""

import msgspec
from msgspec import Struct

from hermes.core.money import NANO_PER_USD
from hermes.cron.job import CronJob
from hermes.store.jobs import InstantRow


class JobView(Struct, frozen=True, kw_only=True):
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


def to_job_view(job: CronJob) -> JobView:
    """Return the job with all its fields."""
    row = job.row
    return JobView(
        id=row.id,
        name=row.name,
        state=str(row.state),
        schedule=row.schedule,
        zone=row.zone,
        means=job.schedule.describe(),
        next_at=row.next_at,
        begun=row.begun,
        made_at=row.made_at,
        spec=msgspec.json.decode(row.spec),
    )


def to_instant_view(row: InstantRow, name: str) -> dict[str, object]:
    """Return an instant's outcome as plain values."""
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
        "cost_usd": row.nano / NANO_PER_USD,
        "output": row.output,
        "delivery": str(row.delivery),
        "delivery_why": row.delivery_why,
    }
