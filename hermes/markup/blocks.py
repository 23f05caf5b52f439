"""Splits a streamed markdown text into blocks; each is returned once, as soon as it is complete.

The quotes and list items around a block are tracked with it, nested in each other.
"""

import copy
import re
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

from hermes.markup.cells import sanitize_line

QUOTE = ">"
DEEPEST, DEEPEST_QUOTE = 16, 6
"""The most levels of nesting; deeper ones are shown less deep."""
ITEM_INDENT = 2
"""Cells by which the contents of an item are indented at least; models often use fewer than the standard."""
MAX_LINE_LENGTH = 4_000
"""Characters after which a line without an end is cut."""
MAX_PARAGRAPH_LENGTH = 4_000
"""Characters after which a paragraph is returned in parts."""
MAX_TABLE_ROWS = 60
"""Rows after which a table is returned in parts; the first part sets the columns."""
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


class ContainerLevel(Struct, frozen=True):
    """A quote or a list item."""

    mark: str
    """The marker as it is shown: `>`, `-`, or a number with its point."""
    column: int = -ITEM_INDENT
    """For an item: the column of the first marker of its list, counted from the quote around it."""
    content: int = 0
    """For an item: the column of its text, counted from there as well."""


class Containers:
    """The open quotes and items; decides to which a line belongs, by its `>` and by its indent."""

    def __init__(self) -> None:
        self._levels: tuple[ContainerLevel, ...] = ()
        self._shown_count = 0
        """The number of levels whose markers have been returned."""
        self._around: tuple[str, ...] | None = ()

    @property
    def last(self) -> ContainerLevel | None:
        """The item that lines belong to, if the innermost quote has one."""
        last = self._levels[-1] if self._levels else None
        return last if last and last.mark is not QUOTE else None

    @property
    def has_pending_marker(self) -> bool:
        """Whether an open item has a marker that was not returned yet."""
        return any(level.mark is not QUOTE for level in self._levels[self._shown_count :])

    @property
    def is_full(self) -> bool:
        """Whether the innermost level can hold no further one."""
        return len(self._levels) >= DEEPEST

    def take_markers(self) -> tuple[str, ...]:
        """Return what a block here is inside of, outermost first, and mark all markers as returned.

        That is `>`, the marker of an item that begins with the block, or spaces in place of a marker.
        """
        if self._around is None or self._shown_count < len(self._levels):
            marks = [level.mark if level.mark is QUOTE else " " * (len(level.mark) + 1) for level in self._levels]
            self._around = tuple(marks)
            fresh = tuple(level.mark for level in self._levels[self._shown_count :])
            around, self._shown_count = self._around[: self._shown_count] + fresh, len(self._levels)
            return around
        return self._around

    def match_line(self, line: str) -> tuple[bool, int, str]:
        """Return whether the line continues all quotes, in how many levels it does, and the rest of the line."""
        if not self._levels:
            return True, 0, line
        here = _NOWHERE
        for place, level in enumerate(self._levels):
            if level.mark is not QUOTE:
                here = level
                continue
            indent, words = measure_indent(line), line.lstrip(" \t")
            if words[:1] != QUOTE or not here.column + ITEM_INDENT <= indent < here.content + 4:
                return False, place, line
            line, here = strip_quote_mark(words), _NOWHERE
        return True, len(self._levels), line

    def includes_indent(self, indent: int) -> bool:
        """Return whether a line with this indent belongs to the last item, or no item is open."""
        last = self.last
        return last is None or indent >= last.column + ITEM_INDENT

    def is_code_indent(self, indent: int) -> bool:
        """Return whether a line with this indent is code, or goes on with a paragraph: whatever it begins with."""
        place = self._depth_at(indent)
        return indent >= (self._levels[place - 1].content if place else 0) + 4

    def leave_items(self, indent: int) -> None:
        """Close the items that a line with this indent does not belong to."""
        self.keep_outermost(self._depth_at(indent))

    def _depth_at(self, indent: int) -> int:
        place = len(self._levels)
        while (
            place
            and self._levels[place - 1].mark is not QUOTE
            and indent < self._levels[place - 1].column + ITEM_INDENT
        ):
            place -= 1
        return place

    def keep_outermost(self, place: int) -> None:
        """Close all levels but the outermost `place`."""
        if place < len(self._levels):
            self._levels, self._around = self._levels[:place], None
            self._shown_count = min(self._shown_count, place)

    def find_quote_depth(self, indent: int) -> int:
        """Return in how many levels a quote with this indent stands; -1 where none can begin."""
        place = self._depth_at(indent)
        content = self._levels[place - 1].content if place else 0
        if indent >= content + 4 or place >= DEEPEST:
            return -1
        return place if sum(level.mark is QUOTE for level in self._levels[:place]) < DEEPEST_QUOTE else -1

    def begin_quote(self, place: int) -> None:
        """Begin a quote there."""
        self.keep_outermost(place)
        self._push_level(ContainerLevel(QUOTE))

    def begin_item(self, indent: int, mark: str, gap: int) -> None:
        """Begin an item; `gap` is the length of its marker with the spaces behind it.

        Numbers continue from the item before it.
        """
        place = len(self._levels)
        beside: ContainerLevel | None = None
        while place and self._levels[place - 1].mark is not QUOTE:
            if indent >= self._levels[place - 1].column + ITEM_INDENT and place < DEEPEST:
                break
            place -= 1
            beside = self._levels[place]
            if indent >= beside.column + ITEM_INDENT:
                break  # too deep: beside the innermost
        self.keep_outermost(place)
        shown, column = mark if mark[0].isdigit() else "-", indent
        if beside is not None and _marker_kind(beside.mark) == _marker_kind(shown):
            column = min(beside.column, indent)
            if shown != "-":
                shown = f"{int(beside.mark[:-1]) + 1}{mark[-1]}"
        elif shown != "-":
            shown = f"{int(mark[:-1])}{mark[-1]}"
        self._push_level(ContainerLevel(shown, column, indent + gap))

    def _push_level(self, level: ContainerLevel) -> None:
        self._levels += (level,)
        self._around = None


