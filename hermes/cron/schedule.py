"""Schedules: parses the text that a person wrote into due instants. Pure; instants are Unix seconds.

Three kinds: once (`30m`, `in 2 hours`, `tomorrow 9am`, an ISO time), at intervals from a moment on (`every 2h`), and
by the wall clock of a time zone (five fields of cron, `@daily`, `every weekday at 8`). Daylight saving time affects the
last kind:

- A fixed time (neither minute nor hour begins with `*`) comes exactly once a day. In a skipped hour it
comes at the first moment after the gap; in a repeated hour, the first time.
- What has a `*` there follows the clock as it shows: it comes in both passes of an hour, and not in a
skipped one.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from hermes.core.errors import UsageError
from hermes.cron.phrase_parts import EXAMPLES, expand_ranges
from hermes.i18n.formats import format_duration
from hermes.i18n.messages import N_, tr

MIN_INTERVAL = 60
"""Seconds of the shortest interval."""
MAX_INTERVAL = 100 * 366 * 86_400
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_UNIT = r"(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?)"
_LENGTH = re.compile(rf"(?:(\d{{1,9}})\s*)?{_UNIT}", re.IGNORECASE)
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?")
_MAX_CLOCK_CHANGE = timedelta(hours=3)
"""No zone moves its clock by more than this, and none twice within as long."""
_LOOK_AHEAD = timedelta(hours=12)
_FIELDS = re.compile(r"[\d*][\d*,/-]* [\d*,/-]+ [\d*?,/LWlw-]+(?: \S+){2,3}$")
"""Five or six fields of cron: the first three have no words, so that `24 dec at 6 pm` is none."""


class Schedule:
    """The schedule of a job. `text` is as it was written; immutable."""

    def __init__(self, text: str) -> None:
        self.text = text

    @staticmethod
    def parse(text: str, zone: str, now: float) -> "Schedule":
        """Parse a text in a zone (an IANA name), said at `now`.

        Raises UsageError, with what to write instead, for what is no schedule; whether anything is ever due,
        `next_after` tells.
        """
        found = Schedule.find(text, zone, now)
        if found is None:
            raise UsageError(N_("{text!r} is not a schedule.", text=" ".join(text.split())[:80]), EXAMPLES)
        return found

    @staticmethod
    def find(text: str, zone: str, now: float) -> "Schedule | None":
        """Return the schedule that a text is, or None for a text that is none. Raises UsageError for one that is
        nearly one: without a time, with a time that has passed, with a field that cannot be.
        """
        words = " ".join(text.split())
        where = parse_zone(zone)
        if words.lower().startswith("every ") and _LENGTH.fullmatch(words[6:]):
            return _IntervalSchedule(words, _parse_length(words[6:], least=MIN_INTERVAL), round(now))
        if _LENGTH.fullmatch(words) and words[:1].isdigit():
            return _OnceSchedule(words, round(now) + _parse_length(words, least=1))
        if _ISO.fullmatch(words):
            return _OnceSchedule(words, _parse_moment(words, where))
        if words.startswith("@") or _FIELDS.match(words):
            return _WallClockSchedule(words, where, zone, _parse_fields(words))
        return _find_phrase(words, where, zone, now)

    @property
    def once(self) -> bool:
        """Whether there is one instant at most."""
        return False

    def next_after(self, instant: float) -> float | None:
        """Return the first instant later than `instant`, or None when there is none."""
        raise NotImplementedError

    def describe(self) -> str:
        """Describe the schedule for a person."""
        raise NotImplementedError


class _OnceSchedule(Schedule):
    def __init__(self, text: str, at: float) -> None:
        super().__init__(text)
        self._at = at

    @property
    def once(self) -> bool:
        return True

    def next_after(self, instant: float) -> float | None:
        return self._at if self._at > instant else None

    def describe(self) -> str:
        return tr("once")


class _IntervalSchedule(Schedule):
    def __init__(self, text: str, step: int, anchor: int) -> None:
        super().__init__(text)
        self._step = step
        self._anchor = anchor

    def next_after(self, instant: float) -> float | None:
        passed = max(0, int((instant - self._anchor) // self._step))
        found = self._anchor + (passed + 1) * self._step
        return float(found) if found > instant else float(found + self._step)

    def describe(self) -> str:
        return tr("every {time}", time=format_duration(self._step))


class _WallClockSchedule(Schedule):
    """A schedule by the wall clock. cronsim matches the fields on clock times without a zone; the zone is ours."""

    def __init__(self, text: str, zone: tzinfo, name: str, fields: str) -> None:
        super().__init__(text)
        self._zone = zone
        self._name = name
        self._fields = fields
        parts = self._fields.split()
        self._fixed = not parts[0].startswith("*") and not parts[1].startswith("*")
        self._listed: list[float] = []
        self._matching = CronSim(self._fields, datetime(2000, 1, 1))

    def next_after(self, instant: float) -> float | None:
        here = datetime.fromtimestamp(instant, self._zone)
        wall = here.replace(tzinfo=None, fold=0)
        first = next(self._iterate_matches(wall), None)
        if first is None:
            return None
        if self._is_steady(here.astimezone(UTC)):
            found = first.replace(tzinfo=self._zone).astimezone(UTC)
            if self._is_steady(found):
                return found.timestamp()
        return self._find_near_change(instant, wall)

    def describe(self) -> str:
        if not _FIELDS.match(self.text) and not self.text.startswith("@"):
            return tr("{when} ({zone})", when=self.text, zone=self._name)
        from cronsim.explain import Expression

        parts = ["0", *self._fields.upper().split()]
        return tr("{when} ({zone})", when=Expression(parts).explain(), zone=self._name)

    def _find_near_change(self, instant: float, wall: datetime) -> float | None:
        """Return the next instant near a clock change: all instants around are listed, and the first one is taken."""
        if not self._listed or not self._listed[0] <= instant < self._listed[-1]:
            self._listed = self._list_around(instant, wall)
        at = bisect_right(self._listed, instant)
        return self._listed[at] if at < len(self._listed) else None

    def _list_around(self, instant: float, wall: datetime) -> list[float]:
        """Return `instant`, and every instant behind it up to a moment, one at least."""
        found: list[float] = []
        until: datetime | None = None
        for candidate in self._iterate_matches(wall - _MAX_CLOCK_CHANGE):
            if until is not None and candidate > until:
                break
            more = [one for one in self._list_instants(candidate) if one > instant]
            if more and until is None:
                until = max(candidate, wall + _LOOK_AHEAD) + 2 * _MAX_CLOCK_CHANGE
            found += more
        # What lies within the last hours may have others before it that were not reached.
        found = sorted(set(found))
        sure = max(instant + (_LOOK_AHEAD - _MAX_CLOCK_CHANGE).total_seconds(), found[0]) if found else instant
        return [instant, *found[: bisect_right(found, sure)]]

    def _list_instants(self, wall: datetime) -> Iterator[float]:
        """Yield the instants at which a wall clock shows this, or stands for it."""
        first = wall.replace(tzinfo=self._zone)
        second = first.replace(fold=1)
        shown = first.astimezone(UTC).astimezone(self._zone)
        if shown.replace(tzinfo=None) != wall:  # it is left out
            if self._fixed:
                yield self._find_gap_end(first)
            return
        yield first.timestamp()
        if not self._fixed and second.utcoffset() != first.utcoffset():
            yield second.timestamp()

    def _find_gap_end(self, wall: datetime) -> float:
        """Return the first instant after a gap in which a time lies: where the offset changes."""
        before = int((wall.astimezone(UTC) - _MAX_CLOCK_CHANGE).timestamp())
        after = int((wall.astimezone(UTC) + _MAX_CLOCK_CHANGE).timestamp())
        old = self._get_offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            if self._get_offset(middle) == old:
                before = middle
            else:
                after = middle
        return float(after)

    def _get_offset(self, instant: int) -> timedelta | None:
        return datetime.fromtimestamp(instant, self._zone).utcoffset()

    def _is_steady(self, moment: datetime) -> bool:
        """Return whether the clock is not changed near a moment (UTC)."""
        before, after = (
            (moment - _MAX_CLOCK_CHANGE).astimezone(self._zone),
            (moment + _MAX_CLOCK_CHANGE).astimezone(self._zone),
        )
        return before.utcoffset() == after.utcoffset()

    def _iterate_matches(self, after: datetime) -> Iterator[datetime]:
        """Yield matching wall clock times later than this one, in order."""
        matching = self._matching
        matching.dt = after.replace(microsecond=0)
        while True:
            try:
                found = next(matching)
            except (StopIteration, OverflowError):
                return
            yield found
            matching.dt = found


def parse_zone(name: str) -> tzinfo:
    """Return the time zone of an IANA name. Raises UsageError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            N_("There is no time zone {name!r} on this machine.", name=name[:80]),
            N_("Use a name such as Europe/Berlin or UTC; the package tzdata provides them."),
        ) from None


