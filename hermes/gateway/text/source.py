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
    lines = text.split("\n")
    at, mark, quoted = 0, "", False
    frame, cut = NONE, LINE
    table = 0
    """How many lines of a table have been seen."""
    for number, line in enumerate(lines):
        if mark:
            inside = not quoted or line.lstrip().startswith(">")
            bare = line.strip("> \t")
            ends = bare.startswith(mark) and not bare.strip(mark[0])
            if inside:
                yield Line(at, NEVER if ends else cut, frame, frame)
                cut = LINE
                at += len(line) + 1
                if ends:
                    mark, frame = "", NONE
                continue
            mark, frame = "", NONE
        table = _table(lines, number, table) if "|" in line else 0
        if table == 3:
            frame = _fitting(Frame(f"{lines[number - 2]}\n{lines[number - 1]}\n"), room, measure, NONE)
        elif not table:
            frame = NONE
        if ("```" in line or "~~~" in line) and (match := _FENCE.match(line)):
            prefix, mark, quoted = match[1], match[2], ">" in match[1]
            left = re.sub(r"[^ \t>]", " ", prefix)
            frame = Frame(f"{left}{mark}{match[3].rstrip()}\n", f"\n{left}{mark}")
            frame = _fitting(frame, room, measure, BARE)
            yield Line(at, cut, NONE, BARE)
            cut = NEVER
        else:
            blank = not line.strip()
            never = blank or table in (2, 3)
            yield Line(at, NEVER if never and cut != BLANK else cut, frame, NONE)
            cut = BLANK if blank else NEVER if line.startswith("#") else LINE
        at += len(line) + 1


def _table(lines: list[str], number: int, before: int) -> int:
    """Which line of a table this one is, from 1; 0 when it is none. `before`: what the one before it was."""
    if before:
        return before + 1
    below = lines[number + 1] if number + 1 < len(lines) else ""
    return 1 if "|" in below and _DELIMITERS.match(below) else 0


def _fitting(frame: Frame, room: int, measure: Callable[[str], int], other: Frame) -> Frame:
    return frame if measure(frame.opening + frame.closing) <= room else other


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
