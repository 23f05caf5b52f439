"""A change of a skill as a person sees it: unified, and with nothing in it that a terminal obeys or an eye misses."""

import difflib
import hashlib
import re
from collections.abc import Iterator

from hermes.skills.files import Files, as_text

_MOST_LINES = 3_000
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f"
    "\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)


def escaped(text: str) -> str:
    """The text with every character written out that cannot be seen, or that a terminal would obey."""
    return _UNSEEN.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", text)


def diff_lines(before: Files | None, after: Files | None) -> list[str]:
    """The change from one state of a skill to another, a line each; a long one is cut, and says so."""
    lines: list[str] = []
    for line in _lines(before or {}, after or {}):
        lines.append(escaped(line))
        if len(lines) > _MOST_LINES:
            return [*lines[:_MOST_LINES], f"[cut here: more than {_MOST_LINES:,} lines]"]
    return lines or ["(nothing differs)"]


def digest(files: Files) -> str:
    """A hash of names and contents together."""
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{path}\0{len(files[path])}\0".encode() + files[path])
    return whole.hexdigest()


def _lines(before: Files, after: Files) -> Iterator[str]:
    for path in sorted({*before, *after}):
        one, other = before.get(path), after.get(path)
        if one == other:
            continue
        texts = [as_text(data) if data is not None else "" for data in (one, other)]
        if None in texts:
            yield f"--- {path}: {_about(one)}"
            yield f"+++ {path}: {_about(other)}"
            continue
        parts = [str(text).split("\n") if text else [] for text in texts]
        names = [path if data is not None else "(none)" for data in (one, other)]
        yield from difflib.unified_diff(parts[0], parts[1], names[0], names[1], lineterm="")


def _about(data: bytes | None) -> str:
    return "(none)" if data is None else f"binary, {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}"
