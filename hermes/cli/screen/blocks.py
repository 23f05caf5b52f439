"""Cuts a markdown text into blocks while it comes in, each given out once, at the first moment it is known."""

import copy
import re
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct, structs

from hermes.cli.screen.cells import safe
from hermes.cli.screen.lists import Nesting

LONGEST_LINE = 4_000
"""Characters after which a line without an end is cut."""
LONGEST_PARAGRAPH = 4_000
"""Characters after which a paragraph is given out in parts."""
MOST_ROWS = 60
"""Rows after which a table is given out in parts; the first part sets the columns."""
DEEPEST_QUOTE = 6

_MARKER = re.compile(r"([-*+•]|\d{1,9}[.)])(?:[ \t]+|$)")
_HEADING = re.compile(r"(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_RULE = re.compile(r"([-*_])(?:[ \t]*\1){2,}$")
_FENCE = re.compile(r"(`{3,})([^`]*)$|(~{3,})(.*)$")
_UNDERLINE = re.compile(r"={3,}$|-{3,}$")
_DELIMITERS = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$")
_HTML = re.compile(r"<(?:/?([a-zA-Z][\w-]*)(?=[\s/>]|$)|!--|!DOCTYPE|\?)")
_INLINE_TAGS = frozenset(
    (
        "a",
        "abbr",
        "b",
        "br",
        "cite",
        "code",
        "del",
        "em",
        "i",
        "img",
        "ins",
        "kbd",
        "mark",
        "q",
        "s",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "u",
        "var",
    )
)
_MATH = (("$$", "$$"), ("\\[", "\\]"))


class Kind(Enum):
    """What a block is."""

    PARAGRAPH = 1
    HEADING = 2
    ITEM = 3
    TABLE = 4
    CODE = 5
    """A line of code."""
    CODE_END = 6
    TEXT = 7
    """A line that is shown as it stands: HTML, formulas."""
    RULE = 8


class Block(Struct, frozen=True):
    """A finished part of the text."""

    kind: Kind
    text: str = ""
    """Without its marks; the lines of a paragraph, an item or a table are divided by newlines."""
    indent: int = 0
    """Cells to the left of it; of an item: to the left of its marker."""
    quote: int = 0
    """How many quotes it stands in."""
    first: bool = True
    """False for what goes on with the block before it: the next part, the next line of code."""
    gap: bool = False
    """Whether an empty line stood before it."""
    level: int = 0
    """Of a heading: 1 to 6; of an item: how many lists it is nested in."""
    label: str = ""
    """Of code: the language; of an item: its marker, `-` or a number."""


class Splitter:
    """Takes a text in pieces of any size. What it holds is bounded: the unfinished block, a few kilobytes."""

    def __init__(self, depth: int = 0, *, blank: bool = False) -> None:
        self._depth = depth
        self._rest = ""
        self._cut = False
        """Whether `rest` goes on with a line whose beginning has been cut off."""
        self._open: Kind | None = None
        """The kind of what stands in `lines`."""
        self._lines: list[str] = []
        self._size = 0
        self._first = True
        self._blank = blank
        self._lists = Nesting()
        self._fence = ""
        self._fence_indent = 0
        self._label = ""
        self._loose = False
        """Whether the last block was code that is only indented."""
        self._verbatim = ""
        """What ends lines that are shown as they stand; a newline for an empty line."""
        self._inner: Splitter | None = None
        self._out: list[Block] = []

    def feed(self, delta: str) -> list[Block]:
        """Add `delta`; returns the blocks that are finished by it."""
        text = self._rest + delta
        if "\n" not in delta and len(text) <= LONGEST_LINE:
            self._rest = text
            return []
        start, size = 0, len(text)
        while start < size:
            end = text.find("\n", start, start + LONGEST_LINE + 1)
            if end >= 0:
                self._take(text[start:end])
                self._cut = False
                start = end + 1
            elif size - start > LONGEST_LINE:
                end = text.rfind(" ", start + LONGEST_LINE // 2, start + LONGEST_LINE) + 1 or start + LONGEST_LINE
                self._take(text[start:end])
                self._cut = True
                self._part()
                start = end
            else:
                break
        self._rest = text[start:]
        out, self._out = self._out, []
        return out

    def close(self) -> list[Block]:
        """The text has ended; returns the last blocks."""
        if self._rest:
            self._take(self._rest)
        self._rest, self._cut = "", False
        self._leave_quote()
        self._flush()
        self._leave_code()
        return self._out

    def unfinished(self, most: int) -> list[Block]:
        """The blocks that are not given out yet, as if the text ended here; of a table the head and the last `most`
        rows. Changes nothing."""
        if not self._rest and not self._lines and self._inner is None:
            return []
        return copy.copy(self).alone(most).close()

    def alone(self, most: int) -> "Splitter":
        """For copies: share nothing that changes with the original, and forget all rows of a table but the last."""
        self._lists = self._lists.copy()
        head = 2 if self._first else 0
        self._lines = [*self._lines[:head], *self._lines[head:][-most:]] if self._open is Kind.TABLE else [*self._lines]
        self._out = []
        if self._inner is not None:
            self._inner = copy.copy(self._inner).alone(most)
        return self

    # A line.

    def _take(self, line: str) -> None:
        line = safe(line.rstrip("\r"))
        if self._cut:
            self._more(line)
        elif self._fence:
            self._in_fence(line)
        elif self._verbatim:
            self._as_it_stands(line)
        else:
            stripped = line.strip()
            if stripped:
                self._line(line, stripped)
            else:
                self._leave_quote()
                self._flush()
                self._blank = True

    def _more(self, piece: str) -> None:
        """The next piece of a line that was too long."""
        if self._fence:
            self._code(piece)
        elif self._verbatim:
            self._emit(Kind.TEXT, piece, first=False)
        elif self._inner is not None:
            self._out += [_quoted(one) for one in self._inner.feed(piece + "\n")]
        elif piece.strip():
            self._lines.append(piece.strip())
            self._open = self._open or Kind.PARAGRAPH

    def _line(self, line: str, stripped: str) -> None:
        first = stripped[0]
        if first == ">" and self._depth < DEEPEST_QUOTE:
            self._quote(stripped)
            return
        self._leave_quote()
        if not (
            self._table(stripped)
            or self._begin_code(line, stripped)
            or self._single(line, stripped)
            or self._item(line, stripped)
            or self._begin_verbatim(line, stripped)
        ):
            self._words(line, stripped)

    def _alone(self, line: str, kind: Kind, text: str = "", *, level: int = 0) -> None:
        """A line that is a block."""
        self._flush()
        self._lists.leave(_indent(line))
        self._emit(kind, text, level=level)

    # Paragraphs and lists.

    def _words(self, line: str, stripped: str) -> None:
        if self._open is Kind.TABLE:
            self._flush()
        if self._open is None:
            indent = _indent(line)
            self._lists.leave(indent)
            base = (self._lists.last.content if self._lists.last else 0) + 4
            if indent >= base:
                self._emit(Kind.CODE, _without_indent(line, base), first=not self._loose or self._blank)
                self._loose = True
                return
            self._open = Kind.PARAGRAPH
        self._leave_code()
        self._lines.append(stripped)
        self._size += len(stripped)
        if self._size > LONGEST_PARAGRAPH:
            self._part()

    def _item(self, line: str, stripped: str) -> bool:
        """Begin an item; False when the line is no item."""
        if stripped[0] not in "-*+•0123456789" or not (match := _MARKER.match(stripped)):
            return False
        indent, mark, words = _indent(line), match[1], stripped[match.end() :]
        if not self._lists:
            if self._open is None and indent >= 4:
                return False
            if self._open is Kind.PARAGRAPH and (not words or (mark[0].isdigit() and mark[:-1] != "1")):
                return False  # "the year\n1984. It was" is no list
        self._begin_item(indent, mark, words, match.end())
        return True

    def _begin_item(self, indent: int, mark: str, words: str, before: int) -> None:
        self._flush()
        self._leave_code()
        self._label = self._lists.item(indent, mark, before if words else len(mark) + 1)
        self._open = Kind.ITEM
        fenced = words[:1] in ("`", "~") and _FENCE.match(words)
        self._lines.append("" if fenced else words)
        if fenced:
            self._begin_code(" " * (indent + before) + words, words)

    # Headings that are underlined, tables.

    def _single(self, line: str, stripped: str) -> bool:
        """A line that is a heading, makes a heading of the one above it, or is a rule."""
        first = stripped[0]
        if first == "#" and (match := _HEADING.match(stripped)):
            self._alone(line, Kind.HEADING, match[2] or "", level=len(match[1]))
            return True
        if first in "-=" and self._open is Kind.PARAGRAPH and len(self._lines) == 1 and _UNDERLINE.match(stripped):
            words, self._open, self._size = self._lines.pop(), None, 0
            self._emit(Kind.HEADING, words, level=1 if first == "=" else 2)
            return True
        if first in "-*_" and _RULE.match(stripped):
            self._alone(line, Kind.RULE)
            return True
        return False

    def _table(self, stripped: str) -> bool:
        """Begin a table, or take its next row."""
        if "|" not in stripped:
            return False
        if self._open is Kind.TABLE:
            self._lines.append(stripped)
            self._size += len(stripped)
            if len(self._lines) > MOST_ROWS or self._size > 4 * LONGEST_PARAGRAPH:
                self._part()
            return True
        head = self._lines[-1] if self._lines and self._open is Kind.PARAGRAPH else ""
        if "|" not in head or not _DELIMITERS.match(stripped):
            return False
        if _columns(head) != _columns(stripped):
            return False
        self._lines.pop()
        self._flush()
        self._open = Kind.TABLE
        self._lines = [head.strip(), stripped]
        return True

    # Code, and lines that stand as they are.

    def _begin_code(self, line: str, stripped: str) -> bool:
        if stripped[0] not in "`~" or not (match := _FENCE.match(stripped)):
            return False
        self._flush()
        self._leave_code()
        self._fence_indent = _indent(line)
        self._lists.leave(self._fence_indent)
        self._fence = match[1] or match[3]
        info = (match[2] or match[4] or "").strip().strip("{}")
        self._label = info.split()[0].lstrip(".") if info else ""
        self._first = True
        return True

    def _in_fence(self, line: str) -> None:
        stripped = line.strip()
        mark = self._fence
        if stripped.startswith(mark) and not stripped.strip(mark[0]):
            self._leave_code()
            self._blank = True
            return
        self._code(_without_indent(line, self._fence_indent))

    def _code(self, line: str) -> None:
        self._emit(Kind.CODE, line, first=self._first, label=self._label)
        self._first = False

    def _leave_code(self) -> None:
        if self._fence and not self._first:
            self._emit(Kind.CODE_END)
        self._fence = ""
        self._first = True

    def _begin_verbatim(self, line: str, stripped: str) -> bool:
        if stripped[0] not in "<$\\":
            return False
        for begin, end in _MATH:
            if stripped.startswith(begin):
                self._alone(line, Kind.TEXT, stripped)
                self._verbatim = "" if end in stripped[len(begin) :] else end
                return True
        if (match := _HTML.match(stripped)) and (match[1] or "").lower() not in _INLINE_TAGS:
            self._alone(line, Kind.TEXT, line.rstrip())
            self._verbatim = "\n"
            return True
        return False

    def _as_it_stands(self, line: str) -> None:
        if not line.strip():
            self._verbatim = ""
            self._blank = True
            return
        self._emit(Kind.TEXT, line.rstrip(), first=False)
        if self._verbatim in line:
            self._verbatim = ""

    # Quotes.

    def _quote(self, stripped: str) -> None:
        if self._inner is None:
            self._flush()
            self._inner = Splitter(self._depth + 1, blank=self._blank)
        self._blank = False
        inner = stripped[2:] if stripped.startswith("> ") else stripped[1:]
        self._out += [_quoted(one) for one in self._inner.feed(inner + "\n")]

    def _leave_quote(self) -> None:
        if self._inner is not None:
            self._out += [_quoted(one) for one in self._inner.close()]
            self._inner = None
            self._lists.leave()

    # Giving out.

    def _part(self) -> None:
        """Give out what there is of a block that goes on."""
        kind = self._open
        if kind is None:
            return
        self._flush()
        self._first = False
        self._open = Kind.TABLE if kind is Kind.TABLE else Kind.PARAGRAPH

    def _flush(self) -> None:
        """Give out the open block."""
        kind, lines = self._open, self._lines
        self._open, self._size = None, 0
        if kind is None:
            return
        first, self._first = self._first, True
        if lines:
            self._lines = []
            text = "\n".join(lines)
            if kind is not Kind.TABLE:
                text = text.replace("\\\n", "\n")  # a break that is written out
            self._emit(kind, text, first=first, label=self._label if kind is Kind.ITEM else "")

    def _emit(self, kind: Kind, text: str = "", *, first: bool = True, level: int = 0, label: str = "") -> None:
        gap, self._blank = self._blank, False
        here = self._lists.last
        self._loose = False
        indent = (here.out if kind is Kind.ITEM else here.inner) if here else 0
        if kind is Kind.ITEM:
            level = len(self._lists)
        self._out.append(Block(kind, text, indent, 0, first, gap, level, label))


def _quoted(block: Block) -> Block:
    return structs.replace(block, quote=block.quote + 1)


def _indent(line: str) -> int:
    found = 0
    for letter in line:
        if letter == " ":
            found += 1
        elif letter == "\t":
            found += 4 - found % 4
        else:
            break
    return found


def _without_indent(line: str, most: int) -> str:
    """The line without up to `most` cells of what it is indented by."""
    if not most or not line[:1].isspace():
        return line
    line = line.expandtabs(4)
    spare = len(line) - len(line.lstrip(" "))
    return line[min(spare, most) :]


def cells_of_row(row: str) -> Sequence[str]:
    """The cells of a table's row, without spaces around them; `\\|` is a bar of the words."""
    row = row.strip().removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    if "\\|" in row:
        return [one.replace("\0", "|").strip() for one in row.replace("\\|", "\0").split("|")]
    return [one.strip() for one in row.split("|")]


def _columns(row: str) -> int:
    return len(cells_of_row(row))
