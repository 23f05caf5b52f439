"""Tables as Markdown."""

from collections.abc import Iterable, Iterator, Sequence

MAX_COLUMNS = 256
"""Columns of a table that are shown."""


def clean_cell(text: str) -> str:
    """Return a cell's text on one line, with what would end it escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def format_table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table's lines, the first row as its head, between two empty lines."""
    width = 0
    for row in rows:
        cells = [clean_cell(cell) for cell in row[:MAX_COLUMNS]]
        if not width:
            yield ""
        yield f"| {' | '.join([*cells, *[''] * (width - len(cells))])} |"
        if not width:
            width = max(len(cells), 1)
            yield f"|{'---|' * width}"
    if width:
        yield ""
