"""Markdown as a bare text with marked ranges, the way Telegram stores messages.

Ranges instead of MarkdownV2 or HTML: there is nothing to escape, so no text of a model can be refused for its marks or
break out of them, and a text is never longer than it is counted.
"""

import re
from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from hermes.markup.blocks import Kind
from hermes.markup.containers import QUOTE
from hermes.markup.document import Part, addressed, aligned, bars, is_marker, marks, parts_of, quotes

MOST = 100
"""Marked ranges that Telegram keeps of a message."""

_WEB = re.compile(r"https?://[^\s<>]+$", re.IGNORECASE)
_STYLES = {"strong": "bold", "emphasis": "italic", "strike": "strikethrough"}
_RANK = {"text_link": 0, "pre": 1, "code": 2, "blockquote": 3}


class Entity(Struct, frozen=True, omit_defaults=True):
    """A marked range; `offset` and `length` in UTF-16 code units."""

    type: str
    offset: int
    length: int
    url: str = ""
    language: str = ""


class Marked(Struct, frozen=True):
    """A text and its ranges, which lie beside or within each other, in the order in which they begin."""

    text: str
    entities: tuple[Entity, ...] = ()

    @property
    def size(self) -> int:
        """The text's length in UTF-16 code units."""
        return _units(self.text)


def marked(markdown: str, limit: int) -> Marked:
    """The text with its ranges, of at most `limit` UTF-16 code units if the markdown is not longer: a table whose
    columns would not fit beside each other stands as it was written, and so, at worst, does all of it."""
    for compact in (False, True):
        found = _Writer(compact=compact).written(parts_of(markdown))
        if found.size <= limit:
            return found
    return Marked(markdown)


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


class _Writer:
    def __init__(self, *, compact: bool) -> None:
        self._compact = compact
        self._text: list[str] = []
        self._at = 0
        self._entities: list[Entity] = []

    def written(self, parts: Sequence[Part]) -> Marked:
        for quoted, group in groupby(parts, lambda part: part.around[:1] == (QUOTE,)):
            inside = list(group)
            if self._text:
                self._put("\n\n" if inside[0].gap else "\n")
            begin = self._at
            for place, part in enumerate(inside):
                if place:
                    self._put("\n\n" if part.gap else "\n")
                self._part(part, part.around[1:] if quoted else part.around)
            if quoted:
                self._mark("blockquote", begin)
        return Marked("".join(self._text), _in_order(self._entities))

    def _put(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._at += _units(text)

    def _mark(self, kind: str, begin: int, url: str = "", language: str = "") -> None:
        if self._at > begin:
            self._entities.append(Entity(kind, begin, self._at - begin, url, language))

    def _part(self, part: Part, around: tuple[str, ...]) -> None:
        if part.kind in (Kind.CODE, Kind.TABLE):
            self._code(part, around)
            return
        self._put(marks(around))
        if part.kind is Kind.RULE:
            self._put("———")
        elif part.kind is Kind.TEXT:
            self._put(part.text.replace("\n", f"\n{bars(around)}"))
        else:
            self._words(part, bars(around))

    def _code(self, part: Part, around: tuple[str, ...]) -> None:
        """Code, or a table, from the left edge on, so that it can be copied."""
        if any(map(is_marker, around)):
            self._put(marks(around).rstrip() + "\n")
        table = part.kind is Kind.TABLE
        text = "\n".join(aligned(part)) if table and not self._compact else part.text
        begin = self._at
        left = bars(quotes(around))
        self._put(left + text.replace("\n", f"\n{left}"))
        self._mark("pre", begin, language=re.sub(r"[^\w+#.-]", "", part.label))

    def _words(self, part: Part, left: str) -> None:
        # What cannot be opened from a message is not a link there: its address stands behind its words.
        spans = addressed(part.spans, lambda href: _WEB.match(href) is not None)
        heading = part.kind is Kind.HEADING
        open_at: dict[str, int] = {}
        for words, style, href in [*spans, ("", "", "")]:
            styles = style.split()
            code = "code" in styles and not href
            self._turn(open_at, set() if code or not words else _wanted(styles, heading=heading))
            begin = self._at
            self._put(words.replace("\n", f"\n{left}") if left else words)
            if code:
                self._mark("code", begin)
            elif href and href != words:
                self._mark("text_link", begin, url=href)

    def _turn(self, open_at: dict[str, int], wanted: set[str]) -> None:
        """End the styles that are not wanted from here on, and begin those that are."""
        for one in [one for one in open_at if one not in wanted]:
            self._mark(one, open_at.pop(one))
        for one in sorted(wanted - open_at.keys()):
            open_at[one] = self._at


def _wanted(styles: Sequence[str], *, heading: bool) -> set[str]:
    found = {_STYLES[one] for one in styles if one in _STYLES}
    return found | {"bold"} if heading else found


def _in_order(entities: Sequence[Entity]) -> tuple[Entity, ...]:
    """At most `MOST`, those that more than looks depends on before others, in order; none crosses another one."""
    if len(entities) > MOST:
        entities = sorted(entities, key=lambda one: _RANK.get(one.type, 9))[:MOST]
    found: list[Entity] = []
    ends: list[int] = []
    for one in sorted(entities, key=lambda one: (one.offset, -one.length)):
        while ends and ends[-1] <= one.offset:
            ends.pop()
        if ends and one.offset + one.length > ends[-1]:
            continue
        ends.append(one.offset + one.length)
        found.append(one)
    return tuple(found)
