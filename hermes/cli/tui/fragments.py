"""Convert lines with our own color sequences to prompt_toolkit's styled fragments."""

import re
from functools import lru_cache

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples

_COLOR_SEQUENCES = re.compile("(\x1b\\[[0-9;]*m)")


def parse_fragments(lines: list[str]) -> StyleAndTextTuples:
    """Convert the lines to one text, newlines between them."""
    found: StyleAndTextTuples = []
    for number, line in enumerate(lines):
        if number:
            found.append(("", "\n"))
        if "\x1b" not in line:
            found.append(("", line))
            continue
        style = ""
        for piece in _COLOR_SEQUENCES.split(line):
            if piece.startswith("\x1b["):
                style = _apply_sequence(style, piece)
            elif piece:
                found.append((style, piece))
    return found


@lru_cache(maxsize=512)
def _apply_sequence(before: str, sequence: str) -> str:
    """Return the style after an SGR sequence of ours; each of ours begins from nothing or
    adds to the style before it.
    """
    if sequence in ("\x1b[m", "\x1b[0m"):
        return ""
    drawn = ANSI(f"{sequence}x").__pt_formatted_text__()
    own = str(drawn[-1][0]) if drawn else ""
    return f"{before} {own}".strip()
