"""A markdown text as a list of parts, from which every dialect is written."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct, structs

from hermes.markup.blocks import (
    QUOTE,
    BlockKind,
    BlockSplitter,
    MarkdownBlock,
    fit_table_row,
    parse_alignment,
    split_table_row,
)
from hermes.markup.cells import measure_width, pad_text
from hermes.markup.inline import Span, parse_spans


class MarkdownPart(Struct, frozen=True):
    """A paragraph, heading, table, rule, or a whole piece of code (`CODE`)."""

    kind: BlockKind
    text: str = ""
    """Of code and of what stands as it is; of a table its source."""
    spans: tuple[Span, ...] = ()
    """Of a paragraph or a heading."""
    rows: tuple[tuple[str, ...], ...] = ()
    """Of a table: cells in markdown, the head first; all rows of one length."""
    sides: str = ""
    """Of a table: `l`, `r` or `c` a column."""
    containers: tuple[str, ...] = ()
    """The quotes (`>`) and items that it stands in, outermost first: an item's marker where it begins with
    this part, else as many spaces.
    """
    gap: bool = False
    """Whether an empty line goes before it."""
    level: int = 0
    """Of a heading: 1 to 6."""
    label: str = ""
    """Of code: the language."""


def parse_parts(markdown: str) -> list[MarkdownPart]:
    """Parse a text into parts, in order. They hold no invisible or control characters."""
    splitter = BlockSplitter(tabs=True)
    blocks = [*splitter.feed(markdown), *splitter.close()]
    found: list[MarkdownPart] = []
    at = 0
    while at < len(blocks):
        end = at + 1
        while end < len(blocks) and _is_continuation(blocks[end - 1], blocks[end]):
            end += 1
        if blocks[at].kind is not BlockKind.CODE_END:
            found.append(_make_part(blocks[at:end], first=not found))
        at = end
    return found


def _is_continuation(before: MarkdownBlock, block: MarkdownBlock) -> bool:
    if block.kind is BlockKind.CODE_END or block.first or block.kind is not before.kind:
        return False
    return not block.gap or block.kind in (BlockKind.CODE, BlockKind.INDENTED)


def _make_part(blocks: Sequence[MarkdownBlock], *, first: bool) -> MarkdownPart:
    block = blocks[0]
    text = "".join([block.text, *(one.joint + one.text for one in blocks[1:])])
    part = MarkdownPart(block.kind, text, containers=block.around, gap=block.gap and not first, level=block.level)
    match block.kind:
        case BlockKind.CODE | BlockKind.INDENTED:
            return structs.replace(part, kind=BlockKind.CODE, text=text.rstrip(), label=block.label)
        case BlockKind.TABLE:
            return _with_rows(part)
        case BlockKind.PARAGRAPH | BlockKind.HEADING:
            return _with_spans(part, blocks)
        case _:
            return part


def _with_spans(part: MarkdownPart, blocks: Sequence[MarkdownBlock]) -> MarkdownPart:
    text = part.text
    spans = [one for block in blocks for one in _block_spans(block, block is not blocks[0])]
    if part.containers and is_marker(part.containers[-1]) and text[:4].lower() in ("[ ] ", "[x] "):
        spans = parse_spans(("☐ " if text[1] == " " else "☑ ") + text[4:])
    return structs.replace(part, text="", spans=_merge_spans(spans))


def _with_rows(part: MarkdownPart) -> MarkdownPart:
    head, sides, *body = part.text.split("\n")
    rows = [split_table_row(row) for row in (head, *body)]
    return structs.replace(
        part,
        rows=tuple(fit_table_row(row, len(rows[0])) for row in rows),
        sides="".join(map(parse_alignment, split_table_row(sides))),
    )


def _merge_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Merge adjacent spans of one style and address."""
    found: list[Span] = []
    for words, style, href in spans:
        if found and found[-1][1:] == (style, href):
            found[-1] = (found[-1][0] + words, style, href)
        else:
            found.append((words, style, href))
    return tuple(found)


def _block_spans(block: MarkdownBlock, more: bool) -> list[Span]:
    spans = parse_spans(block.text)
    return [(block.joint, "", ""), *spans] if more and block.joint else spans


def is_marker(one: str) -> bool:
    """Return whether this level of `MarkdownPart.containers` is the marker of an item that begins here."""
    return one != QUOTE and not one.isspace()


def continuation_prefix(containers: Sequence[str], quote: str = "> ") -> str:
    """Return the prefix of all lines of a part but the first."""
    return "".join(
        quote if one == QUOTE else " " * (len(one) + 1 if is_marker(one) else len(one)) for one in containers
    )


def first_line_prefix(containers: Sequence[str], quote: str = "> ", bullet: str = "•") -> str:
    """Return the prefix of the first line of a part."""
    return "".join(
        quote if one == QUOTE else f"{bullet if one == '-' else one} " if is_marker(one) else one for one in containers
    )


def quote_containers(containers: Sequence[str]) -> tuple[str, ...]:
    """Return the containers without the items in the innermost quote: where code stands, so that it can be copied."""
    end = len(containers)
    while end and containers[end - 1] != QUOTE:
        end -= 1
    return tuple(containers[:end])


def strip_marks(markdown: str) -> str:
    """Return the words of one block without marks; a link's address follows its words."""
    return "".join([words for words, _, _ in expand_links(parse_spans(markdown))])


def expand_links(spans: Sequence[Span], keep: Callable[[str], bool] = lambda href: False) -> list[Span]:
    """Remove links except those to `keep`; an address follows its words where it says more than they do."""
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


def align_table(part: MarkdownPart) -> list[str]:
    """Return a table as lines of aligned columns, for a fixed-width font."""
    rows = [[strip_marks(cell) for cell in row] for row in part.rows]
    widths = [max(1, *(measure_width(row[n]) for row in rows)) for n in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        cells = [
            pad_text(cell, width, right=side == "r", centre=side == "c")
            for cell, width, side in zip(row, widths, part.sides, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    rule = "  ".join("-" * width for width in widths)
    return [lines[0], rule, *lines[1:]] if any(rows[0]) else lines[1:]
