"""Writes a change into lines that are not quite those that it was written for.

The change says which lines become which; the file has them with other blanks, quotes, indentation or line ends. All
that the change leaves alone stays as the file has it, and lines that are new get the file's indentation and line ends.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

_QUOTES = {
    "‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
    "…": "...", "–": "-", "—": "-", "‐": "-", "‑": "-", "−": "-",
}  # fmt: skip
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_FOLDED = str.maketrans(_QUOTES | dict.fromkeys(_INVISIBLE, ""))
_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_PAIRS = 2_500
"""The most pairs of lines that are compared for which became which; of more, those at the same place are paired, as
where there are as many as before.
"""
_MAX_ALIGNED = 1_000_000
"""The most pairs of lines, or of words of a line, that are compared for what is the same in two texts. Of more only the
beginning and the end are the same, and the middle is written as the change has it.
"""
_LEAST_ALIKE = 0.34
"""The share of common words from which on a line is taken for a changed form of another one."""

LinePair = tuple[int, int]


def fold_characters(text: str) -> str:
    """Return the text with plain quotes and dashes, composed letters, and no invisible characters."""
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_FOLDED)


def fold_blanks(line: str) -> str:
    """Return a line with plain characters, one blank for several, and none around it."""
    return " ".join(fold_characters(line).split())


def fold_all(line: str) -> str:
    """Return what is left of a line without any blanks, and with one kind of quotes."""
    return "".join(fold_characters(line).split()).replace('"', "'")


def get_indent(line: str) -> str:
    """Return the blanks that a line begins with."""
    return line[: len(line) - len(line.lstrip())]


def count_shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many items, or characters, two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def find_kept_lines(old: Sequence[str], new: Sequence[str]) -> list[LinePair]:
    """Return the lines of two texts that are the same, as pairs of their indices: those at the same places, where there
    are no more in another order.
    """
    aligned = [(at, at) for at, (before, after) in enumerate(zip(old, new, strict=False)) if before == after]
    shortest = min(len(old), len(new))
    if len(aligned) == shortest:
        return aligned
    start = count_shared(old, new)
    end = min(count_shared(old[::-1], new[::-1]), shortest - start)
    middle = (old[start : len(old) - end], new[start : len(new) - end])
    is_short = len(middle[0]) * len(middle[1]) <= _MAX_ALIGNED
    blocks = difflib.SequenceMatcher(None, *middle, autojunk=False).get_matching_blocks() if is_short else ()
    kept = [(at, at) for at in range(start)]
    kept += [(start + a + at, start + b + at) for a, b, size in blocks for at in range(size)]
    kept += [(len(old) - at, len(new) - at) for at in range(end, 0, -1)]
    return aligned if len(old) == len(new) and len(aligned) >= len(kept) else kept


def merge_lines(there: Sequence[str], old: Sequence[str], new: Sequence[str], kept: Sequence[LinePair]) -> list[str]:
    """Return what becomes of the file's lines `there`, which stand for `old`, when `old` becomes `new`.

    `kept` are the lines of both that are the same.
    """
    indentation = Indentation(old, there)
    ending = "\r" if sum(line.endswith("\r") for line in there) * 2 > len(there) else ""
    merged: list[str] = []
    at, place = 0, 0
    for here, now in [*kept, (len(old), len(new))]:
        gone, come = old[at:here], new[place:now]
        partners = _pair_lines(gone, come)
        for number, line in enumerate(come):
            partner = partners.get(number)
            if partner is None:
                merged.append(indentation.shift_line(line.removesuffix("\r")) + ending)
            else:
                merged.append(_merge_line(there[at + partner], gone[partner], line, indentation))
        merged += there[here : here + 1] if here < len(old) else ()
        at, place = here + 1, now + 1
    return merged


class Indentation:
    """How the indentation of some lines differs in a file from the one that they were written with."""

    def __init__(self, old: Sequence[str], there: Sequence[str]) -> None:
        filled = [(get_indent(mine), get_indent(line)) for mine, line in zip(old, there, strict=False) if mine.strip()]
        self._table = dict(reversed(filled))
        self._is_same = all(mine == theirs for mine, theirs in filled)
        self._step = self._find_step()

    def _find_step(self) -> tuple[str, str]:
        """Return one more step of indentation in the text and in the file; empty where that cannot be told."""
        if any(mine and mine == theirs for mine, theirs in self._table.items()):
            return "", ""  # only some lines were written with another one
        known = sorted(self._table.items(), key=lambda item: len(item[0]))
        for (mine, theirs), (deeper, deeper_theirs) in pairwise([("", ""), *known]):
            if len(deeper) > len(mine) and deeper.startswith(mine) and deeper_theirs.startswith(theirs):
                one, other = deeper[len(mine) :], deeper_theirs[len(theirs) :]
                step = _divide_steps(one, other)
                if step[0] or (other and mine in self._table):
                    return step if step[0] else (one, other)
        return "", ""

    def shift_line(self, line: str) -> str:
        """Return a line that is new, with the indentation that it has in the file."""
        indent = get_indent(line)
        if self._is_same or not self._table or not line.strip():
            return line
        return self.shift_indent(indent) + line[len(indent) :]

    def shift_indent(self, indent: str) -> str:
        """Return what an indentation is in the file."""
        if self._is_same or not self._table:
            return indent
        if indent in self._table:
            return self._table[indent]
        shorter = [one for one in self._table if indent.startswith(one)]
        mine, theirs = self._step
        if shorter:
            nearest = max(shorter, key=len)
            return self._table[nearest] + self._count_steps(indent[len(nearest) :])
        deeper = [one for one in self._table if one.startswith(indent)]
        if not deeper:
            return indent
        nearest = min(deeper, key=len)
        less = len(nearest) - len(indent)
        taken = less // len(mine) * len(theirs) if mine and less % len(mine) == 0 else less
        return self._table[nearest][: max(0, len(self._table[nearest]) - taken)]

    def _count_steps(self, more: str) -> str:
        """Return what further blanks are in the file."""
        mine, theirs = self._step
        steps, rest = divmod(len(more), len(mine)) if mine else (0, 1)
        return theirs * steps if not rest and more == mine * steps else more


def _divide_steps(one: str, other: str) -> tuple[str, str]:
    """Return how many blanks stand for a tab, or a tab for how many blanks; empty where they are of one kind."""
    if not other or set(one) == set(other):
        return "", ""
    if len(one) % len(other) == 0:
        return one[: len(one) // len(other)], other[0]
    return (one[0], other[: len(other) // len(one)]) if len(other) % len(one) == 0 else ("", "")


def _pair_lines(gone: Sequence[str], come: Sequence[str]) -> dict[int, int]:
    """Return which of the lines that come is a changed form of which that goes, in their order."""
    if not gone or not come:
        return {}
    if len(gone) == len(come) or len(gone) * len(come) > _MAX_PAIRS:
        return {at: at for at in range(min(len(gone), len(come)))}
    before, after = ([frozenset(_TOKENS.findall(line.strip())) - {" "} for line in lines] for lines in (gone, come))
    best: list[list[tuple[float, tuple[LinePair, ...]]]] = [[(0.0, ())] * (len(come) + 1)]
    for at, words in enumerate(before):
        row = [(0.0, tuple[LinePair, ...]())]
        for place, others in enumerate(after):
            alike = len(words & others) / max(1, len(words | others))
            score, pairs = best[at][place]
            joined = (score + alike, (*pairs, (place, at))) if alike >= _LEAST_ALIKE else (-1.0, pairs)
            row.append(max(joined, best[at][place + 1], row[place], key=lambda item: item[0]))
        best.append(row)
    return dict(best[-1][-1][1])


def _merge_line(there: str, old: str, new: str, indentation: Indentation) -> str:
    """Return the file's line after the change from `old` to `new`."""
    if old == new:
        return there
    indent, tail = get_indent(new), new[len(new.rstrip()) :]
    indent = get_indent(there) if indent == get_indent(old) else indentation.shift_indent(indent)
    if tail == old[len(old.rstrip()) :]:
        tail = there[len(there.rstrip()) :]
    elif there.endswith("\r") and not tail.endswith("\r"):
        tail += "\r"
    body = _merge_body(there.strip(), old.strip(), new.strip())
    return indent + (body if fold_all(body) == fold_all(new) else new.strip()) + tail


