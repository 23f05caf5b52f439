"""Cuts a markdown text into blocks while it comes in, each given out once, at the first moment it is known."""

import copy
import re
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

from hermes.markup.cells import safe
from hermes.markup.containers import QUOTE, Containers, Level, indent_of, unquoted

LONGEST_LINE = 4_000
"""Characters after which a line without an end is cut."""
LONGEST_PARAGRAPH = 4_000
"""Characters after which a paragraph is given out in parts."""
MOST_ROWS = 60
"""Rows after which a table is given out in parts; the first part sets the columns."""

_MARKER = re.compile(r"([-*+•]|[0-9]{1,9}[.)])(?:[ \t]+|$)")
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
    TABLE = 3
    CODE = 4
    """A line of code."""
    INDENTED = 5
    """A line that is code only because it is indented; it may as well be meant as a paragraph."""
    CODE_END = 6
    TEXT = 7
    """A line that is shown as it stands: HTML, formulas."""
    RULE = 8


class Block(Struct, frozen=True):
    """A finished part of the text."""

    kind: Kind
    text: str = ""
    """Without its marks; the lines of a paragraph or a table are divided by newlines."""
    around: tuple[str, ...] = ()
    """The quotes and items it stands in, see `Containers.told`."""
    first: bool = True
    """False for what goes on with the block before it: the next part, the next line of code."""
    gap: bool = False
    """Whether an empty line stood before it."""
    level: int = 0
    """Of a heading: 1 to 6."""
    label: str = ""
    """Of code: the language."""
    joint: str = "\n"
    """What stood between it and the part before it, when it goes on with that."""