def _find_phrase(words: str, zone: tzinfo, name: str, now: float) -> Schedule | None:
    """Return the schedule that a phrase means, or None. Raises UsageError, with forms that work."""
    from hermes.cron.phrases import read_delay, read_interval, read_phrase

    delay, step = read_delay(words), read_interval(words)
    if delay is not None:
        return _OnceSchedule(words, round(now) + _check_length(words, delay, least=1))
    if step is not None:
        return _IntervalSchedule(words, _check_length(words, step, least=MIN_INTERVAL), round(now))
    found = read_phrase(words, datetime.fromtimestamp(now, zone))
    if found is None:
        return None
    if isinstance(found, str):
        return _WallClockSchedule(words, zone, name, _parse_fields(found))
    return _OnceSchedule(words, found.timestamp())


def _parse_length(text: str, *, least: int) -> int:
    """Parse `30m`, `2 hours` or `hour` into seconds."""
    match = _LENGTH.fullmatch(text.strip())
    assert match is not None
    return _check_length(text, int(match[1] or 1) * _SECONDS[match[2][0].lower()], least=least)


def _check_length(text: str, seconds: int, *, least: int) -> int:
    """Return the seconds. Raises UsageError where they are too few or too many."""
    if not least <= seconds <= MAX_INTERVAL:
        raise UsageError(
            N_(
                "{text!r} is too short or too long; an interval has at least {n} seconds.",
                text=text[:80],
                n=MIN_INTERVAL,
            ),
            EXAMPLES,
        )
    return seconds


