"""The encodings in which a value can be printed, and texts with such encodings undone."""

import base64
import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import compress

_DROPPED_BYTES = bytes(byte for byte in range(256) if not (byte < 128 and chr(byte).isalnum()))
_LOWER_TABLE = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
_KEPT_TABLE = bytes(byte < 128 and chr(byte).isalnum() for byte in range(256))

_ASCII = (
    r"%(?P<p>[0-9A-Fa-f]{2})|\\(?:x(?P<x>[0-9A-Fa-f]{2})|u(?P<u>[0-9A-Fa-f]{4})|u\{(?P<b>[0-9A-Fa-f]{2,4})\}"
    r"|(?P<o>[0-3][0-7]{2})|(?P<c>[nrtbf\"'/\\-]))|&#(?:(?P<d>\d{2,3})|[xX](?P<h>[0-9A-Fa-f]{2}));"
    "|\x1b\\[[0-9;]{0,16}[A-Za-z]"
)
_INVISIBLE_ONES = "[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]"
_ESCAPES = re.compile(_ASCII)
_ALL_ESCAPES = re.compile(f"{_ASCII}|{_INVISIBLE_ONES}")
"""Slower: no alternative may begin with anything but one character for a text to be passed over quickly."""
_INVISIBLE = re.compile(_INVISIBLE_ONES)
_HEX_GROUPS = ("p", "x", "u", "b", "h")
_BLANKS = frozenset("nrtbf")
_JOINT = re.compile(r"[\"']\s{0,8}(?:\+|\.{1,2}|&|\\|,)?\s{0,40}[\"']")
_JOINTS = (('"', ('"+', '" +', '" "', '" .', '"."')), ("'", ("'+", "' +", "' '", "' .", "'.'")))
_DUMP_ROW = re.compile(r"(?m)^[0-9A-Fa-f]{6,16}:?[ \t]+([^\n]{2,200})$")
_DUMP_TEXT = re.compile(r" {2,}[|>]?([^\n]{1,40}?)[|<]?$")
_MAX_ROUNDS = 2
"""The number of times that nested escapes are undone."""


def to_single_bytes(text: str) -> bytes:
    """Encode the text with one byte for each character, so that offsets are the same in both; other characters become
    `?`.
    """
    return text.encode("latin-1", "replace")


def compact_bytes(data: bytes) -> bytes:
    """Return only the letters and digits, in lower case, so that separators do not split a value."""
    return data.translate(_LOWER_TABLE, _DROPPED_BYTES)


def compact_offsets(data: bytes) -> list[int]:
    """Return the offset in `data` for each byte of `compact_bytes(data)`."""
    return list(compress(range(len(data)), data.translate(_KEPT_TABLE)))


def encoded_forms(value: str) -> Iterator[tuple[str, bytes]]:
    """Yield (name of the form, its letters and digits) for every form that is looked for;
    the plain one is called "".
    """
    raw = value.encode("utf-8", "replace")
    yield "", compact_bytes(to_single_bytes(value))
    yield "reversed", compact_bytes(to_single_bytes(value[::-1]))
    yield "rot13", compact_bytes(to_single_bytes(codecs.encode(value, "rot13")))
    yield "hex", raw.hex().encode()
    yield "hex", raw[::-1].hex().encode()
    yield "hex", b"".join(b"%02x%02x" % (raw[at + 1], raw[at]) for at in range(0, len(raw) - 1, 2))
    yield "hex", b"".join(b"0x%02x" % byte for byte in raw)
    yield "decimal", b"".join(b"%d" % byte for byte in raw)
    yield "octal", b"".join(b"%03o" % byte for byte in raw)
    yield "base32", base64.b32encode(raw)[: len(raw) * 8 // 5].lower()
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw)
        yield "base64", compact_bytes(encoded[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6])


