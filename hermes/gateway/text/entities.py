"""Markdown as plain text with marked ranges, the form in which Telegram stores messages.

Ranges instead of MarkdownV2 or HTML: there is nothing to escape, so no text of a model can be refused
for its marks or break out of them, and a text is never longer than it is counted.
"""

import re
from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from hermes.markup.blocks import QUOTE, BlockKind
from hermes.markup.document import (
    MarkdownPart,
    align_table,
    continuation_prefix,
    expand_links,
    first_line_prefix,
    is_marker,
    parse_parts,
    quote_containers,
)

MAX_ENTITIES = 100
"""Marked ranges that Telegram keeps of a message."""

_WEB = re.compile(r"https?://[^\s<>]+$", re.IGNORECASE)
_STYLES = {"strong": "bold", "emphasis": "italic", "strike": "strikethrough"}
_RANK = {"text_link": 0, "pre": 1, "code": 2, "blockquote": 3}


class TextEntity(Struct, frozen=True, omit_defaults=True):
    """A marked range; `offset` and `length` are in UTF-16 code units."""

    type: str
    offset: int
    length: int
    url: str = ""
    language: str = ""


class EntityText(Struct, frozen=True):
    """A text and its ranges, which lie beside or within each other, in the order of their beginnings."""

    text: str
    entities: tuple[TextEntity, ...] = ()

    @property
    def size(self) -> int:
        """The text's length in UTF-16 code units."""
        return _utf16_length(self.text)


def to_entity_text(markdown: str, limit: int) -> EntityText:
    """Convert markdown to text with ranges, of at most `limit` UTF-16 code units if the markdown is not longer: a table
    that does not fit with aligned columns stays as written, and so, at worst, does everything.
    """
    for compact in (False, True):
        found = _Writer(compact=compact).write_parts(parse_parts(markdown))
        if found.size <= limit:
            return found
    return EntityText(markdown)


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


class _Writer:
    def __init__(self, *, compact: bool) -> None:
        self._compact = compact
        self._text: list[str] = []
        self._at = 0
        self._entities: list[TextEntity] = []

    def write_parts(self, parts: Sequence[MarkdownPart]) -> EntityText:
        for quoted, group in groupby(parts, lambda part: part.containers[:1] == (QUOTE,)):
            inside = list(group)
            if self._text:
                self._append_text("\n\n" if inside[0].gap else "\n")
            begin = self._at
            for place, part in enumerate(inside):
                if place:
                    self._append_text("\n\n" if part.gap else "\n")
                self._write_part(part, part.containers[1:] if quoted else part.containers)
            if quoted:
                self._add_entity("blockquote", begin)
        return EntityText("".join(self._text), _order_entities(self._entities))

    def _append_text(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._at += _utf16_length(text)

    def _add_entity(self, kind: str, begin: int, url: str = "", language: str = "") -> None:
        if self._at > begin:
            self._entities.append(TextEntity(kind, begin, self._at - begin, url, language))

    def _write_part(self, part: MarkdownPart, context: tuple[str, ...]) -> None:
        if part.kind in (BlockKind.CODE, BlockKind.TABLE):
            self._write_code(part, context)
            return
        self._append_text(first_line_prefix(context))
        if part.kind is BlockKind.RULE:
            self._append_text("———")
        elif part.kind is BlockKind.TEXT:
            self._append_text(part.text.replace("\n", f"\n{continuation_prefix(context)}"))
        else:
            self._write_words(part, continuation_prefix(context))

    def _write_code(self, part: MarkdownPart, context: tuple[str, ...]) -> None:
        """Write code, or a table, from the left edge on, so that it can be copied."""
        if any(map(is_marker, context)):
            self._append_text(first_line_prefix(context).rstrip() + "\n")
        table = part.kind is BlockKind.TABLE
        text = "\n".join(align_table(part)) if table and not self._compact else part.text
        begin = self._at
        left = continuation_prefix(quote_containers(context))
        self._append_text(left + text.replace("\n", f"\n{left}"))
        self._add_entity("pre", begin, language=re.sub(r"[^\w+#.-]", "", part.label))

    def _write_words(self, part: MarkdownPart, left: str) -> None:
        # What cannot be opened from a message is not a link there: its address stands behind its words.
        spans = expand_links(part.spans, lambda href: _WEB.match(href) is not None)
        heading = part.kind is BlockKind.HEADING
        open_at: dict[str, int] = {}
        for words, style, href in [*spans, ("", "", "")]:
            styles = style.split()
            code = "code" in styles and not href
            self._switch_styles(open_at, set() if code or not words else _entity_styles(styles, heading=heading))
            begin = self._at
            self._append_text(words.replace("\n", f"\n{left}") if left else words)
            if code:
                self._add_entity("code", begin)
            elif href and href != words:
                self._add_entity("text_link", begin, url=href)

    def _switch_styles(self, open_at: dict[str, int], wanted: set[str]) -> None:
        """End the styles that are not wanted from here on, and begin those that are."""
        for one in [one for one in open_at if one not in wanted]:
            self._add_entity(one, open_at.pop(one))
        for one in sorted(wanted - open_at.keys()):
            open_at[one] = self._at


def _entity_styles(styles: Sequence[str], *, heading: bool) -> set[str]:
    found = {_STYLES[one] for one in styles if one in _STYLES}
    return found | {"bold"} if heading else found


def _order_entities(entities: Sequence[TextEntity]) -> tuple[TextEntity, ...]:
    """Return at most `MAX_ENTITIES` ranges in order, those with more than visual effect first; none crosses another."""
    if len(entities) > MAX_ENTITIES:
        entities = sorted(entities, key=lambda one: _RANK.get(one.type, 9))[:MAX_ENTITIES]
    found: list[TextEntity] = []
    ends: list[int] = []
    for one in sorted(entities, key=lambda one: (one.offset, -one.length)):
        while ends and ends[-1] <= one.offset:
            ends.pop()
        if ends and one.offset + one.length > ends[-1]:
            continue
        ends.append(one.offset + one.length)
        found.append(one)
    return tuple(found)
