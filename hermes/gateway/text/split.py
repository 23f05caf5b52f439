"""A markdown text in pieces that a platform takes: cut where a reader would, and each piece whole in itself."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from hermes.markup.source_spans import BLANK, NEVER, NONE, Frame, lines_of, whole_of
from hermes.util.text import clean_surrogates

SMALLEST = 16
"""The smallest limit that a text can be cut to."""

_ITEM = re.compile(r"([ \t]+)(?:[-*+•]|[0-9]{1,9}[.)])[ \t]")
_SENTENCE = re.compile(r"[.!?…][\"')\]]*[ \t]+|[。！？；]+")
_WORD = re.compile(r"[ \t]+")
_LONGEST_SIGN = 64

_FULL_BLANK, _FULL_LINE, _FULL_SENTENCE, _FULL_WORD = 0.3, 0.5, 0.6, 0.3
"""How much of a piece must stand before a cut of that kind."""
_MOST_FRAME = 0.4
"""The share of a piece that what is repeated around it may take."""


def split(markdown: str, limit: int, measure: Callable[[str], int] = len, *, numbered: bool = False) -> list[str]:
    """The text in pieces whose `measure` is at most `limit`, none of them empty; an empty text has none.

    Cut at blank lines, else lines, sentences, words, and last between what people see as one sign. Fences are closed
    and opened again with their language, a table's head stands above its rows again. With `numbered` pieces end with
    ` (1/3)`. Only white space at the cuts is left out. Takes linear time. Raises ValueError for a limit below 16.
    """
    if limit < SMALLEST:
        raise ValueError(f"no text can be cut to {limit}")
    text = clean_surrogates(markdown.replace("\r\n", "\n")).strip("\n").rstrip()
    if not text.strip():
        return []
    if measure(text) <= limit:
        return [text]
    pieces = _Cutter(text, limit, measure).pieces()
    if not numbered:
        return pieces
    room = 0
    while (wanted := measure(_mark(len(pieces), len(pieces)))) > room:
        room = wanted + 1
        if limit - room < SMALLEST:
            return pieces
        pieces = _Cutter(text, limit - room, measure).pieces()
    return [f"{piece}{_mark(number, len(pieces), piece)}" for number, piece in enumerate(pieces, 1)]


def _mark(number: int, count: int, piece: str = "`") -> str:
    """Which piece of how many; below what ends with code."""
    return f"{chr(10) if piece.endswith(('`', '~', '|')) else ' '}({number}/{count})"


class _Cutter:
    """One text that is cut."""

    def __init__(self, text: str, limit: int, measure: Callable[[str], int]) -> None:
        self._text = text
        self._limit = limit
        self._measure = measure
        self._lines = list(lines_of(text, int(limit * _MOST_FRAME), measure))
        self._starts = [line.start for line in self._lines]
        self._guess = limit
        """Characters that probably fit into a piece."""

    def pieces(self) -> list[str]:
        found: list[str] = []
        at, size = 0, len(self._text)
        while at < size:
            end = self._cut(at, self._reach(at))
            if piece := self._piece(at, end):
                found.append(piece)
            at = end
            while at < size and self._text[at] in " \t" and at not in self._own_starts(at):
                at += 1
        return found

    def _own_starts(self, at: int) -> tuple[int, ...]:
        """The place itself if a line begins there: what it is indented by belongs to it."""
        place = bisect_left(self._starts, at)
        return (at,) if place < len(self._starts) and self._starts[place] == at else ()

    def _frame(self, at: int) -> Frame:
        """What is open at a place of the text."""
        if at >= len(self._text):
            return NONE
        line = self._lines[bisect_right(self._starts, at) - 1]
        return line.frame if line.start == at else line.within

    def _piece(self, start: int, end: int) -> str:
        """The part of the text as a text of its own."""
        before, after = self._frame(start), self._frame(end)
        words = self._text[start:end].removesuffix("\n") if after.closing else self._text[start:end].rstrip()
        if not before.opening:
            words = _dedented(words.lstrip("\n"))
        if not words.strip():
            return ""
        if after.closing and after.closing == self._frame(end - 1).closing and words.endswith(after.closing):
            return before.opening + words
        return before.opening + words + after.closing

    def _reach(self, start: int) -> int:
        """A place up to which a piece from `start` fits, and not much more would."""
        size = len(self._text)
        end = min(start + self._guess, size)
        fits, grown = start, 0
        while end > fits:
            used = self._measure(self._piece(start, end))
            if used > self._limit:
                if fits > start:
                    return fits
                end = start + max(1, min(int((end - start) * self._limit / used * 0.97), end - start - 1))
                if end == start + 1:
                    return end
                continue
            fits = end
            self._guess = max(end - start, SMALLEST)
            if grown == 3 or end == size or used > self._limit * 0.9:
                break
            grown += 1
            end = min(start + int((end - start) * min(self._limit / max(used, 1), 2.0) * 0.98) + 1, size)
        return fits

    def _cut(self, start: int, reach: int) -> int:
        """The best place for a cut up to `reach`."""
        if reach >= len(self._text):
            return reach
        return self._cut_at_line(start, reach) or self._cut_in_line(start, reach)

    def _cut_at_line(self, start: int, reach: int) -> int:
        """The last blank line, else the last line, if enough stands before it; 0 when there is none."""
        room = reach - start
        line = 0
        for place in range(bisect_right(self._starts, reach) - 1, bisect_right(self._starts, start) - 1, -1):
            one = self._lines[place]
            before = one.start - start
            if before < room * _FULL_BLANK:
                break
            if one.cut == NEVER or not self._fits(start, one.start):
                continue
            if one.cut == BLANK:
                return one.start
            if not line and before >= room * _FULL_LINE:
                line = one.start
        return line

    def _cut_in_line(self, start: int, reach: int) -> int:
        """The end of a sentence or word, else any line's, else of a sign."""
        text, room = self._text, reach - start
        within = self._frame(reach).closing != ""
        whole = _Whole([] if within else whole_of(text, start, min(reach + 600, len(text))))
        sentences = [match.end() for match in _SENTENCE.finditer(text, start + int(room * _FULL_SENTENCE), reach)]
        begin = start + int(room * _FULL_WORD)
        words = [match.end() for match in _WORD.finditer(text, begin, reach)]
        lines = [] if within else _line_ends(text, begin, reach)
        for found in (sentences, [*words, *lines]):
            for at in sorted(found, reverse=True):
                if whole.around(at) < 0 and self._fits(start, at) and not self._parts_head(at):
                    return at
        at = _sign_end(text, start, reach)
        if whole.around(at) > start:
            return whole.around(at)
        return at if self._fits(start, at) else reach

    def _parts_head(self, at: int) -> bool:
        """Whether a line begins there that must not be parted from the one before it."""
        place = bisect_left(self._starts, at)
        return place < len(self._starts) and self._starts[place] == at and self._lines[place].cut == NEVER

    def _fits(self, start: int, end: int) -> bool:
        """Whether the piece still fits, as what it ends with is not the same everywhere."""
        return bool(self._frame(end) == NONE) or self._measure(self._piece(start, end)) <= self._limit


