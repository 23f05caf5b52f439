"""Render markdown as lines of a terminal, as it streams in: paragraphs, code, and tables with aligned columns.

What is finished is given out once and never changes; what is not is the tail. The lines hold no control
sequences but our own colors, whatever the text says (`cells.sanitize_line`).
"""

import copy
from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from hermes.cli.render.code import CodeHighlighter
from hermes.cli.render.theme import ColorDepth, Theme
from hermes.i18n.messages import tr
from hermes.markup.blocks import (
    MAX_TABLE_ROWS,
    QUOTE,
    BlockKind,
    BlockSplitter,
    MarkdownBlock,
    fit_table_row,
    parse_alignment,
    split_table_row,
)
from hermes.markup.cells import Range, measure_width, wrap_text
from hermes.markup.document import is_marker, quote_containers
from hermes.markup.inline import Run, parse_runs

MIN_COLUMN_WIDTH = 5
"""Cells of a column below which a table is shown as a list."""
_GAP = "  "
_SLACK = 3
_PLAIN_THEME = Theme({}, ColorDepth.PLAIN)
MIN_WIDTH = 10
"""Cells below which nothing gets narrower: the terminal wraps instead."""
MAX_PROSE_WIDTH = 100
"""Cells beyond which a line of prose is hard to read; code and tables may be wider."""
_BULLETS = "•◦▪"


def wrap_runs(theme: Theme, runs: Sequence[Run], width: int, *, whole: bool = True) -> list[str]:
    """Wrap the runs to `width` cells and paint them; each line stands for itself."""
    if len(runs) == 1:
        text, style = runs[0]
        return [theme.paint(style, text[start:end].rstrip(" ")) for start, end in wrap_text(text, width, whole=whole)]
    text = "".join([words for words, _ in runs])
    return _paint_ranges(theme, runs, text, wrap_text(text, width, whole=whole))


def paint_line(theme: Theme, runs: Sequence[Run]) -> str:
    """Paint the runs as one line."""
    return "".join([theme.paint(style, words) for words, style in runs])


def _paint_ranges(theme: Theme, runs: Sequence[Run], text: str, ranges: Sequence[Range]) -> list[str]:
    found: list[str] = []
    number, start = 0, 0
    for begin, args in ranges:
        end = args
        while end > begin and text[end - 1] == " ":
            end -= 1
        pieces: list[str] = []
        at = begin
        while at < end:
            words, style = runs[number]
            stop = start + len(words)
            if stop <= at:
                number, start = number + 1, stop
                continue
            until = min(stop, end)
            pieces.append(theme.paint(style, text[at:until]))
            at = until
        found.append("".join(pieces))
    return found


class TableColumns(Struct, frozen=True):
    """The columns that the first part of a table sets for all of it."""

    head: Sequence[str]
    sides: str
    """A letter a column: `l`, `r` or `c`."""
    widths: Sequence[int]
    """Empty when the table is shown as a list."""


def begin_table(theme: Theme, rows: Sequence[str], width: int, base: str) -> tuple[TableColumns, list[str]]:
    """Render the first part of a table; return its columns and its lines."""
    head = split_table_row(rows[0])
    sides = "".join(parse_alignment(one) for one in split_table_row(rows[1]))
    body = [fit_table_row(split_table_row(row), len(head)) for row in rows[2:]]
    widths = _fit_widths(theme, [head, *body], width)
    columns = TableColumns(head, sides, widths)
    lines: list[str] = []
    if widths and any(head):
        lines += _render_row(theme, columns, head, f"{base} table.head")
        bar = "─" if theme.unicode else "-"
        lines.append(theme.paint("table.rule", _GAP.join(bar * one for one in widths)))
    return columns, lines + _render_rows(theme, columns, body, width, base)


def continue_table(theme: Theme, columns: TableColumns, rows: Sequence[str], width: int, base: str) -> list[str]:
    """Render the next part of a table."""
    return _render_rows(
        theme, columns, [fit_table_row(split_table_row(row), len(columns.head)) for row in rows], width, base
    )


def _render_rows(
    theme: Theme, columns: TableColumns, body: Sequence[Sequence[str]], width: int, base: str
) -> list[str]:
    lines: list[str] = []
    if not columns.widths:
        for row in body:
            lines += (
                ["", *_render_record(theme, columns.head, row, width, base)]
                if lines
                else _render_record(theme, columns.head, row, width, base)
            )
        return lines
    drawn = [_render_row(theme, columns, row, base) for row in body]
    apart = any(len(one) > 1 for one in drawn)
    for number, one in enumerate(drawn):
        if apart and number:
            lines.append("")
        lines += one
    return lines


