"""What phrases of schedules are made of: times of the day, recurring days, single days."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta

from msgspec import Struct

from hermes.core.errors import UsageError
from hermes.i18n.messages import N_

EXAMPLES = N_("Forms that work: `every weekday at 8:30`, `tomorrow at 9am`, `0 9 * * 1-5`.")

WEEKDAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


class ClockWords(Struct, frozen=True, kw_only=True):
    """A time of the day as it is written. `half` is `a` or `p`; `part` is morning, noon, afternoon, evening, night,
    early (after midnight) or empty.
    """

    hour: int
    minute: int = 0
    half: str = ""
    part: str = ""


class RecurringDays(Struct, frozen=True):
    """Days that come again, as the last three fields of cron."""

    fields: str


class SingleDay(Struct, frozen=True):
    """One day. Where its time has passed by now, the day `later` days after it is meant; 0 for none."""

    day: date
    later: int = 0


Days = RecurringDays | SingleDay
_LATEST_NIGHT_HOUR = 4
"""The last hour that a night has behind its midnight: `tonight at 1` is on the next day."""
DAILY = RecurringDays("* * *")
WORKDAYS = RecurringDays("* * 1-5")
WEEKENDS = RecurringDays("* * 0,6")


class PhraseReading(Struct, frozen=True):
    """One way to read a phrase; `times` is empty where it says none."""

    days: Days
    times: Sequence[ClockWords]


def find_date(year: str | None, month: int, day: int, today: date) -> SingleDay | None:
    """Return a date: without a year of this one, or of the next one where it has passed. None: there is no such day."""
    try:
        found = date(int(year or today.year), month, day)
        return SingleDay(found if year or found >= today else found.replace(year=today.year + 1))
    except ValueError:
        return None


def find_weekday(number: int, today: date, *, after: bool = False) -> SingleDay:
    """Return the next day of the week of that number (Sunday is 0), which is today at the earliest, or `after` it."""
    ahead = (number - today.isoweekday()) % 7
    return SingleDay(today + timedelta(days=ahead or 7 * after), later=7)


def join_days_and_times(reading: PhraseReading, here: datetime, text: str) -> str | datetime:
    """Return the fields of cron, or the moment, that days and times stand for; `here` is now, `text` the phrase.

    Raises UsageError where that cannot be.
    """
    times = [_resolve_time(one, text) for one in reading.times]
    days = reading.days
    if isinstance(days, RecurringDays):
        return _write_fields(days, times, reading, text)
    return _find_moment(days, times, reading, here, text)


def _write_fields(days: RecurringDays, times: Sequence[time], reading: PhraseReading, text: str) -> str:
    minutes = {one.minute for one in times}
    if len(minutes) > 1:
        raise UsageError(
            N_("{text!r} has times with different minutes; make a job for each.", text=text[:80]), EXAMPLES
        )
    if days != DAILY and any(map(_is_after_midnight, reading.times, times)):
        raise UsageError(
            N_("{text!r} is after midnight; name the day of that morning: `saturday at 1am`.", text=text[:80]),
            EXAMPLES,
        )
    hours = ",".join(str(hour) for hour in sorted({one.hour for one in times}))
    return f"{minutes.pop()} {hours} {days.fields}"


def _find_moment(days: SingleDay, times: Sequence[time], reading: PhraseReading, here: datetime, text: str) -> datetime:
    if len(times) > 1:
        raise UsageError(N_("{text!r} has several times for one day; make a job for each.", text=text[:80]), EXAMPLES)
    clock = times[0].replace(tzinfo=here.tzinfo)
    is_this_night = days.day == here.date() and here.hour <= _LATEST_NIGHT_HOUR
    ahead = timedelta(days=_is_after_midnight(reading.times[0], times[0]) and not is_this_night)
    moment = datetime.combine(days.day + ahead, clock)
    if moment <= here and days.later:
        moment = datetime.combine(days.day + timedelta(days=days.later), clock)
    if moment <= here:
        raise UsageError(N_("{text!r} has passed already.", text=text[:80]), EXAMPLES)
    return moment


def _is_after_midnight(words: ClockWords, clock: time) -> bool:
    """Return whether a time of a night is on the day behind the one that the night is named for."""
    return words.part in ("evening", "night") and clock.hour <= _LATEST_NIGHT_HOUR


def _resolve_time(words: ClockWords, text: str) -> time:
    hour = _resolve_hour(words)
    if hour is None or not 0 <= hour <= 23 or words.minute > 59:
        raise UsageError(N_("{text!r} has a time that does not exist.", text=text[:80]), EXAMPLES)
    return time(hour, words.minute)


def _resolve_hour(words: ClockWords) -> int | None:
    """Return the hour on the clock of 24; None where it cannot be."""
    hour = words.hour
    if words.half:
        return hour % 12 + 12 * (words.half == "p") if 1 <= hour <= 12 else None
    match words.part:
        case "afternoon":
            return hour + 12 if hour < 12 else hour
        case "noon":
            return hour + 12 if 1 <= hour <= 3 else hour
        case "early":
            return hour % 12 if hour <= 12 else None
        case "evening" | "night":
            return 0 if hour == 12 else hour + 12 if _LATEST_NIGHT_HOUR < hour < 12 else hour
    return hour


def expand_ranges(fields: str) -> str:
    """Return five fields of cron with each range that wraps (`SAT-SUN`, `22-2`, `NOV-FEB`) written as a list."""
    parts = fields.split()
    bounds = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, MONTH_NAMES), (0, 6, WEEKDAY_NAMES))
    return " ".join(
        ",".join(_expand_range(item, *bound) for item in part.split(","))
        for part, bound in zip(parts, bounds, strict=True)
    )


def _expand_range(item: str, least: int, most: int, names: tuple[str, ...]) -> str:
    """Return an item of a field; a range whose end comes before its beginning becomes a list."""
    ends, _, step = item.partition("/")
    first, last = (_parse_number(one, names, least) for one in ends.partition("-")[::2])
    if first is None or last is None or (step and not (step.isdigit() and int(step))):
        return item
    first = 0 if (first, most) == (7, 6) else first
    if not least <= last < first <= most:
        return item
    around = [*range(first, most + 1), *range(least, last + 1)]
    return ",".join(str(one) for one in around[:: int(step or 1)])


def _parse_number(text: str, names: tuple[str, ...], least: int) -> int | None:
    if text.isdecimal():
        return int(text)
    return names.index(text.lower()) + least if text.lower() in names else None
