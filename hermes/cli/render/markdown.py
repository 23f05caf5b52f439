"""Markdown as lines of a terminal, as it streams in.

What is finished is given out once and never changes; what is not is the tail. Nothing but colour sequences of our own
is in the lines, whatever the text says (`cells.safe`).
"""

import copy
from collections.abc import Callable

from msgspec import structs

from hermes.cli.render import table
from hermes.cli.render.code import Colours
from hermes.cli.render.painted import line, wrapped
from hermes.cli.render.theme import Depth, Theme
from hermes.i18n.messages import say
from hermes.markup.blocks import BlockKind, BlockSplitter, MarkdownBlock
from hermes.markup.cells import measure_width
from hermes.markup.containers import QUOTE
from hermes.markup.inline import parse_runs

NARROWEST = 10
"""Cells below which nothing gets narrower: the terminal wraps instead."""
_BULLETS = "•◦▪"


class Markdown:
    """One text. `width` tells the cells that a line may take; it is asked for each block."""

    def __init__(self, theme: Theme, width: Callable[[], int], style: str = "text") -> None:
        self._theme = theme
        self._width = width
        self._splitter = BlockSplitter()
        self._writer = _Writer(theme, style)
        self._version = 0
        self._tail: tuple[int, int, int, list[str]] = (-1, 0, 0, [])

    def feed(self, delta: str) -> list[str]:
        """Add `delta`; returns the lines that are finished by it."""
        self._version += 1
        blocks = self._splitter.feed(delta)
        return self._writer.lines(blocks, self._width()) if blocks else []

    def tail(self, most: int) -> list[str]:
        """What is unfinished, its last `most` lines at most. Cheap: it is drawn anew only when the text has grown."""
        width = self._width()
        key = (self._version, most, width)
        if self._tail[:3] != key:
            blocks = self._splitter.preview_blocks(most)
            lines = self._writer.twin().lines(blocks, width, whole=False) if blocks else []
            self._tail = (*key, lines[-most:] if most > 0 else [])
        return self._tail[3]

    def close(self) -> list[str]:
        """The text has ended; returns its last lines. Another text may follow."""
        self._version += 1
        lines = self._writer.lines(self._splitter.close(), self._width())
        self._splitter = BlockSplitter()
        self._writer = _Writer(self._theme, self._writer.style)
        return lines


