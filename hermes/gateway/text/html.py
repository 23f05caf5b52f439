"""Markdown as HTML, for Matrix and e-mail: few tags, nothing of the text's own, nothing that is fetched."""

from collections.abc import Sequence
from html import escape

from hermes.gateway.text.dialect import leads, tame
from hermes.markup.blocks import Kind
from hermes.markup.containers import QUOTE
from hermes.markup.document import Part, is_marker, parts_of
from hermes.markup.inline import Span, spans_of

_TAGS = (("strong", "strong"), ("emphasis", "em"), ("strike", "del"))
_PAGE = (
    '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"></head>\n'
    "<body>\n{body}\n</body></html>\n"
)


def fragment(markdown: str) -> str:
    """The text as HTML with nothing but the tags that Matrix allows (`org.matrix.custom.html`)."""
    return _Writer().written(parts_of(markdown))


def page(markdown: str) -> str:
    """The text as a whole HTML document, for a mail."""
    return _PAGE.replace("{body}", fragment(markdown))


class _Writer:
    def __init__(self) -> None:
        self._out: list[str] = []
        self._open: list[str] = []
        """What is open, outermost first: `blockquote`, `ul`, `ol`; the two lists with an item open."""

    def written(self, parts: Sequence[Part]) -> str:
        for part in parts:
            self._enter(part.around)
            self._out.append(_body(part))
        self._leave(0)
        return "".join(self._out)

    def _enter(self, around: Sequence[str]) -> None:
        """Close what a part does not stand in, and open what it does."""
        self._leave(len(around))
        for place, one in enumerate(around):
            known = self._open[place] if place < len(self._open) else ""
            name = _level(one, known)
            if known != name:
                self._leave(place)
                self._out.append(_begin(name, one))
                self._open.append(name)
            elif is_marker(one):
                self._leave(place + 1)
                self._out.append("</li><li>")

    def _leave(self, place: int) -> None:
        while len(self._open) > place:
            name = self._open.pop()
            self._out.append(f"</li></{name}>" if name != "blockquote" else "</blockquote>")


def _level(one: str, known: str) -> str:
    """What a level of a part's surroundings is in HTML; `known` is what is open there."""
    if one == QUOTE:
        return "blockquote"
    if is_marker(one):
        return "ol" if one[0].isdigit() else "ul"
    return known if known in ("ol", "ul") else "ul"


def _begin(name: str, one: str) -> str:
    if name == "blockquote":
        return "<blockquote>"
    number = one[:-1]
    return f'<ol start="{int(number)}"><li>' if name == "ol" and number.isdigit() and number != "1" else f"<{name}><li>"


def _body(part: Part) -> str:
    match part.kind:
        case Kind.HEADING:
            return f"<h{part.level}>{_words(part.spans)}</h{part.level}>\n"
        case Kind.RULE:
            return "<hr>\n"
        case Kind.CODE:
            return _code(part)
        case Kind.TABLE:
            return _table(part)
        case Kind.PARAGRAPH if part.around and is_marker(part.around[-1]):
            return _words(part.spans)
        case Kind.PARAGRAPH:
            return f"<p>{_words(part.spans)}</p>\n"
        case _:
            return f"<p>{_text(part.text)}</p>\n"


def _code(part: Part) -> str:
    label = "".join(one for one in part.label if one.isalnum() or one in "+-_")
    kind = f' class="language-{label}"' if label else ""
    return f"<pre><code{kind}>{escape(part.text, quote=False)}\n</code></pre>\n"


def _table(part: Part) -> str:
    head, *body = part.rows
    lines = ["<table>"]
    if any(head):
        lines.append(f"<thead>{_row(head, 'th')}</thead>")
    lines += ["<tbody>", *(_row(row, "td") for row in body), "</tbody></table>\n"]
    return "\n".join(lines)


def _row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_words(spans_of(cell))}</{tag}>' for cell in cells)}</tr>"


def _words(spans: Sequence[Span]) -> str:
    return "".join([_span(*one) for one in spans])


def _span(words: str, style: str, href: str) -> str:
    styles = style.split()
    text = f"<code>{escape(words, quote=False)}</code>" if "code" in styles else _text(words)
    for name, tag in reversed(_TAGS):
        if name in styles:
            text = f"<{tag}>{text}</{tag}>"
    return f'<a href="{escape(href)}">{text}</a>' if leads(href) else text


def _text(words: str) -> str:
    return escape(tame(words), quote=False).replace("\n", "<br>\n")
