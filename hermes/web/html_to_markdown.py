"""HTML to markdown.

Text that a reader would not see is kept and marked, `[hidden text: ...]`: what a page hides from people is a fact about
the page. Scripts, styles and navigation are left out, pictures are their alternative text, nothing is loaded.
"""

import contextlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urljoin

from hermes.web.hidden_text import hidden_nodes
from hermes.web.markdown_writer import Writer

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_MAX_DEPTH = 12
_MAX_HIDDEN = 2_000
_MAX_COLUMNS = 40
_ENOUGH = 200
"""Characters that make a page's main part worth showing alone."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LEFT_OUT = _words(
    """
    script style noscript template iframe object embed svg canvas audio video map select datalist button head
    title link meta base param source track input textarea frameset noframes
    """
)
_TRIMMED = frozenset({"nav", "footer"})
_BLOCKS = _words(
    """
    p div section article main header aside address figure figcaption form fieldset details dl body html center
    hgroup search blockquote summary legend dd dt nav footer
    """
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_LANGUAGE = re.compile(r"\b(?:lang(?:uage)?|highlight-source)-([\w+#-]{1,20})")


class Converted(TypedDict):
    """What comes out: the page's title, its markdown, and how many passages of it were hidden."""

    title: str
    text: str
    hidden: int


