"""Markdown as HTML, from one parse of it: for Matrix, mails, and pages of sessions.

The text is inert there: nothing in it is raw HTML, and addresses are links only when they lead to the web or to a
mailbox. Pictures become their words: nothing is fetched to show a text.
"""

import re
from collections.abc import Callable, Sequence
from html import escape

from hermes.markup.blocks import QUOTE, BlockKind
from hermes.markup.document import MarkdownPart, is_marker, parse_parts
from hermes.markup.inline import Span, parse_spans

_LINKED = re.compile(r"(?:https?://[^\s<>]+|mailto:[^\s<>]+)$", re.IGNORECASE)
_TAGS = (("strong", "strong"), ("emphasis", "em"), ("strike", "del"))


def is_linkable(href: str) -> bool:
    """Return whether an address may be a link: to the web, or to a mailbox."""
    return _LINKED.match(href) is not None


def render_html(markdown: str, clean: Callable[[str], str] = str) -> str:
    """Convert markdown to HTML; `clean` is given all words but those of code, before they are escaped."""
    return _HtmlWriter(clean).write_parts(parse_parts(markdown))


class _HtmlWriter:
    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._out: list[str] = []
        self._open: list[str] = []
        """The open elements, outermost first: `blockquote`, `ul`, `ol`; the two lists with an item open."""

    def write_parts(self, parts: Sequence[MarkdownPart]) -> str:
        for part in parts:
            self._enter_containers(part.containers)
            self._out.append(self._render_part(part))
        self._close_elements(0)
        return "".join(self._out)

    def _enter_containers(self, context: Sequence[str]) -> None:
        """Close the elements that a part does not stand in, and open those that it does."""
        self._close_elements(len(context))
        for place, one in enumerate(context):
            known = self._open[place] if place < len(self._open) else ""
            name = _container_tag(one, known)
            if known != name:
                self._close_elements(place)
                self._out.append(_opening_tag(name, one))
                self._open.append(name)
            elif is_marker(one):
                self._close_elements(place + 1)
                self._out.append("</li><li>")

    def _close_elements(self, place: int) -> None:
        while len(self._open) > place:
            name = self._open.pop()
            self._out.append(f"</li></{name}>" if name != "blockquote" else "</blockquote>")

    def _render_part(self, part: MarkdownPart) -> str:
        match part.kind:
            case BlockKind.HEADING:
                return f"<h{part.level}>{self._render_spans(part.spans)}</h{part.level}>\n"
            case BlockKind.RULE:
                return "<hr>\n"
            case BlockKind.CODE:
                return _render_code(part)
            case BlockKind.TABLE:
                return self._render_table(part)
            case BlockKind.PARAGRAPH if part.containers and is_marker(part.containers[-1]):
                return self._render_spans(part.spans)
            case BlockKind.PARAGRAPH:
                return f"<p>{self._render_spans(part.spans)}</p>\n"
            case _:
                return f"<p>{self._escape_text(part.text)}</p>\n"

    def _render_table(self, part: MarkdownPart) -> str:
        head, *body = part.rows
        lines = ["<table>"]
        if any(head):
            lines.append(f"<thead>{self._render_row(head, 'th')}</thead>")
        lines += ["<tbody>", *(self._render_row(row, "td") for row in body), "</tbody></table>\n"]
        return "\n".join(lines)

    def _render_row(self, cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{self._render_spans(parse_spans(cell))}</{tag}>' for cell in cells)}</tr>"

    def _render_spans(self, spans: Sequence[Span]) -> str:
        return "".join([self._render_span(*one) for one in spans])

    def _render_span(self, words: str, style: str, href: str) -> str:
        styles = style.split()
        text = f"<code>{escape(words, quote=False)}</code>" if "code" in styles else self._escape_text(words)
        for name, tag in reversed(_TAGS):
            if name in styles:
                text = f"<{tag}>{text}</{tag}>"
        return f'<a href="{escape(href)}">{text}</a>' if is_linkable(href) else text

    def _escape_text(self, words: str) -> str:
        return escape(self._clean(words), quote=False).replace("\n", "<br>\n")


def _container_tag(one: str, known: str) -> str:
    """Return the HTML tag of a level of a part's containers; `known` is what is open there."""
    if one == QUOTE:
        return "blockquote"
    if is_marker(one):
        return "ol" if one[0].isdigit() else "ul"
    return known if known in ("ol", "ul") else "ul"


def _opening_tag(name: str, one: str) -> str:
    if name == "blockquote":
        return "<blockquote>"
    number = one[:-1]
    return f'<ol start="{int(number)}"><li>' if name == "ol" and number.isdigit() and number != "1" else f"<{name}><li>"


def _render_code(part: MarkdownPart) -> str:
    label = "".join(one for one in part.label if one.isalnum() or one in "+-_")
    kind = f' class="language-{label}"' if label else ""
    return f"<pre><code{kind}>{escape(part.text, quote=False)}\n</code></pre>\n"
