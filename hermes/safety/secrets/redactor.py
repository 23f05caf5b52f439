"""The redactor: it removes secrets that this process holds, and text with the pattern of a secret.

A held value becomes `[secret:NAME]` wherever it occurs as it is, and `[secret:NAME/FORM]` where it occurs in another
form (base64, hex, split, reversed, cut ...). Text that only has a secret's pattern becomes `[redacted:KIND]`. Text that
holds neither passes through unchanged, the same object. The work grows with the text's length, whatever is in it.

Values are searched for all at once: a text is read in blocks of eight, each looked up in one table. Every occurrence of
a string of 15 bytes contains one of its blocks of eight at an offset that eight divides; so looking at those offsets
finds all of them, and a text without any costs one look-up for every eight bytes. Shorter strings are found in the same
way by blocks of four. Text that comes in pieces is redacted as it comes.
"""

import base64
import codecs
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from typing import Literal

from msgspec import Struct

from hermes.i18n.messages import N_
from hermes.safety.secrets.patterns import Span, find_secret_patterns, merge_spans
from hermes.safety.secrets.placeholders import is_common_password
from hermes.util.text import IGNORABLES, compile_late, find_each

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
            places = table.setdefault(int.from_bytes(text[offset : offset + width], sys.byteorder), [])
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


_DROPPED_BYTES = bytes(byte for byte in range(256) if not (byte < 128 and chr(byte).isalnum()))


_LOWER_TABLE = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))


_KEPT_TABLE = bytes(byte < 128 and chr(byte).isalnum() for byte in range(256))


_ASCII = (
    r"%(?P<p>[0-9A-Fa-f]{2})|\\(?:x(?P<x>[0-9A-Fa-f]{2})|u(?P<u>[0-9A-Fa-f]{4})|u\{(?P<b>[0-9A-Fa-f]{2,4})\}"
    r"|(?P<o>[0-3][0-7]{2})|(?P<c>[nrtbf\"'/\\-]))|&#(?:(?P<d>\d{2,3})|[xX](?P<h>[0-9A-Fa-f]{2}));"
    "|\x1b\\[[0-9;]{0,16}[A-Za-z]"
)


_INVISIBLE_ONES = f"[{IGNORABLES}]"


_ESCAPES = re.compile(_ASCII)


_ALL_ESCAPES = compile_late(f"{_ASCII}|{_INVISIBLE_ONES}")
"""Slower: no alternative may begin with anything but one character for a text to be passed over quickly."""


_INVISIBLE = compile_late(_INVISIBLE_ONES)


_HEX_GROUPS = ("p", "x", "u", "b", "h")


_BLANKS = frozenset("nrtbf")


_JOINT = compile_late(r"[\"']\s{0,8}(?:\+|\.{1,2}|&|\\|,)?\s{0,40}[\"']")


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
    adjacent = any(quote in text and any(joint in text for joint in joints) for quote, joints in _JOINTS)
    bound = _replace_matches(text, _JOINT, lambda _: "", current) if adjacent else None
    return found if bound is None else [*found, bound]


def _choose_escape_pattern(text: str) -> re.Pattern[str] | None:
    """Return the pattern of the escapes that may be in a text; None when there are none."""
    if not text.isascii() and _INVISIBLE.search(text):
        return _ALL_ESCAPES
    return _ESCAPES if "%" in text or "\\" in text or "&#" in text or "\x1b" in text else None


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


MIN_SECRET_LENGTH = 8
"""Characters of the shortest value that is found anywhere; a shorter one only beside its name."""
_PLACEHOLDER = re.compile(r"\[(secret|redacted):([A-Za-z0-9_.:@-]{1,80})(?:/([a-z0-9]{1,12}))?\]")
_NAME = re.compile(r"[^A-Za-z0-9_.:@-]+")
_REFERENCE = re.compile(r"\$\w+|\$?\{[^{}]*\}|<[^<>]*>")
_MIN_DISTINCT = 4
_MAX_LINES = 200
_BASE64_EDGE = 2
_MAX_PART_VALUE = 512
_MIN_REST = 6
"""The shortest rest of a pattern, in characters, that is redacted beside a held value."""
_CACHED_TEXTS = 128
_MAX_CACHED_TEXT = 8192
"""Characters of the longest text whose spans are remembered."""
_CUT_FORMS = ("", "hex", "base64", "reversed")


class PlaceholderRefusal(Struct, frozen=True):
    """The reason why a text with placeholders is not written."""

    reason: str