def _render_record(theme: Theme, head: Sequence[str], row: Sequence[str], width: int, base: str) -> list[str]:
    """Render a row as a list of its cells, each with its column's name."""
    lines: list[str] = []
    for name, value in zip(head, row, strict=True):
        if value:
            named = [*parse_runs(name, f"{base} table.head"), (": ", base)] if name else []
            lines += wrap_runs(theme, [*named, *parse_runs(value, base)], width)
    return lines


def _render_row(theme: Theme, columns: TableColumns, row: Sequence[str], base: str) -> list[str]:
    """Render a row as aligned cells; a cell that is too long goes on below itself."""
    drawn: list[list[str]] = []
    for value, width, side in zip(row, columns.widths, columns.sides, strict=True):
        drawn.append(_render_cell(theme, parse_runs(value, base), width, side))
    height = max(len(one) for one in drawn)
    lines = []
    for number in range(height):
        pieces = [
            one[number] if number < len(one) else " " * width for one, width in zip(drawn, columns.widths, strict=True)
        ]
        lines.append(_GAP.join(pieces).rstrip(" "))
    return lines


def _render_cell(theme: Theme, runs: list[Run], width: int, side: str) -> list[str]:
    text = "".join([words for words, _ in runs])
    size = measure_width(text)
    if size <= width:
        return [_align_cell(paint_line(theme, runs), width - size, side)]
    plain = wrap_runs(_PLAIN_THEME, runs, width, whole=False)
    return [
        _align_cell(shown, width - measure_width(bare), side)
        for shown, bare in zip(wrap_runs(theme, runs, width, whole=False), plain, strict=True)
    ]


def _align_cell(text: str, spare: int, side: str) -> str:
    spare = max(spare, 0)
    left = spare if side == "r" else spare // 2 if side == "c" else 0
    return f"{' ' * left}{text}{' ' * (spare - left)}"


