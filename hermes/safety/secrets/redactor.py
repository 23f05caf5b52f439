"""The redactor: no text that passes through it shows a secret that this process holds, nor what has a secret's shape.

A held value becomes `[secret:NAME]` wherever it stands as it is, and `[secret:NAME/FORM]` where it stands in another
form (base64, hex, split, reversed, cut ...). What only has a secret's shape becomes `[redacted:KIND]`. Text that holds
neither passes through unchanged, the same object. The work grows with the text's length, whatever is in it.
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from hermes.safety.secrets.encodings import View, compact, compact_places, flat, forms, nested, undumped
from hermes.safety.secrets.multi_search import Hit, Needle, Needles
from hermes.safety.secrets.patterns import merged, shapes
from hermes.safety.secrets.placeholders import common

SHORTEST = 8
"""Characters of the shortest value that is looked for wherever it stands; a shorter one only beside its name."""
_PLACEHOLDER = re.compile(r"\[(secret|redacted):([A-Za-z0-9_.:@-]{1,80})(?:/([a-z0-9]{1,12}))?\]")
_NAME = re.compile(r"[^A-Za-z0-9_.:@-]+")
_REFERENCE = re.compile(r"\$\w+|\$?\{[^{}]*\}|<[^<>]*>")
_DISTINCT = 4
_LINES = 200
_BASE64_EDGE = 2
_LONG = 512
_REST = 6
"""Characters of the least part of a shape that is taken out beside a held value."""
_RECENT = 128
_REMEMBERED = 8192
"""Characters of the longest text whose spans are remembered."""
_CUT_FORMS = ("", "hex", "base64", "reversed")

Span = tuple[int, int, str]


class Refusal(Struct, frozen=True):
    """Why a text with placeholders is not written."""

    reason: str


class Redactor:
    """Takes secrets out of texts. `values` are the secrets by name; empty ones are left out.

    Values can be added while it is used (`learn`); it is made for one process and shared by all of it.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values: dict[str, str] = {}
        self._named: dict[str, str] = {}
        self._exact: dict[str, str] = {}
        self._needles = Needles()
        self._recent = lru_cache(maxsize=_RECENT)(self._found)
        for name, value in (values or {}).items():
            self.learn(name, value)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the secrets that are held."""
        return tuple(dict.fromkeys([*self._values.values(), *self._named]))

    def learn(self, name: str, value: str) -> None:
        """Hold one more secret. A value that is held already keeps the name that it has."""
        value = value.strip()
        name = _NAME.sub("_", name)[:80] or "secret"
        if not value or value in self._values or _PLACEHOLDER.search(value):
            return
        self._take(name, value)
        # Of a value of several lines, such as a private key, each line is one.
        for line in value.splitlines()[:_LINES] if "\n" in value else ():
            if len(line) >= 2 * SHORTEST and not line.startswith("-----"):
                self._take(name, line)

    def _take(self, name: str, value: str) -> None:
        self._recent.cache_clear()
        if not _odd_enough(value):
            self._named[name] = value
            return
        self._values[value] = name
        found = [_needle(name, value, form, text) for form, text in forms(value) if len(text) >= SHORTEST]
        if all(needle.form for needle in found) or not value.isascii():
            self._exact[value] = name
        for needle in found:
            self._needles.add(needle)

    def redact(self, text: str) -> str:
        """The text without secrets."""
        spans = self._looked_up(text)
        if not spans:
            return text
        parts: list[str] = []
        done = 0
        for start, end, shown in spans:
            parts += [text[done:start], f"[{shown}]"]
            done = end
        return "".join([*parts, text[done:]])

    def spans(self, text: str) -> list[Span]:
        """(start, end, what stands for it) for each secret in the text, in order and apart."""
        return list(self._looked_up(text))

    def _looked_up(self, text: str) -> Sequence[Span]:
        """The spans; of a text that was looked at a moment ago as they were found then. One text passes several doors
        on its way: the tool's, the message's, the event's, the log's."""
        return self._recent(text) if len(text) <= _REMEMBERED else self._found(text)

    def _found(self, text: str) -> Sequence[Span]:
        if len(text) < 6:
            return self._beside_names(text)
        data = flat(text)
        held = [*self._held(text, data), *self._beside_names(text)]
        shaped = [(start, end, f"redacted:{kind}") for start, end, kind in shapes(text, data)]
        views = nested(text)
        for view in views:
            held += _moved(view, self._held(view.text, flat(view.text)))
        for view in views[-1:]:
            inner = flat(view.text)
            shaped += _moved(view, ((a, b, f"redacted:{kind}") for a, b, kind in shapes(view.text, inner)))
        if self._values:
            for view in undumped(text):
                held += _moved(view, self._held(view.text, flat(view.text)))
        if not held and not shaped:
            return ()
        placeholders = [match.span() for match in _PLACEHOLDER.finditer(text)] if "[" in text else []
        return _apart(held, _behind_escapes(text, shaped), placeholders)

    def resolve(self, text: str, original: str) -> str | Refusal:
        """The text with its placeholders put back, to be written where `original` stood ("" for a new file).

        A placeholder of a held secret is put back when the original holds that very secret in that very form, so that
        what was read, and is written again, is the same byte for byte. Everything else is refused.
        """
        if "[secret:" not in text and "[redacted:" not in text:
            return text
        stood: dict[str, set[str]] = {}
        for start, end, shown in self.spans(original):
            stood.setdefault(f"[{shown}]", set()).add(original[start:end])
        literal = original.count
        known = set(self.names)
        for match in _PLACEHOLDER.finditer(text):
            mark = match[0]
            if literal(mark) >= text.count(mark) or (match[1] == "secret" and match[2] not in known):
                continue
            if match[1] == "redacted":
                return Refusal(f"{mark} stands for something that was not shown. Leave its line as it is with patch.")
            if len(stood.get(mark, ())) != 1:
                return Refusal(f"{mark} can only be written where that secret stood before, and it did not stand here.")
        return _PLACEHOLDER.sub(lambda match: next(iter(stood.get(match[0], {match[0]}))), text)

    def holds_placeholder(self, text: str) -> bool:
        """Whether a placeholder of ours is in the text, as in a shell command, where it has no meaning."""
        if "[secret:" not in text and "[redacted:" not in text:
            return False
        known = set(self.names)
        return any(match[1] == "redacted" or match[2] in known for match in _PLACEHOLDER.finditer(text))

    def unfinished(self, text: str) -> int:
        """Where in the text a held secret may have begun that goes on after its end; its length when none has."""
        if not self._values:
            return len(text)
        first = len(text)
        for view in (None, *nested(text)):
            seen = flat(view.text if view else text)
            begun = self._needles.begun(compact(seen))
            if begun:
                place = compact_places(seen)[-begun]
                first = min(first, view.span(place, place + 1)[0] if view else place)
        for value in self._exact:
            size = next((n for n in range(min(len(value) - 1, len(text)), 0, -1) if text.endswith(value[:n])), 0)
            first = min(first, len(text) - size)
        return first

    def _held(self, text: str, data: bytes) -> list[Span]:
        found: list[Span] = []
        letters = compact(data)
        hits = self._needles.find(letters)
        if hits:
            places = compact_places(data)
            for hit in hits:
                found += _named_span(text, hit, places[hit.start], places[hit.end - 1] + 1)
        for value, name in self._exact.items():
            at = text.find(value)
            while at >= 0:
                found.append((at, at + len(value), f"secret:{name}"))
                at = text.find(value, at + len(value))
        return found

    def _beside_names(self, text: str) -> list[Span]:
        """Values that are too short or too common to be looked for by themselves, where their name stands before."""
        found: list[Span] = []
        for name, value in self._named.items():
            at = text.find(name)
            while at >= 0:
                end = at + len(name)
                start = text.find(value, end, end + len(value) + 8)
                between = text[end:start].strip(" \t\"'") if start > end else ""
                if between in ("=", ":", "=>", ":="):
                    found.append((start, start + len(value), f"secret:{name}"))
                at = text.find(name, end)
        return found


def _needle(name: str, value: str, form: str, text: bytes) -> Needle:
    """What is looked for of one form. Parts of an address or a file say nothing by themselves."""
    parts = form in _CUT_FORMS and "://" not in value and "\n" not in value and len(value) <= _LONG
    return Needle(name, form, text, value, parts, strict=not form and not _loose(value))


def _loose(value: str) -> bool:
    """Whether the value is odd enough to be known by its letters and digits, whatever stands between them."""
    letters = [one for one in value if one.isascii() and one.isalnum()]
    digits = sum(one.isdigit() for one in letters)
    return len(letters) >= 20 or (0 < digits < len(letters))


def _named_span(text: str, hit: Hit, start: int, end: int) -> Iterator[Span]:
    """Where a hit is, and what stands for it."""
    name, form = hit.needle.name, hit.needle.form
    if not hit.whole:
        yield start, end, f"secret:{name}/part"
    elif form == "base64":
        yield *_widened(text, start, end), f"secret:{name}/base64"
    elif form:
        yield start, end, f"secret:{name}/{form}"
    else:
        value = hit.needle.value
        lead = next(at for at, one in enumerate(value) if one.isascii() and one.isalnum())
        if text.startswith(value, max(0, start - lead)):
            yield start - lead, start - lead + len(value), f"secret:{name}"
        elif not hit.needle.strict or end - start == len(hit.needle.text):
            yield start, end, f"secret:{name}/altered"


def _widened(text: str, start: int, end: int) -> tuple[int, int]:
    """A value's place in base64, with the characters at its edges that it shares with its neighbours."""
    for _ in range(_BASE64_EDGE):
        if start and (text[start - 1].isalnum() or text[start - 1] in "+/_-"):
            start -= 1
        if end < len(text) and (text[end].isalnum() or text[end] in "+/_-"):
            end += 1
    while end < len(text) and text[end] == "=" and end - start < len(text):
        end += 1
    return start, end