class Redactor:
    """Redacts secrets in texts. `values` are the secrets by name; empty ones are left out.

    Values can be added while it is used (`add_secret`); one redactor is made for a process and shared by all of it.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values: dict[str, str] = {}
        self._named: dict[str, str] = {}
        self._exact: dict[str, str] = {}
        self._needles = MultiSearch()
        self._recent = lru_cache(maxsize=_CACHED_TEXTS)(self._find_spans)
        for name, value in (values or {}).items():
            self.add_secret(name, value)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the held secrets."""
        return tuple(dict.fromkeys([*self._values.values(), *self._named]))

    def add_secret(self, name: str, value: str) -> None:
        """Add a secret. A value that is known already keeps its name."""
        value = value.strip()
        name = _NAME.sub("_", name)[:80] or "secret"
        if not value or value in self._values or _PLACEHOLDER.search(value):
            return
        self._index_secret(name, value)
        # Of a value of several lines, such as a private key, each line is one.
        for line in value.splitlines()[:_MAX_LINES] if "\n" in value else ():
            if len(line) >= 2 * MIN_SECRET_LENGTH and not line.startswith("-----"):
                self._index_secret(name, line)

    def _index_secret(self, name: str, value: str) -> None:
        self._recent.cache_clear()
        if not _is_searchable(value):
            self._named[name] = value
            return
        self._values[value] = name
        forms = [(form, text) for form, text in encoded_forms(value) if len(text) >= MIN_SECRET_LENGTH]
        if all(form for form, _ in forms) or not value.isascii():
            self._exact[value] = name
        # Parts of a URL or a file are not searched for.
        cut = "://" not in value and "\n" not in value and len(value) <= _MAX_PART_VALUE
        strict = not _is_distinctive(value)
        for form, text in forms:
            parts = cut and form in _CUT_FORMS
            self._needles.add_needle(Needle(name, form, text, value, parts, strict=strict and not form))

    def redact(self, text: str) -> str:
        """Return the text without secrets."""
        spans = self.find_spans(text)
        if not spans:
            return text
        parts: list[str] = []
        done = 0
        for start, end, shown in spans:
            parts += [text[done:start], f"[{shown}]"]
            done = end
        return "".join([*parts, text[done:]])

    def find_spans(self, text: str) -> Sequence[Span]:
        """Return (start, end, replacement) for each secret in the text, in order and without overlaps.

        Those of recent texts are cached: a text passes several checks on its way, the tool's, the message's, the
        event's, the log's.
        """
        return self._recent(text) if len(text) <= _MAX_CACHED_TEXT else self._find_spans(text)

    def _find_spans(self, text: str) -> Sequence[Span]:
        if len(text) < 6:
            return self._find_named_values(text)
        held = [*self._find_held_values(text), *self._find_named_values(text)]
        shaped = list(_find_shaped_values(text))
        views = undo_escapes(text)
        for view in (*views, *(undo_dump(text) if self._values else ())):
            held += _move_spans(view, self._find_held_values(view.text))
        for view in views[-1:]:
            shaped += _move_spans(view, _find_shaped_values(view.text))
        if not held and not shaped:
            return ()
        placeholders = [match.span() for match in _PLACEHOLDER.finditer(text)] if "[" in text else []
        shaped = [(min(_skip_escape(text, start), end), end, shown) for start, end, shown in shaped]
        return _merge_spans(held, shaped, placeholders)

    def restore_placeholders(self, text: str, original: str) -> str | PlaceholderRefusal:
        """Return the text with its placeholders replaced by their secrets, to be written where `original` was ("" for a
        new file).

        A placeholder of a held secret is replaced when the original holds that very secret in that very form, so that
        text that was read, and is written again, is the same byte for byte. Every other placeholder is refused.
        """
        if "[secret:" not in text and "[redacted:" not in text:
            return text
        stood: dict[str, set[str]] = {}
        for start, end, shown in self.find_spans(original):
            stood.setdefault(f"[{shown}]", set()).add(original[start:end])
        literal = original.count
        known = set(self.names)
        for match in _PLACEHOLDER.finditer(text):
            mark = match[0]
            if literal(mark) >= text.count(mark) or (match[1] == "secret" and match[2] not in known):
                continue
            if match[1] == "redacted":
                return PlaceholderRefusal(
                    N_("{mark} marks something that was not shown. Leave its line as it is with patch.", mark=mark)
                )
            if len(stood.get(mark, ())) != 1:
                return PlaceholderRefusal(
                    N_("{mark} can only be written where that secret was before, and it was not here.", mark=mark)
                )
        return _PLACEHOLDER.sub(lambda match: next(iter(stood.get(match[0], {match[0]}))), text)

    def has_placeholder(self, text: str) -> bool:
        """Return whether the text has a placeholder, as in a shell command, where it has no meaning."""
        if "[secret:" not in text and "[redacted:" not in text:
            return False
        known = set(self.names)
        return any(match[1] == "redacted" or match[2] in known for match in _PLACEHOLDER.finditer(text))

    def unfinished_start(self, text: str) -> int:
        """Return where a held secret may begin that continues after the text's end; the text's length when there is
        none.
        """
        if not self._values:
            return len(text)
        first = len(text)
        for view in (None, *undo_escapes(text)):
            seen = to_single_bytes(view.text if view else text)
            begun = self._needles.unfinished_length(compact_bytes(seen))
            if begun:
                place = compact_offsets(seen)[-begun]
                first = min(first, view.original_span(place, place + 1)[0] if view else place)
        for value in self._exact:
            size = next((n for n in range(min(len(value) - 1, len(text)), 0, -1) if text.endswith(value[:n])), 0)
            first = min(first, len(text) - size)
        return first

    def _find_held_values(self, text: str) -> list[Span]:
        found: list[Span] = []
        data = to_single_bytes(text)
        letters = compact_bytes(data)
        hits = self._needles.find_all(letters)
        if hits:
            places = compact_offsets(data)
            for hit in hits:
                found += _hit_span(text, hit, places[hit.start], places[hit.end - 1] + 1)
        for value, name in self._exact.items():
            found += ((at, at + len(value), f"secret:{name}") for at in find_each(text, value))
        return found

    def _find_named_values(self, text: str) -> list[Span]:
        """Return values that are too short or too common to be found anywhere, where their name comes before them."""
        found: list[Span] = []
        for name, value in self._named.items():
            for at in find_each(text, name):
                end = at + len(name)
                start = text.find(value, end, end + len(value) + 8)
                between = text[end:start].strip(" \t\"'") if start > end else ""
                if between in ("=", ":", "=>", ":="):
                    found.append((start, start + len(value), f"secret:{name}"))
        return found


