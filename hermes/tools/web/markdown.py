"""HTML to markdown, in a process of its own: `python -I -S markdown.py FOLDER`, a job and HTML in, JSON out.

A hostile page may make any parser take minutes, or crash it; here that ends a child with a limit of processor time and
memory, which has no environment, no network of ours and nothing to tell. So this file imports the standard library and
selectolax (found in FOLDER) and nothing of Hermes.

Text that a reader would not see is kept and marked, `[hidden text: ...]`: what a page hides from people is a fact about
the page. Scripts, styles and navigation are left out, pictures are their alternative text, nothing is loaded.
"""

import contextlib
import json
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urljoin

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

CPU_SECONDS = 4
MEMORY = 1 << 30
MAX_OUT = 4_000_000
_MAX_DEPTH = 12
_MAX_HIDDEN = 2_000
_MAX_COLUMNS = 40
_MAX_ROWS = 100
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
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_NONE_SHOWN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*\.?0+(?![.\d])|"
    r"font-size\s*:\s*0*\.?[01](?:\.0+)?(?:px|pt|em|rem|%)?\s*(?:;|!|$)|"
    r"(?:text-indent|left|top|right|margin-left|margin-top)\s*:\s*-\s*\d{3,}|"
    r"clip\s*:\s*rect\(\s*[01]?(?:px)?[\s,]|clip-path\s*:\s*(?:inset\(\s*(?:50|100)%|circle\(\s*0)|"
    r"transform\s*:\s*scale\w?\(\s*0\s*[,)]|color\s*:\s*transparent",
    re.IGNORECASE,
)
_SMALL = re.compile(r"(?:^|[;\s])(?:max-)?(?:width|height)\s*:\s*[01](?:px)?\s*(?:;|!|$)", re.IGNORECASE)
_COLOUR = re.compile(r"(?:^|[;\s])color\s*:\s*([^;!]+)", re.IGNORECASE)
_BACKGROUND = re.compile(r"background(?:-color)?\s*:\s*([^;!]+)", re.IGNORECASE)
_WHITE = frozenset({"white", "#fff", "#ffffff", "#fefefe", "rgb(255,255,255)", "rgba(255,255,255,1)", "snow"})
_SIMPLE = re.compile(r"[a-z0-9]*(?:[.#][A-Za-z_][\w-]*)+", re.ASCII)
_MAX_RULES = 60
_LANGUAGE = re.compile(r"\b(?:lang(?:uage)?|highlight-source)-([\w+#-]{1,20})")
_WORD = re.compile(r"\w")


class Job(TypedDict):
    """What is wanted of a page at `url`: markdown where `row` is empty, else a list's rows (CSS selectors)."""

    url: str
    row: str
    title: str
    link: str
    snippet: str


class Converted(TypedDict):
    """What comes out: the page's title, its markdown, and how many passages of it were hidden."""

    title: str
    text: str
    hidden: int


def hides(style: str) -> bool:
    """Whether an inline style keeps its element from being seen."""
    style = _COMMENT.sub("", style)
    if _NONE_SHOWN.search(style) or len(_SMALL.findall(style)) > 1:
        return True
    colour = _COLOUR.search(style)
    if colour is None:
        return False
    background = _BACKGROUND.search(style)
    ink = re.sub(r"\s", "", colour[1].lower())
    paper = re.sub(r"\s", "", background[1].lower()) if background else ""
    return ink == paper or (not paper and ink in _WHITE)


