"""The lists that are open at a place of a markdown text, one in the other."""

from msgspec import Struct

NESTED = 2
"""Cells by which an inner list is indented at least; models often write less than the standard wants."""


class Level(Struct, frozen=True):
    """A list that is open."""

    column: int
    """Where its markers stand in the text."""
    content: int
    """Where the words of its last item begin in the text."""
    out: int
    """Cells to the left of its markers when it is shown."""
    inner: int
    """Cells to the left of its words when it is shown."""
    sort: str
    """`-`, `.` or `)`."""
    number: int


class Nesting:
    """Which lists a line belongs to, by how far it is indented."""

    def __init__(self, levels: tuple[Level, ...] = ()) -> None:
        self._levels = levels

    def __len__(self) -> int:
        return len(self._levels)

    @property
    def last(self) -> Level | None:
        """The innermost list."""
        return self._levels[-1] if self._levels else None

    def copy(self) -> "Nesting":
        """One that changes by itself."""
        return Nesting(self._levels)

    def leave(self, indent: int = -1) -> None:
        """Leave the lists that a line with this indent does not belong to."""
        while self._levels and indent < min(self._levels[-1].content, self._levels[-1].column + NESTED):
            self._levels = self._levels[:-1]

    def item(self, indent: int, mark: str, gap: int) -> str:
        """Begin an item, whose marker and the spaces behind it are `gap` characters; returns its marker as shown."""
        beside: Level | None = None
        while self._levels and indent < self._levels[-1].column + NESTED:
            beside, self._levels = self._levels[-1], self._levels[:-1]
        sort = mark[-1] if mark[0].isdigit() else "-"
        number = int(mark[:-1]) if sort != "-" else 0
        column = indent
        if beside is not None and beside.sort == sort:
            number, column = beside.number + 1, beside.column
        shown = f"{number}{sort}" if sort != "-" else "-"
        out = self._levels[-1].inner if self._levels else 0
        self._levels += (Level(column, indent + gap, out, out + len(shown) + 1, sort, number),)
        return shown
