"""Hours in which a job that speaks only when needed does not run."""

import contextlib
import re
from datetime import UTC, datetime, time

from hermes.core.errors import UsageError
from hermes.cron.schedule import parse_zone
from hermes.i18n.messages import N_

_HOURS = re.compile(r"(\d{1,2})(?::(\d\d))?-(\d{1,2})(?::(\d\d))?", re.ASCII)


def parse_quiet_hours(text: str) -> tuple[time, time]:
    """Parse `22:00-07:00`, or `22-7`; they may go over midnight. Raises UsageError."""
    match = _HOURS.fullmatch(text.replace(" ", ""))
    begin = end = time()
    if match is not None:
        with contextlib.suppress(ValueError):
            begin, end = time(int(match[1]), int(match[2] or 0)), time(int(match[3]), int(match[4] or 0))
    if begin == end:
        raise UsageError(
            N_("{text!r} are no quiet hours.", text=text[:80]), N_("Write them as 22:00-07:00, in the job's time zone.")
        )
    return begin, end


def is_quiet(text: str, zone: str, now: float) -> bool:
    """Return whether it is within these hours in this time zone."""
    begin, end = parse_quiet_hours(text)
    clock = datetime.fromtimestamp(now, UTC).astimezone(parse_zone(zone)).time()
    return begin <= clock < end if begin < end else clock >= begin or clock < end
