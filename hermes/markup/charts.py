"""Charts in plain Unicode: bars, sparklines, columns. Pure functions.

With `words` bars describe the numbers in text instead, for a screen reader or a terminal without such characters.
"""

from collections.abc import Sequence

from msgspec import Struct

from hermes.markup.cells import fit_text, measure_width

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"


class BarRow(Struct, frozen=True):
    """A row of a bar chart: a label, a value, and the value as text."""

    label: str
    value: float
    shown: str


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


def draw_sparkline(values: Sequence[float]) -> str:
    """Draw numbers from zero up as heights, one character each; a space stands for zero."""
    top = max(values, default=0.0)
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
    labels = min(max(measure_width(row.label) for row in rows), max(room // 3, 8))
    shown = max(measure_width(row.shown) for row in rows)
    space = room - labels - shown - 4
    top = max(row.value for row in rows)
    lines = []
    for row in rows:
        drawn = fit_text(draw_bar(row.value / top if top > 0 else 0.0, space), space) + "  " if space >= 6 else ""
        lines.append(f"{fit_text(row.label, labels)}  {drawn}{row.shown}".rstrip())
    return lines