def _parse_moment(text: str, zone: tzinfo) -> float:
    """Parse an ISO time; without an offset it is by the clock of the zone."""
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            found = found.replace(tzinfo=zone)
        return float(round(found.timestamp()))
    except (ValueError, OverflowError):
        raise UsageError(N_("{text!r} is not a time that exists.", text=text[:80]), EXAMPLES) from None


def _parse_fields(text: str) -> str:
    """Return the five cron fields. Raises UsageError."""
    lowered = text.lower()
    if lowered in _NAMED:
        return _NAMED[lowered]
    if text.startswith("@"):
        known = ", ".join(_NAMED)
        raise UsageError(N_("There is no schedule {text!r}.", text=text[:80]), N_("Known: {known}.", known=known))
    if len(text.split()) == 6:
        raise UsageError(
            N_("{text!r} has six fields; seconds are not kept.", text=text[:80]),
            N_("Write five: minute, hour, day of the month, month, day of the week."),
        )
    text = expand_ranges(text)
    try:
        ever = next(CronSim(text, datetime(2000, 1, 1)), None)
    except CronSimError as error:
        raise UsageError(N_("{text!r} is not a schedule: {why}.", text=text[:80], why=str(error)), EXAMPLES) from None
    if ever is None:
        raise UsageError(N_("{text!r} never comes.", text=text[:80]), EXAMPLES)
    return text