def _moved(view: View, spans: list[Span] | Iterator[Span]) -> Iterator[Span]:
    for start, end, shown in spans:
        yield *view.span(start, end), shown


def _behind_escapes(text: str, found: Sequence[Span]) -> list[Span]:
    return [(min(_behind_escape(text, start), end), end, shown) for start, end, shown in found]


def _behind_escape(text: str, start: int) -> int:
    """Where a secret begins that seems to begin in the middle of an escape: `\\n` in JSON before it is a line's end."""
    slashes = 0
    while slashes < start and text[start - 1 - slashes] == "\\":
        slashes += 1
    if not slashes % 2:
        return start
    if text[start] == "u":
        return start + 5
    return start + (text[start] in "nrtbf")


def _apart(held: list[Span], shaped: list[Span], closed: list[tuple[int, int]]) -> list[Span]:
    """Held values, and shapes where no held value stands, in order; nothing inside a placeholder."""
    held = [span for span in merged(held) if not _within(span, closed)] if closed else merged(held)
    if not held and not closed:
        return merged(shaped)
    blocked = sorted([*((start, end) for start, end, _ in held), *closed])
    kept = list(held)
    at = 0
    for start, end, kind in merged(shaped):
        at = bisect_right(blocked, (start, -1), at)
        # The one before may reach into this shape.
        inside = blocked[max(0, at - 1) : bisect_right(blocked, (end, -1), at)]
        kept += ((first, last, kind) for first, last in _free(start, end, inside))
    return sorted(kept)


def _free(start: int, end: int, blocked: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of a shape that nothing else has taken; crumbs beside something taken are left."""
    free, whole = start, True
    for first, last in blocked:
        if last <= start:
            continue
        if first - free >= _REST:
            yield free, first
        free, whole = max(free, last), False
    if end - free >= (1 if whole else _REST):
        yield free, end


def _odd_enough(value: str) -> bool:
    """Whether a value is so unlike other text that it can be looked for wherever it stands."""
    if len(value) < SHORTEST or len(set(value)) < _DISTINCT:
        return False
    return not common(value) and not _REFERENCE.fullmatch(value)


def _within(span: Span, closed: list[tuple[int, int]]) -> bool:
    at = bisect_right(closed, (span[0], sys.maxsize)) - 1
    return at >= 0 and span[1] <= closed[at][1]
