"""Render unified diffs for a terminal: numbered lines on bands, with the words marked that differ within a line."""

import itertools
import os
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from hermes.cli.render.code import CodeHighlighter
from hermes.cli.render.theme import ColorDepth, Theme
from hermes.i18n.messages import tr_plural
from hermes.markup.cells import measure_width, sanitize_line, wrap_text
from hermes.markup.inline import Run

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_WORDS = re.compile(r"\w+|\s+|.")
_SIGNS = {"+": "diff.add", "-": "diff.remove"}
_MIN_ROOM = 8
_MIN_SIMILARITY = 0.4
"""The share of two lines that must be the same for the words that differ to be marked."""
_MAX_MARKED_LENGTH = 1_000
"""Characters of a line beyond which its words are not compared."""
_MAX_COMPARISONS = 400
"""Pairs of lines beyond which a block's lines are compared in order only."""
_MAX_COST = 400_000
"""The products of the numbers of words of the pairs of lines that are compared in one diff; about 0.1 s."""
Range = tuple[int, int]


class DiffLine(Struct):
    """A line of a diff. `sign` is `+`, `-` or a space for lines of a file, empty for what is none."""

    sign: str
    text: str
    number: int = 0
    """Its number in the file; for a removed line in the old one."""
    marked: Sequence[Range] = ()
    """The ranges of the text that differ from the line that it took the place of."""


def parse_diff(lines: Sequence[str]) -> list[DiffLine]:
    """Parse a unified diff; the line that begins a hunk becomes an empty line without a sign, a first one nothing."""
    found: list[DiffLine] = []
    old = new = 0
    for at, raw in enumerate(lines):
        line = sanitize_line(raw).rstrip()
        if match := _HUNK.match(line):
            found += [DiffLine("", "")] if old or new else []
            old, new = int(match[1]), int(match[2])
        elif (not old and not new) or line.startswith("\\"):
            found.append(DiffLine("", line))
        elif line.startswith("diff ") or _is_file_header(lines, at):
            old = new = 0
            found.append(DiffLine("", line))
        else:
            sign = line[:1] if line[:1] in _SIGNS else " "
            found.append(DiffLine(sign, line[1:], old if sign == "-" else new))
            old, new = old + (sign != "+"), new + (sign != "-")
    return found


def count_changes(lines: Sequence[DiffLine]) -> tuple[int, int]:
    """Return how many lines were added, and how many removed."""
    return sum(one.sign == "+" for one in lines), sum(one.sign == "-" for one in lines)


def format_counts(theme: Theme, added: int, removed: int) -> str:
    """Format `+1 -4`; what is zero is left out."""
    parts = [theme.paint("diff.add", f"+{added}")] if added else []
    parts += [theme.paint("diff.remove", f"-{removed}")] if removed else []
    return " ".join(parts)


def format_diff(theme: Theme, lines: Sequence[DiffLine], width: int, most: int, name: str = "") -> list[str]:
    """Format at most `most` lines of a diff, long ones wrapped, and a line that says how many more there are.

    `name` is the file's, whose ending tells the language. Without colors and boxes (`theme.plain`) the numbers are
    left out.
    """
    shown = lines[:most]
    _mark_changed_words(shown)
    digits = 0 if theme.plain else len(str(max((one.number for one in shown), default=0)))
    # Of 256 colors the bands are strong ones, on which those of code could not be read.
    label = os.path.splitext(name)[1].removeprefix(".") if theme.depth is ColorDepth.TRUE else ""
    highlighters = {"-": CodeHighlighter(label), "+": CodeHighlighter(label)}
    found: list[str] = []
    for one in shown:
        if not one.sign:
            found += _format_note(theme, one.text, width, digits)
            highlighters = {"-": CodeHighlighter(label), "+": CodeHighlighter(label)}
            continue
        runs = highlighters["-" if one.sign == "-" else "+"].highlight_line(one.text)
        found += _format_line(theme, one, runs, width, digits)
    if len(lines) > most:
        found.append(format_rest(theme, len(lines) - most))
    return found


def format_rest(theme: Theme, count: int, hint: str = "") -> str:
    """Format the line that says how many lines are not shown."""
    mark = "…" if theme.unicode else "..."
    more = tr_plural("+{n} line", "+{n} lines", count)
    return theme.paint("diff.number", f"{mark} {more}{f' ({hint})' if hint else ''}")


def _format_note(theme: Theme, text: str, width: int, digits: int) -> list[str]:
    if not text:  # between two hunks
        mark = "⋮" if theme.unicode else "..."
        return [theme.paint("diff.number", f"{mark:>{max(digits, 1)}}")]
    style = "diff.file" if text.startswith(("--- ", "+++ ", "diff ")) else "result"
    return [theme.paint(style, text[start:end].rstrip()) for start, end in wrap_text(text, max(width, _MIN_ROOM))]


def _format_line(theme: Theme, line: DiffLine, runs: Sequence[Run], width: int, digits: int) -> list[str]:
    kind = _SIGNS.get(line.sign, "")
    ground = f"{kind}.band" if theme.has_bands and kind else ""
    room = max(width - digits - bool(digits) - 1, _MIN_ROOM)
    if not theme.has_bands:
        runs = [(line.text, kind or "result")]
    cuts = list(_cut_runs(runs, line.marked, kind))
    found: list[str] = []
    for part, indent in _wrap_code(line.text, room):
        gutter = "" if not digits else " " * (digits + 1) if found else f"{line.number:>{digits}} "
        sign = " " * (indent + 1) if found else line.sign
        shown = theme.paint(" ".join((ground, "diff.number")), gutter)
        shown += theme.paint(" ".join((ground, kind)) if kind else "result", sign)
        shown += _paint_range(theme, line.text, cuts, part, ground)
        if ground:
            shown += theme.paint(ground, " " * max(room - indent - measure_width(line.text[slice(*part)]), 0))
        found.append(shown if ground else shown.rstrip(" "))
    return found


