"""Converts HTML to markdown.

Text that a reader would not see is kept and marked, `[hidden text: ...]`: what a page hides from people
is a fact about the page. Scripts, styles and navigation are left out, pictures are their alternative
text, nothing is loaded.

Finds the text of a page that its reader would not see. Standard library only, as all that the converter runs.

Writes text from blocks and lines. Standard library only, as all that the converter runs.
"""

import contextlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urljoin

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_OUTPUT = 4_000_000


_WORD = re.compile(r"\w")


class MarkdownWriter:
    """Joins text with the fewest line breaks that keep blocks apart."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0
        self.prefix = ""
        self.inline = 0
        self.raw = 0
        self._gap = 0
        self._needs_space = False
        self._settled_at = -1
        self._gap_prefix = ""
        self._outer_states: list[tuple[list[str], int, bool]] = []

    @property
    def is_full(self) -> bool:
        """Whether no more text is taken."""
        return self.size > MAX_OUTPUT

    def begin_block(self, lines: int = 2) -> None:
        """Begin the following text on a line of its own (1), or after an empty one (2)."""
        if self.inline:
            self._needs_space = True
        elif self._gap < lines and self._settled_at != len(self.pieces):
            self._gap_prefix = self._gap_prefix if self._gap else self.prefix
            self._gap = lines
        if self._gap and len(self.prefix) < len(self._gap_prefix):
            self._gap_prefix = self.prefix

    def write_raw(self, text: str) -> None:
        """Write text as it is, after the gap that is due."""
        if self._gap:
            if self.pieces:
                empty = "\n" + self._gap_prefix.rstrip()
                self.pieces.append(empty * (self._gap - 1) + "\n" + self.prefix)
            elif self.prefix:
                self.pieces.append(self.prefix)
            self._gap = 0
        elif self._needs_space and self.pieces:
            self.pieces.append(" ")
        self._needs_space = False
        self.pieces.append(text)
        self.size += len(text)

    def skip_next_gap(self) -> None:
        """Let the next block begin right here: what was just written needs no gap after it."""
        self._settled_at = len(self.pieces)

    def drop_empty_line(self) -> None:
        """Put no empty line before what follows."""
        self._gap = min(self._gap, 1)

    def add_space(self) -> None:
        """Set what follows apart, on the same line."""
        self._needs_space = True

    def write_text(self, text: str) -> None:
        """Write a text node: runs of white space are one space, unless within `pre`."""
        if self.raw:
            if text:
                self.write_raw(text.replace("\n", "\n" + self.prefix))
            return
        flat = " ".join(text.split())
        if not flat:
            self._needs_space = self._needs_space or bool(text)
            return
        if text[0].isspace():
            self._needs_space = True
        self.write_raw(flat)
        self._needs_space = text[-1].isspace()

    def save_position(self) -> tuple[int, int, bool]:
        """Return a position for `has_text_since` or `rewind`."""
        return len(self.pieces), self._gap, self._needs_space

    def has_text_since(self, since: tuple[int, int, bool]) -> bool:
        """Return whether any text was written since, besides one marker."""
        return any(_WORD.search(piece) or len(piece) > 8 for piece in self.pieces[since[0] :])

    def rewind(self, to: tuple[int, int, bool]) -> None:
        """Remove what was written since."""
        del self.pieces[to[0] :]
        self._gap, self._needs_space = to[1], to[2]

    def begin_aside(self) -> None:
        """Write aside, on one line, until `end_aside`."""
        self._outer_states.append((self.pieces, self._gap, self._needs_space))
        self.pieces, self._gap, self._needs_space = [], 0, False
        self.inline += 1

    def end_aside(self) -> str:
        """Return what was written aside."""
        text = "".join(self.pieces).strip()
        self.pieces, self._gap, self._needs_space = self._outer_states.pop()
        self.inline -= 1
        return text


_MAX_RULES = 60


_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


_HIDING_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*\.?0+(?![.\d])|"
    r"font-size\s*:\s*0*\.?[01](?:\.0+)?(?:px|pt|em|rem|%)?\s*(?:;|!|$)|"
    r"(?:text-indent|left|top|right|margin-left|margin-top)\s*:\s*-\s*\d{3,}|"
    r"clip\s*:\s*rect\(\s*[01]?(?:px)?[\s,]|clip-path\s*:\s*(?:inset\(\s*(?:50|100)%|circle\(\s*0)|"
    r"transform\s*:\s*scale\w?\(\s*0\s*[,)]|color\s*:\s*transparent",
    re.IGNORECASE,
)


_TINY_SIZE = re.compile(r"(?:^|[;\s])(?:max-)?(?:width|height)\s*:\s*[01](?:px)?\s*(?=[;!]|$)", re.IGNORECASE)


_TEXT_COLOR = re.compile(r"(?:^|[;\s])color\s*:\s*([^;!]+)", re.IGNORECASE)


_BACKGROUND_COLOR = re.compile(r"background(?:-color)?\s*:\s*([^;!]+)", re.IGNORECASE)


_WHITE_COLORS = frozenset({"white", "#fff", "#ffffff", "#fefefe", "rgb(255,255,255)", "rgba(255,255,255,1)", "snow"})


_SIMPLE_SELECTOR = re.compile(r"[a-z0-9]*(?:[.#][A-Za-z_][\w-]*)+", re.ASCII)


def is_hiding_style(style: str) -> bool:
    """Return whether an inline style keeps its element from being seen."""
    style = _COMMENT.sub("", style)
    if _HIDING_STYLE.search(style) or len(_TINY_SIZE.findall(style)) > 1:
        return True
    color = _TEXT_COLOR.search(style)
    if color is None:
        return False
    background = _BACKGROUND_COLOR.search(style)
    ink = re.sub(r"\s", "", color[1].lower())
    paper = re.sub(r"\s", "", background[1].lower()) if background else ""
    return ink == paper or (not paper and ink in _WHITE_COLORS)


def find_hidden_nodes(tree: "LexborHTMLParser") -> set[int]:
    """Return the elements that a reader would not see, by their attributes and the page's own simple style rules."""
    found = set()
    for node in tree.css("[style],[hidden],[aria-hidden],[color]"):
        given = node.attributes
        shown = given.get("aria-hidden") != "true" and "hidden" not in given
        if (
            not shown
            or is_hiding_style(given.get("style") or "")
            or (given.get("color") or "").lower() in _WHITE_COLORS
        ):
            found.add(node.mem_id)
    selectors: list[str] = []
    for sheet in tree.css("style"):
        selectors += find_hiding_selectors(sheet.text() or "")
    if selectors:
        found.update(node.mem_id for node in tree.css(",".join(selectors[:_MAX_RULES])))
    return found


