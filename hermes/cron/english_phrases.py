"""English phrases of schedules: `every weekday at 8`, `mon and thu at 7:15`, `tomorrow 9am`, `in half an hour`.

An hour without `am`, `pm` or a part of the day is of the 24-hour clock.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta

from hermes.cron.phrase_parts import (
    DAILY,
    MONTH_NAMES,
    WEEKDAY_NAMES,
    WEEKENDS,
    WORKDAYS,
    ClockWords,
    Days,
    PhraseReading,
    RecurringDays,
    SingleDay,
    expand_ranges,
    find_date,
    find_weekday,
)

_WEEKDAY = (
    r"(?>sun(?:day)?|mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:r(?:s(?:day)?)?)?|fri(?:day)?|sat(?:urday)?)"
)
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = r"(?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_PART = r"(?P<part>morning|afternoon|evening|night)"
_CLOCK = re.compile(
    r"(?:(?P<name>noon|midnight)|(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?: ?(?P<half>[ap])\.?m\.?)?(?: o'clock)?)"
    rf"(?: (?:in the |at )?{_PART})?"
)
_SEPARATOR = re.compile(r",? and |, ?")
_DAY_SEPARATOR = re.compile(r",? and |, ?| ?[/&] ?")
_EVERY = r"(?:every|each)"
_YEARLY = rf"(?:(?:yearly|annually|{_EVERY} year) on|{_EVERY})"
_OF_MONTH = rf"(?:day )?(?:of )?(?:{_EVERY}|the|a) month"
_MONTH_DAY = r"(?:the )?\d{1,2}(?:st|nd|rd|th)?"
_MONTH_DAYS = rf"(?P<days>{_MONTH_DAY}(?:(?:,? and |, ?){_MONTH_DAY})*)"
_WEEKDAY_OF_MONTH = rf"(?P<which>1st|second|2nd|third|3rd|fourth|4th|last) (?P<weekday>{_WEEKDAY})"
_LENGTH = re.compile(
    r"(?P<count>\d{1,6}(?:\.5)?|an?|half an?|half) ?"
    r"(?P<unit>s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?)"
    r"(?P<half> and a half)?(?![a-z])"
)
_BETWEEN_LENGTHS = re.compile(r",? and |, | ")
_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBER = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<ones>{'|'.join(_NUMBERS[1:10])}))?"
    rf"|(?P<small>{'|'.join(_NUMBERS[1:])}))\b"
)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def write_digits(words: str) -> str:
    """Return the words with the numbers up to 99 as digits."""

    def convert(match: re.Match[str]) -> str:
        if match["small"]:
            return str(_NUMBERS.index(match["small"]))
        return str(10 * (_TENS.index(match["tens"]) + 2) + _NUMBERS.index(match["ones"] or "zero"))

    return re.sub(r"\bfirst\b", "1st", _NUMBER.sub(convert, words))


def read_english_delay(words: str) -> int | None:
    """Return the seconds of `in half an hour`, `1h30m`, `5 minutes later`; None for anything else."""
    length = re.sub(r"^(?:in|after) | (?:from now|later)$", "", words)
    return None if length == words and not words[:1].isdigit() else _read_length(length)


def read_english_interval(words: str) -> int | None:
    """Return the seconds of `every half hour`, `every two hours`, `every 1h30m`; None for anything else."""
    length = "hour" if words == "hourly" else re.sub(r"^(?:every|each) ", "", words)
    if length == words:
        return None
    return _read_length(length if length[:1].isdigit() or length.startswith("half") else f"a {length}")


def _read_length(text: str) -> int | None:
    """Return the seconds of one length, or of several behind each other; None for what is no length."""
    found, seconds = 0, 0.0
    while found < len(text):
        match = _LENGTH.match(text, found)
        if match is None:
            return None
        count = match["count"]
        amount = 0.5 if count.startswith("half") else 1.0 if count.startswith("a") else float(count)
        seconds += (amount + 0.5 * bool(match["half"])) * _UNIT_SECONDS[match["unit"][0]]
        between = _BETWEEN_LENGTHS.match(text, match.end())
        found = between.end() if between else match.end()
    return round(seconds) if found else None


def read_english_phrase(words: str, today: date) -> Iterator[PhraseReading]:
    """Yield each way to read the words (in small letters) as days and times; today's date tells what `tomorrow` is."""
    items = words.split(" ")
    for place in range(len(items) + 1):
        head, tail = " ".join(items[:place]), " ".join(items[place:])
        for days, times in ((head, tail), (tail, head)):
            part, rest = _take_part(days.strip(" ,"))
            clock = _read_times(times, part)
            found = None if clock is None else _read_days(rest, today)
            if found is not None and clock is not None:
                yield PhraseReading(found, clock)


def _read_times(text: str, part: str) -> list[ClockWords] | None:
    """Return the times of `at 8 and 20`; none for an empty text, None for a text that is something else."""
    text = re.sub(r"^at ", "", text.strip(" ,"))
    found = []
    for item in _SEPARATOR.split(text) if text else ():
        match = _CLOCK.fullmatch(item)
        if match is None:
            return None
        hour = {"noon": 12, "midnight": 0}.get(match["name"] or "") if match["name"] else int(match["hour"])
        part_of_day = "" if match["name"] == "noon" else match["part"] or part
        found.append(
            ClockWords(hour=hour or 0, minute=int(match["minute"] or 0), half=match["half"] or "", part=part_of_day)
        )
    return found


