"""Splitting of a markdown text into messages: cut where a reader would, with each piece valid by itself."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from hermes.gateway.platform import Capabilities
from hermes.markup.source_spans import BLANK, NEVER, NO_FRAME, PieceFrame, find_unbreakable, iter_lines
from hermes.util.text import clean_surrogates

MIN_LIMIT = 16
"""The smallest limit that a text can be split to."""

_ITEM = re.compile(r"([ \t]+)(?:[-*+•]|[0-9]{1,9}[.)])[ \t]")
_SENTENCE = re.compile(r"[.!?…][\"')\]]*[ \t]+|[。！？；]+")
_WORD = re.compile(r"[ \t]+")
_LONGEST_SIGN = 64

_FULL_BLANK, _FULL_LINE, _FULL_SENTENCE, _FULL_WORD = 0.3, 0.5, 0.6, 0.3
"""The share of a piece that must stand before a cut of that kind."""
_MAX_FRAME_SHARE = 0.4
"""The share of a piece that repeated frames may take."""


def split_markdown(
    markdown: str, limit: int, measure: Callable[[str], int] = len, *, numbered: bool = False
) -> list[str]:
    """Split the text into pieces whose `measure` is at most `limit`, none of them empty; an empty text has none.

    Cut at blank lines, else lines, sentences, words, and last between grapheme clusters. Fences are closed and opened
    again with their language, a table's head stands above its rows again. With `numbered` pieces end with ` (1/3)`.
    Only white space at the cuts is left out. Takes linear time. Raises ValueError for a limit below 16.
    """
    if limit < MIN_LIMIT:
        raise ValueError(f"no text can be cut to {limit}")
    text = clean_surrogates(markdown.replace("\r\n", "\n")).strip("\n").rstrip()
    if not text.strip():
        return []
    if measure(text) <= limit:
        return [text]
    pieces = _Cutter(text, limit, measure).cut_pieces()
    if not numbered:
        return pieces
    room = 0
    while (wanted := measure(_piece_number(len(pieces), len(pieces)))) > room:
        room = wanted + 1
        if limit - room < MIN_LIMIT:
            return pieces
        pieces = _Cutter(text, limit - room, measure).cut_pieces()
    return [f"{piece}{_piece_number(number, len(pieces), piece)}" for number, piece in enumerate(pieces, 1)]


def split_text(text: str, can: Capabilities) -> list[str]:
    """Split a text into messages that the platform accepts; none for an empty text."""
    if not text.strip():
        return []
    return split_markdown(text, can.limit, can.measure)


def _piece_number(number: int, count: int, piece: str = "`") -> str:
    """Return the number of a piece and the count of all, on a line of its own after code."""
    return f"{chr(10) if piece.endswith(('`', '~', '|')) else ' '}({number}/{count})"


class _Cutter:
    """Cuts one text into pieces."""

    def __init__(self, text: str, limit: int, measure: Callable[[str], int]) -> None:
        self._text = text
        self._limit = limit
        self._measure = measure
        self._lines = list(iter_lines(text, int(limit * _MAX_FRAME_SHARE), measure))
        self._starts = [line.start for line in self._lines]
        self._expected_size = limit
        """The number of characters that probably fit into a piece."""

    def cut_pieces(self) -> list[str]:
        found: list[str] = []
        at, size = 0, len(self._text)
        while at < size:
            end = self._find_cut(at, self._find_reach(at))
            if piece := self._make_piece(at, end):
                found.append(piece)
            at = end
            while at < size and self._text[at] in " \t" and at not in self._line_start_at(at):
                at += 1
        return found

    def _line_start_at(self, at: int) -> tuple[int, ...]:
        """Return the position itself if a line begins there: its indentation belongs to it."""
        place = bisect_left(self._starts, at)
        return (at,) if place < len(self._starts) and self._starts[place] == at else ()

    def _frame_at(self, at: int) -> PieceFrame:
        """Return the frame that is open at a position of the text."""
        if at >= len(self._text):
            return NO_FRAME
        line = self._lines[bisect_right(self._starts, at) - 1]
        return line.frame if line.start == at else line.within

    def _make_piece(self, start: int, end: int) -> str:
        """Return a part of the text as a text of its own."""
        before, after = self._frame_at(start), self._frame_at(end)
        words = self._text[start:end].removesuffix("\n") if after.closing else self._text[start:end].rstrip()
        if not before.opening:
            words = _dedent_piece(words.lstrip("\n"))
        if not words.strip():
            return ""
        if after.closing and after.closing == self._frame_at(end - 1).closing and words.endswith(after.closing):
            return before.opening + words
        return before.opening + words + after.closing

    def _find_reach(self, start: int) -> int:
        """Return a position up to which a piece from `start` fits, and not much more would."""
        size = len(self._text)
        end = min(start + self._expected_size, size)
        fits, grown = start, 0
        while end > fits:
            used = self._measure(self._make_piece(start, end))
            if used > self._limit:
                if fits > start:
                    return fits
                end = start + max(1, min(int((end - start) * self._limit / used * 0.97), end - start - 1))
                if end == start + 1:
                    return end
                continue
            fits = end
            self._expected_size = max(end - start, MIN_LIMIT)
            if grown == 3 or end == size or used > self._limit * 0.9:
                break
            grown += 1
            end = min(start + int((end - start) * min(self._limit / max(used, 1), 2.0) * 0.98) + 1, size)
        return fits

    def _find_cut(self, start: int, reach: int) -> int:
        """Return the best position for a cut up to `reach`."""
        if reach >= len(self._text):
            return reach
        return self._cut_at_line(start, reach) or self._cut_in_line(start, reach)

    def _cut_at_line(self, start: int, reach: int) -> int:
        """Return the last blank line, else the last line, if enough stands before it; 0 when there is none."""
        room = reach - start
        line = 0
        for place in range(bisect_right(self._starts, reach) - 1, bisect_right(self._starts, start) - 1, -1):
            one = self._lines[place]
            before = one.start - start
            if before < room * _FULL_BLANK:
                break
            if one.cut == NEVER or not self._is_fitting(start, one.start):
                continue
            if one.cut == BLANK:
                return one.start
            if not line and before >= room * _FULL_LINE:
                line = one.start
        return line

    def _cut_in_line(self, start: int, reach: int) -> int:
        """Return the end of a sentence or word, else of any line, else of a grapheme cluster."""
        text, room = self._text, reach - start
        within = self._frame_at(reach).closing != ""
        whole = _UnbreakableRanges([] if within else find_unbreakable(text, start, min(reach + 600, len(text))))
        sentences = [match.end() for match in _SENTENCE.finditer(text, start + int(room * _FULL_SENTENCE), reach)]
        begin = start + int(room * _FULL_WORD)
        words = [match.end() for match in _WORD.finditer(text, begin, reach)]
        lines = [] if within else _line_ends(text, begin, reach)
        for found in (sentences, [*words, *lines]):
            for at in sorted(found, reverse=True):
                if whole.start_around(at) < 0 and self._is_fitting(start, at) and not self._separates_lines(at):
                    return at
        at = _grapheme_end(text, start, reach)
        if whole.start_around(at) > start:
            return whole.start_around(at)
        return at if self._is_fitting(start, at) else reach

    def _separates_lines(self, at: int) -> bool:
        """Return whether a line begins there that must not be separated from the one before it."""
        place = bisect_left(self._starts, at)
        return place < len(self._starts) and self._starts[place] == at and self._lines[place].cut == NEVER

    def _is_fitting(self, start: int, end: int) -> bool:
        """Return whether the piece still fits, as its closing depends on where it ends."""
        return bool(self._frame_at(end) == NO_FRAME) or self._measure(self._make_piece(start, end)) <= self._limit


class _UnbreakableRanges:
    """Ranges that are not cut through, in order."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self._ranges = ranges
        self._starts = [one[0] for one in ranges]

    def start_around(self, at: int) -> int:
        """Return the beginning of the range that a position is inside of; -1 for none."""
        place = bisect_right(self._starts, at) - 1
        begin, end = self._ranges[place] if place >= 0 else (at, at)
        return begin if begin < at < end else -1


def _line_ends(text: str, begin: int, end: int) -> Iterator[int]:
    at = text.find("\n", begin, end)
    while at >= 0:
        yield at + 1
        at = text.find("\n", at + 1, end)


def _grapheme_end(text: str, start: int, reach: int) -> int:
    """Return the last position up to `reach` that is not inside a grapheme cluster; `reach` if there is none."""
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


def _dedent_piece(words: str) -> str:
    """Return the piece with its first item, and the lines below it, moved to the left: without the items
    around it, it would be read as code.
    """
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