def _merge_body(there: str, old: str, new: str) -> str:
    units = list(_align_units(old, there))
    before, after = _TOKENS.findall(old), _TOKENS.findall(new)
    if len(before) * len(after) > _MAX_ALIGNED:
        return new
    starts = [0]
    for token in before:
        starts.append(starts[-1] + len(token))
    made: list[str] = []
    operations = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for number, (kind, first, last, low, high) in enumerate(operations):
        if kind != "equal":
            made += after[low:high]
            continue
        following = operations[number + 1] if number + 1 < len(operations) else None
        is_followed = following is None or following[0] != "delete"
        is_behind_other = number > 0 and operations[number - 1][0] == "replace"
        made.append(_copy_units(there, old, units, (starts[first], starts[last]), (is_behind_other, is_followed)))
    return "".join(made)


class _Unit(Struct, frozen=True):
    """A character or blanks of one text, and what stands for it in another: where both begin and end."""

    start: int
    end: int
    there: int
    there_end: int


def _copy_units(there: str, old: str, units: Sequence[_Unit], part: LinePair, edges: tuple[bool, bool]) -> str:
    """Return what stands in the file for an unchanged part of `old`. `edges` says whether blanks that only the file
    has at its beginning and its end belong to it.
    """
    start, end = part
    made = ""
    for unit in units:
        if unit.start == unit.end:
            inside = start < unit.start < end
            at_edge = (unit.start == start and edges[0]) or (unit.start == end and edges[1])
            made += there[unit.there : unit.there_end] if inside or at_edge else ""
        elif start <= unit.start and unit.end <= end:
            made += there[unit.there : unit.there_end]
        elif unit.start < end and unit.end > start:
            made += old[max(start, unit.start) : min(end, unit.end)]
    return made


def _align_units(old: str, there: str) -> Iterator[_Unit]:
    """Yield the units of two texts that are alike but for what is folded; up to where they are not."""
    at = place = 0
    while at < len(old) or place < len(there):
        end, there_end = _skip_blanks(old, at), _skip_blanks(there, place)
        if end == at and there_end == place:
            if at == len(old) or place == len(there):
                return
            end, there_end = _end_of_letter(old, at), _end_of_letter(there, place)
            while (mine := fold_all(old[at:end])) != (theirs := fold_all(there[place:there_end])):
                if theirs.startswith(mine) and end < len(old):
                    end = _end_of_letter(old, end)
                elif mine.startswith(theirs) and there_end < len(there):
                    there_end = _end_of_letter(there, there_end)
                else:
                    return
        yield _Unit(at, end, place, there_end)
        at, place = end, there_end


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and (text[at].isspace() or text[at] in _INVISIBLE):
        at += 1
    return at


def _end_of_letter(text: str, at: int) -> int:
    """Return where a character ends, with the marks that are put on it."""
    at += 1
    while at < len(text) and unicodedata.combining(text[at]):
        at += 1
    return at
