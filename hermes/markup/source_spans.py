"""Where code, tables and links stand in the source of a markdown text."""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

_FENCE = re.compile(r"((?:[ \t>]|(?:[-*+]|[0-9]{1,9}[.)])[ \t])*)(`{3,}|~{3,})([^`\n]*)$")
_DELIMITERS = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_TICKS = re.compile("`+")
_LINK = re.compile(
    r"!?\[[^\[\]\n]{0,300}\]\([^\s()]{0,500}\)|<[a-zA-Z][^\s<>]{1,300}>|https?://[^\s<>\"\u3000-\u303f\uff00-\uff0f]{1,500}"
)

BLANK, LINE, NEVER = range(3)
"""How good a place for a cut the beginning of a line is."""


class Frame(Struct, frozen=True):
    """What a piece that begins inside something begins with, and what one that ends there ends with."""

    opening: str = ""
    closing: str = ""


NONE = Frame()
BARE = Frame("```\n", "\n```")


class Line(Struct, frozen=True):
    """A line, as far as cuts are concerned."""

    start: int
    cut: int
    """What a cut before it is like."""
    frame: Frame
    """What is open at its beginning."""
    within: Frame
    """What is open inside it."""


def lines_of(text: str, room: int, measure: Callable[[str], int]) -> Iterator[Line]:
    """The lines of the text with what is open in them; frames that take more than `room` are left out or made bare."""
    reader = _Reader(text.split("\n"), room, measure)
    at = 0
    for number, line in enumerate(reader.lines):
        yield reader.inside(at, line) if reader.in_code(line) else reader.outside(at, number)
        at += len(line) + 1


class _Reader:
    """Goes through the lines of a text."""

    def __init__(self, lines: list[str], room: int, measure: Callable[[str], int]) -> None:
        self.lines = lines
        self._room = room
        self._measure = measure
        self._mark = ""
        """What ends the code that is open."""
        self._quoted = False
        self._frame = NONE
        self._cut = LINE
        """What a cut before the next line is like."""
        self._table = 0
        """Which line of a table the last one was."""

    def in_code(self, line: str) -> bool:
        """Whether code goes on in this line; the end of a quote ends the code in it."""
        if self._mark and self._quoted and not line.lstrip().startswith(">"):
            self._mark, self._frame = "", NONE
        return self._mark != ""

    def inside(self, at: int, line: str) -> Line:
        """A line of code, or its end."""
        bare = line.strip("> \t")
        ends = bare.startswith(self._mark) and not bare.strip(self._mark[0])
        found = Line(at, NEVER if ends else self._cut, self._frame, self._frame)
        self._cut = LINE
        if ends:
            self._mark, self._frame = "", NONE
        return found

    def outside(self, at: int, number: int) -> Line:
        """Any other line, the beginning of code among them."""
        line = self.lines[number]
        self._in_table(line, number)
        cut = self._cut
        if ("```" in line or "~~~" in line) and (match := _FENCE.match(line)):
            self._begin(match)
            return Line(at, cut, NONE, BARE)
        blank = not line.strip()
        self._cut = BLANK if blank else NEVER if line.startswith("#") else LINE
        never = (blank or self._table in (2, 3)) and cut != BLANK
        return Line(at, NEVER if never else cut, self._frame, NONE)

    def _begin(self, match: re.Match[str]) -> None:
        prefix, self._mark, self._quoted = match[1], match[2], ">" in match[1]
        left = re.sub(r"[^ \t>]", " ", prefix)
        self._frame = self._fitting(f"{left}{self._mark}{match[3].rstrip()}\n", f"\n{left}{self._mark}", BARE)
        self._cut = NEVER

    def _in_table(self, line: str, number: int) -> None:
        """Note which line of a table this is, and what stands above its rows."""
        if "|" not in line:
            self._table, self._frame = 0, NONE
        elif self._table:
            self._table += 1
            if self._table == 3:
                head = f"{self.lines[number - 2]}\n{self.lines[number - 1]}\n"
                self._frame = self._fitting(head, "", NONE)
        else:
            below = self.lines[number + 1] if number + 1 < len(self.lines) else ""
            self._table, self._frame = int("|" in below and _DELIMITERS.match(below) is not None), NONE

    def _fitting(self, opening: str, closing: str, other: Frame) -> Frame:
        return Frame(opening, closing) if self._measure(opening + closing) <= self._room else other


def code_of(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where code within lines begins and ends, its backticks included."""
    runs = [match.span() for match in _TICKS.finditer(text, start, end)]
    following: dict[int, int] = {}
    closing = [-1] * len(runs)
    for place in range(len(runs) - 1, -1, -1):
        length = runs[place][1] - runs[place][0]
        closing[place] = following.get(length, -1)
        following[length] = place
    found: list[tuple[int, int]] = []
    place = 0
    while place < len(runs):
        escaped = runs[place][0] > 0 and text[runs[place][0] - 1] == "\\"
        if escaped or (other := closing[place]) < 0 or "\n\n" in text[runs[place][0] : runs[other][1]]:
            place += 1
            continue
        found.append((runs[place][0], runs[other][1]))
        place = other + 1
    return found


def whole_of(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where code and links within lines begin and end: what is not cut through."""
    links = [match.span() for match in _LINK.finditer(text, start, end)]
    merged: list[tuple[int, int]] = []
    for begin, stop in sorted(code_of(text, start, end) + links):
        if not merged or begin >= merged[-1][1]:
            merged.append((begin, stop))
        elif stop > merged[-1][1]:
            merged[-1] = (merged[-1][0], stop)
    return merged


def apart(text: str) -> Iterator[tuple[str, bool]]:
    """The text in parts, in order, each with whether it is prose; the others are code, with its marks."""
    at, block = 0, 0
    inside = False
    for line in [*lines_of(text, 1 << 30, len), None]:
        fenced = line is not None and line.within.closing != ""
        if line is None or fenced != inside:
            end = line.start if line else len(text)
            if inside:
                yield text[block:end], False
            else:
                for begin, stop in code_of(text, block, end):
                    yield text[at:begin], True
                    yield text[begin:stop], False
                    at = stop
                yield text[at:end], True
            at = block = end
            inside = fenced