class Writer:
    """Puts text together with the fewest line breaks that keep blocks apart."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.size = 0
        self.prefix = ""
        self.inline = 0
        self.raw = 0
        self._gap = 0
        self._space = False
        self._settled = -1
        self._above = ""
        self._saved: list[tuple[list[str], int, bool]] = []

    @property
    def full(self) -> bool:
        """Whether no more is taken."""
        return self.size > MAX_OUT

    def block(self, lines: int = 2) -> None:
        """What follows begins on a line of its own (1), or after an empty one (2)."""
        if self.inline:
            self._space = True
        elif self._gap < lines and self._settled != len(self.out):
            self._above = self._above if self._gap else self.prefix
            self._gap = lines
        if self._gap and len(self.prefix) < len(self._above):
            self._above = self.prefix

    def put(self, text: str) -> None:
        """Write text as it is, after the gap that is due."""
        if self._gap:
            if self.out:
                empty = "\n" + self._above.rstrip()
                self.out.append(empty * (self._gap - 1) + "\n" + self.prefix)
            elif self.prefix:
                self.out.append(self.prefix)
            self._gap = 0
        elif self._space and self.out:
            self.out.append(" ")
        self._space = False
        self.out.append(text)
        self.size += len(text)

    def settle(self) -> None:
        """What was just written needs no gap after it: the next block begins right there."""
        self._settled = len(self.out)

    def tighten(self) -> None:
        """No empty line before what follows."""
        self._gap = min(self._gap, 1)

    def space(self) -> None:
        """What follows stands apart, on the same line."""
        self._space = True

    def text(self, text: str) -> None:
        """Write a text node: runs of white space are one space, unless within `pre`."""
        if self.raw:
            if text:
                self.put(text.replace("\n", "\n" + self.prefix))
            return
        flat = " ".join(text.split())
        if not flat:
            self._space = self._space or bool(text)
            return
        if text[0].isspace():
            self._space = True
        self.put(flat)
        self._space = text[-1].isspace()

    def mark(self) -> tuple[int, int, bool]:
        """A place to come back to with `written` or `back`."""
        return len(self.out), self._gap, self._space

    def written(self, since: tuple[int, int, bool]) -> bool:
        """Whether anything was written since, besides one mark."""
        return any(_WORD.search(piece) or len(piece) > 8 for piece in self.out[since[0] :])

    def back(self, to: tuple[int, int, bool]) -> None:
        """Take back what was written since."""
        del self.out[to[0] :]
        self._gap, self._space = to[1], to[2]

    def push(self) -> None:
        """Write aside, on one line, until `pop`."""
        self._saved.append((self.out, self._gap, self._space))
        self.out, self._gap, self._space = [], 0, False
        self.inline += 1

    def pop(self) -> str:
        """What was written aside."""
        text = "".join(self.out).strip()
        self.out, self._gap, self._space = self._saved.pop()
        self.inline -= 1
        return text


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


def hidden_nodes(tree: "LexborHTMLParser") -> set[int]:
    """The elements that a reader would not see, by what stands in them and by the page's own plain style rules."""
    found = set()
    for node in tree.css("[style],[hidden],[aria-hidden],[color]"):
        given = node.attributes
        shown = given.get("aria-hidden") != "true" and "hidden" not in given
        if not shown or hides(given.get("style") or "") or (given.get("color") or "").lower() in _WHITE:
            found.add(node.mem_id)
    selectors: list[str] = []
    for sheet in tree.css("style"):
        selectors += hiding_selectors(sheet.text() or "")
    if selectors:
        found.update(node.mem_id for node in tree.css(",".join(selectors[:_MAX_RULES])))
    return found


def hiding_selectors(sheet: str) -> list[str]:
    """The plain selectors (`.name`, `#id`) that a style sheet hides, those within @media left out."""
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
        if hides(sheet[opened + 1 : brace.start()]) and "{" not in sheet[opened + 1 : brace.start()]:
            names = (name.strip() for name in sheet[start:opened].split(","))
            found += [name for name in names if _SIMPLE.fullmatch(name)]
        start = brace.end()
    return found


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

    tree = LexborHTMLParser(html)
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


def _limit() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def rows(html: str, url: str, job: Job) -> list[dict[str, str]]:
    """What a list on a page holds: for each element that `job["row"]` selects, the texts that the others select."""
    from selectolax.lexbor import LexborHTMLParser

    found: list[dict[str, str]] = []
    for row in LexborHTMLParser(html).css(job["row"])[:_MAX_ROWS]:
        values: dict[str, str] = {}
        for name in ("title", "link", "snippet"):
            node = row.css_first(job[name])
            if node is not None:
                values[name] = urljoin(url, node.attributes.get("href") or "") if name == "link" else node.text()
        found.append(values)
    return found


def main() -> int:
    """Do what comes in: a line with the job as JSON, then the HTML."""
    sys.path.append(sys.argv[1])
    _limit()
    first, _, html = sys.stdin.buffer.read().decode("utf-8", "replace").partition("\n")
    job: Job = json.loads(first)
    made = rows(html, job["url"], job) if job["row"] else convert(html, job["url"])
    sys.stdout.buffer.write(json.dumps(made).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
