"""Lines with colours of our own writing, as prompt_toolkit draws them."""

import re
from functools import lru_cache

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples

_COLOURS = re.compile("(\x1b\\[[0-9;]*m)")


def fragments(lines: list[str]) -> StyleAndTextTuples:
    """The lines as one text, newlines between them."""
    found: StyleAndTextTuples = []
    for number, line in enumerate(lines):
        if number:
            found.append(("", "\n"))
        if "\x1b" not in line:
            found.append(("", line))
            continue
        style = ""
        for piece in _COLOURS.split(line):
            if piece.startswith("\x1b["):
                style = _style(style, piece)
            elif piece:
                found.append((style, piece))
    return found


@lru_cache(maxsize=512)
def _style(before: str, sequence: str) -> str:
    """The style after an SGR sequence of ours; each of ours begins from nothing or adds to what stands."""
    if sequence in ("\x1b[m", "\x1b[0m"):
        return ""
    drawn = ANSI(f"{sequence}x").__pt_formatted_text__()
    own = str(drawn[-1][0]) if drawn else ""
    return f"{before} {own}".strip()
