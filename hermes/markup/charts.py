"""Pictures of numbers in plain Unicode: bars, sparklines, columns. Pure functions; with `words` they say it instead.

Every function has the words for somebody who listens to the screen, or whose terminal has no such characters.
"""

import re
import unicodedata
from collections.abc import Sequence

from msgspec import Struct

from hermes.i18n.messages import say

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NARROWEST = 20
_PIECES = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]\s*|[^\s\u2e80-\u9fff\uff00-\uffef]+\s*")
_CLOSING = "，。；：？！）」”、"
_HEIGHTS = "▁▂▃▄▅▆▇█"


class Row(Struct, frozen=True):
    """A bar with its name before it and its number, as it is to be read, behind it."""

    label: str
    value: float
    shown: str


def width(text: str) -> int:
    """Columns that a text takes on a terminal: wide characters take two, marks over others none."""
    return sum(0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF") for one in text)


def folded(text: str, columns: int) -> list[str]:
    """A line as several of at most so many columns, broken at spaces and between Chinese characters, and as far in as
    the first; a word that is longer stays whole."""
    room = max(columns, _NARROWEST)
    if width(text) <= room:
        return [text]
    margin = text[: len(text) - len(text.lstrip())]
    lines: list[str] = []
    line = margin
    for piece in _PIECES.findall(text[len(margin) :]):
        if line.strip() and width(line) + width(piece.rstrip()) > room and piece[0] not in _CLOSING:
            lines.append(line.rstrip())
            line = margin
        line += piece
    return [*lines, line.rstrip()]


def fitted(text: str, columns: int) -> str:
    """The text in exactly so many columns: cut with `…`, or filled with spaces."""
    if width(text) > columns:
        kept = ""
        for one in text:
            if width(kept + one) > columns - 1:
                break
            kept += one
        text = kept + "…"
    return text + " " * (columns - width(text))


def padded(text: str, columns: int) -> str:
    """The text with spaces behind it up to that column; what is longer stays whole."""
    return text + " " * max(0, columns - width(text))


def bar(share: float, columns: int, *, words: bool = False) -> str:
    """A share from 0 to 1 as a bar, as exact as an eighth of a column; what is above zero is seen."""
    share = min(max(share, 0.0), 1.0)
    if words:
        return f"{share:.0%}"
    eighths = round(share * columns * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    return _EIGHTHS[8] * whole + (_EIGHTHS[rest] if rest else "")


def spark(values: Sequence[float], *, words: bool = False) -> str:
    """Numbers from zero on as heights, one character each; a space where there was nothing."""
    top = max(values, default=0.0)
    if words:
        if not values or top <= 0:
            return say("nothing")
        return say(
            "highest in step {place} of {count}, {share} of it in the last",
            place=values.index(top) + 1,
            count=len(values),
            share=f"{values[-1] / top:.0%}",
        )
    if top <= 0:
        return " " * len(values)
    return "".join(" " if one <= 0 else _HEIGHTS[min(int(one / top * 8), 7)] for one in values)


def columns(rows: Sequence[Row], room: int, *, words: bool = False) -> list[str]:
    """A line for each row: name, bar against the largest value, number. Never wider than `room` allows it to be.

    Below about 30 columns there is no bar.
    """
    if not rows:
        return []
    if words:
        return [f"{row.label}: {row.shown}" for row in rows]
    labels = min(max(width(row.label) for row in rows), max(room // 3, 8))
    shown = max(width(row.shown) for row in rows)
    space = room - labels - shown - 4
    top = max(row.value for row in rows)
    lines = []
    for row in rows:
        drawn = fitted(bar(row.value / top if top > 0 else 0.0, space), space) + "  " if space >= 6 else ""
        lines.append(f"{fitted(row.label, labels)}  {drawn}{row.shown}".rstrip())
    return lines