class Splitter:
    """Takes a text in pieces of any size. What it holds is bounded: the unfinished block, a few kilobytes."""

    def __init__(self, *, tabs: bool = False) -> None:
        self._tabs = tabs
        """Whether tabs stay as they are; else they are spaces."""
        self._joint = "\n"
        self._rest = ""
        self._cut = False
        """Whether `rest` goes on with a line whose beginning has been cut off."""
        self._open: Kind | None = None
        """The kind of what stands in `lines`."""
        self._lines: list[str] = []
        self._size = 0
        self._first = True
        self._blank = False
        self._around = Containers()
        self._fence = ""
        self._fence_indent = 0
        self._label = ""
        self._loose = False
        """Whether the last block was code that is only indented."""
        self._verbatim = ""
        """What ends lines that are shown as they stand; a newline for an empty line."""
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
                self._joint = " " if text[end - 1] == " " else ""
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
        self._end()
        return self._out

    def unfinished(self, most: int) -> list[Block]:
        """The blocks that are not given out yet, as if the text ended here; of a table the head and the last `most`
        rows. Changes nothing."""
        if not self._rest and not self._lines and not self._around.untold:
            return []
        return copy.copy(self).alone(most).close()

    def alone(self, most: int) -> "Splitter":
        """For copies: share nothing that changes with the original, and forget all rows of a table but the last."""
        self._around = copy.copy(self._around)
        head = 2 if self._first else 0
        self._lines = [*self._lines[:head], *self._lines[head:][-most:]] if self._open is Kind.TABLE else [*self._lines]
        self._out = []
        return self

    # A line.

    def _take(self, line: str) -> None:
        line = line.rstrip("\r")
        line = "\t".join([safe(one) for one in line.split("\t")]) if self._tabs and "\t" in line else safe(line)
        if self._cut:
            self._more(line)
            return
        inside, place, line = self._around.match(line)
        if inside and self._fence:
            self._in_fence(line)
        elif inside and self._verbatim:
            self._as_it_stands(line)
        elif inside:
            self._line(line)
        elif self._open is Kind.PARAGRAPH and not _ends_paragraph(line):
            self._words(line, line.strip())  # the `>` may be left out
        else:
            self._end()
            self._around.keep(place)
            self._line(line)

    def _more(self, piece: str) -> None:
        """The next piece of a line that was too long."""
        if self._fence:
            self._code(piece)
        elif self._verbatim:
            self._emit(Kind.TEXT, piece, first=False)
        elif piece.strip():
            self._lines.append(piece.strip())
            self._open = self._open or Kind.PARAGRAPH

    def _line(self, line: str) -> None:
        """A line, without the marks of the quotes that were open before it."""
        if self._around.untold:
            self._settle(line)
        while stripped := line.strip():
            if stripped[0] == QUOTE and self._begin_quote(line):
                line = unquoted(stripped)
            elif self._table(line, stripped) or self._begin_code(line, stripped) or self._single(line, stripped):
                return
            elif (words := self._begin_item(line, stripped)) is not None:
                if not words.strip():
                    return
                line = words
            else:
                if not self._begin_verbatim(line, stripped):
                    self._words(line, stripped)
                return
        self._flush()
        self._blank = True

    def _alone(self, line: str, kind: Kind, text: str = "", *, level: int = 0) -> None:
        """A line that is a block."""
        self._flush()
        self._around.leave(indent_of(line))
        self._emit(kind, text, level=level)

    # Paragraphs, quotes and lists.

    def _words(self, line: str, stripped: str) -> None:
        if self._open is Kind.TABLE:
            self._flush()
        if self._open is None:
            indent = indent_of(line)
            self._around.leave(indent)
            base = (self._around.last.content if self._around.last else 0) + 4
            if indent >= base:
                self._emit(Kind.INDENTED, _without_indent(line, base), first=not self._loose or self._blank)
                self._loose = True
                return
            self._open = Kind.PARAGRAPH
        self._lines.append(stripped)
        self._size += len(stripped)
        if self._size > LONGEST_PARAGRAPH:
            self._part()

    def _begin_quote(self, line: str) -> bool:
        place = self._around.place_of_quote(indent_of(line))
        if place >= 0:
            self._flush()
            self._around.quote(place)
        return place >= 0

    def _begin_item(self, line: str, stripped: str) -> str | None:
        """Begin an item; the line with spaces in place of its marker, None when it is no item."""
        if not (match := _MARKER.match(stripped)):
            return None
        if self._open is None and self._around.full and self._around.untold:
            return None
        indent, mark, words = indent_of(line), match[1], stripped[match.end() :]
        if self._around.last is None:
            if self._open is None and indent >= 4:
                return None
            if self._open is Kind.PARAGRAPH and not (words and _begins_list(mark)):
                return None
        self._flush()
        gap = match.end() if words else len(mark) + 1
        self._around.item(indent, mark, gap)
        return " " * (indent + gap) + words

    # Headings that are underlined, tables.

    def _single(self, line: str, stripped: str) -> bool:
        """A line that is a heading, makes a heading of the one above it, or is a rule."""
        first = stripped[0]
        if first == "#" and (match := _HEADING.match(stripped)):
            self._alone(line, Kind.HEADING, match[2] or "", level=len(match[1]))
            return True
        below = first in "-=" and self._open is Kind.PARAGRAPH and len(self._lines) == 1
        if below and _UNDERLINE.match(stripped) and self._around.has(indent_of(line)):
            words, self._open, self._size = self._lines.pop(), None, 0
            self._emit(Kind.HEADING, words, level=1 if first == "=" else 2)
            return True
        if first in "-*_" and _RULE.match(stripped):
            self._alone(line, Kind.RULE)
            return True
        return False

    def _table(self, line: str, stripped: str) -> bool:
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
        if "|" not in head or not _DELIMITERS.match(stripped) or not self._around.has(indent_of(line)):
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
        self._fence_indent = indent_of(line)
        self._around.leave(self._fence_indent)
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
        elif self._fence:
            self._settle()
        self._fence = ""
        self._first = True

    def _begin_verbatim(self, line: str, stripped: str) -> bool:
        if stripped[0] not in "<$\\":
            return False
        if (until := _verbatim_until(stripped)) is None:
            return False
        self._alone(line, Kind.TEXT, _in_place(line, self._around.last) if until == "\n" else stripped)
        self._verbatim = until
        return True

    def _as_it_stands(self, line: str) -> None:
        if not line.strip():
            self._verbatim = ""
            self._blank = True
            return
        self._emit(Kind.TEXT, _in_place(line, self._around.last), first=False)
        if self._verbatim in line:
            self._verbatim = ""

    # Giving out.

    def _settle(self, line: str | None = None) -> None:
        """Give out markers that nothing follows; with `line`: if that is no part of their item."""
        if not self._around.untold:
            return
        if line is None or (self._open is None and line.strip() and not self._around.has(indent_of(line))):
            self._emit(Kind.PARAGRAPH)

    def _end(self) -> None:
        """End what is open, code included."""
        self._flush()
        self._leave_code()
        self._verbatim = ""
        self._settle()

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
            self._emit(kind, text, first=first)

    def _emit(self, kind: Kind, text: str = "", *, first: bool = True, level: int = 0, label: str = "") -> None:
        gap, self._blank = self._blank, False
        joint, self._joint = self._joint, "\n"
        self._loose = False
        self._out.append(Block(kind, text, self._around.told(), first, gap, level, label, joint))


def _begins_list(mark: str) -> bool:
    """Whether a list may begin with this marker below words: "the year\\n1984. It was" is none."""
    return not mark[0].isdigit() or mark[:-1] == "1"


def _ends_paragraph(line: str) -> bool:
    """Whether the line begins a block, or is empty."""
    stripped = line.strip()
    if not stripped or indent_of(line) >= 4:
        return not stripped
    match stripped[0]:
        case ">":
            return True
        case "#":
            return _HEADING.match(stripped) is not None
        case "`" | "~":
            return _FENCE.match(stripped) is not None
        case "<" | "$" | "\\":
            return _verbatim_until(stripped) is not None
    return _MARKER.match(stripped) is not None or _RULE.match(stripped) is not None


def _verbatim_until(stripped: str) -> str | None:
    """What ends lines that are shown as they stand if this one begins them: a newline for an empty line, nothing when
    it is the only one; None when it begins none."""
    for begin, end in _MATH:
        if stripped.startswith(begin):
            return "" if end in stripped[len(begin) :] else end
    if (match := _HTML.match(stripped)) and (match[1] or "").lower() not in _INLINE_TAGS:
        return "\n"
    return None


def _in_place(line: str, item: Level | None) -> str:
    """The line without the cells that only say in which item it stands."""
    return _without_indent(line.rstrip(), item.content if item else 0)


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