def _take_part(days: str) -> tuple[str, str]:
    """Return the part of the day that stands in the days, and the days without it; `monday mornings` come again."""
    if days == "tonight":
        return "night", "today"
    match = re.fullmatch(rf"(?P<before>.*?) ?(?:in the )?\b{_PART}(?P<many>s?)", days)
    if match is None:
        return "", days
    before = match["before"].strip()
    if match["many"]:
        before = re.sub(r"^(?:on )?(?:(?:every|each)\b ?)?", "every ", before).strip()
    usual = {"this": "today", "every": "every day", "each": "every day"}
    return match["part"], usual.get(before, before)


def _read_days(text: str, today: date) -> Days | None:
    words = re.sub(r"^(?:on )?(?:the )?", "", text)
    return _read_usual_days(words) or _read_weekdays(words, today) or _read_dates(words, today)


def _read_usual_days(words: str) -> Days | None:
    if re.fullmatch(rf"{_EVERY} day|daily|everyday", words):
        return DAILY
    if re.fullmatch(rf"(?:{_EVERY} )?(?:week ?days?|work ?days?|working days?)", words):
        return WORKDAYS
    return WEEKENDS if re.fullmatch(rf"(?:{_EVERY} )?weekends?", words) else None


def _read_weekdays(words: str, today: date) -> Days | None:
    """Return the days of `mondays`, `every mon and thu`, `monday to friday`; one day for `monday`, `next monday`."""
    match = re.fullmatch(rf"(?:(?:next|this|coming) )?({_WEEKDAY})", words)
    if match is not None:
        return find_weekday(WEEKDAY_NAMES.index(match[1][:3]), today, after=words.startswith("next"))
    named = rf"{_WEEKDAY}s?(?: ?- ?{_WEEKDAY}s?| (?:to|through) {_WEEKDAY}s?)?"
    before = rf"(?:{_EVERY} |(?:weekly|{_EVERY} week|once a week) on )?"
    matched = re.fullmatch(rf"{before}({named}(?:(?:{_DAY_SEPARATOR.pattern}){named})*)", words)
    if matched is None:
        return None
    fields = [
        "-".join(str(WEEKDAY_NAMES.index(one[:3])) for one in re.findall(_WEEKDAY, item))
        for item in _DAY_SEPARATOR.split(matched[1])
    ]
    return RecurringDays(" ".join(expand_ranges(f"0 0 * * {','.join(fields)}").split()[2:]))


def _read_dates(words: str, today: date) -> Days | None:
    for pattern, read in _DATES:
        match = re.fullmatch(pattern, words)
        if match is not None:
            return read(match, today)
    return None


def _read_day_ahead(match: re.Match[str], today: date) -> Days:
    named = {"today": 0, "tomorrow": 1, "day after tomorrow": 2}
    return SingleDay(today + timedelta(days=int(match["ahead"]) if match["ahead"] else named[match[0]]))


def _read_date(match: re.Match[str], today: date) -> Days | None:
    return find_date(match["year"], _month_number(match), int(match["day"]), today)


def _month_number(match: re.Match[str]) -> int:
    return MONTH_NAMES.index(match["month"][:3]) + 1


def _read_month_day(match: re.Match[str], today: date) -> Days:
    days = sorted({int(day) for day in re.findall(r"\d+", match["days"])})
    return RecurringDays(f"{','.join(map(str, days))} * *")


def _read_weekday_of_month(match: re.Match[str], today: date) -> Days:
    """Return the days of `first monday of the month`."""
    number = WEEKDAY_NAMES.index(match["weekday"][:3])
    places = ("", "1st", "second", "2nd", "third", "3rd", "fourth", "4th")
    return RecurringDays(
        f"* * {number}L" if match["which"] == "last" else f"* * {number}#{places.index(match['which']) // 2 + 1}"
    )


def _read_year_day(match: re.Match[str], today: date) -> Days:
    return RecurringDays(f"{int(match['day'])} {_month_number(match)} *")


_YEAR = r"(?:,? (?P<year>\d{4}))?"
_DATES: tuple[tuple[str, Callable[[re.Match[str], date], Days | None]], ...] = (
    (r"", lambda _, today: SingleDay(today, later=1)),
    (r"today|tomorrow|day after tomorrow|in (?P<ahead>\d{1,3}) days?", _read_day_ahead),
    (rf"(?:monthly|{_EVERY} month) on {_MONTH_DAYS}", _read_month_day),
    (rf"(?:{_EVERY} )?{_MONTH_DAYS} {_OF_MONTH}", _read_month_day),
    (rf"(?:monthly|{_EVERY} month) on the {_WEEKDAY_OF_MONTH}", _read_weekday_of_month),
    (rf"(?:{_EVERY} )?{_WEEKDAY_OF_MONTH} (?:of|in) (?:{_EVERY}|the|a) month", _read_weekday_of_month),
    (rf"(?:monthly|{_EVERY} month) on the last day|last {_OF_MONTH}", lambda *_: RecurringDays("L * *")),
    (rf"{_YEARLY} {_MONTH} {_DAY}", _read_year_day),
    (rf"{_YEARLY} {_DAY} (?:of )?{_MONTH}", _read_year_day),
    (rf"{_MONTH} {_DAY}{_YEAR}", _read_date),
    (rf"{_DAY} (?:of )?{_MONTH}{_YEAR}", _read_date),
)
