"""The values of a sheet's cells as text: numbers, dates, times."""

import datetime
import re

_DATE_FORMATS = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
"""The built-in number formats of dates and times (ECMA-376 part 1, 18.8.30)."""
_NO_CODE = re.compile(r'"[^"]*"|\[(?!h|hh|m|mm|s|ss\])[^\]]*\]|\\.|_.|\*.', re.IGNORECASE)
_DATE_CODE = re.compile(r"[dmyhs]", re.IGNORECASE)
_LAST_DAY = 2_958_466
_MAX_COLUMN = 16_384
_MAX_GAP = 50
_MAX_PLACED = 256
"""Columns that are placed by tabs; what comes later is named."""


def is_date_format(number: int, code: str) -> bool:
    """Return whether a number format shows dates or times; `code` is empty for a built-in one."""
    if not code:
        return number in _DATE_FORMATS
    plain = _NO_CODE.sub("", code.split(";", maxsplit=1)[0])
    return bool(_DATE_CODE.search(plain)) and "General" not in plain


def format_number(text: str) -> str:
    """Return a stored number as a sheet shows it without a format."""
    try:
        value = float(text)
    except ValueError:
        return text
    if value == int(value) if abs(value) < 1e15 else False:
        return str(int(value))
    return format(value, ".15g")


def format_date(text: str, *, since_1904: bool) -> str:
    """Return a stored day count as an ISO date, a date with a time, or a time alone."""
    try:
        days = float(text)
    except ValueError:
        return text
    if not 0 <= days < _LAST_DAY:
        return text
    seconds = round((days % 1) * 86_400)
    if days < 1:
        return str(datetime.timedelta(seconds=seconds))
    # The first of March 1900 has the number 61: a 29th of February, which never was, was counted.
    base = datetime.datetime(1904, 1, 1) if since_1904 else datetime.datetime(1899, 12, 30 if days >= 61 else 31)
    try:
        moment = base + datetime.timedelta(days=int(days), seconds=seconds)
    except OverflowError:
        return text
    return moment.strftime("%Y-%m-%d %H:%M:%S") if seconds else moment.date().isoformat()


def parse_column(reference: str) -> int:
    """Return the number of the column in a cell's name, from 1; 0 where it names none."""
    number = 0
    for letter in reference:
        if not "A" <= letter <= "Z":
            break
        number = number * 26 + ord(letter) - 64
        if number > _MAX_COLUMN:
            return 0
    return number


def name_column(number: int) -> str:
    """Return the letters of a column's number."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def describe_gap(last: int, row: int) -> list[str]:
    """Return a line for the rows between two that have cells; none where nothing is between them."""
    if not last or row <= last + 1:
        return []
    return [f"[rows {last + 1:,} to {row - 1:,} are empty]" if row > last + 2 else f"[row {row - 1:,} is empty]"]


def format_row(cells: dict[int, str]) -> str:
    """Return a row's cells (by column, from 1) with tabs between them; one far from the others with its column."""
    found: list[str] = []
    for column in sorted(cells):
        text = " ".join(cells[column].split())
        gap = column - 1 - len(found)
        if gap > _MAX_GAP or len(found) > _MAX_PLACED:
            found.append(f"{name_column(column)}={text}")
            continue
        found += [*[""] * max(gap, 0), text]
    return "\t".join(found)
