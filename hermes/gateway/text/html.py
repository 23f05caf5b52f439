"""Markdown as HTML, for Matrix and e-mail: few tags, no raw HTML of the text, nothing that is fetched."""

from collections.abc import Sequence
from html import escape

from hermes.gateway.text.dialect import defuse_mentions, is_linkable
from hermes.markup.blocks import QUOTE, BlockKind
from hermes.markup.document import MarkdownPart, is_marker, parse_parts
from hermes.markup.inline import Span, parse_spans

_TAGS = (("strong", "strong"), ("emphasis", "em"), ("strike", "del"))
_PAGE = (
    '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"></head>\n'
    "<body>\n{body}\n</body></html>\n"
)


def to_html_fragment(markdown: str) -> str:
    """Convert markdown to HTML with only the tags that Matrix allows (`org.matrix.custom.html`)."""
    return _Writer().write_parts(parse_parts(markdown))


def to_html_page(markdown: str) -> str:
    """Convert markdown to a whole HTML document, for a mail."""
    return _PAGE.replace("{body}", to_html_fragment(markdown))


class _Writer:
    def __init__(self) -> None:
        self._out: list[str] = []
        self._open: list[str] = []
        """The open elements, outermost first: `blockquote`, `ul`, `ol`; the two lists with an item open."""

    def write_parts(self, parts: Sequence[MarkdownPart]) -> str:
        for part in parts:
            self._enter_containers(part.containers)
            self._out.append(_render_part(part))
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


def _render_part(part: MarkdownPart) -> str:
    match part.kind:
        case BlockKind.HEADING:
            return f"<h{part.level}>{_render_spans(part.spans)}</h{part.level}>\n"
        case BlockKind.RULE:
            return "<hr>\n"
        case BlockKind.CODE:
            return _render_code(part)
        case BlockKind.TABLE:
            return _render_table(part)
        case BlockKind.PARAGRAPH if part.containers and is_marker(part.containers[-1]):
            return _render_spans(part.spans)
        case BlockKind.PARAGRAPH:
            return f"<p>{_render_spans(part.spans)}</p>\n"
        case _:
            return f"<p>{_escape_text(part.text)}</p>\n"


def _render_code(part: MarkdownPart) -> str:
    label = "".join(one for one in part.label if one.isalnum() or one in "+-_")
    kind = f' class="language-{label}"' if label else ""
    return f"<pre><code{kind}>{escape(part.text, quote=False)}\n</code></pre>\n"


def _render_table(part: MarkdownPart) -> str:
    head, *body = part.rows
    lines = ["<table>"]
    if any(head):
        lines.append(f"<thead>{_render_row(head, 'th')}</thead>")
    lines += ["<tbody>", *(_render_row(row, "td") for row in body), "</tbody></table>\n"]
    return "\n".join(lines)


def _render_row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_render_spans(parse_spans(cell))}</{tag}>' for cell in cells)}</tr>"


def _render_spans(spans: Sequence[Span]) -> str:
    return "".join([_render_span(*one) for one in spans])


def _render_span(words: str, style: str, href: str) -> str:
    styles = style.split()
    text = f"<code>{escape(words, quote=False)}</code>" if "code" in styles else _escape_text(words)
    for name, tag in reversed(_TAGS):
        if name in styles:
            text = f"<{tag}>{text}</{tag}>"
    return f'<a href="{escape(href)}">{text}</a>' if is_linkable(href) else text


def _escape_text(words: str) -> str:
    return escape(defuse_mentions(words), quote=False).replace("\n", "<br>\n")