_NOWHERE = ContainerLevel("")


def _marker_kind(mark: str) -> str:
    return mark[-1]


def measure_indent(line: str) -> int:
    """Return the cells that the line is indented by; a tab advances to the next multiple of four."""
    found = 0
    for letter in line:
        if letter == " ":
            found += 1
        elif letter == "\t":
            found += 4 - found % 4
        else:
            break
    return found


def strip_quote_mark(words: str) -> str:
    """Return the text behind the `>` that it begins with."""
    return words[2:] if words.startswith("> ") else words[1:]


class BlockKind(Enum):
    """The kind of a block."""

    PARAGRAPH = 1
    HEADING = 2
    TABLE = 3
    CODE = 4
    """A line of code."""
    INDENTED = 5
    """A line that is code only by its indent; it may be meant as a paragraph."""
    CODE_END = 6
    TEXT = 7
    """A line that is shown verbatim: HTML, formulas."""
    RULE = 8


class MarkdownBlock(Struct, frozen=True):
    """A complete block of the text."""

    kind: BlockKind
    text: str = ""
    """The text without its marks; the lines of a paragraph or a table are separated by newlines."""
    around: tuple[str, ...] = ()
    """The quotes and items around the block, see `Containers.take_markers`."""
    first: bool = True
    """False for the continuation of the block before it: the next part, the next line of code."""
    gap: bool = False
    """Whether an empty line stood before it."""
    level: int = 0
    """The level of a heading, 1 to 6."""
    label: str = ""
    """The language of code."""
    joint: str = "\n"
    """The separator from the part before it, for a continuation."""


