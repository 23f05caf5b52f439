"""Render a markdown table as lines with aligned columns.

Render runs of styled text as lines of a terminal.
"""

from collections.abc import Sequence

from msgspec import Struct

from hermes.cli.render.theme import ColorDepth, Theme
from hermes.markup.blocks import MAX_TABLE_ROWS, split_table_row
from hermes.markup.cells import Range, measure_width, wrap_text
from hermes.markup.inline import Run, parse_runs


def wrap_runs(theme: Theme, runs: Sequence[Run], width: int, *, whole: bool = True) -> list[str]:
    """Wrap the runs to `width` cells and paint them; each line stands for itself."""
    if len(runs) == 1:
        text, style = runs[0]
        return [theme.paint(style, text[start:end].rstrip(" ")) for start, end in wrap_text(text, width, whole=whole)]
    text = "".join([words for words, _ in runs])
    return _paint_ranges(theme, runs, text, wrap_text(text, width, whole=whole))


def paint_line(theme: Theme, runs: Sequence[Run]) -> str:
    """Paint the runs as one line."""
    return "".join([theme.paint(style, words) for words, style in runs])


def _paint_ranges(theme: Theme, runs: Sequence[Run], text: str, ranges: Sequence[Range]) -> list[str]:
    found: list[str] = []
    number, start = 0, 0
    """The run that stands at the place reached, and where it begins."""
    for begin, args in ranges:
        end = args
        while end > begin and text[end - 1] == " ":
            end -= 1
        pieces: list[str] = []
        at = begin
        while at < end:
            words, style = runs[number]
            stop = start + len(words)
            if stop <= at:
                number, start = number + 1, stop
                continue
            until = min(stop, end)
            pieces.append(theme.paint(style, text[at:until]))
            at = until
        found.append("".join(pieces))
    return found


MIN_COLUMN_WIDTH = 5
"""Cells of a column below which a table is shown as a list."""
_GAP = "  "
_SLACK = 3


class TableColumns(Struct, frozen=True):
    """The columns that the first part of a table sets for all of it."""

    head: Sequence[str]
    sides: str
    """A letter a column: `l`, `r` or `c`."""
    widths: Sequence[int]
    """Empty when the table is shown as a list."""


def begin_table(theme: Theme, rows: Sequence[str], width: int, base: str) -> tuple[TableColumns, list[str]]:
    """Render the first part of a table; return its columns and its lines."""
    head = split_table_row(rows[0])
    sides = "".join(_parse_alignment(one) for one in split_table_row(rows[1]))
    body = [_fit_row(split_table_row(row), len(head)) for row in rows[2:]]
    widths = _fit_widths(theme, [head, *body], width)
    columns = TableColumns(head, sides, widths)
    lines: list[str] = []
    if widths and any(head):
        lines += _render_row(theme, columns, head, f"{base} table.head")
        bar = "─" if theme.unicode else "-"
        lines.append(theme.paint("table.rule", _GAP.join(bar * one for one in widths)))
    return columns, lines + _render_rows(theme, columns, body, width, base)


def continue_table(theme: Theme, columns: TableColumns, rows: Sequence[str], width: int, base: str) -> list[str]:
    """Render the next part of a table."""
    return _render_rows(
        theme, columns, [_fit_row(split_table_row(row), len(columns.head)) for row in rows], width, base
    )


def _render_rows(
    theme: Theme, columns: TableColumns, body: Sequence[Sequence[str]], width: int, base: str
) -> list[str]:
    lines: list[str] = []
    if not columns.widths:
        for row in body:
            lines += (
                ["", *_render_record(theme, columns.head, row, width, base)]
                if lines
                else _render_record(theme, columns.head, row, width, base)
            )
        return lines
    drawn = [_render_row(theme, columns, row, base) for row in body]
    apart = any(len(one) > 1 for one in drawn)
    for number, one in enumerate(drawn):
        if apart and number:
            lines.append("")
        lines += one
    return lines


def _render_record(theme: Theme, head: Sequence[str], row: Sequence[str], width: int, base: str) -> list[str]:
    """Render a row as a list of its cells, each with its column's name."""
    lines: list[str] = []
    for name, value in zip(head, row, strict=True):
        if value:
            named = [*parse_runs(name, f"{base} table.head"), (": ", base)] if name else []
            lines += wrap_runs(theme, [*named, *parse_runs(value, base)], width)
    return lines


def _render_row(theme: Theme, columns: TableColumns, row: Sequence[str], base: str) -> list[str]:
    """Render a row as aligned cells; a cell that is too long goes on below itself."""
    drawn: list[list[str]] = []
    for value, width, side in zip(row, columns.widths, columns.sides, strict=True):
        drawn.append(_render_cell(theme, parse_runs(value, base), width, side))
    height = max(len(one) for one in drawn)
    lines = []
    for number in range(height):
        pieces = [
            one[number] if number < len(one) else " " * width for one, width in zip(drawn, columns.widths, strict=True)
        ]
        lines.append(_GAP.join(pieces).rstrip(" "))
    return lines


def _render_cell(theme: Theme, runs: list[Run], width: int, side: str) -> list[str]:
    text = "".join([words for words, _ in runs])
    size = measure_width(text)
    if size <= width:
        return [_align_cell(paint_line(theme, runs), width - size, side)]
    plain = wrap_runs(_PLAIN_THEME, runs, width, whole=False)
    return [
        _align_cell(shown, width - measure_width(bare), side)
        for shown, bare in zip(wrap_runs(theme, runs, width, whole=False), plain, strict=True)
    ]


def _align_cell(text: str, spare: int, side: str) -> str:
    spare = max(spare, 0)
    left = spare if side == "r" else spare // 2 if side == "c" else 0
    return f"{' ' * left}{text}{' ' * (spare - left)}"


def _fit_widths(theme: Theme, rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the cells of each column; empty when the columns do not fit beside each other."""
    if theme.plain:
        return []
    count = len(rows[0])
    widths = [max(1, *(measure_width(_strip_markup(row[n])) for row in rows)) for n in range(count)]
    room = width - len(_GAP) * (count - 1)
    if (spare := room - sum(widths)) >= 0:
        # More rows follow a first part that is full: they may be a little wider.
        return [one + min(spare // count, _SLACK) for one in widths] if len(rows) >= MAX_TABLE_ROWS - 2 else widths
    if room < MIN_COLUMN_WIDTH * count:
        return []
    return _shrink_widths(widths, room)


def _shrink_widths(widths: Sequence[int], room: int) -> list[int]:
    """Narrow the widest columns until all fit; those within a fair share keep their width."""
    wide, left = set(range(len(widths))), room
    fair = left // len(wide)
    while small := {n for n in wide if widths[n] <= fair}:
        wide -= small
        left -= sum(widths[n] for n in small)
        fair = left // len(wide)
    return [fair if n in wide else one for n, one in enumerate(widths)]


def _strip_markup(cell: str) -> str:
    return "".join([words for words, _ in parse_runs(cell, "")])


def _parse_alignment(delimiter: str) -> str:
    left, right = delimiter.startswith(":"), delimiter.endswith(":")
    return "c" if left and right else "r" if right else "l"


def _fit_row(row: Sequence[str], count: int) -> Sequence[str]:
    """Return as many cells as there are columns. What is too much stays in the last one, so that no word is lost."""
    if len(row) > count:
        return [*row[: count - 1], " | ".join(row[count - 1 :])]
    return [*row, *[""] * (count - len(row))]


_PLAIN_THEME = Theme({}, ColorDepth.PLAIN)
