"""Charts in plain Unicode: bars, sparklines, columns. Pure functions.

With `words` each describes the numbers in text instead, for a screen reader or a terminal without such characters.
"""

import re
import unicodedata
from collections.abc import Sequence

from msgspec import Struct

from hermes.i18n.messages import tr

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_MIN_COLUMNS = 20
_PIECES = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]\s*|[^\s\u2e80-\u9fff\uff00-\uffef]+\s*")
_CLOSING = "，。；：？！）」”、"
_HEIGHTS = "▁▂▃▄▅▆▇█"


class BarRow(Struct, frozen=True):
    """A row of a bar chart: a label, a value, and the value as text."""

    label: str
    value: float
    shown: str


def text_width(text: str) -> int:
    """Return the columns that a text takes on a terminal: wide characters take two, combining marks none."""
    return sum(0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF") for one in text)


def fold_line(text: str, columns: int) -> list[str]:
    """Break a line into several of at most so many columns, indented like the first.

    It breaks at spaces and between Chinese characters; a longer word stays whole.
    """
    room = max(columns, _MIN_COLUMNS)
    if text_width(text) <= room:
        return [text]
    margin = text[: len(text) - len(text.lstrip())]
    lines: list[str] = []
    line = margin
    for piece in _PIECES.findall(text[len(margin) :]):
        if line.strip() and text_width(line) + text_width(piece.rstrip()) > room and piece[0] not in _CLOSING:
            lines.append(line.rstrip())
            line = margin
        line += piece
    return [*lines, line.rstrip()]


def fit_text(text: str, columns: int) -> str:
    """Return the text in exactly so many columns: cut with `…`, or padded with spaces."""
    if text_width(text) > columns:
        kept = ""
        for one in text:
            if text_width(kept + one) > columns - 1:
                break
            kept += one
        text = kept + "…"
    return text + " " * (columns - text_width(text))


def pad_right(text: str, columns: int) -> str:
    """Pad the text with spaces up to that column; a longer text stays as it is."""
    return text + " " * max(0, columns - text_width(text))


def draw_bar(share: float, columns: int, *, words: bool = False) -> str:
    """Draw a share from 0 to 1 as a bar, exact to an eighth of a column; any value above zero is visible."""
    share = min(max(share, 0.0), 1.0)
    if words:
        return f"{share:.0%}"
    eighths = round(share * columns * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    return _EIGHTHS[8] * whole + (_EIGHTHS[rest] if rest else "")


def draw_sparkline(values: Sequence[float], *, words: bool = False) -> str:
    """Draw numbers from zero up as heights, one character each; a space stands for zero."""
    top = max(values, default=0.0)
    if words:
        if not values or top <= 0:
            return tr("nothing")
        return tr(
            "highest in step {place} of {count}, {share} of it in the last",
            place=values.index(top) + 1,
            count=len(values),
            share=f"{values[-1] / top:.0%}",
        )
    if top <= 0:
        return " " * len(values)
    return "".join(" " if one <= 0 else _HEIGHTS[min(int(one / top * 8), 7)] for one in values)


def draw_bars(rows: Sequence[BarRow], room: int, *, words: bool = False) -> list[str]:
    """Draw a line for each row: label, bar relative to the largest value, number. Never wider than `room`.

    Below about 30 columns there is no bar.
    """
    if not rows:
        return []
    if words:
        return [f"{row.label}: {row.shown}" for row in rows]
    labels = min(max(text_width(row.label) for row in rows), max(room // 3, 8))
    shown = max(text_width(row.shown) for row in rows)
    space = room - labels - shown - 4
    top = max(row.value for row in rows)
    lines = []
    for row in rows:
        drawn = fit_text(draw_bar(row.value / top if top > 0 else 0.0, space), space) + "  " if space >= 6 else ""
        lines.append(f"{fit_text(row.label, labels)}  {drawn}{row.shown}".rstrip())
    return lines