class BlockSplitter:
    """Splits a text that arrives in pieces of any size; it holds at most the unfinished block, a few kilobytes."""

    def __init__(self, *, tabs: bool = False) -> None:
        self._tabs = tabs
        """Whether tabs stay as they are; otherwise they become spaces."""
        self._joint = "\n"
        self._rest = ""
        self._cut = False
        """Whether `rest` continues a line whose beginning has been cut off."""
        self._open: BlockKind | None = None
        """The kind of the block in `lines`."""
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
        """The text that ends verbatim lines; a newline stands for an empty line."""
        self._out: list[MarkdownBlock] = []

    def feed(self, delta: str) -> list[MarkdownBlock]:
        """Add `delta` and return the blocks that it completes."""
        text = self._rest + delta
        if "\n" not in delta and len(text) <= MAX_LINE_LENGTH:
            self._rest = text
            return []
        start, size = 0, len(text)
        while start < size:
            end = text.find("\n", start, start + MAX_LINE_LENGTH + 1)
            if end >= 0:
                self._take_line(text[start:end])
                self._cut = False
                start = end + 1
            elif size - start > MAX_LINE_LENGTH:
                end = (
                    text.rfind(" ", start + MAX_LINE_LENGTH // 2, start + MAX_LINE_LENGTH) + 1
                    or start + MAX_LINE_LENGTH
                )
                self._take_line(text[start:end])
                self._cut = True
                self._emit_part()
                self._joint = " " if text[end - 1] == " " else ""
                start = end
            else:
                break
        self._rest = text[start:]
        out, self._out = self._out, []
        return out

    def close(self) -> list[MarkdownBlock]:
        """End the text and return the last blocks."""
        if self._rest:
            self._take_line(self._rest)
        self._rest, self._cut = "", False
        self._end_blocks()
        return self._out

    def preview_blocks(self, most: int) -> list[MarkdownBlock]:
        """Return the pending blocks as if the text ended here; of a table the head and the last `most` rows.

        Changes nothing.
        """
        if not self._rest and not self._lines and not self._around.has_pending_marker:
            return []
        return copy.copy(self).detach_copy(most).close()

    def detach_copy(self, most: int) -> "BlockSplitter":
        """Detach a copy: share no mutable state with the original, and drop all rows of a table but the last."""
        self._around = copy.copy(self._around)
        head = 2 if self._first else 0
        self._lines = (
            [*self._lines[:head], *self._lines[head:][-most:]] if self._open is BlockKind.TABLE else [*self._lines]
        )
        self._out = []
        return self

    # A line.

    def _take_line(self, line: str) -> None:
        line = line.rstrip("\r")
        line = (
            "\t".join([sanitize_line(one) for one in line.split("\t")])
            if self._tabs and "\t" in line
            else sanitize_line(line)
        )
        if self._cut:
            self._continue_line(line)
            return
        inside, place, line = self._around.match_line(line)
        if inside and self._fence:
            self._take_fenced_line(line)
        elif inside and self._verbatim:
            self._take_verbatim_line(line)
        elif inside:
            self._parse_line(line)
        elif self._open is BlockKind.PARAGRAPH and not _ends_paragraph(line):
            self._add_words(line, line.strip())  # the `>` may be left out
        else:
            self._end_blocks()
            self._around.keep_outermost(place)
            self._parse_line(line)

    def _continue_line(self, piece: str) -> None:
        """Continue a line that was too long with its next piece."""
        if self._fence:
            self._emit_code(piece)
        elif self._verbatim:
            self._emit_block(BlockKind.TEXT, piece, first=False)
        elif piece.strip():
            self._lines.append(piece.strip())
            self._open = self._open or BlockKind.PARAGRAPH

    def _parse_line(self, line: str) -> None:
        """Parse a line, without the marks of the quotes that were open before it."""
        if self._around.has_pending_marker:
            self._emit_pending_markers(line)
        while stripped := line.strip():
            if stripped[0] == QUOTE and self._begin_quote(line):
                line = strip_quote_mark(stripped)
            elif (
                self._take_table_row(line, stripped)
                or self._begin_code(line, stripped)
                or self._take_heading_or_rule(line, stripped)
            ):
                return
            elif (words := self._begin_item(line, stripped)) is not None:
                if not words.strip():
                    return
                line = words
            else:
                if not self._begin_verbatim(line, stripped):
                    self._add_words(line, stripped)
                return
        self._flush_block()
        self._blank = True

    def _emit_line_block(self, line: str, kind: BlockKind, text: str = "", *, level: int = 0) -> None:
        """Emit a line that is a block of its own."""
        self._flush_block()
        self._around.leave_items(measure_indent(line))
        self._emit_block(kind, text, level=level)

    # Paragraphs, quotes and lists.

    def _add_words(self, line: str, stripped: str) -> None:
        if self._open is BlockKind.TABLE:
            self._flush_block()
        if self._open is None:
            indent = measure_indent(line)
            self._around.leave_items(indent)
            base = (self._around.last.content if self._around.last else 0) + 4
            if indent >= base:
                self._emit_block(BlockKind.INDENTED, _without_indent(line, base), first=not self._loose or self._blank)
                self._loose = True
                return
            self._open = BlockKind.PARAGRAPH
        self._lines.append(stripped)
        self._size += len(stripped)
        if self._size > MAX_PARAGRAPH_LENGTH:
            self._emit_part()

    def _begin_quote(self, line: str) -> bool:
        place = self._around.find_quote_depth(measure_indent(line))
        if place >= 0:
            self._flush_block()
            self._around.begin_quote(place)
        return place >= 0

    def _begin_item(self, line: str, stripped: str) -> str | None:
        """Begin an item; return the line with spaces instead of its marker, None when it is no item."""
        if not (match := _MARKER.match(stripped)):
            return None
        if self._open is None and self._around.is_full and self._around.has_pending_marker:
            return None
        indent, mark, words = measure_indent(line), match[1], stripped[match.end() :]
        if self._around.last is None:
            if self._open is None and indent >= 4:
                return None
            if self._open is BlockKind.PARAGRAPH and not (words and _begins_list(mark)):
                return None
        self._flush_block()
        gap = match.end() if words else len(mark) + 1
        self._around.begin_item(indent, mark, gap)
        return " " * (indent + gap) + words

    # Headings that are underlined, tables.

    def _take_heading_or_rule(self, line: str, stripped: str) -> bool:
        """Take a line that is a heading, underlines the one above it, or is a rule; return whether it was."""
        first = stripped[0]
        if first not in "#-=*_" or self._around.is_code_indent(measure_indent(line)):
            return False
        if match := _HEADING.match(stripped):
            self._emit_line_block(line, BlockKind.HEADING, match[2] or "", level=len(match[1]))
            return True
        below = self._open is BlockKind.PARAGRAPH and len(self._lines) == 1
        if below and _UNDERLINE.match(stripped) and self._around.includes_indent(measure_indent(line)):
            words, self._open, self._size = self._lines.pop(), None, 0
            self._emit_block(BlockKind.HEADING, words, level=1 if first == "=" else 2)
            return True
        if _RULE.match(stripped):
            self._emit_line_block(line, BlockKind.RULE)
            return True
        return False

    def _take_table_row(self, line: str, stripped: str) -> bool:
        """Begin a table, or take its next row."""
        if "|" not in stripped:
            return False
        if self._open is BlockKind.TABLE:
            self._lines.append(stripped)
            self._size += len(stripped)
            if len(self._lines) > MAX_TABLE_ROWS or self._size > 4 * MAX_PARAGRAPH_LENGTH:
                self._emit_part()
            return True
        head = self._lines[-1] if self._lines and self._open is BlockKind.PARAGRAPH else ""
        if "|" not in head or not _DELIMITERS.match(stripped) or not self._around.includes_indent(measure_indent(line)):
            return False
        if _count_columns(head) != _count_columns(stripped):
            return False
        self._lines.pop()
        self._flush_block()
        self._open = BlockKind.TABLE
        self._lines = [head.strip(), stripped]
        return True

    # Code, and lines that stand as they are.

    def _begin_code(self, line: str, stripped: str) -> bool:
        if stripped[0] not in "`~" or not (match := _FENCE.match(stripped)):
            return False
        self._flush_block()
        self._fence_indent = measure_indent(line)
        self._around.leave_items(self._fence_indent)
        self._fence = match[1] or match[3]
        info = (match[2] or match[4] or "").strip().strip("{}")
        self._label = info.split()[0].lstrip(".") if info else ""
        self._first = True
        return True

    def _take_fenced_line(self, line: str) -> None:
        stripped = line.strip()
        mark = self._fence
        if stripped.startswith(mark) and not stripped.strip(mark[0]):
            self._leave_code()
            self._blank = True
            return
        self._emit_code(_without_indent(line, self._fence_indent))

    def _emit_code(self, line: str) -> None:
        self._emit_block(BlockKind.CODE, line, first=self._first, label=self._label)
        self._first = False

    def _leave_code(self) -> None:
        if self._fence and not self._first:
            self._emit_block(BlockKind.CODE_END)
        elif self._fence:
            self._emit_pending_markers()
        self._fence = ""
        self._first = True

    def _begin_verbatim(self, line: str, stripped: str) -> bool:
        if stripped[0] not in "<$\\":
            return False
        if (until := _verbatim_until(stripped)) is None:
            return False
        self._emit_line_block(
            line, BlockKind.TEXT, _without_item_indent(line, self._around.last) if until == "\n" else stripped
        )
        self._verbatim = until
        return True

    def _take_verbatim_line(self, line: str) -> None:
        if not line.strip():
            self._verbatim = ""
            self._blank = True
            return
        self._emit_block(BlockKind.TEXT, _without_item_indent(line, self._around.last), first=False)
        if self._verbatim in line:
            self._verbatim = ""

    # Giving out.

    def _emit_pending_markers(self, line: str | None = None) -> None:
        """Emit markers that nothing follows; with `line`, only if it is no part of their item."""
        if not self._around.has_pending_marker:
            return
        if line is None or (
            self._open is None and line.strip() and not self._around.includes_indent(measure_indent(line))
        ):
            self._emit_block(BlockKind.PARAGRAPH)

    def _end_blocks(self) -> None:
        """End all open blocks, code included."""
        self._flush_block()
        self._leave_code()
        self._verbatim = ""
        self._emit_pending_markers()

    def _emit_part(self) -> None:
        """Emit the part of an open block that has arrived; the block stays open."""
        kind = self._open
        if kind is None:
            return
        self._flush_block()
        self._first = False
        self._open = BlockKind.TABLE if kind is BlockKind.TABLE else BlockKind.PARAGRAPH

    def _flush_block(self) -> None:
        """Emit the open block."""
        kind, lines = self._open, self._lines
        self._open, self._size = None, 0
        if kind is None:
            return
        first, self._first = self._first, True
        if lines:
            self._lines = []
            text = "\n".join(lines)
            if kind is not BlockKind.TABLE:
                text = text.replace("\\\n", "\n")  # a break that is written out
            self._emit_block(kind, text, first=first)

    def _emit_block(
        self, kind: BlockKind, text: str = "", *, first: bool = True, level: int = 0, label: str = ""
    ) -> None:
        gap, self._blank = self._blank, False
        joint, self._joint = self._joint, "\n"
        self._loose = False
        self._out.append(MarkdownBlock(kind, text, self._around.take_markers(), first, gap, level, label, joint))


def _begins_list(mark: str) -> bool:
    """Return whether a list may begin with this marker below text; "the year\\
    1984. It was" is no list.
    """
    return not mark[0].isdigit() or mark[:-1] == "1"


def _ends_paragraph(line: str) -> bool:
    """Return whether the line begins a block, or is empty."""
    stripped = line.strip()
    if not stripped or measure_indent(line) >= 4:
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
    """Return what ends the verbatim lines that this line begins, or None when it begins none.

    A newline stands for an empty line; an empty text means that it is the only one.
    """
    for begin, end in _MATH:
        if stripped.startswith(begin):
            return "" if end in stripped[len(begin) :] else end
    if (match := _HTML.match(stripped)) and (match[1] or "").lower() not in _INLINE_TAGS:
        return "\n"
    return None


def _without_item_indent(line: str, item: ContainerLevel | None) -> str:
    """Return the line without the indent of its list item."""
    return _without_indent(line.rstrip(), item.content if item else 0)


def _without_indent(line: str, most: int) -> str:
    """Return the line without up to `most` cells of its indent."""
    if not most or not line[:1].isspace():
        return line
    line = line.expandtabs(4)
    spare = len(line) - len(line.lstrip(" "))
    return line[min(spare, most) :]


def split_table_row(row: str) -> Sequence[str]:
    """Split a table row into cells without the spaces around them; `\\\\|` is an escaped bar."""
    row = row.strip().removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    if "\\|" in row:
        return [one.replace("\0", "|").strip() for one in row.replace("\\|", "\0").split("|")]
    return [one.strip() for one in row.split("|")]


def parse_alignment(delimiter: str) -> str:
    """Return the side to which a delimiter of a table aligns its column: `l`, `r` or `c`."""
    left, right = delimiter.startswith(":"), delimiter.endswith(":")
    return "c" if left and right else "r" if right else "l"


def fit_table_row(row: Sequence[str], count: int) -> tuple[str, ...]:
    """Return as many cells as there are columns; surplus text stays in the last one."""
    if len(row) > count:
        return (*row[: count - 1], " | ".join(row[count - 1 :]))
    return (*row, *[""] * (count - len(row)))


def _count_columns(row: str) -> int:
    return len(split_table_row(row))