def find_hiding_selectors(sheet: str) -> list[str]:
    """Return the simple selectors (`.name`, `#id`) that a style sheet hides, except those within @media."""
    found: list[str] = []
    depth = start = opened = 0
    sheet = _COMMENT.sub("", sheet[:200_000])
    for brace in re.finditer(r"[{}]", sheet):
        if brace[0] == "{":
            depth += 1
            opened = brace.start() if depth == 1 else opened
            continue
        depth = max(depth - 1, 0)
        if depth:
            continue
        if is_hiding_style(sheet[opened + 1 : brace.start()]) and "{" not in sheet[opened + 1 : brace.start()]:
            names = (name.strip() for name in sheet[start:opened].split(","))
            found += [name for name in names if _SIMPLE_SELECTOR.fullmatch(name)]
        start = brace.end()
    return found


_MAX_DEPTH = 12
_MAX_HIDDEN = 2_000
_MAX_COLUMNS = 40
_MIN_MAIN_CHARS = 200
"""The least characters for which a page's main part is shown alone."""


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SKIPPED_TAGS = _word_set(
    """
    script style noscript template iframe object embed svg canvas audio video map select datalist button head
    title link meta base param source track input textarea frameset noframes
    """
)
_NAVIGATION_TAGS = frozenset({"nav", "footer"})
_BLOCK_TAGS = _word_set(
    """
    p div section article main header aside address figure figcaption form fieldset details dl body html center
    hgroup search blockquote summary legend dd dt nav footer
    """
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_LANGUAGE = re.compile(r"\b(?:lang(?:uage)?|highlight-source)-([\w+#-]{1,20})")


class ConvertedPage(TypedDict):
    """The result: the page's title, its markdown, and how many of its passages were hidden."""

    title: str
    text: str
    hidden: int


class MarkdownConverter:
    """One conversion: the marks that were found beforehand, and the state of the walk."""

    def __init__(self, tree: "LexborHTMLParser", url: str, *, trim: bool) -> None:
        self.writer = MarkdownWriter()
        self.hidden_count = 0
        self._url = url
        self._origin = "/".join(url.split("/", 3)[:3])
        self._trim = trim
        self._hidden_nodes = find_hidden_nodes(tree)
        self._layout_tables = find_layout_tables(tree)
        self._lists: list[int] = []
        self._rows: list[list[str]] | None = None
        self._trimmed_nodes = {node.mem_id for node in tree.css("[role=navigation],[role=contentinfo],[role=search]")}

    def walk(self, root: "LexborNode") -> None:
        """Convert a node and all below it, without recursion: pages may be nested arbitrarily deep."""
        node: LexborNode | None = root
        above: list[tuple[LexborNode, Callable[[], None] | None]] = []
        while node is not None and not self.writer.is_full:
            after, descend = self._enter_node(node)
            child = node.first_child if descend else None
            if child is not None:
                above.append((node, after))
                node = child
                continue
            if after is not None:
                after()
            node = self._find_next_node(node, root, above)
        for _, after in reversed(above):
            if after is not None:
                after()

    def _find_next_node(
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

    def _enter_node(self, node: "LexborNode") -> "tuple[Callable[[], None] | None, bool]":
        """Begin a node; return what ends it, and whether the nodes below it are walked."""
        tag = node.tag
        if tag == "-text":
            self.writer.write_text(node.text_content or "")
            return None, False
        if tag is None or tag in _SKIPPED_TAGS or tag.startswith("-"):
            return None, tag == "-document"
        if self._trim and (tag in _NAVIGATION_TAGS or node.mem_id in self._trimmed_nodes):
            return None, False
        if node.mem_id in self._hidden_nodes:
            self._hidden_nodes.discard(node.mem_id)
            return self._begin_hidden(), True
        begin = _TAG_HANDLERS.get(tag)
        if begin is not None:
            return begin(self, node), True
        if tag in _BLOCK_TAGS:
            self.writer.begin_block()
            return self.writer.begin_block, True
        return None, True

    def _begin_hidden(self) -> "Callable[[], None]":
        writer = self.writer
        writer.begin_aside()
        rows, self._rows = self._rows, None
        raw, writer.raw = writer.raw, 0

        def end_hidden() -> None:
            self._rows, writer.raw = rows, raw
            text = writer.end_aside()
            if sum(char.isalnum() for char in text[:50]) >= 3:
                self.hidden_count += 1
                more = f" ... {len(text) - _MAX_HIDDEN} characters more" if len(text) > _MAX_HIDDEN else ""
                writer.add_space()
                writer.write_raw(f"[hidden text: {text[:_MAX_HIDDEN]}{more}]")
                writer.add_space()

        return end_hidden

    def begin_heading(self, node: "LexborNode") -> "Callable[[], None]":
        """Begin a heading, on one line."""
        writer = self.writer
        writer.begin_block()
        since = writer.save_position()
        writer.write_raw(_HEADINGS[node.tag or "h6"])
        writer.inline += 1

        def end_heading() -> None:
            writer.inline -= 1
            if not writer.has_text_since(since):
                writer.rewind(since)
            writer.begin_block()

        return end_heading

    def begin_link(self, node: "LexborNode") -> "Callable[[], None] | None":
        """Begin a link: its text, and where it leads unless that is this page."""
        href = (node.attributes.get("href") or "").strip()
        target = self._absolute_url(href)
        if not target or self.writer.raw:
            return None
        writer = self.writer
        since = writer.save_position()
        writer.write_raw("[")
        writer.inline += 1

        def end_link() -> None:
            writer.inline -= 1
            if writer.has_text_since(since):
                writer.pieces.append(f"]({target})")
                writer.size += len(target)
            else:
                writer.rewind(since)

        return end_link

    def _absolute_url(self, href: str) -> str:
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

    def write_image(self, node: "LexborNode") -> None:
        """Write a picture as its alternative text, without its address."""
        alt = " ".join((node.attributes.get("alt") or "").split())
        if alt:
            self.writer.write_text(f"![{alt}]")

    def begin_preformatted(self, node: "LexborNode") -> "Callable[[], None]":
        """Begin preformatted text, in a fence that it does not hold itself."""
        writer = self.writer
        if writer.inline or writer.raw:
            return writer.begin_block
        inner = node.css_first("code")
        named = _LANGUAGE.search(
            f"{node.attributes.get('class') or ''} {(inner.attributes.get('class') or '') if inner else ''}"
        )
        writer.begin_block()
        runs = re.findall(r"`{3,}", node.text())
        fence = "`" * max((len(run) + 1 for run in runs), default=3)
        writer.write_raw(f"{fence}{named[1] if named else ''}\n{writer.prefix}")
        writer.raw += 1

        def end_preformatted() -> None:
            writer.raw -= 1
            if writer.pieces:
                writer.pieces[-1] = writer.pieces[-1].rstrip("\n")
            writer.pieces.append(f"\n{writer.prefix}{fence}")
            writer.begin_block()

        return end_preformatted

    def begin_code(self, _node: "LexborNode") -> "Callable[[], None] | None":
        """Begin code within a line."""
        writer = self.writer
        if writer.raw:
            return None
        since = writer.save_position()
        writer.write_raw("`")

        def end_code() -> None:
            if writer.has_text_since(since):
                writer.pieces.append("`")
            else:
                writer.rewind(since)

        return end_code

    def line_break(self, _node: "LexborNode") -> None:
        """Begin a new line."""
        if self.writer.raw:
            self.writer.write_raw("\n" + self.writer.prefix)
        else:
            self.writer.begin_block(1)

    def write_rule(self, _node: "LexborNode") -> None:
        """Write a horizontal rule."""
        self.writer.begin_block()
        if not self.writer.inline:
            self.writer.write_raw("---")
        self.writer.begin_block()

    def begin_quote(self, _node: "LexborNode") -> "Callable[[], None]":
        """Begin a quotation, each line behind a `>`."""
        return self._begin_indented("> ")

    def _begin_indented(self, more: str) -> "Callable[[], None]":
        writer = self.writer
        writer.begin_block()
        before = writer.prefix
        if len(before) < 2 * _MAX_DEPTH:
            writer.prefix = before + more

        def end_indented() -> None:
            writer.prefix = before
            writer.begin_block()

        return end_indented

    def begin_list(self, node: "LexborNode") -> "Callable[[], None]":
        """Begin a list; one within a list stands directly under its item."""
        start = 0
        if node.tag == "ol":
            given = node.attributes.get("start") or "1"
            start = int(given) if given.isdigit() and len(given) < 7 else 1
        self.writer.begin_block(1 if self._lists else 2)
        self._lists.append(start)

        def end_list() -> None:
            self._lists.pop()
            self.writer.begin_block(1 if self._lists else 2)

        return end_list

    def begin_item(self, _node: "LexborNode") -> "Callable[[], None]":
        """Begin an item, with its bullet or number."""
        writer = self.writer
        writer.begin_block(1)
        if writer.inline:
            return lambda: writer.begin_block(1)
        bullet = "- "
        if self._lists and self._lists[-1]:
            bullet = f"{self._lists[-1]}. "
            self._lists[-1] += 1
        since = writer.save_position()
        writer.write_raw(bullet)
        before = writer.prefix
        if len(before) < 2 * _MAX_DEPTH:
            writer.prefix = before + " " * len(bullet)
        # What a block within an item would put before itself is the bullet.
        writer.skip_next_gap()

        def end_item() -> None:
            writer.prefix = before
            if not writer.has_text_since(since):
                writer.rewind(since)
            writer.drop_empty_line()
            writer.begin_block(1)

        return end_item

    def begin_table(self, node: "LexborNode") -> "Callable[[], None]":
        """Begin a table of data; one that only lays a page out is walked as if it did not exist."""
        writer = self.writer
        writer.begin_block()
        if node.mem_id in self._layout_tables or self._rows is not None or writer.inline:
            return writer.begin_block
        rows: list[list[str]] = []
        self._rows = rows

        def end_table() -> None:
            self._rows = None
            self._write_table([row for row in rows if any(row)])
            writer.begin_block()

        return end_table

    def _write_table(self, rows: list[list[str]]) -> None:
        columns = min(max((len(row) for row in rows), default=0), _MAX_COLUMNS)
        if columns < 2:
            for row in rows:
                self.writer.write_raw(row[0])
                self.writer.begin_block(1)
            return
        for number, row in enumerate(rows):
            self.writer.write_raw("| " + " | ".join([*row, *[""] * (columns - len(row))]) + " |")
            self.writer.begin_block(1)
            if not number:
                self.writer.write_raw("|" + " --- |" * columns)
                self.writer.begin_block(1)

    def begin_row(self, _node: "LexborNode") -> "Callable[[], None] | None":
        """Begin a row of a table."""
        if self._rows is not None:
            self._rows.append([])
            return None
        self.writer.begin_block(1)
        return lambda: self.writer.begin_block(1)

    def begin_cell(self, _node: "LexborNode") -> "Callable[[], None] | None":
        """Begin a cell of a table."""
        writer, rows = self.writer, self._rows
        if rows is None:
            writer.write_text(" ")
            return None
        writer.begin_aside()

        def end_cell() -> None:
            text = writer.end_aside().replace("|", "\\|")
            if not rows:
                rows.append([])
            rows[-1].append(text)

        return end_cell


_TAG_HANDLERS: "dict[str, Callable[[MarkdownConverter, LexborNode], Callable[[], None] | None]]" = {
    **dict.fromkeys(_HEADINGS, MarkdownConverter.begin_heading),
    "a": MarkdownConverter.begin_link,
    "img": MarkdownConverter.write_image,
    "pre": MarkdownConverter.begin_preformatted,
    "code": MarkdownConverter.begin_code,
    "kbd": MarkdownConverter.begin_code,
    "samp": MarkdownConverter.begin_code,
    "br": MarkdownConverter.line_break,
    "hr": MarkdownConverter.write_rule,
    "blockquote": MarkdownConverter.begin_quote,
    "ul": MarkdownConverter.begin_list,
    "ol": MarkdownConverter.begin_list,
    "menu": MarkdownConverter.begin_list,
    "li": MarkdownConverter.begin_item,
    "table": MarkdownConverter.begin_table,
    "tr": MarkdownConverter.begin_row,
    "td": MarkdownConverter.begin_cell,
    "th": MarkdownConverter.begin_cell,
}


def find_layout_tables(tree: "LexborHTMLParser") -> set[int]:
    """Return the tables that hold tables, or a single row, or declare themselves to be layout."""
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


def find_main_part(tree: "LexborHTMLParser") -> "LexborNode | None":
    """Return the part that the page is about, where it says so: its main element, or its only article."""
    mains = tree.css("main,[role=main]")
    articles = tree.css("article")
    for parts in (mains[:1], articles if len(articles) == 1 else []):
        if parts and len(parts[0].text()) >= _MIN_MAIN_CHARS:
            return parts[0]
    return None


def convert_html(html: str, url: str) -> ConvertedPage:
    """Convert a page to markdown."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(html, scripting=True)
    named = tree.css_first("title")
    title = " ".join(named.text().split())[:300] if named is not None else ""
    base = tree.css_first("base[href]")
    if base is not None:
        with contextlib.suppress(ValueError):
            url = urljoin(url, base.attributes.get("href") or "")
    text, hidden = "", 0
    for root, trim in ((find_main_part(tree), True), (tree.body, True), (tree.body or tree.root, False)):
        if root is not None:
            page = MarkdownConverter(tree, url, trim=trim)
            page.walk(root)
            text, hidden = "".join(page.writer.pieces).strip(), page.hidden_count
        if text:
            break
    return ConvertedPage(title=title, text=text, hidden=hidden)
