"""A whole markdown text as a few kinds of parts, the one reading from which all dialects are written."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct, structs

from hermes.markup.blocks import Block, Kind, Splitter, cells_of_row
from hermes.markup.cells import filled, width_of
from hermes.markup.containers import QUOTE
from hermes.markup.inline import Span, spans_of


class Part(Struct, frozen=True):
    """A paragraph, heading, table, rule, or a whole piece of code (`CODE`)."""

    kind: Kind
    text: str = ""
    """Of code and of what stands as it is; of a table its source."""
    spans: tuple[Span, ...] = ()
    """Of a paragraph or a heading."""
    rows: tuple[tuple[str, ...], ...] = ()
    """Of a table: cells in markdown, the head first; all rows of one length."""
    sides: str = ""
    """Of a table: `l`, `r` or `c` a column."""
    around: tuple[str, ...] = ()
    """The quotes (`>`) and items it stands in, outermost first: an item's marker where it begins with this part, else
    as many spaces."""
    gap: bool = False
    """Whether an empty line goes before it."""
    level: int = 0
    """Of a heading: 1 to 6."""
    label: str = ""
    """Of code: the language."""


def parts_of(markdown: str) -> list[Part]:
    """The parts of a text, in order. Nothing that cannot be seen or would be obeyed by a screen is in them."""
    splitter = Splitter(tabs=True)
    blocks = [*splitter.feed(markdown), *splitter.close()]
    found: list[Part] = []
    at = 0
    while at < len(blocks):
        end = at + 1
        while end < len(blocks) and _goes_on(blocks[end - 1], blocks[end]):
            end += 1
        if blocks[at].kind is not Kind.CODE_END:
            found.append(_part(blocks[at:end], first=not found))
        at = end
    return found


def _goes_on(before: Block, block: Block) -> bool:
    if block.kind is Kind.CODE_END or block.first or block.kind is not before.kind:
        return False
    return not block.gap or block.kind in (Kind.CODE, Kind.INDENTED)


def _part(blocks: Sequence[Block], *, first: bool) -> Part:
    block = blocks[0]
    text = "".join([block.text, *(one.joint + one.text for one in blocks[1:])])
    part = Part(block.kind, text, around=block.around, gap=block.gap and not first, level=block.level)
    match block.kind:
        case Kind.CODE | Kind.INDENTED:
            return structs.replace(part, kind=Kind.CODE, text=text.rstrip(), label=block.label)
        case Kind.TABLE:
            return _table(part)
        case Kind.PARAGRAPH | Kind.HEADING:
            return _words(part, blocks)
        case _:
            return part


def _words(part: Part, blocks: Sequence[Block]) -> Part:
    text = part.text
    spans = [one for block in blocks for one in _joined(block, block is not blocks[0])]
    if part.around and is_marker(part.around[-1]) and text[:4].lower() in ("[ ] ", "[x] "):
        spans = spans_of(("☐ " if text[1] == " " else "☑ ") + text[4:])
    return structs.replace(part, text="", spans=_merged(spans))


def _table(part: Part) -> Part:
    head, sides, *body = part.text.split("\n")
    rows = [cells_of_row(row) for row in (head, *body)]
    return structs.replace(
        part,
        rows=tuple(_fitting(row, len(rows[0])) for row in rows),
        sides="".join(map(_side, cells_of_row(sides))),
    )


def _merged(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Parts of one style and address that stand beside each other as one."""
    found: list[Span] = []
    for words, style, href in spans:
        if found and found[-1][1:] == (style, href):
            found[-1] = (found[-1][0] + words, style, href)
        else:
            found.append((words, style, href))
    return tuple(found)


def _joined(block: Block, more: bool) -> list[Span]:
    spans = spans_of(block.text)
    return [(block.joint, "", ""), *spans] if more and block.joint else spans


def _side(delimiter: str) -> str:
    left, right = delimiter.startswith(":"), delimiter.endswith(":")
    return "c" if left and right else "r" if right else "l"


def _fitting(row: Sequence[str], count: int) -> tuple[str, ...]:
    """As many cells as there are columns; what is too much stays in the last one."""
    if len(row) > count:
        return (*row[: count - 1], " | ".join(row[count - 1 :]))
    return (*row, *[""] * (count - len(row)))


def is_marker(one: str) -> bool:
    """Whether this level of `Part.around` is the marker of an item that begins here."""
    return one != QUOTE and not one.isspace()


def bars(around: Sequence[str], quote: str = "> ") -> str:
    """What stands to the left of all lines of a part but the first one of an item."""
    return "".join(quote if one == QUOTE else " " * (len(one) + 1 if is_marker(one) else len(one)) for one in around)


def marks(around: Sequence[str], quote: str = "> ", bullet: str = "•") -> str:
    """What stands to the left of the first line of a part."""
    return "".join(
        quote if one == QUOTE else f"{bullet if one == '-' else one} " if is_marker(one) else one for one in around
    )


def quotes(around: Sequence[str]) -> tuple[str, ...]:
    """The same without the items in the innermost quote: where code stands, so that it can be copied."""
    end = len(around)
    while end and around[end - 1] != QUOTE:
        end -= 1
    return tuple(around[:end])


def bare(markdown: str) -> str:
    """Words of one block without their marks; a link's address behind its words."""
    return "".join([words for words, _, _ in addressed(spans_of(markdown))])


def addressed(spans: Sequence[Span], keep: Callable[[str], bool] = lambda href: False) -> list[Span]:
    """Words without links but those to `keep`; the address stands behind the words where it says more than they do."""
    found: list[Span] = []
    words = ""
    for (text, style, href), (_, _, following) in pairwise([*spans, ("", "", "")]):
        kept = href if keep(href) else ""
        found.append((text, style, kept))
        words = words + text if href else ""
        if href and href != following:
            if not kept and href not in (words, f"mailto:{words}") and not href.startswith("#"):
                found.append((f" ({href})", "address", ""))
            words = ""
    return found


def aligned(part: Part) -> list[str]:
    """A table as lines of aligned columns, for a fixed-width font."""
    rows = [[bare(cell) for cell in row] for row in part.rows]
    widths = [max(1, *(width_of(row[n]) for row in rows)) for n in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        cells = [
            filled(cell, width, right=side == "r", centre=side == "c")
            for cell, width, side in zip(row, widths, part.sides, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    rule = "  ".join("-" * width for width in widths)
    return [lines[0], rule, *lines[1:]] if any(rows[0]) else lines[1:]
