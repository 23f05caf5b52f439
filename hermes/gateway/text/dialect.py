"""Markdown in each platform's dialect, all from one parse of it (`markup/document.py`).

A model's text is inert there: nothing notifies everybody in a room, nothing is raw HTML, and addresses are links only
when they lead to the web or to a mailbox. Pictures become links: nothing is fetched to show a text.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby
from urllib.parse import quote as percent

from msgspec import Struct

from hermes.gateway.platform import utf16
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
from hermes.markup.html_writer import is_linkable, render_html
from hermes.markup.inline import Span

_CALL = re.compile(r"@(?=(?:everyone|here|channel|all|room)\b)", re.IGNORECASE)
_ZERO_WIDTH_SPACE = "\u200b"
"""An invisible character between what must not be read as one word."""
_SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_DISCORD_MARKS = re.compile(r"[\\`|<]|[*~]+|(?<![^\W_])_+|_+(?![^\W_])")
_DISCORD_STARTS = re.compile(r"^(\s*)(#{1,3} |-# |>{1,3} |[-*+] |\d+(?=\. ))", re.MULTILINE)
MAX_ENTITIES = 100
"""Marked ranges that Telegram keeps of a message."""
_WEB = re.compile(r"https?://[^\s<>]+$", re.IGNORECASE)
_STYLES = {"strong": "bold", "emphasis": "italic", "strike": "strikethrough"}
_RANK = {"text_link": 0, "pre": 1, "code": 2, "blockquote": 3}
_PAGE = (
    '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"></head>\n'
    "<body>\n{body}\n</body></html>\n"
)


def defuse_mentions(text: str) -> str:
    """Return the text without words that notify everybody (`@everyone`, `@here`, `@channel`, `@all`, `@room`)."""
    return _CALL.sub(f"@{_ZERO_WIDTH_SPACE}", text) if "@" in text else text


# Text with marks in it.


class _Dialect(ABC):
    """Writes parts as lines of text."""

    quote = "> "
    bullet = "•"

    def render_text(self, markdown: str) -> str:
        """Return the whole text."""
        found: list[str] = []
        for part in parse_parts(markdown):
            if found:
                found.append("\n\n" if part.gap else "\n")
            found.append(self._render_part(part))
        return "".join(found)

    def _render_part(self, part: MarkdownPart) -> str:
        if part.kind in (BlockKind.CODE, BlockKind.TABLE):
            body = self.render_block(
                "\n".join(align_table(part)) if part.kind is BlockKind.TABLE else part.text, part.label
            )
            left = continuation_prefix(quote_containers(part.containers), self.quote)
            lines = [left + line for line in body.split("\n")]
            if any(map(is_marker, part.containers)):
                lines.insert(0, first_line_prefix(part.containers, self.quote, self.bullet).rstrip())
            return "\n".join(lines)
        first, *others = self._render_body(part).split("\n")
        left = continuation_prefix(part.containers, self.quote)
        return "\n".join(
            [first_line_prefix(part.containers, self.quote, self.bullet) + first, *(left + line for line in others)]
        )

    def _render_body(self, part: MarkdownPart) -> str:
        match part.kind:
            case BlockKind.HEADING:
                return self.render_heading(part)
            case BlockKind.RULE:
                return self.render_rule()
            case BlockKind.PARAGRAPH:
                return self.render_spans(part.spans)
            case _:
                return self.render_literal(part.text)

    def render_rule(self) -> str:
        """Return a horizontal rule."""
        return "———"

    @abstractmethod
    def render_heading(self, part: MarkdownPart) -> str:
        """Return a heading's text."""

    @abstractmethod
    def render_block(self, text: str, label: str) -> str:
        """Return code, or other text in a fixed-width font."""

    @abstractmethod
    def render_spans(self, spans: Sequence[Span]) -> str:
        """Return the text of a paragraph."""

    @abstractmethod
    def render_literal(self, text: str) -> str:
        """Return text with its marks escaped."""


class _Plain(_Dialect):
    """Writes no marks at all, for places that read none."""

    def render_heading(self, part: MarkdownPart) -> str:
        return self.render_spans(part.spans)

    def render_block(self, text: str, label: str) -> str:
        return text

    def render_spans(self, spans: Sequence[Span]) -> str:
        return "".join([words for words, _, _ in expand_links(spans)])

    def render_literal(self, text: str) -> str:
        return text


