"""Tracks the open quotes and list items of a markdown text, nested in each other."""

from msgspec import Struct

QUOTE = ">"
DEEPEST, DEEPEST_QUOTE = 16, 6
"""The most levels of nesting; deeper ones are shown less deep."""
ITEM_INDENT = 2
"""Cells by which the contents of an item are indented at least; models often use fewer than the standard."""


class ContainerLevel(Struct, frozen=True):
    """A quote or a list item."""

    mark: str
    """The marker as it is shown: `>`, `-`, or a number with its point."""
    column: int = -ITEM_INDENT
    """For an item: the column of the first marker of its list, counted from the quote around it."""
    content: int = 0
    """For an item: the column of its text, counted from there as well."""


class Containers:
    """The open quotes and items; decides to which a line belongs, by its `>` and by its indent."""

    def __init__(self) -> None:
        self._levels: tuple[ContainerLevel, ...] = ()
        self._shown_count = 0
        """The number of levels whose markers have been returned."""
        self._around: tuple[str, ...] | None = ()

    @property
    def last(self) -> ContainerLevel | None:
        """The item that lines belong to, if the innermost quote has one."""
        last = self._levels[-1] if self._levels else None
        return last if last and last.mark is not QUOTE else None

    @property
    def has_pending_marker(self) -> bool:
        """Whether an open item has a marker that was not returned yet."""
        return any(level.mark is not QUOTE for level in self._levels[self._shown_count :])

    @property
    def is_full(self) -> bool:
        """Whether the innermost level can hold no further one."""
        return len(self._levels) >= DEEPEST

    def take_markers(self) -> tuple[str, ...]:
        """Return what a block here is inside of, outermost first, and mark all markers as returned.

        That is `>`, the marker of an item that begins with the block, or spaces in place of a marker.
        """
        if self._around is None or self._shown_count < len(self._levels):
            marks = [level.mark if level.mark is QUOTE else " " * (len(level.mark) + 1) for level in self._levels]
            self._around = tuple(marks)
            fresh = tuple(level.mark for level in self._levels[self._shown_count :])
            around, self._shown_count = self._around[: self._shown_count] + fresh, len(self._levels)
            """The number of levels whose markers have been returned."""
            return around
        return self._around

    def match_line(self, line: str) -> tuple[bool, int, str]:
        """Return whether the line continues all quotes, in how many levels it does, and the rest of the line."""
        if not self._levels:
            return True, 0, line
        here = _NOWHERE
        for place, level in enumerate(self._levels):
            if level.mark is not QUOTE:
                here = level
                continue
            indent, words = measure_indent(line), line.lstrip(" \t")
            if words[:1] != QUOTE or not here.column + ITEM_INDENT <= indent < here.content + 4:
                return False, place, line
            line, here = strip_quote_mark(words), _NOWHERE
        return True, len(self._levels), line

    def includes_indent(self, indent: int) -> bool:
        """Return whether a line with this indent belongs to the last item, or no item is open."""
        last = self.last
        return last is None or indent >= last.column + ITEM_INDENT

    def leave_items(self, indent: int) -> None:
        """Close the items that a line with this indent does not belong to."""
        self.keep_outermost(self._depth_at(indent))

    def _depth_at(self, indent: int) -> int:
        place = len(self._levels)
        while (
            place
            and self._levels[place - 1].mark is not QUOTE
            and indent < self._levels[place - 1].column + ITEM_INDENT
        ):
            place -= 1
        return place

    def keep_outermost(self, place: int) -> None:
        """Close all levels but the outermost `place`."""
        if place < len(self._levels):
            self._levels, self._around = self._levels[:place], None
            self._shown_count = min(self._shown_count, place)
            """The number of levels whose markers have been returned."""

    def find_quote_depth(self, indent: int) -> int:
        """Return in how many levels a quote with this indent stands; -1 where none can begin."""
        place = self._depth_at(indent)
        content = self._levels[place - 1].content if place else 0
        if indent >= content + 4 or place >= DEEPEST:
            return -1
        return place if sum(level.mark is QUOTE for level in self._levels[:place]) < DEEPEST_QUOTE else -1

    def begin_quote(self, place: int) -> None:
        """Begin a quote there."""
        self.keep_outermost(place)
        self._push_level(ContainerLevel(QUOTE))

    def begin_item(self, indent: int, mark: str, gap: int) -> None:
        """Begin an item; `gap` is the length of its marker with the spaces behind it.

        Numbers continue from the item before it.
        """
        place = len(self._levels)
        beside: ContainerLevel | None = None
        while place and self._levels[place - 1].mark is not QUOTE:
            if indent >= self._levels[place - 1].column + ITEM_INDENT and place < DEEPEST:
                break
            place -= 1
            beside = self._levels[place]
            if indent >= beside.column + ITEM_INDENT:
                break  # too deep: beside the innermost
        self.keep_outermost(place)
        shown, column = mark if mark[0].isdigit() else "-", indent
        if beside is not None and _marker_kind(beside.mark) == _marker_kind(shown):
            column = min(beside.column, indent)
            if shown != "-":
                shown = f"{int(beside.mark[:-1]) + 1}{mark[-1]}"
        elif shown != "-":
            shown = f"{int(mark[:-1])}{mark[-1]}"
        self._push_level(ContainerLevel(shown, column, indent + gap))

    def _push_level(self, level: ContainerLevel) -> None:
        self._levels += (level,)
        self._around = None


_NOWHERE = ContainerLevel("")


def _marker_kind(mark: str) -> str:
    return mark[-1]


def measure_indent(line: str) -> int:
    """Return the cells that the line is indented by; a tab advances to the next multiple of four."""
    found = 0
    for letter in line:
        if letter == " ":
            found += 1
        elif letter == "\t":
            found += 4 - found % 4
        else:
            break
    return found


def strip_quote_mark(words: str) -> str:
    """Return the text behind the `>` that it begins with."""
    return words[2:] if words.startswith("> ") else words[1:]
