"""Shows a change of a skill: unified, and with nothing in it that a terminal obeys or an eye misses."""

import difflib
import hashlib
from collections.abc import Iterator

from hermes.skills.files import Files, decode_text
from hermes.util.text import escape_unseen_characters

_MAX_FINE_LINES = 4_000
"""Lines that are compared one by one, of all files together: the time for it grows with the cube of them."""
_CONTEXT_LINES = 3


def diff_lines(before: Files | None, after: Files | None) -> list[str]:
    """Return the change from one state of a skill to another, a line each.

    It is whole, however long: whoever approves must have been able to see all of it.
    """
    return [escape_unseen_characters(line) for line in _iter_lines(before or {}, after or {})] or ["(nothing differs)"]


def hash_files(files: Files) -> str:
    """Return a hash of names and contents together."""
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{path}\0{len(files[path])}\0".encode() + files[path])
    return whole.hexdigest()


def _iter_lines(before: Files, after: Files) -> Iterator[str]:
    room = _MAX_FINE_LINES
    for path in sorted({*before, *after}):
        one, other = before.get(path), after.get(path)
        if one == other:
            continue
        texts = [decode_text(data) if data is not None else "" for data in (one, other)]
        if None in texts or not any(texts):
            yield f"--- {path}: {_describe_data(one)}"
            yield f"+++ {path}: {_describe_data(other)}"
            continue
        parts = [str(text).split("\n") if text else [] for text in texts]
        names = [path if data is not None else "(none)" for data in (one, other)]
        room -= len(parts[0]) + len(parts[1])
        if room >= 0:
            yield from difflib.unified_diff(parts[0], parts[1], names[0], names[1], lineterm="")
        else:
            yield from (f"--- {names[0]}", f"+++ {names[1]}")
            yield from _iter_block(*parts)


def _iter_block(one: list[str], other: list[str]) -> Iterator[str]:
    """Yield all from the first line that differs to the last one, as one block: in time that grows with the lines."""
    least = min(len(one), len(other))
    first = next((at for at in range(least) if one[at] != other[at]), least)
    last = next((at for at in range(least - first) if one[-1 - at] != other[-1 - at]), least - first)
    start, below = max(first - _CONTEXT_LINES, 0), min(last, _CONTEXT_LINES)
    sizes = [len(lines) - last + below - start for lines in (one, other)]
    yield "@@ -{0},{1} +{0},{2} @@".format(start + 1, *sizes)
    yield from (f" {line}" for line in one[start:first])
    yield from (f"-{line}" for line in one[first : len(one) - last])
    yield from (f"+{line}" for line in other[first : len(other) - last])
    yield from (f" {line}" for line in one[len(one) - last : len(one) - last + below])


def _describe_data(data: bytes | None) -> str:
    if not data:
        return "(none)" if data is None else "empty"
    return f"binary, {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}"