class _Whole:
    """Ranges that are not cut through, in order."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self._ranges = ranges
        self._starts = [one[0] for one in ranges]

    def around(self, at: int) -> int:
        """Where the range begins that a place is inside of; -1 for none."""
        place = bisect_right(self._starts, at) - 1
        begin, end = self._ranges[place] if place >= 0 else (at, at)
        return begin if begin < at < end else -1


def _line_ends(text: str, begin: int, end: int) -> Iterator[int]:
    at = text.find("\n", begin, end)
    while at >= 0:
        yield at + 1
        at = text.find("\n", at + 1, end)


def _sign_end(text: str, start: int, reach: int) -> int:
    """The last place up to `reach` that is not inside what people see as one sign; `reach` if there is none."""
    if reach >= len(text) or (text[reach - 1].isascii() and text[reach].isascii()):
        return reach
    from wcwidth import iter_graphemes

    at = max(start, reach - _LONGEST_SIGN)
    while at > start and at > reach - 2 * _LONGEST_SIGN and not text[at].isascii():
        at -= 1
    last = at
    for sign in iter_graphemes(text[at : reach + 1]):
        last, at = at, at + len(sign)
    return reach if at == reach + 1 and last == reach else last if last > start else reach


def _dedented(words: str) -> str:
    """The piece with an item at its beginning moved to the left, and what follows below it with it: without the items
    around it, it would be read as code."""
    match = _ITEM.match(words)
    if not match:
        return words
    indent = match[1]
    lines = words.split("\n")
    for number, line in enumerate(lines):
        if line.startswith(indent):
            lines[number] = line[len(indent) :]
        elif line.strip():
            break
    return "\n".join(lines)
