"""Render runs of styled text as lines of a terminal."""

from collections.abc import Sequence

from hermes.cli.render.theme import Theme
from hermes.markup.cells import Range, wrap_text
from hermes.markup.inline import Run


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
    """The run that stands at the place reached, and where it begins."""
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
