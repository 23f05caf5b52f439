"""A markdown table as lines with aligned columns."""

from collections.abc import Sequence

from msgspec import Struct

from hermes.cli.render.painted import line, wrapped
from hermes.cli.render.theme import Depth, Theme
from hermes.markup.blocks import MAX_TABLE_ROWS, split_table_row
from hermes.markup.cells import measure_width
from hermes.markup.inline import Run, parse_runs

NARROWEST = 5
"""Cells of a column below which a table is shown as a list."""
_GAP = "  "
_SLACK = 3


class Columns(Struct, frozen=True):
    """What the first part of a table sets for all of it."""

    head: Sequence[str]
    sides: str
    """A letter a column: `l`, `r` or `c`."""
    widths: Sequence[int]
    """Empty when the table is shown as a list."""


def begin(theme: Theme, rows: Sequence[str], width: int, base: str) -> tuple[Columns, list[str]]:
    """The first part of a table: its columns, and its lines."""
    head = split_table_row(rows[0])
    sides = "".join(_side(one) for one in split_table_row(rows[1]))
    body = [_fitting(split_table_row(row), len(head)) for row in rows[2:]]
    widths = _widths(theme, [head, *body], width)
    columns = Columns(head, sides, widths)
    lines: list[str] = []
    if widths and any(head):
        lines += _row(theme, columns, head, f"{base} table.head")
        bar = "─" if theme.unicode else "-"
        lines.append(theme.paint("table.rule", _GAP.join(bar * one for one in widths)))
    return columns, lines + _body(theme, columns, body, width, base)


def more(theme: Theme, columns: Columns, rows: Sequence[str], width: int, base: str) -> list[str]:
    """The next part of a table."""
    return _body(theme, columns, [_fitting(split_table_row(row), len(columns.head)) for row in rows], width, base)


def _body(theme: Theme, columns: Columns, body: Sequence[Sequence[str]], width: int, base: str) -> list[str]:
    lines: list[str] = []
    if not columns.widths:
        for row in body:
            lines += (
                ["", *_record(theme, columns.head, row, width, base)]
                if lines
                else _record(theme, columns.head, row, width, base)
            )
        return lines
    drawn = [_row(theme, columns, row, base) for row in body]
    apart = any(len(one) > 1 for one in drawn)
    for number, one in enumerate(drawn):
        if apart and number:
            lines.append("")
        lines += one
    return lines


def _record(theme: Theme, head: Sequence[str], row: Sequence[str], width: int, base: str) -> list[str]:
    """A row as a list of its cells, each with its column's name."""
    lines: list[str] = []
    for name, value in zip(head, row, strict=True):
        if value:
            named = [*parse_runs(name, f"{base} table.head"), (": ", base)] if name else []
            lines += wrapped(theme, [*named, *parse_runs(value, base)], width)
    return lines


def _row(theme: Theme, columns: Columns, row: Sequence[str], base: str) -> list[str]:
    """A row as aligned cells; a cell that is too long goes on below itself."""
    drawn: list[list[str]] = []
    for value, width, side in zip(row, columns.widths, columns.sides, strict=True):
        drawn.append(_cell(theme, parse_runs(value, base), width, side))
    height = max(len(one) for one in drawn)
    lines = []
    for number in range(height):
        pieces = [
            one[number] if number < len(one) else " " * width for one, width in zip(drawn, columns.widths, strict=True)
        ]
        lines.append(_GAP.join(pieces).rstrip(" "))
    return lines


def _cell(theme: Theme, runs: list[Run], width: int, side: str) -> list[str]:
    text = "".join([words for words, _ in runs])
    size = measure_width(text)
    if size <= width:
        return [_padded(line(theme, runs), width - size, side)]
    plain = wrapped(_BARE, runs, width, whole=False)
    return [
        _padded(shown, width - measure_width(bare), side)
        for shown, bare in zip(wrapped(theme, runs, width, whole=False), plain, strict=True)
    ]


def _padded(text: str, spare: int, side: str) -> str:
    spare = max(spare, 0)
    left = spare if side == "r" else spare // 2 if side == "c" else 0
    return f"{' ' * left}{text}{' ' * (spare - left)}"


def _widths(theme: Theme, rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Cells of each column; empty when they do not fit beside each other."""
    if theme.plain:
        return []
    count = len(rows[0])
    wanted = [max(1, *(measure_width(_bare(row[n])) for row in rows)) for n in range(count)]
    room = width - len(_GAP) * (count - 1)
    if (spare := room - sum(wanted)) >= 0:
        # More rows follow a first part that is full: they may be a little wider.
        return [one + min(spare // count, _SLACK) for one in wanted] if len(rows) >= MAX_TABLE_ROWS - 2 else wanted
    if room < NARROWEST * count:
        return []
    return _shrunk(wanted, room)


def _shrunk(wanted: Sequence[int], room: int) -> list[int]:
    """The widest columns give way until all fit; those within a fair share keep what they want."""
    wide, left = set(range(len(wanted))), room
    fair = left // len(wide)
    while small := {n for n in wide if wanted[n] <= fair}:
        wide -= small
        left -= sum(wanted[n] for n in small)
        fair = left // len(wide)
    return [fair if n in wide else one for n, one in enumerate(wanted)]


def _bare(cell: str) -> str:
    return "".join([words for words, _ in parse_runs(cell, "")])


def _side(delimiter: str) -> str:
    left, right = delimiter.startswith(":"), delimiter.endswith(":")
    return "c" if left and right else "r" if right else "l"


def _fitting(row: Sequence[str], count: int) -> Sequence[str]:
    """As many cells as there are columns: what is too much stays in the last one, so that no word is lost."""
    if len(row) > count:
        return [*row[: count - 1], " | ".join(row[count - 1 :])]
    return [*row, *[""] * (count - len(row))]


_BARE = Theme({}, Depth.PLAIN)