class _Marked(_Dialect):
    """Writes marks around words, nested as the styles are."""

    pairs: Sequence[tuple[str, str]] = ()
    """Styles and their marks, outermost first."""

    def render_spans(self, spans: Sequence[Span]) -> str:
        found: list[str] = []
        open_marks: list[str] = []
        for words, style, href in [*spans, ("", "", "")]:
            styles = style.split()
            code = "code" in styles and not self.has_code_mark(words)
            wanted = [] if code else [mark for name, mark in self.pairs if name in styles]
            keep = 0
            while keep < len(open_marks) and keep < len(wanted) and open_marks[keep] == wanted[keep]:
                keep += 1
            closing = "".join(reversed(open_marks[keep:]))
            opening = "".join(wanted[keep:])
            self._append_text(
                found, closing, opening, self.render_code(words) if code else self.render_link(words, href)
            )
            open_marks = wanted
        return "".join(found)

    def _append_text(self, found: list[str], closing: str, opening: str, words: str) -> None:
        """Append text with its marks. Marks do not stand beside spaces on their inner side, where they are not read as
        marks.
        """
        if closing and found and (spaces := found[-1][len(found[-1].rstrip()) :]):
            found[-1] = found[-1].rstrip()
            words = spaces + words if not opening else words
            found.append(closing + (spaces if opening else ""))
        elif closing:
            found.append(closing)
        if opening:
            stripped = words.lstrip()
            found.append(words[: len(words) - len(stripped)] + opening)
            words = stripped
        if words:
            found.append(words)

    def has_code_mark(self, words: str) -> bool:
        """Return whether these words cannot be written as inline code."""
        return "`" in words

    def render_code(self, words: str) -> str:
        """Return inline code."""
        return f"`{words}`"

    def render_heading(self, part: MarkdownPart) -> str:
        return self.render_spans([(words, _add_style(style, "strong"), href) for words, style, href in part.spans])

    def render_block(self, text: str, label: str) -> str:
        return f"```{label}\n{text.replace('```', f'``{_ZERO_WIDTH_SPACE}`')}\n```"

    @abstractmethod
    def render_link(self, words: str, href: str) -> str:
        """Return words that link to an address, or (without one) just the words."""


def _add_style(style: str, other: str) -> str:
    return style if other in style.split() or "code" in style.split() else f"{style} {other}".strip()


class _Slack(_Marked):
    """Writes Slack's mrkdwn."""

    pairs = (("strong", "*"), ("emphasis", "_"), ("strike", "~"))

    def _append_text(self, found: list[str], closing: str, opening: str, words: str) -> None:
        # A mark is read only at the edge of a word, which Chinese does not show.
        if opening and found and found[-1][-1:].isalnum():
            found.append(_ZERO_WIDTH_SPACE)
        if closing and words[:1].isalnum():
            closing += _ZERO_WIDTH_SPACE
        super()._append_text(found, closing, opening, words)

    def render_code(self, words: str) -> str:
        return f"`{words.translate(_SLACK_ESCAPES)}`"

    def render_block(self, text: str, label: str) -> str:
        return super().render_block(text, "").translate(_SLACK_ESCAPES)

    def render_literal(self, text: str) -> str:
        return defuse_mentions(text.translate(_SLACK_ESCAPES))

    def render_link(self, words: str, href: str) -> str:
        shown = self.render_literal(words)
        if not is_linkable(href):
            return shown
        place = percent(href, safe="!#$%&'()*+,/:;=?@[]~").translate(_SLACK_ESCAPES)
        return f"<{place}>" if words == href else f"<{place}|{shown.replace('|', '¦')}>"


class _Discord(_Marked):
    """Writes Discord's markdown; what is not meant as a mark is escaped, and no address makes a preview."""

    pairs = (("strong", "**"), ("emphasis", "*"), ("strike", "~~"))
    bullet = "-"

    def has_code_mark(self, words: str) -> bool:
        return "``" in words or words.startswith("`") or words.endswith("`")

    def render_code(self, words: str) -> str:
        return f"``{words}``" if "`" in words else f"`{words}`"

    def render_heading(self, part: MarkdownPart) -> str:
        if part.level > 3:
            return super().render_heading(part)
        return f"{'#' * part.level} {self.render_spans(part.spans)}"

    def render_spans(self, spans: Sequence[Span]) -> str:
        return _DISCORD_STARTS.sub(r"\1\\\2", super().render_spans(spans))

    def render_literal(self, text: str) -> str:
        return defuse_mentions(_DISCORD_MARKS.sub(lambda match: "".join(f"\\{one}" for one in match[0]), text))

    def render_link(self, words: str, href: str) -> str:
        if not is_linkable(href):
            return self.render_literal(words)
        place = href.replace(">", "%3E").replace("<", "%3C")
        if href in (words, f"mailto:{words}"):
            return f"<{place}>" if words == href else self.render_literal(words)
        return f"[{self.render_literal(words).replace('[', '(').replace(']', ')')}](<{place}>)"


def to_plain_text(markdown: str) -> str:
    """Convert markdown to text without marks: bullets, aligned tables, addresses after the words that link to them."""
    return _Plain().render_text(markdown)


def to_slack(markdown: str) -> str:
    """Convert markdown to Slack's mrkdwn."""
    return _Slack().render_text(markdown)


def to_discord(markdown: str) -> str:
    """Convert markdown to Discord's markdown."""
    return _Discord().render_text(markdown)


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
        return utf16(self.text)


def to_entity_text(markdown: str, limit: int) -> EntityText:
    """Convert markdown to text with ranges, of at most `limit` UTF-16 code units if the markdown is not longer: a table
    that does not fit with aligned columns stays as written, and so, at worst, does everything.
    """
    for compact in (False, True):
        found = _EntityWriter(compact=compact).write_parts(parse_parts(markdown))
        if found.size <= limit:
            return found
    return EntityText(markdown)


class _EntityWriter:
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
            self._at += utf16(text)

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


def to_html_fragment(markdown: str) -> str:
    """Convert markdown to HTML with only the tags that Matrix allows (`org.matrix.custom.html`)."""
    return render_html(markdown, defuse_mentions)


def to_html_page(markdown: str) -> str:
    """Convert markdown to a whole HTML document, for a mail."""
    return _PAGE.replace("{body}", to_html_fragment(markdown))