class Page:
    """One conversion: the marks that were found beforehand, and where the walk is."""

    def __init__(self, tree: "LexborHTMLParser", url: str, *, trim: bool) -> None:
        self.writer = Writer()
        self.hidden_found = 0
        self._url = url
        self._origin = "/".join(url.split("/", 3)[:3])
        self._trim = trim
        self._hidden = hidden_nodes(tree)
        self._layout = layout_tables(tree)
        self._lists: list[int] = []
        self._rows: list[list[str]] | None = None
        self._trimmed = {node.mem_id for node in tree.css("[role=navigation],[role=contentinfo],[role=search]")}

    def walk(self, root: "LexborNode") -> None:
        """Convert a node and all below it, without recursion: pages may be nested as deep as they like."""
        node: LexborNode | None = root
        above: list[tuple[LexborNode, Callable[[], None] | None]] = []
        while node is not None and not self.writer.full:
            after, descend = self._enter(node)
            child = node.first_child if descend else None
            if child is not None:
                above.append((node, after))
                node = child
                continue
            if after is not None:
                after()
            node = self._onward(node, root, above)
        for _, after in reversed(above):
            if after is not None:
                after()

    def _onward(
        self, node: "LexborNode", root: "LexborNode", above: "list[tuple[LexborNode, Callable[[], None] | None]]"
    ) -> "LexborNode | None":
        while node is not root:
            following = node.next
            if following is not None:
                return following
            if not above:
                return None
            node, after = above.pop()
            if after is not None:
                after()
        return None

    def _enter(self, node: "LexborNode") -> "tuple[Callable[[], None] | None, bool]":
        """Begin a node: (what ends it, whether what is below it is walked)."""
        tag = node.tag
        if tag == "-text":
            self.writer.text(node.text_content or "")
            return None, False
        if tag is None or tag in _LEFT_OUT or tag.startswith("-"):
            return None, tag == "-document"
        if self._trim and (tag in _TRIMMED or node.mem_id in self._trimmed):
            return None, False
        if node.mem_id in self._hidden:
            self._hidden.discard(node.mem_id)
            return self._aside(), True
        begin = _BEGIN.get(tag)
        if begin is not None:
            return begin(self, node), True
        if tag in _BLOCKS:
            self.writer.block()
            return self.writer.block, True
        return None, True

    def _aside(self) -> "Callable[[], None]":
        writer = self.writer
        writer.push()
        rows, self._rows = self._rows, None
        raw, writer.raw = writer.raw, 0

        def end() -> None:
            self._rows, writer.raw = rows, raw
            text = writer.pop()
            if sum(char.isalnum() for char in text[:50]) >= 3:
                self.hidden_found += 1
                more = f" ... {len(text) - _MAX_HIDDEN} characters more" if len(text) > _MAX_HIDDEN else ""
                writer.space()
                writer.put(f"[hidden text: {text[:_MAX_HIDDEN]}{more}]")
                writer.space()

        return end

    def heading(self, node: "LexborNode") -> "Callable[[], None]":
        """A heading, on one line."""
        writer = self.writer
        writer.block()
        since = writer.mark()
        writer.put(_HEADINGS[node.tag or "h6"])
        writer.inline += 1

        def end() -> None:
            writer.inline -= 1
            if not writer.written(since):
                writer.back(since)
            writer.block()

        return end

    def link(self, node: "LexborNode") -> "Callable[[], None] | None":
        """A link: its text, and where it leads unless that is this page."""
        href = (node.attributes.get("href") or "").strip()
        target = self._absolute(href)
        if not target or self.writer.raw:
            return None
        writer = self.writer
        since = writer.mark()
        writer.put("[")
        writer.inline += 1

        def end() -> None:
            writer.inline -= 1
            if writer.written(since):
                writer.out.append(f"]({target})")
                writer.size += len(target)
            else:
                writer.back(since)

        return end

    def _absolute(self, href: str) -> str:
        if href.startswith(("https://", "http://")):
            return href.replace(" ", "%20").replace(")", "%29")
        if href.startswith("/") and ".." not in href and href[1:2] != "/":
            return self._origin + href.replace(" ", "%20").replace(")", "%29")
        if not href or href.startswith("#") or ":" in href.split("/", 1)[0].split("?", 1)[0]:
            return ""  # this page, or another scheme: mailto, javascript, data
        try:
            return urljoin(self._url, href).replace(" ", "%20").replace(")", "%29")
        except ValueError:
            return ""

    def image(self, node: "LexborNode") -> None:
        """A picture: what it is said to show, without its address."""
        alt = " ".join((node.attributes.get("alt") or "").split())
        if alt:
            self.writer.text(f"![{alt}]")

    def pre(self, node: "LexborNode") -> "Callable[[], None]":
        """Preformatted text, in a fence that it does not hold itself."""
        writer = self.writer
        if writer.inline or writer.raw:
            return writer.block
        inner = node.css_first("code")
        named = _LANGUAGE.search(
            f"{node.attributes.get('class') or ''} {(inner.attributes.get('class') or '') if inner else ''}"
        )
        writer.block()
        runs = re.findall(r"`{3,}", node.text())
        fence = "`" * max((len(run) + 1 for run in runs), default=3)
        writer.put(f"{fence}{named[1] if named else ''}\n{writer.prefix}")
        writer.raw += 1

        def end() -> None:
            writer.raw -= 1
            if writer.out:
                writer.out[-1] = writer.out[-1].rstrip("\n")
            writer.out.append(f"\n{writer.prefix}{fence}")
            writer.block()

        return end

    def code(self, _node: "LexborNode") -> "Callable[[], None] | None":
        """Code within a line."""
        writer = self.writer
        if writer.raw:
            return None
        since = writer.mark()
        writer.put("`")

        def end() -> None:
            if writer.written(since):
                writer.out.append("`")
            else:
                writer.back(since)

        return end

    def line_break(self, _node: "LexborNode") -> None:
        """A new line."""
        if self.writer.raw:
            self.writer.put("\n" + self.writer.prefix)
        else:
            self.writer.block(1)

    def rule(self, _node: "LexborNode") -> None:
        """A line across."""
        self.writer.block()
        if not self.writer.inline:
            self.writer.put("---")
        self.writer.block()

    def quote(self, _node: "LexborNode") -> "Callable[[], None]":
        """A quotation, each line behind a `>`."""
        return self._indented("> ")

    def _indented(self, more: str) -> "Callable[[], None]":
        writer = self.writer
        writer.block()
        before = writer.prefix
        if len(before) < 2 * _MAX_DEPTH:
            writer.prefix = before + more

        def end() -> None:
            writer.prefix = before
            writer.block()

        return end

    def listing(self, node: "LexborNode") -> "Callable[[], None]":
        """A list; one within a list stands directly under its item."""
        start = 0
        if node.tag == "ol":
            given = node.attributes.get("start") or "1"
            start = int(given) if given.isdigit() and len(given) < 7 else 1
        self.writer.block(1 if self._lists else 2)
        self._lists.append(start)

        def end() -> None:
            self._lists.pop()
            self.writer.block(1 if self._lists else 2)

        return end

    def item(self, _node: "LexborNode") -> "Callable[[], None]":
        """An item, with its bullet or number."""
        writer = self.writer
        writer.block(1)
        if writer.inline:
            return lambda: writer.block(1)
        bullet = "- "
        if self._lists and self._lists[-1]:
            bullet = f"{self._lists[-1]}. "
            self._lists[-1] += 1
        since = writer.mark()
        writer.put(bullet)
        before = writer.prefix
        if len(before) < 2 * _MAX_DEPTH:
            writer.prefix = before + " " * len(bullet)
        # What a block within an item would put before itself is the bullet.
        writer.settle()

        def end() -> None:
            writer.prefix = before
            if not writer.written(since):
                writer.back(since)
            writer.tighten()
            writer.block(1)

        return end

    def table(self, node: "LexborNode") -> "Callable[[], None]":
        """A table of data; one that only lays a page out is walked as if it were not there."""
        writer = self.writer
        writer.block()
        if node.mem_id in self._layout or self._rows is not None or writer.inline:
            return writer.block
        rows: list[list[str]] = []
        self._rows = rows

        def end() -> None:
            self._rows = None
            self._write_table([row for row in rows if any(row)])
            writer.block()

        return end

    def _write_table(self, rows: list[list[str]]) -> None:
        columns = min(max((len(row) for row in rows), default=0), _MAX_COLUMNS)
        if columns < 2:
            for row in rows:
                self.writer.put(row[0])
                self.writer.block(1)
            return
        for number, row in enumerate(rows):
            self.writer.put("| " + " | ".join([*row, *[""] * (columns - len(row))]) + " |")
            self.writer.block(1)
            if not number:
                self.writer.put("|" + " --- |" * columns)
                self.writer.block(1)

    def row(self, _node: "LexborNode") -> "Callable[[], None] | None":
        """A row of a table."""
        if self._rows is not None:
            self._rows.append([])
            return None
        self.writer.block(1)
        return lambda: self.writer.block(1)

    def cell(self, _node: "LexborNode") -> "Callable[[], None] | None":
        """A cell of a table."""
        writer, rows = self.writer, self._rows
        if rows is None:
            writer.text(" ")
            return None
        writer.push()

        def end() -> None:
            text = writer.pop().replace("|", "\\|")
            if not rows:
                rows.append([])
            rows[-1].append(text)

        return end


