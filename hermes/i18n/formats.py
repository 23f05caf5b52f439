"""Numbers, times and durations, formatted in the person's language."""

import time

from hermes.i18n.messages import CHINESE, get_language, tr

MINUTE, HOUR, DAY = 60, 3_600, 86_400


def format_number(value: int) -> str:
    """Format a whole number with thousands separators."""
    return f"{value:,}"


def format_compact(value: float) -> str:
    """Format a count in few characters: 950, 12.3k, 4.5M; in Chinese 1.2万, 4.5亿."""
    steps = ((1e8, "亿"), (1e4, "万")) if get_language() == CHINESE else ((1e9, "G"), (1e6, "M"), (1e3, "k"))
    for size, mark in steps:
        if value >= size:
            share = value / size
            return f"{share:.0f}{mark}" if share >= 100 else f"{share:.1f}".removesuffix(".0") + mark
    return f"{value:.0f}"


def format_time(seconds: float, *, now: float | None = None) -> str:
    """Format a point in time (Unix seconds) in local time: today only the hour, this year without the year."""
    then, today = time.localtime(seconds), time.localtime(now)
    hour = time.strftime("%H:%M", then)
    if then[:3] == today[:3]:
        return hour
    if get_language() == CHINESE:
        day = f"{then.tm_mon}月{then.tm_mday}日"
        return f"{day} {hour}" if then.tm_year == today.tm_year else f"{then.tm_year}年{day} {hour}"
    if then.tm_year == today.tm_year:
        return f"{time.strftime('%b', then)} {then.tm_mday}, {hour}"
    return f"{time.strftime('%b', then)} {then.tm_mday}, {then.tm_year}, {hour}"


def format_age(seconds: float, *, now: float | None = None) -> str:
    """Format how long ago a point in time is: 40 s ago, 12 min ago, 3 h ago, 5 d ago; after a month its date."""
    age = max((time.time() if now is None else now) - seconds, 0)
    if age >= 30 * DAY:
        return format_time(seconds, now=now)
    marks = ("天", "小时", "分钟", "秒") if get_language() == CHINESE else ("d", "h", "min", "s")
    sizes = (DAY, HOUR, MINUTE, 1)
    size, mark = next((one for one in zip(sizes, marks, strict=True) if age >= one[0]), (1, marks[3]))
    return tr("{age} ago", age=f"{int(age // size)} {mark}")


def format_duration(seconds: float) -> str:
    """Format a duration in few characters: 0.4 s, 12 s, 3 min 5 s, 2 h 10 min, 3 d; in Chinese 12 秒, 3 分 5 秒."""
    marks = ("天", "小时", "分", "秒") if get_language() == CHINESE else ("d", "h", "min", "s")
    if seconds < 10:
        return f"{seconds:.1f} {marks[3]}"
    whole = int(seconds)
    days, hours, minutes = whole // DAY, whole % DAY // HOUR, whole % HOUR // MINUTE
    if days:
        return f"{days} {marks[0]} {hours} {marks[1]}" if hours else f"{days} {marks[0]}"
    if hours:
        return f"{hours} {marks[1]} {minutes} {marks[2]}" if minutes else f"{hours} {marks[1]}"
    if minutes:
        return f"{minutes} {marks[2]} {whole % MINUTE} {marks[3]}"
    return f"{whole} {marks[3]}"


def format_bytes(count: int) -> str:
    """Format a number of bytes in few characters: 812 B, 1.4 MB."""
    value, units = float(count), ("B", "kB", "MB", "GB", "TB")
    for unit in units:
        if value < 1000 or unit == units[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError
