"""Format lines for this terminal: its width, colors and marks."""

import re
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from hermes.cli.render.theme import (
    BACKGROUND_PARTS,
    DEFAULT_SKIN,
    SKINS,
    Background,
    ColorDepth,
    Theme,
    choose_background,
    find_skin,
)
from hermes.config.display import DisplaySettings
from hermes.core.errors import UsageError
from hermes.i18n.formats import format_duration
from hermes.i18n.messages import tr
from hermes.markup.cells import measure_width, sanitize_line, truncate_text, wrap_text
from hermes.util.text import find_each

if TYPE_CHECKING:
    from hermes.cli.render.diff import DiffLine
    from hermes.cli.render.markdown import MarkdownRenderer

_MIN_WIDTH = 10
_SEQUENCE = re.compile("\x1b\\[[0-9;]*m")
_MARKS = {"person": "›", "warning": "!", "notice": "·", "prompt": "›"}
_ASCII_MARKS = {"person": ">", "warning": "!", "notice": "-", "prompt": ">"}
_MAX_PROSE_WIDTH = 100
"""As an answer's prose (`render.markdown`), which is imported with the first answer only."""
_MAX_BAND_WIDTH = 140
_MIN_SHOWN_SECONDS = 0.1
"""Seconds below which a call's duration is not shown."""


class MarkdownStream:
    """Markdown that streams in. The renderer is imported with the first piece of the first text."""

    def __init__(self, terminal_style: "TerminalStyle", style: str) -> None:
        self._terminal_style = terminal_style
        self._style = style
        self._markdown: MarkdownRenderer | None = None

    def feed(self, text: str) -> list[str]:
        """Return the lines that are finished by `text`; they never change any more."""
        if self._markdown is None:
            from hermes.cli.render.markdown import MarkdownRenderer

            self._markdown = MarkdownRenderer(
                self._terminal_style.theme, lambda: self._terminal_style.line_width, self._style
            )
        return self._markdown.feed(text)

    def tail(self, most: int) -> list[str]:
        """Return the last lines of what is unfinished, `most` at most; cheap while no text has come."""
        return self._markdown.tail(most) if self._markdown is not None else []

    def close(self) -> list[str]:
        """Return the last lines of the text; the next `feed` begins another one."""
        markdown, self._markdown = self._markdown, None
        return markdown.close() if markdown is not None else []


class TerminalStyle:
    """Paints and wraps text for one terminal. Whatever text is given, the result holds no control sequences but our own
    colors.
    """

    def __init__(
        self,
        display: DisplaySettings,
        width: Callable[[], int],
        *,
        unicode: bool = True,
        depth: ColorDepth = ColorDepth.BASIC,
        background: Background = Background.UNKNOWN,
    ) -> None:
        self._width = width
        self._background = background
        self._depth = depth
        self._unicode = unicode
        self.now = time.time
        self.skin_error = ""
        """Why the configured skin is not used; empty when it is."""
        try:
            self.apply_display(display)
        except UsageError as error:
            self.skin_error = str(error)
            """Why the configured skin is not used; empty when it is."""
            self.display = display
            self.theme = self._build_theme(display, DEFAULT_SKIN)

    def _build_theme(self, display: DisplaySettings, skin: str) -> Theme:
        background = choose_background(skin, self._background)
        if self._depth >= ColorDepth.INDEXED:
            worn = "light" if skin == DEFAULT_SKIN and background is Background.LIGHT else skin
            parts = find_skin(worn, display.skins)
            found = {**BACKGROUND_PARTS[background], **(parts if parts is not SKINS[DEFAULT_SKIN] else {})}
        else:  # the terminal's own few colors
            found = dict(find_skin(skin, display.skins))
        return Theme(found, self._depth, plain=display.plain, unicode=self._unicode)

    @property
    def fits_background(self) -> bool:
        """Whether what is worn depends on the terminal's background."""
        choice = choose_background(self.display.skin, Background.UNKNOWN)
        return choice is Background.UNKNOWN and self._depth >= ColorDepth.INDEXED and self.display.skin != "mono"

    def set_background(self, background: Background) -> bool:
        """Use what was found out about the terminal's background; return whether that changes what is shown."""
        if background is self._background:
            return False
        self._background = background
        self.theme = self._build_theme(self.display, DEFAULT_SKIN if self.skin_error else self.display.skin)
        return True

    def apply_display(self, display: DisplaySettings) -> None:
        """Use these display settings from now on; texts under way end as they began.

        Raises UsageError for a skin that does not exist or names what does not exist; nothing has changed then.
        """
        self.theme = self._build_theme(display, display.skin)
        self.display = display

    def open_stream(self, style: str = "text") -> MarkdownStream:
        """Begin a text that streams in; `style` is that of its plain words."""
        return MarkdownStream(self, style)

    def list_skins(self) -> Sequence[str]:
        """Return the names of the skins: the built-in ones and the person's own."""
        return tuple({**SKINS, **self.display.skins})

    @property
    def unicode(self) -> bool:
        """Whether marks and lines beyond ASCII are used."""
        return self.theme.unicode

    @property
    def width(self) -> int:
        """The cells of a line of the terminal."""
        return self._width()

    @property
    def line_width(self) -> int:
        """The cells that a line of ours takes at most: the last one stays free, for terminals that would wrap there."""
        return max(self._width() - 1, _MIN_WIDTH)

    def paint(self, style: str, text: str) -> str:
        """Return one line in that style."""
        return self.theme.paint(style, sanitize_line(text))

    def get_mark(self, name: str) -> str:
        """Return the mark before a line: `person`, `warning`, `notice` or `prompt`."""
        return (_MARKS if self.unicode else _ASCII_MARKS)[name]

    def cut_text(self, text: str, width: int) -> str:
        """Return as much of the text as fits into `width` cells, on one line."""
        return truncate_text(sanitize_line(text), width, "…" if self.unicode else "...")

    @property
    def prose_width(self) -> int:
        """The cells that a line of prose takes at most."""
        return min(self.line_width, _MAX_PROSE_WIDTH)

    def wrap_paragraphs(self, style: str, text: str, indent: int = 0, *, width: int = 0) -> list[str]:
        """Wrap the text at words, to `width` cells or to those of a line; lines after the first one are indented."""
        room = width or self.line_width
        lines = (sanitize_line(line).rstrip() for line in text.split("\n"))
        return [one for line in lines for one in self._wrap_line(style, line, indent, room)]

    def wrap_marked(self, style: str, text: str, parts: Sequence[str], marked: str, *, width: int) -> list[str]:
        """Wrap one line as `wrap_paragraphs` does, with these parts of it in a style of their own."""
        line = sanitize_line(text).rstrip()
        inside = bytearray(len(line))
        for part in filter(None, map(sanitize_line, parts)):
            for at in find_each(line, part):
                inside[at : at + len(part)] = b"\1" * len(part)
        found = []
        for start, end in wrap_text(line, width, whole=True):
            edges = [start, *(at for at in range(start + 1, end) if inside[at] != inside[at - 1]), end]
            pieces = [(line[first:last], inside[first]) for first, last in pairwise(edges) if first < last]
            found.append("".join(self.theme.paint(marked if is_in else style, piece) for piece, is_in in pieces))
        return found

    def _wrap_line(self, style: str, line: str, indent: int, room: int) -> list[str]:
        lead = line[:indent] if measure_width(line[:indent]) == indent and room - indent >= _MIN_WIDTH else ""
        rest, paint = line[len(lead) :], self.theme.paint
        pieces = [rest[start:end].rstrip() for start, end in wrap_text(rest, room - len(lead), whole=True)]
        return [paint(style, lead + pieces[0]), *(" " * len(lead) + paint(style, one) for one in pieces[1:])]

    def format_call(self, words: str, seconds: float, *, failed: bool = False, note: str = "") -> str:
        """Format the line of a call that has ended; `note` stands behind its words and is painted already."""
        took = format_duration(seconds)
        room = self.line_width - len(took) - 5 - (measure_width(strip_styles(note)) + 2 if note else 0)
        words = self.cut_text(words, max(room, _MIN_WIDTH))
        if self.theme.plain:
            words += f", {note}" if note else ""
            if failed:
                return tr("failed: {words}, {time}", words=words, time=took)
            return tr("done: {words}, {time}", words=words, time=took)
        mark = ("✗" if failed else "✓") if self.unicode else ("x" if failed else "+")
        painted = self.theme.paint("tool.failed" if failed else "tool.mark", mark)
        dot = "·" if self.unicode else "-"
        tail = f"  {note}" if note else ""
        tail += self.theme.paint("tool.time", f" {dot} {took}") if seconds >= _MIN_SHOWN_SECONDS else ""
        return f"{painted} {self.theme.paint('tool', words)}{tail}"

    def render_diff(self, lines: Sequence["DiffLine"], most: int, name: str = "") -> list[str]:
        """Render `most` lines of a diff; `name` is that of its file."""
        from hermes.cli.render.diff import format_diff

        width = min(self.line_width - 2, _MAX_BAND_WIDTH)
        return [f"  {one}" for one in format_diff(self.theme, lines, width, most, name)]

    def add_rule(self, style: str, lines: Sequence[str]) -> list[str]:
        """Put a rule in that style to the left of the lines; they take two cells less than a line may have."""
        rule = self.theme.paint(style, "▎" if self.unicode else "|")
        return [f"{rule} {line}".rstrip(" ") if line else rule for line in lines]


def strip_styles(text: str) -> str:
    """Return a painted line without our own colors."""
    return _SEQUENCE.sub("", text)