_BEGIN: "dict[str, Callable[[Page, LexborNode], Callable[[], None] | None]]" = {
    **dict.fromkeys(_HEADINGS, Page.heading),
    "a": Page.link,
    "img": Page.image,
    "pre": Page.pre,
    "code": Page.code,
    "kbd": Page.code,
    "samp": Page.code,
    "br": Page.line_break,
    "hr": Page.rule,
    "blockquote": Page.quote,
    "ul": Page.listing,
    "ol": Page.listing,
    "menu": Page.listing,
    "li": Page.item,
    "table": Page.table,
    "tr": Page.row,
    "td": Page.cell,
    "th": Page.cell,
}


def layout_tables(tree: "LexborHTMLParser") -> set[int]:
    """Tables that hold tables, or a single row, or say themselves that they are none."""
    tables = tree.css("table")
    known = {table.mem_id for table in tables}
    found: set[int] = set()
    for table in reversed(tables):  # inner ones first, so that no rows are counted twice
        plain = (table.attributes.get("role") or "") in ("presentation", "none")
        if plain or (table.mem_id not in found and len(table.css("tr")) < 2):
            found.add(table.mem_id)
        above = table.parent
        while above is not None and above.mem_id not in found:
            if above.mem_id in known:
                found.add(above.mem_id)
            above = above.parent
    return found


def main_part(tree: "LexborHTMLParser") -> "LexborNode | None":
    """The part that the page is about, where it says so: its main element, or its only article."""
    mains = tree.css("main,[role=main]")
    articles = tree.css("article")
    for parts in (mains[:1], articles if len(articles) == 1 else []):
        if parts and len(parts[0].text()) >= _ENOUGH:
            return parts[0]
    return None


def convert(html: str, url: str) -> Converted:
    """The page as markdown."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(html, scripting=True)
    named = tree.css_first("title")
    title = " ".join(named.text().split())[:300] if named is not None else ""
    base = tree.css_first("base[href]")
    if base is not None:
        with contextlib.suppress(ValueError):
            url = urljoin(url, base.attributes.get("href") or "")
    text, hidden = "", 0
    for root, trim in ((main_part(tree), True), (tree.body, True), (tree.body or tree.root, False)):
        if root is not None:
            page = Page(tree, url, trim=trim)
            page.walk(root)
            text, hidden = "".join(page.writer.out).strip(), page.hidden_found
        if text:
            break
    return Converted(title=title, text=text, hidden=hidden)
