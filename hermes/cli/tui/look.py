"""How things look in this terminal now: width, colours, marks."""

import time
from collections.abc import Callable, Sequence

from hermes.config.display import DisplaySettings
from hermes.util.local import span


class PlainStream:
    """Stand-in."""

    def __init__(self, look: "Look", style: str) -> None:
        self._look = look
        self._style = style
        self._rest = ""

    def feed(self, text: str) -> list[str]:
        from hermes.util.text import inert

        *lines, self._rest = (self._rest + inert(text)).split("\n")
        return [one for line in lines for one in self._look.wrapped(self._style, line)]

    def tail(self, most: int) -> list[str]:
        return self._look.wrapped(self._style, self._rest)[-most:] if self._rest else []

    def close(self) -> list[str]:
        rest, self._rest = self._rest, ""
        return self._look.wrapped(self._style, rest) if rest else []


class Look:
    """Paints."""

    def __init__(self, display: DisplaySettings, width: Callable[[], int], *, unicode: bool = True) -> None:
        self.display = display
        self._width = width
        self.unicode = unicode
        self.now = time.time

    @property
    def width(self) -> int:
        return self._width()

    def stream(self, style: str = "text") -> PlainStream:
        return PlainStream(self, style)

    def paint(self, style: str, text: str) -> str:
        code = {
            "person": "1",
            "working": "36",
            "warning": "33",
            "error": "31",
            "menu.chosen": "7",
            "queued": "2",
            "result": "2",
            "menu.hint": "2",
        }.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if code else text

    def mark(self, name: str) -> str:
        return {"person": "›", "warning": "!", "notice": "·", "prompt": "›"}[name]

    def cut(self, text: str, width: int) -> str:
        return text[:width]

    def wrapped(self, style: str, text: str, indent: int = 0) -> list[str]:
        import textwrap

        return [
            self.paint(style, one)
            for one in textwrap.wrap(
                text, max(self.width - 1, 10), subsequent_indent=" " * indent, drop_whitespace=False
            )
            or [""]
        ]

    def tool(self, words: str, seconds: float, *, failed: bool = False) -> str:
        return f"{'✗' if failed else '✓'} {words} · {span(seconds)}"

    def diff(self, lines: Sequence[str], most: int) -> list[str]:
        return [f"  {one}" for one in lines[:most]]

    def styles(self) -> dict[str, str]:
        return {
            "prompt": "bold",
            "status": "noreverse dim",
            "status.alarm": "ansired bold",
            "completion-menu.completion.current": "reverse",
        }

    def wear(self, display: DisplaySettings) -> None:
        self.display = display

    def skins(self) -> Sequence[str]:
        return ("default",)
