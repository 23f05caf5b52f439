"""Searches a text for many byte strings at once: it is read in blocks of eight, each looked up in one table.

Every occurrence of a string of 15 bytes contains one of its blocks of eight at an offset that eight divides; so looking
at those offsets finds all of them, and a text without any costs one look-up for every eight bytes. Shorter strings are
found in the same way by blocks of four.
"""

import sys
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

_WIDE, _NARROW = 8, 4
_MIN_PART = 16
"""The shortest part of a string, in bytes, that is found by itself; it must be a third of it besides."""
_MAX_SHARED = 8
"""The number of strings that a block may belong to besides those that find whole strings."""


class Needle(Struct, frozen=True):
    """One string to find: a form of a secret's value, in lower-case letters and digits.

    `parts` means that a long part of it is found too; `strict` that no other characters may be between its own.
    """

    name: str
    form: str
    text: bytes
    value: str = ""
    parts: bool = False
    strict: bool = False


class NeedleHit(Struct, frozen=True):
    """A needle, or a part of one, at a place."""

    needle: Needle
    start: int
    end: int
    whole: bool = True


_Places = dict[int, list[tuple[Needle, int]]]


class MultiSearch:
    """An index of many strings that finds all of them in a text."""

    def __init__(self) -> None:
        self._wide: _Places = {}
        self._narrow: _Places = {}
        self._beginnings: dict[bytes, list[bytes]] = {}
        self._longest = 0

    def __bool__(self) -> bool:
        return bool(self._wide or self._narrow)

    def add_needle(self, needle: Needle) -> None:
        """Add a string to find. It has at least eight bytes."""
        text = needle.text
        wide = len(text) >= 2 * _WIDE - 1
        width, table = (_WIDE, self._wide) if wide else (_NARROW, self._narrow)
        last = len(text) - width
        for offset in range(last, -1, -1):
            needed = offset > last - width
            if not needed and not (wide and needle.parts):
                break
            places = table.setdefault(_block_number(text, offset, width), [])
            if needed or len(places) < _MAX_SHARED:
                places.append((needle, offset))
        self._longest = max(self._longest, len(text))
        for size in range(1, _WIDE + 1):
            self._beginnings.setdefault(text[:size], []).append(text)

    def find_all(self, text: bytes) -> list[NeedleHit]:
        """Return all of them in `text`, in order within each width."""
        return [*_iter_hits(text, self._wide, _WIDE, "Q"), *_iter_hits(text, self._narrow, _NARROW, "I")]

    def unfinished_length(self, text: bytes) -> int:
        """Return the length of the longest end of `text` that may be the beginning of a string."""
        for at in range(max(0, len(text) - self._longest), len(text)):
            tail = text[at:]
            for needle in self._beginnings.get(tail[:_WIDE], ()):
                if len(needle) > len(tail) and needle.startswith(tail):
                    return len(tail)
        return 0


def _block_number(text: bytes, offset: int, width: int) -> int:
    return int.from_bytes(text[offset : offset + width], sys.byteorder)


def _iter_hits(text: bytes, table: _Places, width: int, code: Literal["Q", "I"]) -> Iterator[NeedleHit]:
    if not table:
        return
    blocks = memoryview(text)[: len(text) // width * width].cast(code)
    if table.keys().isdisjoint(blocks):
        return
    done = 0
    for number, block in enumerate(blocks):
        at = number * width
        if at + width > done and block in table:
            hit = _best_hit(text, at, table[block])
            if hit:
                yield hit
                done = hit.end


def _best_hit(text: bytes, at: int, candidates: list[tuple[Needle, int]]) -> NeedleHit | None:
    """Return the longest of what the block at this place may belong to; whole ones go first."""
    whole = [
        NeedleHit(needle, at - offset, at - offset + len(needle.text))
        for needle, offset in candidates
        if at >= offset and text.startswith(needle.text, at - offset)
    ]
    hits = whole or [
        hit for needle, offset in candidates if needle.parts and (hit := _partial_hit(text, at, needle, offset))
    ]
    return max(hits, key=lambda hit: hit.end - hit.start, default=None)


def _partial_hit(text: bytes, at: int, needle: Needle, offset: int) -> NeedleHit | None:
    """Return the part of the needle around this place, if it is long enough."""
    whole = needle.text
    start, first = at, offset
    while start and first and text[start - 1] == whole[first - 1]:
        start, first = start - 1, first - 1
    end, last = at + _WIDE, offset + _WIDE
    while end < len(text) and last < len(whole) and text[end] == whole[last]:
        end, last = end + 1, last + 1
    enough = end - start >= max(_MIN_PART, len(whole) // 3)
    return NeedleHit(needle, start, end, whole=False) if enough else None
