"""Many byte strings looked for at once: a text is read in blocks of eight, each looked up in one table.

Whatever holds a string of 15 bytes holds one of its blocks of eight at a place that eight divides; so looking at those
places only finds all of them, and a text without any costs a look-up for every eight bytes. Shorter strings are found
in the same way by blocks of four.
"""

import sys
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

_WIDE, _NARROW = 8, 4
_LEAST_PART = 16
"""Bytes of a string's shortest part that is found by itself; it must be a third of it besides."""
_SHARED = 8
"""How many places a block may stand for besides those that find whole strings."""


class Needle(Struct, frozen=True):
    """One string to find: a form of a secret's value, in small letters and digits.

    `parts` says that a long part of it is found too; `strict` that nothing may stand between its characters.
    """

    name: str
    form: str
    text: bytes
    value: str = ""
    parts: bool = False
    strict: bool = False


class Hit(Struct, frozen=True):
    """A needle, or a part of one, at a place."""

    needle: Needle
    start: int
    end: int
    whole: bool = True


_Places = dict[int, list[tuple[Needle, int]]]


class Needles:
    """The strings, and where they are in a text."""

    def __init__(self) -> None:
        self._wide: _Places = {}
        self._narrow: _Places = {}
        self._beginnings: dict[bytes, list[bytes]] = {}
        self._longest = 0

    def __bool__(self) -> bool:
        return bool(self._wide or self._narrow)

    def add(self, needle: Needle) -> None:
        """Look for this one too. It has at least eight bytes."""
        text = needle.text
        wide = len(text) >= 2 * _WIDE - 1
        width, table = (_WIDE, self._wide) if wide else (_NARROW, self._narrow)
        last = len(text) - width
        for offset in range(last, -1, -1):
            needed = offset > last - width
            if not needed and not (wide and needle.parts):
                break
            places = table.setdefault(_number(text, offset, width), [])
            if needed or len(places) < _SHARED:
                places.append((needle, offset))
        self._longest = max(self._longest, len(text))
        for size in range(1, _WIDE + 1):
            self._beginnings.setdefault(text[:size], []).append(text)

    def find(self, text: bytes) -> list[Hit]:
        """All of them in `text`, in order within each width."""
        return [*_found(text, self._wide, _WIDE, "Q"), *_found(text, self._narrow, _NARROW, "I")]

    def begun(self, text: bytes) -> int:
        """Bytes at the end of `text` that may be the beginning of one: the most that are."""
        for at in range(max(0, len(text) - self._longest), len(text)):
            tail = text[at:]
            for needle in self._beginnings.get(tail[:_WIDE], ()):
                if len(needle) > len(tail) and needle.startswith(tail):
                    return len(tail)
        return 0


def _number(text: bytes, offset: int, width: int) -> int:
    return int.from_bytes(text[offset : offset + width], sys.byteorder)


def _found(text: bytes, table: _Places, width: int, code: Literal["Q", "I"]) -> Iterator[Hit]:
    if not table:
        return
    blocks = memoryview(text)[: len(text) // width * width].cast(code)
    if table.keys().isdisjoint(blocks):
        return
    done = 0
    for number, block in enumerate(blocks):
        at = number * width
        if at + width > done and block in table:
            hit = _best(text, at, table[block])
            if hit:
                yield hit
                done = hit.end


def _best(text: bytes, at: int, candidates: list[tuple[Needle, int]]) -> Hit | None:
    """The longest of what the block at this place may belong to; whole ones go first."""
    whole = [
        Hit(needle, at - offset, at - offset + len(needle.text))
        for needle, offset in candidates
        if at >= offset and text.startswith(needle.text, at - offset)
    ]
    hits = whole or [hit for needle, offset in candidates if needle.parts and (hit := _part(text, at, needle, offset))]
    return max(hits, key=lambda hit: hit.end - hit.start, default=None)


def _part(text: bytes, at: int, needle: Needle, offset: int) -> Hit | None:
    """As much of the needle as stands around this place, if that is enough."""
    whole = needle.text
    start, first = at, offset
    while start and first and text[start - 1] == whole[first - 1]:
        start, first = start - 1, first - 1
    end, last = at + _WIDE, offset + _WIDE
    while end < len(text) and last < len(whole) and text[end] == whole[last]:
        end, last = end + 1, last + 1
    enough = end - start >= max(_LEAST_PART, len(whole) // 3)
    return Hit(needle, start, end, whole=False) if enough else None
