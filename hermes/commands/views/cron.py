"""Formats scheduled jobs and their history as lines for a person."""

from collections.abc import Sequence

from hermes.i18n.formats import format_duration, format_time
from hermes.i18n.messages import N_, localize, tr
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import to_one_line

_STATES = {
    "active": N_("active"),
    "paused": N_("paused"),
    "done": N_("done"),
    "unreadable": N_("unreadable"),
    "due": N_("waits"),
    "claimed": N_("runs"),
    "ran": N_("ran"),
    "skipped": N_("skipped"),
    "missed": N_("missed"),
    "failed": N_("failed"),
}


def format_idle_line() -> str:
    """Return the notice for when no process runs jobs."""
    return tr("Jobs run while `hermes gateway` runs, and none runs now.")


def format_job_line(row: Plain) -> str:
    """Format a job as one line."""
    state = tr(_STATES[str(row["state"])])
    if row.get("wrong"):
        return f"{row['id']}  {row['name']}  {state}: {to_one_line(str(row['wrong']))}"
    at = row["next_at"]
    due = tr("next: {when}", when=format_time(float(str(at)))) if at is not None else ""
    parts = (row["id"], row["name"], state, f"{row['schedule']} ({row['zone']})", due)
    return "  ".join(str(part) for part in parts if part)


def format_job(row: Plain) -> list[str]:
    """Format a job with all of its details."""
    spec = row["spec"]
    assert isinstance(spec, dict)
    more = {name: value for name, value in spec.items() if value not in (None, "", [], (), False)}
    lines = [format_job_line(row), f"  {row['means']}"]
    return lines + [f"  {name}: {_format_value(value)}" for name, value in more.items()]


def format_history(rows: Sequence[Plain]) -> list[str]:
    """Format the outcomes of instants, a line each."""
    return [_format_instant(row) for row in rows]


def _format_instant(row: Plain) -> str:
    when = format_time(float(str(row["at"])))
    if row["instants"] != 1:
        last = format_time(float(str(row["through"])))
        when = tr("{n} times, {first} to {last}", n=row["instants"], first=when, last=last)
    state = tr(_STATES[str(row["state"])])
    why = localize(str(row["reason"])) if row["reason"] else ""
    took = ""
    if row["began_at"] is not None and row["ended_at"] is not None:
        took = format_duration(float(str(row["ended_at"])) - float(str(row["began_at"])))
    wrong = tr("not delivered: {why}", why=row["delivery_why"]) if row["delivery"] == "failed" else ""
    delivery = tr("still to be delivered") if row["delivery"] == "owed" else ""
    parts = (when, row["job"], state, why, took, wrong, delivery)
    return "  ".join(str(part) for part in parts if part)


def _format_value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