def _wrap_code(text: str, room: int) -> Iterator[tuple[Range, int]]:
    """Yield the parts of a line of code that fit into so many cells, each with its indent: the parts after the first
    one have that of the line itself, of half of the room at most.
    """
    first, *rest = wrap_text(text, room)
    yield first, 0
    if rest:
        begin, indent = rest[0][0], min(len(text) - len(text.lstrip(" ")), room // 2)
        for start, end in wrap_text(text[begin:], room - indent):
            yield (begin + start, begin + end), indent


def _cut_runs(runs: Sequence[Run], marked: Sequence[Range], kind: str) -> Iterator[tuple[int, int, str]]:
    """Return the runs as places in the line, cut where a marked range begins or ends."""
    cuts = sorted({at for one in marked for at in one})
    begin = 0
    for text, style in runs:
        end = begin + len(text)
        edges = [begin, *(at for at in cuts if begin < at < end), end]
        for start, stop in itertools.pairwise(edges):
            is_marked = any(first <= start < last for first, last in marked)
            yield start, stop, f"{style} {kind}.word" if is_marked else style
        begin = end


def _paint_range(theme: Theme, line: str, cuts: Sequence[tuple[int, int, str]], part: Range, ground: str) -> str:
    first, last = part
    return "".join(
        theme.paint(f"{ground} {style}" if ground else style, line[max(start, first) : min(stop, last)])
        for start, stop, style in cuts
        if start < last and stop > first
    )


def _mark_changed_words(lines: Sequence[DiffLine]) -> None:
    """Mark what differs between a removed line and the added one that took its place, until that costs too much."""
    at, left = 0, _MAX_COST
    while at < len(lines):
        removed = _take_while(lines, at, "-")
        added = _take_while(lines, at + len(removed), "+")
        for old, new in _pair_lines(removed, added):
            if max(len(old.text), len(new.text)) > _MAX_MARKED_LENGTH:
                continue
            before, after = _WORDS.findall(old.text), _WORDS.findall(new.text)
            left -= len(before) * len(after)
            if left < 0:
                return
            _mark_words((old, before), (new, after))
        at += max(len(removed) + len(added), 1)


def _take_while(lines: Sequence[DiffLine], start: int, sign: str) -> Sequence[DiffLine]:
    end = start
    while end < len(lines) and lines[end].sign == sign:
        end += 1
    return lines[start:end]


def _pair_lines(removed: Sequence[DiffLine], added: Sequence[DiffLine]) -> list[tuple[DiffLine, DiffLine]]:
    """Pair each removed line with the added one that took its place: in order, and where there are more of one kind
    than of the other, with the one that is most like it.
    """
    if len(removed) == len(added) or len(removed) * len(added) > _MAX_COMPARISONS:
        return list(zip(removed, added, strict=False))
    fewer, others = (removed, added) if len(removed) < len(added) else (added, removed)
    pairs: list[tuple[DiffLine, DiffLine]] = []
    start = 0
    for at, line in enumerate(fewer):
        likeness = [_measure_likeness(line, other) for other in others[start : len(others) - len(fewer) + at + 1]]
        found = start + likeness.index(max(likeness))
        pairs.append((line, others[found]) if fewer is removed else (others[found], line))
        start = found + 1
    return pairs


def _measure_likeness(one: DiffLine, other: DiffLine) -> float:
    if max(len(one.text), len(other.text)) > _MAX_MARKED_LENGTH:
        return 0.0
    from difflib import SequenceMatcher

    before, after = (_WORDS.findall(line.text.strip()) for line in (one, other))
    # By the words alone: their order costs the product of the lines' lengths.
    return SequenceMatcher(None, before, after, autojunk=False).quick_ratio()


def _mark_words(removed: tuple[DiffLine, Sequence[str]], added: tuple[DiffLine, Sequence[str]]) -> None:
    """Mark the words that differ in two lines, which are given with their words."""
    from difflib import SequenceMatcher

    (old, before), (new, after) = removed, added
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    same = [(a, b, size) for a, b, size in matcher.get_matching_blocks() if size]
    kept = sum(len(word) for a, _, size in same for word in before[a : a + size] if not word.isspace())
    if kept < _MIN_SIMILARITY * max(len(old.text.strip()), len(new.text.strip()), 1) / 2:
        return
    old.marked = _list_changed_ranges(before, [(a, a + size) for a, _, size in same])
    new.marked = _list_changed_ranges(after, [(b, b + size) for _, b, size in same])


def _list_changed_ranges(words: Sequence[str], same: Sequence[Range]) -> list[Range]:
    """Return the ranges of a line's text that none of its same words are in."""
    ends = [0]
    for word in words:
        ends.append(ends[-1] + len(word))
    edges = [0, *(ends[at] for part in same for at in part), ends[-1]]
    return [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if start < end]


def _is_file_header(lines: Sequence[str], at: int) -> bool:
    """Return whether the line begins the next file, and is not one that was taken out of this file."""
    if not lines[at].startswith(("--- ", "+++ ")):
        return False
    near = lines[at : at + 3] if lines[at].startswith("---") else lines[max(at - 1, 0) : at + 2]
    return len(near) > 1 and near[0].startswith("--- ") and near[1].startswith("+++ ")