def _find_shaped_values(text: str) -> Iterator[Span]:
    for start, end, kind in find_secret_patterns(text, to_single_bytes(text)):
        yield start, end, f"redacted:{kind}"


def _is_distinctive(value: str) -> bool:
    """Return whether the value is distinctive enough to be found by its letters and
    digits, whatever is between them.
    """
    letters = [one for one in value if one.isascii() and one.isalnum()]
    digits = sum(one.isdigit() for one in letters)
    return len(letters) >= 20 or (0 < digits < len(letters))


def _hit_span(text: str, hit: NeedleHit, start: int, end: int) -> Iterator[Span]:
    """Yield the span of a hit with its replacement."""
    name, form = hit.needle.name, hit.needle.form
    if not hit.whole:
        yield start, end, f"secret:{name}/part"
    elif form == "base64":
        yield *_widen_base64(text, start, end), f"secret:{name}/base64"
    elif form:
        yield start, end, f"secret:{name}/{form}"
    else:
        value = hit.needle.value
        lead = next(at for at, one in enumerate(value) if one.isascii() and one.isalnum())
        if text.startswith(value, max(0, start - lead)):
            yield start - lead, start - lead + len(value), f"secret:{name}"
        elif not hit.needle.strict or end - start == len(hit.needle.text):
            yield start, end, f"secret:{name}/altered"


