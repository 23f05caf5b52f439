"""Finds a block of lines in a file although it was copied with small faults."""

import difflib
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

_QUOTES = str.maketrans({
    "‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
    "…": "...", "–": "-", "—": "-", "‐": "-", "‑": "-", "−": "-", "\u00a0": " ", "\u2009": " ",
    "\u202f": " ", "\u3000": " ",
})  # fmt: skip
_BLANKS = re.compile(r"\s+")
_HINT_LINES = 20_000


def _fold_line(line: str) -> str:
    return _BLANKS.sub(" ", line.translate(_QUOTES)).strip()


MATCH_LEVELS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("", lambda line: line),
    ("blanks at line ends", str.rstrip),
    ("indentation", str.strip),
    ("blanks and quotes", _fold_line),
    ("blanks and quotes", lambda line: _BLANKS.sub("", _fold_line(line)).replace('"', "'")),
)
"""The differences that are ignored, from none to most; the first level with a match counts."""


class BlockMatch(Struct, frozen=True):
    """The places of a block: indices of first lines, and what differs there (empty when nothing)."""

    starts: tuple[int, ...]
    difference: str = ""


def find_block(lines: Sequence[str], block: Sequence[str], start: int = 0) -> BlockMatch:
    """Return every place of `block` in `lines` from `start` on, at the first level that has any.

    Places do not overlap.
    """
    if not block:
        return BlockMatch(())
    for differs, fold in MATCH_LEVELS:
        wanted = [fold(line) for line in block]
        if differs and not any(wanted):
            break
        have = [fold(line) for line in lines]
        places: list[int] = []
        at = start
        while (at := _find_next(have, wanted, at)) >= 0:
            places.append(at)
            at += len(wanted)
        if places:
            return BlockMatch(tuple(places), differs)
    return BlockMatch(())


def _find_next(have: Sequence[str], wanted: Sequence[str], at: int) -> int:
    # The rarest thing to look for would be quicker still; the longest line is nearly that, and blank lines never are.
    key = max(range(len(wanted)), key=lambda index: len(wanted[index]))
    while True:
        try:
            hit = have.index(wanted[key], at + key) if isinstance(have, list) else -1
        except ValueError:
            return -1
        if hit < 0 or hit - key + len(wanted) > len(have):
            return -1
        if have[hit - key : hit - key + len(wanted)] == list(wanted):
            return hit - key
        at = hit - key + 1


def reindent_block(block: Sequence[str], old: Sequence[str], there: Sequence[str]) -> list[str]:
    """Return `block`, written with the indentation of `old`, moved to the one that the file really has."""
    pairs = [(_get_indent(mine), _get_indent(theirs)) for mine, theirs in zip(old, there, strict=False) if mine.strip()]
    if not pairs or pairs[0][0] == pairs[0][1]:
        return list(block)
    table = dict(reversed(pairs))
    mine, theirs = pairs[0]
    moved: list[str] = []
    for line in block:
        indent = _get_indent(line)
        if not line.strip():
            moved.append(line)
        elif indent in table:
            moved.append(table[indent] + line[len(indent) :])
        elif indent.startswith(mine):
            moved.append(theirs + line[len(mine) :])
        else:
            moved.append(theirs[: max(0, len(theirs) - len(mine) + len(indent))] + line[len(indent) :])
    return moved


def describe_nearest(lines: Sequence[str], block: Sequence[str]) -> str:
    """Return a hint at the place that looks most like `block`; empty when nothing does."""
    first = next((line.strip() for line in block if line.strip()), "")
    if not first or len(lines) > _HINT_LINES:
        return ""
    stripped = [line.strip()[:300] for line in lines]
    close = difflib.get_close_matches(first[:300], set(stripped), n=1, cutoff=0.6)
    if not close:
        return ""
    at = stripped.index(close[0])
    shown = "\n".join(
        f"{number}|{line[:200]}" for number, line in enumerate(lines[at : at + min(len(block), 6)], at + 1)
    )
    return f"The most similar place is:\n{shown}"


def _get_indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
