"""Markdown in each platform's dialect, all from one parse of it (`markup/document.py`).

A model's text is inert there: nothing notifies everybody in a room, nothing is raw HTML, and addresses are links only
when they lead to the web or to a mailbox. Pictures become links: nothing is fetched to show a text.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from urllib.parse import quote as percent

from hermes.markup.blocks import BlockKind
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
from hermes.markup.inline import Span

_LINKED = re.compile(r"(?:https?://[^\s<>]+|mailto:[^\s<>]+)$", re.IGNORECASE)
_CALL = re.compile(r"@(?=(?:everyone|here|channel|all|room)\b)", re.IGNORECASE)
_ZERO_WIDTH_SPACE = "\u200b"
"""An invisible character between what must not be read as one word."""


def defuse_mentions(text: str) -> str:
    """Return the text without words that notify everybody (`@everyone`, `@here`, `@channel`, `@all`, `@room`)."""
    return _CALL.sub(f"@{_ZERO_WIDTH_SPACE}", text) if "@" in text else text


def is_linkable(href: str) -> bool:
    """Return whether an address may be a link: to the web, or to a mailbox."""
    return _LINKED.match(href) is not None


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


_SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


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


_DISCORD_MARKS = re.compile(r"[\\`|<]|[*~]+|(?<![^\W_])_+|_+(?![^\W_])")
_DISCORD_STARTS = re.compile(r"^(\s*)(#{1,3} |-# |>{1,3} |[-*+] |\d+(?=\. ))", re.MULTILINE)


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