def _widen_base64(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a value's place in base64, with the characters at its edges that it shares with its neighbours."""
    for _ in range(_BASE64_EDGE):
        if start and (text[start - 1].isalnum() or text[start - 1] in "+/_-"):
            start -= 1
        if end < len(text) and (text[end].isalnum() or text[end] in "+/_-"):
            end += 1
    while end < len(text) and text[end] == "=" and end - start < len(text):
        end += 1
    return start, end


def _move_spans(view: DecodedText, spans: list[Span] | Iterator[Span]) -> Iterator[Span]:
    for start, end, shown in spans:
        yield *view.original_span(start, end), shown


def _skip_escape(text: str, start: int) -> int:
    """Return where a secret begins that seems to begin in the middle of an escape, such as the escaped line
    end before it in JSON.
    """
    slashes = 0
    while slashes < start and text[start - 1 - slashes] == "\\":
        slashes += 1
    if not slashes % 2:
        return start
    if text[start] == "u":
        return start + 5
    return start + (text[start] in "nrtbf")


def _merge_spans(held: list[Span], shaped: list[Span], closed: list[tuple[int, int]]) -> list[Span]:
    """Return held values, and patterns outside of them, in order; nothing inside a placeholder."""
    held = [span for span in merge_spans(held) if not _is_within(span, closed)] if closed else merge_spans(held)
    if not held and not closed:
        return merge_spans(shaped)
    blocked = sorted([*((start, end) for start, end, _ in held), *closed])
    result = list(held)
    at = 0
    for start, end, kind in merge_spans(shaped):
        at = bisect_right(blocked, (start, -1), at)
        # The one before may reach into this shape.
        inside = blocked[max(0, at - 1) : bisect_right(blocked, (end, -1), at)]
        result += ((first, last, kind) for first, last in _free_ranges(start, end, inside))
    return sorted(result)


def _free_ranges(start: int, end: int, blocked: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a pattern that no held value or placeholder covers; very short rests are left out."""
    free, whole = start, True
    for first, last in blocked:
        if last <= start:
            continue
        if first - free >= _MIN_REST:
            yield free, first
        free, whole = max(free, last), False
    if end - free >= (1 if whole else _MIN_REST):
        yield free, end


def _is_searchable(value: str) -> bool:
    """Return whether a value is so distinctive that it can be searched for anywhere."""
    if len(value) < MIN_SECRET_LENGTH or len(set(value)) < _MIN_DISTINCT:
        return False
    return not is_common_password(value) and not _REFERENCE.fullmatch(value)


def _is_within(span: Span, closed: list[tuple[int, int]]) -> bool:
    at = bisect_right(closed, (span[0], sys.maxsize)) - 1
    return at >= 0 and span[1] <= closed[at][1]


_MAX_HELD_BACK = 16_384
"""The most characters that are held back for a secret that does not end."""


_SECRET_HINT = re.compile(
    r"pass|pwd|secret|token|key|auth|cred|cookie|bearer|://|sudo|-----|login|identified|ldap|curl|mysql|redis|zip|"
    r"bindpw|[_-]pat|jwt|session|mnemonic|webhook|/bot",
    re.IGNORECASE,
)


_UNSPACED = (("\u3000", "\u30ff"), ("\u3400", "\u9fff"), ("\uac00", "\ud7af"), ("\uff00", "\uffef"))
"""The first and last letters of writing that has no blanks between words."""


class RedactingStream:
    """Redacts a text that comes in pieces: the results of `feed` and `close`, joined, are the redacted text.

    It holds back what may be the beginning of a known value, the last word, the rest of a line that names a secret, and
    a private key that has begun.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take a piece and return the redacted text that can be shown by now."""
        self._held += piece
        cut = self._safe_length()
        if cut <= 0:
            return ""
        ready, self._held = self._held[:cut], self._held[cut:]
        return self._redactor.redact(ready)

    def close(self) -> str:
        """Return the rest, redacted."""
        rest, self._held = self._held, ""
        return self._redactor.redact(rest) if rest else ""

    def _safe_length(self) -> int:
        """Return how many held characters may be released: nothing that may continue crosses that place."""
        text = self._held
        if len(text) > _MAX_HELD_BACK:
            return len(text) - _MAX_HELD_BACK // 2
        begun = text.rfind("-----BEGIN ")
        cut = begun if begun >= 0 and "-----END " not in text[begun:] else len(text)
        cut = self._word_boundary(cut)
        cut = self._word_boundary(min(cut, self._redactor.unfinished_start(text))) if cut else 0
        for start, end, _ in self._redactor.find_spans(text) if cut else ():
            if start < cut < end:
                return self._word_boundary(start)
        return cut

    def _word_boundary(self, limit: int) -> int:
        """Return the last place up to `limit` at which a word ends, or the line where it names a secret."""
        line = self._held.rfind("\n", 0, limit) + 1
        if _SECRET_HINT.search(self._held, line, limit):
            return line
        return next((at for at in range(limit, line, -1) if _ends_word(self._held[at - 1])), line)


def _ends_word(letter: str) -> bool:
    """Return whether a word ends behind the letter. A pattern with all these letters takes long to compile."""
    return letter in " \t" or any(first <= letter <= last for first, last in _UNSPACED)