def _fit_widths(theme: Theme, rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the cells of each column; empty when the columns do not fit beside each other."""
    if theme.plain:
        return []
    count = len(rows[0])
    widths = [max(1, *(measure_width(_strip_markup(row[n])) for row in rows)) for n in range(count)]
    room = width - len(_GAP) * (count - 1)
    if (spare := room - sum(widths)) >= 0:
        # More rows follow a first part that is full: they may be a little wider.
        return [one + min(spare // count, _SLACK) for one in widths] if len(rows) >= MAX_TABLE_ROWS - 2 else widths
    if room < MIN_COLUMN_WIDTH * count:
        return []
    return _shrink_widths(widths, room)


def _shrink_widths(widths: Sequence[int], room: int) -> list[int]:
    """Narrow the widest columns until all fit; those within a fair share keep their width."""
    wide, left = set(range(len(widths))), room
    fair = left // len(wide)
    while small := {n for n in wide if widths[n] <= fair}:
        wide -= small
        left -= sum(widths[n] for n in small)
        fair = left // len(wide)
    return [fair if n in wide else one for n, one in enumerate(widths)]


def _strip_markup(cell: str) -> str:
    return "".join([words for words, _ in parse_runs(cell, "")])


class MarkdownRenderer:
    """Renders one text as it streams in. `width` returns the cells that a line may take; it is asked for each block."""

    def __init__(self, theme: Theme, width: Callable[[], int], style: str = "text") -> None:
        self._theme = theme
        self._width = width
        self._splitter = BlockSplitter()
        self._writer = _BlockRenderer(theme, style)
        self._version = 0
        self._tail: tuple[int, int, int, list[str]] = (-1, 0, 0, [])

    def feed(self, delta: str) -> list[str]:
        """Add `delta` and return the lines that are finished by it."""
        self._version += 1
        blocks = self._splitter.feed(delta)
        return self._writer.render_blocks(blocks, self._width()) if blocks else []

    def tail(self, most: int) -> list[str]:
        """Return the last `most` lines of what is unfinished. Cheap: it is rendered again only when the
        text has grown.
        """
        width = self._width()
        key = (self._version, most, width)
        if self._tail[:3] != key:
            blocks = self._splitter.preview_blocks(most)
            lines = self._writer.copy_state().render_blocks(blocks, width, whole=False) if blocks else []
            self._tail = (*key, lines[-most:] if most > 0 else [])
        return self._tail[3]

    def close(self) -> list[str]:
        """End the text and return its last lines. Another text may follow."""
        self._version += 1
        lines = self._writer.render_blocks(self._splitter.close(), self._width())
        self._splitter = BlockSplitter()
        self._writer = _BlockRenderer(self._theme, self._writer.style)
        return lines


class _BlockRenderer:
    """Renders blocks as lines, with an empty line between them where one helps."""

    def __init__(self, theme: Theme, style: str) -> None:
        self._theme = theme
        self.style = style
        self._before: MarkdownBlock | None = None
        self._columns: TableColumns | None = None
        self._highlighter: CodeHighlighter | None = None

    def copy_state(self) -> "_BlockRenderer":
        """Return a copy that goes on from here and leaves this renderer unchanged."""
        twin = copy.copy(self)
        twin.detach_state()
        return twin

    def detach_state(self) -> None:
        """Share nothing with the renderer that this was copied from."""
        self._highlighter = copy.copy(self._highlighter)

    def render_blocks(self, blocks: list[MarkdownBlock], width: int, *, whole: bool = True) -> list[str]:
        """Return the lines of these blocks. With `whole`, code and addresses that are too long are left to the
        terminal to break, so that what is copied is right.
        """
        found: list[str] = []
        for block in blocks:
            if self._needs_gap(block):
                found.append(self._render_gap(block.around))
            if block.kind is not BlockKind.CODE_END or self._theme.plain:
                self._before = block
            found += self._render_block(block, width, whole)
        return found

    def _needs_gap(self, block: MarkdownBlock) -> bool:
        """Return whether an empty line goes before the block."""
        before = self._before
        if before is None or not block.first or block.kind is BlockKind.CODE_END:
            return False
        if block.gap:
            return True
        if before.around != block.around and (apart := _needs_quote_gap(before.around, block.around)) is not None:
            return apart
        kinds = {block.kind, before.kind}
        if kinds & {BlockKind.CODE, BlockKind.INDENTED}:
            return len(kinds) > 1
        if kinds & {BlockKind.HEADING, BlockKind.TABLE}:
            return True
        return _is_in_item(before.around) and not _is_in_item(block.around)

    def _render_gap(self, around: tuple[str, ...]) -> str:
        """Render the empty line before a block in these containers, with the bars of the quotes that go on."""
        common: list[str] = []
        for was, now in zip(self._before.around if self._before else (), around, strict=False):
            if (was == QUOTE) != (now == QUOTE) or is_marker(now):
                break
            common.append(now)
        return self._render_prefix(tuple(common)).rstrip(" ")

    def _render_prefix(self, around: tuple[str, ...]) -> str:
        """Render what stands to the left of all lines but the first of an item: bars, and spaces below markers."""
        if not around:
            return ""
        bar = self._theme.paint("quote", "│" if self._theme.unicode else ">") + " "
        return "".join([bar if one == QUOTE else " " * _measure_prefix((one,)) for one in around])

    def _render_markers(self, around: tuple[str, ...]) -> str:
        """Render what stands to the left of the first line of a block in these containers."""
        left, depth = "", 0
        for one in around:
            if one == QUOTE:
                left += self._render_prefix((one,))
                continue
            bullet = _BULLETS[depth % len(_BULLETS)] if one == "-" and self._theme.unicode else one
            left += self._theme.paint("bullet", bullet) + " " if is_marker(one) else one
            depth += 1
        return left

    def _render_block(self, block: MarkdownBlock, width: int, whole: bool) -> list[str]:
        if block.kind in (BlockKind.CODE, BlockKind.CODE_END):
            return self._render_code(block, width, whole)
        around = block.around
        if not around:
            return self._render_body(block, self.style, width, whole)
        text, task = block.text, block.text[:4].lower()
        if task in ("[ ] ", "[x] ") and block.kind is BlockKind.PARAGRAPH and is_marker(around[-1]):
            text = text[4:]
            if self._theme.plain:
                text = tr("done: {text}", text=text) if task == "[x] " else tr("to do: {text}", text=text)
            else:
                mark = around[-1].removeprefix("-")
                around = (*around[:-1], f"{mark} {task.strip()}" if mark else task.strip())
            block = structs.replace(block, text=text)
        base = f"{self.style} quote" if QUOTE in around else self.style
        lines = self._render_body(block, base, max(width - _measure_prefix(around), MIN_WIDTH), whole)
        bars = self._render_prefix(around)
        first, *others = lines
        return [
            f"{self._render_markers(around)}{first}".rstrip(" "),
            *(f"{bars}{one}" if one else bars.rstrip(" ") for one in others),
        ]

    def _render_body(self, block: MarkdownBlock, base: str, width: int, whole: bool) -> list[str]:
        """Render the block's own lines."""
        theme = self._theme
        match block.kind:
            case BlockKind.HEADING:
                return self._render_heading(block, base, width, whole)
            case BlockKind.TABLE:
                return self._render_table(block, base, width)
            case BlockKind.RULE:
                bar = "─" if theme.unicode else "-"
                return [theme.paint("rule", bar * (3 if theme.plain else min(width, 60)))]
            case BlockKind.PARAGRAPH:
                return wrap_runs(theme, parse_runs(block.text, base), min(width, MAX_PROSE_WIDTH), whole=whole)
            case BlockKind.INDENTED:
                runs = CodeHighlighter("").highlight_line(block.text.rstrip())
            case _:
                runs = [(block.text, base)]
        return wrap_runs(theme, runs, width, whole=whole)

    def _render_heading(self, block: MarkdownBlock, base: str, width: int, whole: bool) -> list[str]:
        bare = self._theme.depth is ColorDepth.PLAIN  # nothing but the marks would tell it from words
        marks = "#" * block.level + " " if bare else ""
        runs = parse_runs(block.text, f"{base} {'heading' if block.level <= 2 else 'heading.minor'}")
        return wrap_runs(self._theme, [(marks, f"{base} heading"), *runs] if marks else runs, width, whole=whole)

    def _render_code(self, block: MarkdownBlock, width: int, whole: bool) -> list[str]:
        """Render a line of code from the first column on (of the quote), so that it can be copied, with its language
        above.
        """
        theme, lines = self._theme, list[str]()
        bars = self._render_prefix(quote_containers(block.around))
        if block.kind is BlockKind.CODE_END:
            self._highlighter = None
            return [bars + tr("(end of code)")] if theme.plain else []
        if block.first or self._highlighter is None:
            self._highlighter = CodeHighlighter(block.label)
            lines = self._render_code_label(block, bars)
        runs = self._highlighter.highlight_line(block.text.rstrip())
        room = max(width - _measure_prefix(quote_containers(block.around)), MIN_WIDTH)
        drawn = [paint_line(theme, runs)]
        if not whole and measure_width(block.text) > room:
            drawn = wrap_runs(theme, runs, room, whole=False)
        return [*lines, *(f"{bars}{one}".rstrip(" ") if bars else one for one in drawn)]

    def _render_code_label(self, block: MarkdownBlock, bars: str) -> list[str]:
        """Render the line above code: the marker of an item that begins with code, and the language; nothing where
        there is neither.
        """
        shows_itself = block.label.lower() in ("diff", "patch")
        above = "" if shows_itself else self._theme.paint("label", block.label)
        if self._theme.plain:
            above = tr("(code, {language})", language=block.label) if block.label else tr("(code)")
        if any(map(is_marker, block.around)):
            return [f"{self._render_markers(block.around)}{above}".rstrip(" ")]
        return [bars + above] if above else []

    def _render_table(self, block: MarkdownBlock, base: str, width: int) -> list[str]:
        rows = block.text.split("\n")
        if block.first or self._columns is None:
            self._columns, lines = begin_table(self._theme, rows, width, base)
        else:
            lines = continue_table(self._theme, self._columns, rows, width, base)
        return lines


def _needs_quote_gap(before: tuple[str, ...], around: tuple[str, ...]) -> bool | None:
    """Return whether an empty line stands where a quote begins or ends, which it does not within a list; None
    when no quote does.
    """
    if (before[:1] == (QUOTE,)) != (around[:1] == (QUOTE,)):
        return True
    if before.count(QUOTE) != around.count(QUOTE):
        return not (_is_in_item(before) and _is_in_item(around))
    return None


def _is_in_item(around: tuple[str, ...]) -> bool:
    return any(one != QUOTE for one in around)


def _measure_prefix(around: tuple[str, ...]) -> int:
    """Return the width of what stands to the left."""
    return sum(len(one) + (not one.isspace()) for one in around)
