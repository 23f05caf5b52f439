"""How things look in this terminal now: its width, colours and marks."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hermes.cli.render.skins import DEFAULT, SKINS
from hermes.cli.render.theme import Depth, Theme, skin_of
from hermes.config.display import DisplaySettings
from hermes.core.errors import UsageError
from hermes.i18n.formats import span
from hermes.i18n.messages import say

if TYPE_CHECKING:
    from hermes.cli.render.markdown import Markdown

_NARROWEST = 10
_MARKS = {"person": "›", "warning": "!", "notice": "·", "prompt": "›"}
_ASCII_MARKS = {"person": ">", "warning": "!", "notice": "-", "prompt": ">"}


class Stream:
    """Markdown that comes in piece by piece. What writes it is loaded with the first piece of the first text."""

    def __init__(self, look: "Look", style: str) -> None:
        self._look = look
        self._style = style
        self._markdown: Markdown | None = None

    def feed(self, text: str) -> list[str]:
        """The lines that are finished by `text`; they never change any more."""
        if self._markdown is None:
            from hermes.cli.render.markdown import Markdown

            self._markdown = Markdown(self._look.theme, lambda: self._look.room, self._style)
        return self._markdown.feed(text)

    def tail(self, most: int) -> list[str]:
        """The last lines of what is unfinished, `most` at most; cheap while no text has come."""
        return self._markdown.tail(most) if self._markdown is not None else []

    def close(self) -> list[str]:
        """The last lines of the text; the next `feed` begins another one."""
        markdown, self._markdown = self._markdown, None
        return markdown.close() if markdown is not None else []


_WORTH_TELLING = 0.1
"""Seconds below which it is not said how long a call took."""


class Look:
    """Paints and wraps for one terminal. Whatever text is given, what comes back holds no character that the terminal
    would obey but colour sequences of our own."""

    def __init__(
        self,
        display: DisplaySettings,
        width: Callable[[], int],
        *,
        unicode: bool = True,
        depth: Depth = Depth.BASIC,
    ) -> None:
        self._width = width
        self._depth = depth
        self._encodes = unicode
        self.now = time.time
        self.fault = ""
        """Why the skin that is set is not worn; empty when it is."""
        try:
            self.wear(display)
        except UsageError as error:
            self.fault = str(error)
            self.display = display
            self.theme = self._theme(display, DEFAULT)

    def _theme(self, display: DisplaySettings, skin: str) -> Theme:
        found = skin_of(skin, display.skins)
        return Theme(found, self._depth, plain=display.plain, unicode=self._encodes)

    def wear(self, display: DisplaySettings) -> None:
        """Look like this from now on; texts under way end as they began. Raises UsageError for a skin that does not
        exist or names what does not exist; nothing has changed then."""
        self.theme = self._theme(display, display.skin)
        self.display = display

    def stream(self, style: str = "text") -> Stream:
        """A text that comes in piece by piece; `style` is that of its plain words."""
        return Stream(self, style)

    def skins(self) -> Sequence[str]:
        """The names of the skins: the built-in ones and the person's own."""
        return tuple({**SKINS, **self.display.skins})

    def styles(self) -> dict[str, str]:
        """The skin as prompt_toolkit's `Style.from_dict` takes it."""
        return self.theme.parts()

    @property
    def unicode(self) -> bool:
        """Whether marks and lines beyond ASCII are used."""
        return self.theme.unicode

    @property
    def width(self) -> int:
        """Cells of a line of the terminal."""
        return self._width()

    @property
    def room(self) -> int:
        """Cells that a line of ours takes at most: the last one stays free, for terminals that would wrap there."""
        return max(self._width() - 1, _NARROWEST)

    def paint(self, style: str, text: str) -> str:
        """One line in that style."""
        from hermes.markup.cells import sanitize_line

        return self.theme.paint(style, sanitize_line(text))

    def mark(self, name: str) -> str:
        """The mark before a line: `person`, `warning`, `notice` or `prompt`."""
        return (_MARKS if self.unicode else _ASCII_MARKS)[name]

    def cut(self, text: str, width: int) -> str:
        """As much of the text as fits into `width` cells, on one line."""
        from hermes.markup.cells import sanitize_line, truncate_text

        return truncate_text(sanitize_line(text), width, "…" if self.unicode else "...")

    def wrapped(self, style: str, text: str, indent: int = 0) -> list[str]:
        """The text wrapped at words; lines after the first one are indented."""
        from hermes.markup.cells import sanitize_line

        return [one for line in text.split("\n") for one in self._wrapped(style, sanitize_line(line).rstrip(), indent)]

    def _wrapped(self, style: str, line: str, indent: int) -> list[str]:
        from hermes.markup.cells import measure_width, wrap_text

        room = self.room
        lead = line[:indent] if measure_width(line[:indent]) == indent and room - indent >= _NARROWEST else ""
        rest, paint = line[len(lead) :], self.theme.paint
        pieces = [rest[start:end].rstrip() for start, end in wrap_text(rest, room - len(lead), whole=True)]
        return [paint(style, lead + pieces[0]), *(" " * len(lead) + paint(style, one) for one in pieces[1:])]

    def tool(self, words: str, seconds: float, *, failed: bool = False) -> str:
        """The line of a call that has ended."""
        took = span(seconds)
        words = self.cut(words, max(self.room - len(took) - 5, _NARROWEST))
        if self.theme.plain:
            if failed:
                return say("failed: {words}, {time}", words=words, time=took)
            return say("done: {words}, {time}", words=words, time=took)
        mark = ("✗" if failed else "✓") if self.unicode else ("x" if failed else "+")
        painted = self.theme.paint("tool.failed" if failed else "tool.mark", mark)
        dot = "·" if self.unicode else "-"
        tail = self.theme.paint("tool.time", f" {dot} {took}") if seconds >= _WORTH_TELLING else ""
        return f"{painted} {self.theme.paint('tool', words)}{tail}"

    def diff(self, lines: Sequence[str], most: int) -> list[str]:
        """A unified diff, `most` lines of it."""
        from hermes.cli.render.diff import shown

        return [f"  {one}" for one in shown(self.theme, lines, self.room - 2, most)]
