"""Markdown as lines of a terminal, as it streams in.

What is finished is given out once and never changes; what is not is the tail. Nothing but colour sequences of our own
is in the lines, whatever the text says (`cells.safe`).
"""

import copy
from collections.abc import Callable

from hermes.cli.screen import table
from hermes.cli.screen.blocks import Block, Kind, Splitter
from hermes.cli.screen.cells import width_of
from hermes.cli.screen.code import Colours
from hermes.cli.screen.inline import Run, runs_of
from hermes.cli.screen.painted import line, wrapped
from hermes.cli.screen.theme import Theme
from hermes.util.say import say

NARROWEST = 10
"""Cells below which nothing gets narrower: the terminal wraps instead."""
_BULLETS = "•◦▪"


class Markdown:
    """One text. `width` tells the cells that a line may take; it is asked for each block."""

    def __init__(self, theme: Theme, width: Callable[[], int], style: str = "text") -> None:
        self._theme = theme
        self._width = width
        self._splitter = Splitter()
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
            blocks = self._splitter.unfinished(most)
            lines = self._writer.twin().lines(blocks, width, whole=False) if blocks else []
            self._tail = (*key, lines[-most:] if most > 0 else [])
        return self._tail[3]

    def close(self) -> list[str]:
        """The text has ended; returns its last lines. Another text may follow."""
        self._version += 1
        lines = self._writer.lines(self._splitter.close(), self._width())
        self._splitter = Splitter()
        self._writer = _Writer(self._theme, self._writer.style)
        return lines


class _Writer:
    """Writes blocks as lines, with an empty line between them where one helps."""

    def __init__(self, theme: Theme, style: str) -> None:
        self._theme = theme
        self.style = style
        self._before: Block | None = None
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

    def lines(self, blocks: list[Block], width: int, *, whole: bool = True) -> list[str]:
        """The lines of these blocks. With `whole`, code and addresses are not broken by us where they are too long:
        the terminal does that, and what is copied is right."""
        found: list[str] = []
        for block in blocks:
            if self._apart(block):
                found.append(self._bars(min(block.quote, self._before.quote if self._before else 0)))
            if block.kind is not Kind.CODE_END or self._theme.plain:
                self._before = block
            room = max(width - 2 * block.quote, NARROWEST)
            lines = self._written(block, room, whole)
            bars = self._bars(block.quote)
            found += [f"{bars} {one}" if one else bars for one in lines] if bars else lines
        return found

    def _apart(self, block: Block) -> bool:
        """Whether an empty line goes before the block."""
        before = self._before
        if before is None or not block.first or block.kind is Kind.CODE_END:
            return False
        if block.gap or block.quote != before.quote:
            return True
        kinds = {block.kind, before.kind}
        if Kind.CODE in kinds:
            return len(kinds) > 1
        if kinds & {Kind.HEADING, Kind.TABLE}:
            return True
        return before.kind is Kind.ITEM and block.kind is not Kind.ITEM and not block.indent

    def _bars(self, quotes: int) -> str:
        mark = "│ " if self._theme.unicode else "> "
        return self._theme.paint("quote", (mark * quotes).rstrip(" "))

    def _written(self, block: Block, width: int, whole: bool) -> list[str]:
        theme, base = self._theme, f"{self.style} quote" if block.quote else self.style
        indent = " " * block.indent
        match block.kind:
            case Kind.PARAGRAPH:
                return self._words(runs_of(block.text, base), indent, width, whole)
            case Kind.TEXT:
                return self._words([(block.text, base)], indent, width, whole)
            case Kind.ITEM:
                return self._item(block, base, width, whole)
            case Kind.CODE | Kind.CODE_END:
                return self._code(block, width, whole)
            case Kind.HEADING:
                return self._heading(block, base, width, whole)
            case Kind.TABLE:
                return self._table(block, base, width)
            case Kind.RULE:
                bar = "─" if theme.unicode else "-"
                return [theme.paint("rule", bar * (3 if theme.plain else min(width - block.indent, 60)))]

    def _words(self, runs: list[Run], indent: str, width: int, whole: bool) -> list[str]:
        lines = wrapped(self._theme, runs, max(width - len(indent), NARROWEST), whole=whole)
        return [indent + one for one in lines] if indent else lines

    def _heading(self, block: Block, base: str, width: int, whole: bool) -> list[str]:
        marks = "#" * block.level + " " if self._theme.plain or block.level > 2 else ""
        runs = runs_of(block.text, f"{base} heading")
        return self._words([(marks, f"{base} heading"), *runs] if marks else runs, " " * block.indent, width, whole)

    def _item(self, block: Block, base: str, width: int, whole: bool) -> list[str]:
        theme, text = self._theme, block.text
        mark, task = block.label, text[:4].lower()
        if mark == "-" and theme.unicode:
            mark = _BULLETS[(block.level - 1) % len(_BULLETS)]
        if task in ("[ ] ", "[x] "):
            text = text[4:]
            if theme.plain:
                text = say("done: {text}", text=text) if task == "[x] " else say("to do: {text}", text=text)
            elif block.label == "-":
                mark = task.strip()
            else:
                mark += f" {task.strip()}"
        indent = " " * block.indent
        lines = self._words(runs_of(text, base), "", width - block.indent - len(mark) - 1, whole)
        hanging = indent + " " * (len(mark) + 1)
        first = f"{indent}{theme.paint('bullet', mark)} {lines[0]}".rstrip(" ")
        return [first, *(hanging + one for one in lines[1:])]

    def _code(self, block: Block, width: int, whole: bool) -> list[str]:
        """A line of code, from the first column on, so that it can be copied; its language above the first."""
        theme, lines = self._theme, list[str]()
        if block.kind is Kind.CODE_END:
            self._colours = None
            return [say("(end of code)")] if theme.plain else []
        if block.first or self._colours is None:
            self._colours = Colours(block.label)
            if theme.plain:
                lines.append(say("(code, {language})", language=block.label) if block.label else say("(code)"))
            elif block.label:
                lines.append(theme.paint("label", block.label))
        runs = self._colours.runs(block.text.rstrip())
        if whole or width_of(block.text) <= width:
            return [*lines, line(theme, runs)]
        return [*lines, *wrapped(theme, runs, width, whole=False)]

    def _table(self, block: Block, base: str, width: int) -> list[str]:
        rows = block.text.split("\n")
        room = max(width - block.indent, NARROWEST)
        if block.first or self._columns is None:
            self._columns, lines = table.begin(self._theme, rows, room, base)
        else:
            lines = table.more(self._theme, self._columns, rows, room, base)
        return [" " * block.indent + one if one else one for one in lines] if block.indent else lines
