"""Positions of code, tables and links in the source of a markdown text."""

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


class PieceFrame(Struct, frozen=True):
    """The opening of a piece that begins inside something, and the closing of one that ends there."""

    opening: str = ""
    closing: str = ""


NO_FRAME = PieceFrame()
BARE_FENCE = PieceFrame("```\n", "\n```")


class SourceLine(Struct, frozen=True):
    """A line, as far as cuts are concerned."""

    start: int
    cut: int
    """The quality of a cut before it."""
    frame: PieceFrame
    """The frame that is open at its beginning."""
    within: PieceFrame
    """The frame that is open inside it."""


def iter_lines(text: str, room: int, measure: Callable[[str], int]) -> Iterator[SourceLine]:
    """Yield the lines of the text with their frames; frames of more than `room` are left out or reduced to a fence."""
    reader = _LineReader(text.split("\n"), room, measure)
    at = 0
    for number, line in enumerate(reader.lines):
        yield reader.read_code_line(at, line) if reader.is_in_code(line) else reader.read_line(at, number)
        at += len(line) + 1


class _LineReader:
    """Reads the lines of a text in order."""

    def __init__(self, lines: list[str], room: int, measure: Callable[[str], int]) -> None:
        self.lines = lines
        self._room = room
        self._measure = measure
        self._mark = ""
        """The marks that end the open code."""
        self._quoted = False
        self._frame = NO_FRAME
        self._cut = LINE
        """The quality of a cut before the next line."""
        self._table_line = 0
        """The number of the last line within its table; 0 outside of tables."""

    def is_in_code(self, line: str) -> bool:
        """Return whether code continues in this line; the end of a quote ends the code in it."""
        if self._mark and self._quoted and not line.lstrip().startswith(">"):
            self._mark, self._frame = "", NO_FRAME
        return self._mark != ""

    def read_code_line(self, at: int, line: str) -> SourceLine:
        """Return a line of code, or its end."""
        bare = line.strip("> \t")
        ends = bare.startswith(self._mark) and not bare.strip(self._mark[0])
        found = SourceLine(at, NEVER if ends else self._cut, self._frame, self._frame)
        self._cut = LINE
        if ends:
            self._mark, self._frame = "", NO_FRAME
        return found

    def read_line(self, at: int, number: int) -> SourceLine:
        """Return any other line, the beginning of code included."""
        line = self.lines[number]
        self._track_table(line, number)
        cut = self._cut
        if ("```" in line or "~~~" in line) and (match := _FENCE.match(line)):
            self._begin_code(match)
            return SourceLine(at, cut, NO_FRAME, BARE_FENCE)
        blank = not line.strip()
        self._cut = BLANK if blank else NEVER if line.startswith("#") else LINE
        never = (blank or self._table_line in (2, 3)) and cut != BLANK
        return SourceLine(at, NEVER if never else cut, self._frame, NO_FRAME)

    def _begin_code(self, match: re.Match[str]) -> None:
        prefix, self._mark, self._quoted = match[1], match[2], ">" in match[1]
        left = re.sub(r"[^ \t>]", " ", prefix)
        self._frame = self._fit_frame(f"{left}{self._mark}{match[3].rstrip()}\n", f"\n{left}{self._mark}", BARE_FENCE)
        self._cut = NEVER

    def _track_table(self, line: str, number: int) -> None:
        """Track the position within a table, and the frame that repeats its head."""
        if "|" not in line:
            self._table_line, self._frame = 0, NO_FRAME
        elif self._table_line:
            self._table_line += 1
            if self._table_line == 3:
                head = f"{self.lines[number - 2]}\n{self.lines[number - 1]}\n"
                self._frame = self._fit_frame(head, "", NO_FRAME)
        else:
            below = self.lines[number + 1] if number + 1 < len(self.lines) else ""
            self._table_line, self._frame = int("|" in below and _DELIMITERS.match(below) is not None), NO_FRAME

    def _fit_frame(self, opening: str, closing: str, other: PieceFrame) -> PieceFrame:
        return PieceFrame(opening, closing) if self._measure(opening + closing) <= self._room else other


def find_code(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges of inline code, backticks included."""
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


def find_unbreakable(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges of inline code and links, which are not cut through."""
    links = [match.span() for match in _LINK.finditer(text, start, end)]
    merged: list[tuple[int, int]] = []
    for begin, stop in sorted(find_code(text, start, end) + links):
        if not merged or begin >= merged[-1][1]:
            merged.append((begin, stop))
        elif stop > merged[-1][1]:
            merged[-1] = (merged[-1][0], stop)
    return merged


def split_code(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text in order as pieces, each with whether it is prose; the others are code with its marks."""
    at, block = 0, 0
    inside = False
    for line in [*iter_lines(text, 1 << 30, len), None]:
        fenced = line is not None and line.within.closing != ""
        if line is None or fenced != inside:
            end = line.start if line else len(text)
            if inside:
                yield text[block:end], False
            else:
                for begin, stop in find_code(text, block, end):
                    yield text[at:begin], True
                    yield text[begin:stop], False
                    at = stop
                yield text[at:end], True
            at = block = end
            inside = fenced