class DecodedText:
    """A text in which encodings were undone, with the original position of each of its parts."""

    def __init__(self, source: "DecodedText | None" = None) -> None:
        self._source = source
        self._parts: list[str] = []
        self._starts: list[int] = []
        self._places: list[tuple[int, int]] = []
        self._size = 0
        self.text = ""

    def add_part(self, text: str, start: int, end: int = 0) -> None:
        """Add a part that was at `start`; `end` is given when the original text was
        different, and is where it ended.
        """
        if text:
            self._starts.append(self._size)
            self._places.append((start, end))
            self._parts.append(text)
            self._size += len(text)

    def finish_text(self) -> "DecodedText":
        """Join the parts and return this text."""
        self.text = "".join(self._parts)
        self._parts.clear()
        return self

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of this text was in the original one."""
        first, last = bisect_right(self._starts, start) - 1, bisect_right(self._starts, end - 1) - 1
        place, other = self._places[first]
        begin = place if other else place + start - self._starts[first]
        place, other = self._places[last]
        after = other or place + end - self._starts[last]
        return (begin, after) if self._source is None else self._source.original_span(begin, after)


def undo_escapes(text: str) -> list[DecodedText]:
    """Return the text with escapes (percent, backslash, entities) and invisible characters undone, once and
    twice, and with neighboring string literals joined; nothing when there is nothing to undo. Escaped line
    ends become blanks.
    """
    found: list[DecodedText] = []
    current: DecodedText | None = None
    for _ in range(_MAX_ROUNDS):
        pattern = _choose_escape_pattern(text)
        further = _replace_matches(text, pattern, _decode_escape, current) if pattern else None
        if further is None:
            break
        current, text = further, further.text
        found.append(current)
    bound = _replace_matches(text, _JOINT, lambda _: "", current) if _has_adjacent_literals(text) else None
    return found if bound is None else [*found, bound]


def _choose_escape_pattern(text: str) -> re.Pattern[str] | None:
    """Return the pattern of the escapes that may be in a text; None when there are none."""
    if not text.isascii() and _INVISIBLE.search(text):
        return _ALL_ESCAPES
    return _ESCAPES if "%" in text or "\\" in text or "&#" in text or "\x1b" in text else None


def _has_adjacent_literals(text: str) -> bool:
    """Return whether string literals may be adjacent."""
    return any(quote in text and any(joint in text for joint in joints) for quote, joints in _JOINTS)


def undo_dump(text: str) -> Iterator[DecodedText]:
    """Yield the bytes' columns and the text's columns of a dump (`xxd`, `hexdump -C`, `od`), each as one text."""
    if "0000" not in text:
        return
    rows = [match.span(1) for match in _DUMP_ROW.finditer(text)]
    if not rows:
        return
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    for start, end in rows:
        column = _DUMP_TEXT.search(text, start, end)
        left.append((start, column.start() if column else end))
        if column:
            right.append(column.span(1))
    yield _join_spans(text, left)
    if right:
        yield _join_spans(text, right)


def _decode_escape(match: re.Match[str]) -> str:
    group = match.lastgroup
    if group is None:
        return ""
    if group == "c":
        return " " if match["c"] in _BLANKS else match["c"]
    return chr(int(match[group], 16 if group in _HEX_GROUPS else 8 if group == "o" else 10))


def _replace_matches(
    text: str, pattern: re.Pattern[str], meaning: Callable[[re.Match[str]], str], source: DecodedText | None
) -> DecodedText | None:
    """Return the text with every match replaced; None when there is none."""
    view = DecodedText(source)
    done = 0
    for match in pattern.finditer(text):
        start, end = match.span()
        view.add_part(text[done:start], done)
        view.add_part(meaning(match), start, end)
        done = end
    if not done:
        return None
    view.add_part(text[done:], done)
    return view.finish_text()


def _join_spans(text: str, spans: list[tuple[int, int]]) -> DecodedText:
    view = DecodedText()
    for start, end in spans:
        view.add_part(text[start:end], start)
    return view.finish_text()