class _Writer:
    """Writes blocks as lines, with an empty line between them where one helps."""

    def __init__(self, theme: Theme, style: str) -> None:
        self._theme = theme
        self.style = style
        self._before: MarkdownBlock | None = None
        self._columns: table.Columns | None = None
        self._colours: Colours | None = None

    def twin(self) -> "_Writer":
        """One that goes on from here and leaves this one as it is."""
        twin = copy.copy(self)
        twin.on_its_own()
        return twin

    def on_its_own(self) -> None:
        """Share nothing with what this was copied from."""
        self._colours = copy.copy(self._colours)

    def lines(self, blocks: list[MarkdownBlock], width: int, *, whole: bool = True) -> list[str]:
        """The lines of these blocks. With `whole`, code and addresses are not broken by us where they are too long:
        the terminal does that, and what is copied is right."""
        found: list[str] = []
        for block in blocks:
            if self._apart(block):
                found.append(self._between(block.around))
            if block.kind is not BlockKind.CODE_END or self._theme.plain:
                self._before = block
            found += self._written(block, width, whole)
        return found

    def _apart(self, block: MarkdownBlock) -> bool:
        """Whether an empty line goes before the block."""
        before = self._before
        if before is None or not block.first or block.kind is BlockKind.CODE_END:
            return False
        if block.gap:
            return True
        if before.around != block.around and (apart := _apart_by_quotes(before.around, block.around)) is not None:
            return apart
        kinds = {block.kind, before.kind}
        if kinds & {BlockKind.CODE, BlockKind.INDENTED}:
            return len(kinds) > 1
        if kinds & {BlockKind.HEADING, BlockKind.TABLE}:
            return True
        return _in_item(before.around) and not _in_item(block.around)

    def _between(self, around: tuple[str, ...]) -> str:
        """An empty line before a block that stands in these, with the bars of the quotes that go on."""
        common: list[str] = []
        for was, now in zip(self._before.around if self._before else (), around, strict=False):
            if (was == QUOTE) != (now == QUOTE) or _is_marker(now):
                break
            common.append(now)
        return self._bars(tuple(common)).rstrip(" ")

    def _bars(self, around: tuple[str, ...]) -> str:
        """What stands to the left of lines in these but the first of an item: bars, and spaces below markers."""
        if not around:
            return ""
        bar = self._theme.paint("quote", "│" if self._theme.unicode else ">") + " "
        return "".join([bar if one == QUOTE else " " * _cells((one,)) for one in around])

    def _marks(self, around: tuple[str, ...]) -> str:
        """What stands to the left of the first line of a block in these."""
        left, depth = "", 0
        for one in around:
            if one == QUOTE:
                left += self._bars((one,))
                continue
            bullet = _BULLETS[depth % len(_BULLETS)] if one == "-" and self._theme.unicode else one
            left += self._theme.paint("bullet", bullet) + " " if _is_marker(one) else one
            depth += 1
        return left

    def _written(self, block: MarkdownBlock, width: int, whole: bool) -> list[str]:
        if block.kind in (BlockKind.CODE, BlockKind.CODE_END):
            return self._code(block, width, whole)
        around = block.around
        if not around:
            return self._body(block, self.style, width, whole)
        text, task = block.text, block.text[:4].lower()
        if task in ("[ ] ", "[x] ") and block.kind is BlockKind.PARAGRAPH and _is_marker(around[-1]):
            text = text[4:]
            if self._theme.plain:
                text = say("done: {text}", text=text) if task == "[x] " else say("to do: {text}", text=text)
            else:
                mark = around[-1].removeprefix("-")
                around = (*around[:-1], f"{mark} {task.strip()}" if mark else task.strip())
            block = structs.replace(block, text=text)
        base = f"{self.style} quote" if QUOTE in around else self.style
        lines = self._body(block, base, max(width - _cells(around), NARROWEST), whole)
        bars = self._bars(around)
        first, *others = lines
        return [
            f"{self._marks(around)}{first}".rstrip(" "),
            *(f"{bars}{one}" if one else bars.rstrip(" ") for one in others),
        ]

    def _body(self, block: MarkdownBlock, base: str, width: int, whole: bool) -> list[str]:
        """The block's own lines."""
        theme = self._theme
        match block.kind:
            case BlockKind.HEADING:
                return self._heading(block, base, width, whole)
            case BlockKind.TABLE:
                return self._table(block, base, width)
            case BlockKind.RULE:
                bar = "─" if theme.unicode else "-"
                return [theme.paint("rule", bar * (3 if theme.plain else min(width, 60)))]
            case BlockKind.PARAGRAPH:
                runs = parse_runs(block.text, base)
            case BlockKind.INDENTED:
                runs = Colours("").runs(block.text.rstrip())
            case _:
                runs = [(block.text, base)]
        return wrapped(theme, runs, width, whole=whole)

    def _heading(self, block: MarkdownBlock, base: str, width: int, whole: bool) -> list[str]:
        bare = self._theme.depth is Depth.PLAIN  # nothing but the marks would tell it from words
        marks = "#" * block.level + " " if bare or block.level > 2 else ""
        runs = parse_runs(block.text, f"{base} heading")
        return wrapped(self._theme, [(marks, f"{base} heading"), *runs] if marks else runs, width, whole=whole)

    def _code(self, block: MarkdownBlock, width: int, whole: bool) -> list[str]:
        """A line of code, from the first column on (of the quote), so that it can be copied; its language above."""
        theme, lines = self._theme, list[str]()
        bars = self._bars(_quotes(block.around))
        if block.kind is BlockKind.CODE_END:
            self._colours = None
            return [bars + say("(end of code)")] if theme.plain else []
        if block.first or self._colours is None:
            self._colours = Colours(block.label)
            lines = self._above_code(block, bars)
        runs = self._colours.runs(block.text.rstrip())
        room = max(width - _cells(_quotes(block.around)), NARROWEST)
        drawn = [line(theme, runs)]
        if not whole and measure_width(block.text) > room:
            drawn = wrapped(theme, runs, room, whole=False)
        return [*lines, *(f"{bars}{one}".rstrip(" ") if bars else one for one in drawn)]

    def _above_code(self, block: MarkdownBlock, bars: str) -> list[str]:
        """The marker of an item that begins with code, the language; nothing where there is neither."""
        shows_itself = block.label.lower() in ("diff", "patch")
        above = "" if shows_itself else self._theme.paint("label", block.label)
        if self._theme.plain:
            above = say("(code, {language})", language=block.label) if block.label else say("(code)")
        if any(map(_is_marker, block.around)):
            return [f"{self._marks(block.around)}{above}".rstrip(" ")]
        return [bars + above] if above else []

    def _table(self, block: MarkdownBlock, base: str, width: int) -> list[str]:
        rows = block.text.split("\n")
        if block.first or self._columns is None:
            self._columns, lines = table.begin(self._theme, rows, width, base)
        else:
            lines = table.more(self._theme, self._columns, rows, width, base)
        return lines


def _apart_by_quotes(before: tuple[str, ...], around: tuple[str, ...]) -> bool | None:
    """Whether an empty line stands where a quote begins or ends: not within a list. None when none does."""
    if (before[:1] == (QUOTE,)) != (around[:1] == (QUOTE,)):
        return True
    if before.count(QUOTE) != around.count(QUOTE):
        return not (_in_item(before) and _in_item(around))
    return None


def _in_item(around: tuple[str, ...]) -> bool:
    return any(one != QUOTE for one in around)


def _is_marker(one: str) -> bool:
    return one != QUOTE and not one.isspace()


def _cells(around: tuple[str, ...]) -> int:
    """How wide what stands to the left is."""
    return sum(len(one) + (not one.isspace()) for one in around)


def _quotes(around: tuple[str, ...]) -> tuple[str, ...]:
    """Without the items in the innermost quote."""
    end = len(around)
    while end and around[end - 1] != QUOTE:
        end -= 1
    return around[:end]
