"""Chinese phrases of schedules: `每个工作日早上8点`, `每周一、三下午3点半`, `明天9点`, `半小时后`."""

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta

from hermes.cron.phrase_parts import (
    DAILY,
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

_DIGITS = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_NUMBER = re.compile(r"([一二两三四五六七八九])?十([一二三四五六七八九])?|[零〇一二两三四五六七八九]")
_PARTS = {
    "凌晨": "early", "清晨": "morning", "早上": "morning", "早晨": "morning", "上午": "morning", "早": "morning",
    "中午": "noon", "下午": "afternoon", "傍晚": "evening", "晚上": "evening", "半夜": "night", "深夜": "night",
    "夜里": "night", "晚": "evening",
}  # fmt: skip
_PART = "|".join(_PARTS)
_CLOCK = re.compile(
    rf"(?P<part>{_PART})?(?P<hour>\d{{1,2}})(?:[点时](?P<minute>\d{{1,2}}分?|半|[13]刻|整|钟)?|:(?P<digits>\d{{2}}))"
    rf"|(?P<named>中午|正午|午夜|零点)"
)
_SHORT_DAYS = ("今", "明", "每")
"""Days whose sign for day is left out before a part of the day: `明早`, `今晚`."""
_WEEK = r"(?:周|星期|礼拜)"
_WEEKDAYS = r"[1-7日天]"
_LENGTH = re.compile(
    r"(?P<count>\d{1,6}|半)个?(?P<half>半)?(?P<unit>秒钟?|分钟|分|刻钟|小时|钟头|天|日|周|星期|礼拜)(?P<more>半)?"
)
_UNIT_SECONDS = {
    "秒": 1,
    "分": 60,
    "刻": 900,
    "小": 3_600,
    "钟": 3_600,
    "天": 86_400,
    "日": 86_400,
    "周": 604_800,
    "星": 604_800,
}


TRADITIONAL = str.maketrans("個點週後時鐘兩禮號間過", "个点周后时钟两礼号间过")
"""The signs of schedules that traditional Chinese writes in another way."""


def is_chinese(text: str) -> bool:
    """Return whether a text has a Chinese character in it."""
    return any("\u4e00" <= one <= "\u9fff" for one in text)


def read_chinese_delay(words: str) -> int | None:
    """Return the seconds of `2分钟后`, `两个半小时后`, `1小时30分钟之后`; None for anything else."""
    match = re.fullmatch(r"(?:过)?(.+?)(?:之后|以后|后)", _to_digits(words))
    return None if match is None else _read_length(match[1])


def read_chinese_interval(words: str) -> int | None:
    """Return the seconds of `每2小时`, `每隔30分钟`, `每半小时`; None for anything else, and for `每天`."""
    match = re.fullmatch(r"每(?:隔)?(.+?)(?:1次)?", _to_digits(words))
    if match is None:
        return None
    length = match[1] if match[1][0].isdigit() or match[1][0] == "半" else f"1{match[1]}"
    # `每小时30分` is half past every hour.
    if re.match(r"小时.*\d", match[1]):
        return None
    # `每隔一天` is every other day and `每隔两天` is read in two ways, so days behind `隔` are left to the other forms.
    return (
        None
        if re.search("[天日]", length) and ("隔" in words or length[:2] in ("1天", "1日"))
        else _read_length(length)
    )


def read_chinese_phrase(words: str, today: date) -> Iterator[PhraseReading]:
    """Yield each way to read the words as days and times; today's date tells what `明天` is."""
    text = re.sub(r"[\s的在]", "", _to_digits(words))
    text = re.sub(r"早晚(\d.*)$", r"早上\1和晚上\1", text)
    # A day and an hour may stand side by side as digits (`周1` and `9点`), so a time may begin anywhere.
    for start in range(len(text)):
        times = _read_times(text[start:])
        part, rest = _take_part(text[:start].rstrip(",、"))
        if text[:start].endswith("、"):  # `周2、4` goes on
            continue
        days = _read_days(f"{rest}天" if rest in _SHORT_DAYS else rest, today)
        if times is not None and days is not None and not (part and times[0]["part"]):
            yield PhraseReading(days, [_to_words(one, part) for one in times])
    days = _read_days(_take_part(text)[1], today) if text else None
    if days is not None:
        yield PhraseReading(days, ())


def _to_digits(text: str) -> str:
    """Return the text with Chinese numbers up to 99 as digits."""

    def convert(match: re.Match[str]) -> str:
        if "十" not in match[0]:
            return str(_DIGITS[match[0]])
        return str(10 * _DIGITS[match[1] or "一"] + _DIGITS[match[2] or "零"])

    return _NUMBER.sub(convert, text.replace("零点", "0点"))


def _read_times(text: str) -> list[re.Match[str]] | None:
    found = [_CLOCK.fullmatch(one) for one in re.split(r"[、,和]", text)]
    return [one for one in found if one is not None] if None not in found else None


def _to_words(match: re.Match[str], part: str) -> ClockWords:
    if match["named"]:
        return ClockWords(hour=0 if match["named"] == "午夜" else 12)
    written = (match["minute"] or match["digits"] or "").rstrip("分整钟")
    minute = {"半": 30, "1刻": 15, "3刻": 45, "": 0}.get(written)
    return ClockWords(
        hour=int(match["hour"]),
        minute=int(written) if minute is None else minute,
        part=_PARTS[match["part"]] if match["part"] else part,
    )


def _take_part(days: str) -> tuple[str, str]:
    """Return the part of the day at the end of the days, and the days without it: `明早` is `明天` in the morning."""
    match = re.fullmatch(rf"(.*?)({_PART})", days)
    if match is None:
        return "", days
    return _PARTS[match[2]], f"{match[1]}天" if match[1] in _SHORT_DAYS else match[1]


def _read_length(text: str) -> int | None:
    found, seconds = 0, 0.0
    while found < len(text):
        match = _LENGTH.match(text, found)
        if match is None:
            return None
        halves = 0.5 * (bool(match["half"]) + bool(match["more"]))
        count = 0.5 if match["count"] == "半" else float(match["count"]) + halves
        seconds += count * _UNIT_SECONDS.get(match["unit"][0], 604_800)
        found = match.end() + (text[match.end() : match.end() + 1] in ("零", "0", "又") and match.end() < len(text))
    return round(seconds)


def _read_days(text: str, today: date) -> Days | None:
    for pattern, read in _DAYS:
        match = re.fullmatch(pattern, text)
        if match is not None:
            return read(match, today)
    return None


def _read_weekdays(match: re.Match[str], today: date) -> Days | None:
    """Return the days of `每周1、3、5` and `每周1到周5`."""
    items = re.split(r"[、,和及]", re.sub(rf"{_WEEK}", "", match["days"]))
    numbers = [re.findall(_WEEKDAYS, item) for item in items]
    fields = []
    for one, item in zip(numbers, items, strict=True):
        days = [_weekday_number(day) for day in one]
        is_range = re.search("[到至-]", item) is not None
        fields.append("-".join(map(str, days)) if is_range else ",".join(map(str, days)))
    return RecurringDays(" ".join(expand_ranges(f"0 0 * * {','.join(fields)}").split()[2:]))


def _weekday_number(text: str) -> int:
    return int(text) % 7 if text.isdigit() else 0


def _read_weekday(match: re.Match[str], today: date) -> Days:
    """Return the day of `周3`, `这周5`, and of the week after this one `下周1`."""
    number = _weekday_number(match["day"])
    if match["which"] != "下":
        return find_weekday(number, today)
    monday = today - timedelta(days=today.isoweekday() - 1)
    return SingleDay(monday + timedelta(days=7 + (number or 7) - 1))


def _read_day_ahead(match: re.Match[str], today: date) -> Days:
    named = {"今天": 0, "今日": 0, "明天": 1, "明日": 1, "后天": 2, "大后天": 3}
    return SingleDay(today + timedelta(days=int(match["ahead"]) if match["ahead"] else named[match[0]]))


def _read_weekday_of_month(match: re.Match[str], today: date) -> Days:
    return RecurringDays(f"* * {_weekday_number(match['day'])}#{match['place']}")


def _read_last_weekday_of_month(match: re.Match[str], today: date) -> Days:
    return RecurringDays(f"* * {_weekday_number(match['day'])}L")


def _read_month_days(match: re.Match[str], today: date) -> Days:
    days = sorted({int(day) for day in re.findall(r"\d+", match["days"])})
    return RecurringDays(f"{','.join(map(str, days))} * *")


def _read_year_day(match: re.Match[str], today: date) -> Days:
    return RecurringDays(f"{int(match['day'])} {int(match['month'])} *")


def _read_date(match: re.Match[str], today: date) -> Days | None:
    return find_date(match["year"], int(match["month"]), int(match["day"]), today)


_DAYS: tuple[tuple[str, Callable[[re.Match[str], date], Days | None]], ...] = (
    (r"", lambda _, today: SingleDay(today, later=1)),
    (r"每1?[天日]|天天", lambda *_: DAILY),
    (r"(?:每个?)?(?:工作日|上班日)", lambda *_: WORKDAYS),
    (rf"(?:每个?)?(?:周末|双休日)|每{_WEEK}末", lambda *_: WEEKENDS),
    (rf"每个?(?P<days>{_WEEK}{_WEEKDAYS}+(?:[、,和及到至-]{_WEEK}?{_WEEKDAYS}+)*)", _read_weekdays),
    (rf"(?P<days>{_WEEK}{_WEEKDAYS}(?:[、,和及到至-]{_WEEK}?{_WEEKDAYS}|[日天])+)", _read_weekdays),
    (r"每个?月第(?P<place>[1-4])个(?:周|星期|礼拜)(?P<day>[1-7日天])", _read_weekday_of_month),
    (r"每个?月最后(?:1个)?(?:周|星期|礼拜)(?P<day>[1-7日天])", _read_last_weekday_of_month),
    (rf"(?P<which>这个?|本|下)?个?{_WEEK}(?P<day>{_WEEKDAYS})", _read_weekday),
    (r"今天|今日|明天|明日|后天|大后天|(?P<ahead>\d{1,3})天后", _read_day_ahead),
    (r"每个?月(?P<days>\d{1,2}[号日]?(?:[、,和及]\d{1,2}[号日]?)*)(?<=[号日])", _read_month_days),
    (r"每个?月(?:最后1天|底)", lambda *_: RecurringDays("L * *")),
    (r"每年(?P<month>\d{1,2})月(?P<day>\d{1,2})[号日]", _read_year_day),
    (r"(?:(?P<year>\d{4})年)?(?P<month>\d{1,2})月(?P<day>\d{1,2})[号日]", _read_date),
)
