"""The quotes and list items that are open at a place of a markdown text, one in the other."""

from msgspec import Struct

QUOTE = ">"
DEEPEST, DEEPEST_QUOTE = 16, 6
"""How many may stand in each other; what is deeper is shown less deep."""
NESTED = 2
"""Cells by which what stands in an item is indented at least; models often write less than the standard wants."""


class Level(Struct, frozen=True):
    """A quote or a list item."""

    mark: str
    """As it is shown: `>`, `-`, or a number with its point."""
    column: int = -NESTED
    """Of an item: where the first marker of its list stands, counted from the quote around it."""
    content: int = 0
    """Of an item: where its words begin, counted from there as well."""


class Containers:
    """Which quotes and items a line belongs to: by its `>`, and by how far it is indented."""

    def __init__(self) -> None:
        self._levels: tuple[Level, ...] = ()
        self._told = 0
        """Of how many the markers have been given out."""
        self._around: tuple[str, ...] | None = ()

    @property
    def last(self) -> Level | None:
        """The item that lines belong to, if there is one in the innermost quote."""
        last = self._levels[-1] if self._levels else None
        return last if last and last.mark is not QUOTE else None

    @property
    def untold(self) -> bool:
        """Whether an item stands open whose marker has not been given out."""
        return any(level.mark is not QUOTE for level in self._levels[self._told :])

    @property
    def full(self) -> bool:
        """Whether nothing more can be opened in the innermost."""
        return len(self._levels) >= DEEPEST

    def told(self) -> tuple[str, ...]:
        """What a block here stands in, outermost first: `>`, the marker of an item that begins with the block, or
        spaces in place of a marker. From now on all markers count as given out."""
        if self._around is None or self._told < len(self._levels):
            marks = [level.mark if level.mark is QUOTE else " " * (len(level.mark) + 1) for level in self._levels]
            self._around = tuple(marks)
            fresh = tuple(level.mark for level in self._levels[self._told :])
            around, self._told = self._around[: self._told] + fresh, len(self._levels)
            return around
        return self._around

    def match(self, line: str) -> tuple[bool, int, str]:
        """Whether the line goes on in all quotes, in how many levels it does, and what is left of it."""
        if not self._levels:
            return True, 0, line
        here = _NOWHERE
        for place, level in enumerate(self._levels):
            if level.mark is not QUOTE:
                here = level
                continue
            indent, words = indent_of(line), line.lstrip(" \t")
            if words[:1] != QUOTE or not here.column + NESTED <= indent < here.content + 4:
                return False, place, line
            line, here = unquoted(words), _NOWHERE
        return True, len(self._levels), line

    def has(self, indent: int) -> bool:
        """Whether a line with this indent belongs to the last item, or none is open."""
        last = self.last
        return last is None or indent >= last.column + NESTED

    def leave(self, indent: int) -> None:
        """Leave the items that a line with this indent does not belong to."""
        self.keep(self._place(indent))

    def _place(self, indent: int) -> int:
        place = len(self._levels)
        while place and self._levels[place - 1].mark is not QUOTE and indent < self._levels[place - 1].column + NESTED:
            place -= 1
        return place

    def keep(self, place: int) -> None:
        """Leave all but the outermost `place`."""
        if place < len(self._levels):
            self._levels, self._around = self._levels[:place], None
            self._told = min(self._told, place)

    def place_of_quote(self, indent: int) -> int:
        """In how many levels a quote stands that begins with this indent; -1 where none can begin."""
        place = self._place(indent)
        content = self._levels[place - 1].content if place else 0
        if indent >= content + 4 or place >= DEEPEST:
            return -1
        return place if sum(level.mark is QUOTE for level in self._levels[:place]) < DEEPEST_QUOTE else -1

    def quote(self, place: int) -> None:
        """Begin a quote there."""
        self.keep(place)
        self._push(Level(QUOTE))

    def item(self, indent: int, mark: str, gap: int) -> None:
        """Begin an item, whose marker and the spaces behind it are `gap` characters. Numbers go on from the item
        before it."""
        place = len(self._levels)
        beside: Level | None = None
        while place and self._levels[place - 1].mark is not QUOTE:
            if indent >= self._levels[place - 1].column + NESTED and place < DEEPEST:
                break
            place -= 1
            beside = self._levels[place]
            if indent >= beside.column + NESTED:
                break  # too deep: beside the innermost
        self.keep(place)
        shown, column = mark if mark[0].isdigit() else "-", indent
        if beside is not None and _sort(beside.mark) == _sort(shown):
            column = min(beside.column, indent)
            if shown != "-":
                shown = f"{int(beside.mark[:-1]) + 1}{mark[-1]}"
        elif shown != "-":
            shown = f"{int(mark[:-1])}{mark[-1]}"
        self._push(Level(shown, column, indent + gap))

    def _push(self, level: Level) -> None:
        self._levels += (level,)
        self._around = None


_NOWHERE = Level("")


def _sort(mark: str) -> str:
    return mark[-1]


def indent_of(line: str) -> int:
    """Cells that the line is indented by; a tab goes on to the next multiple of four."""
    found = 0
    for letter in line:
        if letter == " ":
            found += 1
        elif letter == "\t":
            found += 4 - found % 4
        else:
            break
    return found


def unquoted(words: str) -> str:
    """What follows the `>` that the words begin with."""
    return words[2:] if words.startswith("> ") else words[1:]
