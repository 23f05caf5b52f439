"""Shows pictures in terminals that can: kitty's graphics protocol, and the inline images of iTerm2.

Which of them a terminal knows is told by its environment (https://sw.kovidgoyal.net/kitty/graphics-protocol,
https://iterm2.com/documentation-images.html). Inside tmux and screen nothing is shown.
"""

import base64
import os
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from msgspec import Struct

from hermes.util.file_handles import open_read

MAX_COLUMNS, MAX_ROWS = 48, 20
_MAX_BYTES = 8 << 20
_CHUNK = 4_096
_CELL_RATIO = 0.5
"""How wide a character is to its height."""
_NAMED = re.compile(r"^MEDIA:(/[^\n]+)$", re.MULTILINE)
_PNG = b"\x89PNG\r\n\x1a\n"


class PictureProtocol(Enum):
    """How a terminal is handed a picture."""

    KITTY = "kitty"
    ITERM = "iterm"


class PictureArea(Struct, frozen=True):
    """The cells that a picture takes."""

    columns: int
    rows: int


def choose_protocol(environ: Mapping[str, str]) -> PictureProtocol | None:
    """Return how this terminal is handed pictures; None where it is not known to show any."""
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if "TMUX" in environ or "STY" in environ or term.startswith(("tmux", "screen", "dumb")):
        return None
    if "KITTY_WINDOW_ID" in environ or term in ("xterm-kitty", "xterm-ghostty") or program == "ghostty":
        return PictureProtocol.KITTY
    is_iterm = program in ("iTerm.app", "WezTerm") or environ.get("LC_TERMINAL") == "iTerm2"
    return PictureProtocol.ITERM if is_iterm else None


def draw_result(preview: str, environ: Mapping[str, str], width: int, newline: str) -> str:
    """Return what draws the picture that a result names, below the cursor; empty where nothing is drawn."""
    protocol, named = choose_protocol(environ), _NAMED.search(preview)
    if protocol is None or named is None:
        return ""
    data = _read_png(Path(named[1]))
    if not data:
        return ""
    area = fit_area(int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"), width)
    shown = _encode_kitty(data, area) if protocol is PictureProtocol.KITTY else _encode_iterm(data, area)
    # The rows are made first, so that a picture at the lower edge scrolls; then the cursor goes back below it.
    return f"{newline * area.rows}\x1b[{area.rows}A\x1b7{shown}\x1b8\x1b[{area.rows}B"


def fit_area(width: int, height: int, columns: int) -> PictureArea:
    """Return the cells for a picture of this many pixels, in its proportion."""
    columns = max(1, min(columns - 2, MAX_COLUMNS))
    rows = max(1, round(columns * _CELL_RATIO * height / max(width, 1)))
    if rows > MAX_ROWS:
        columns, rows = max(1, round(columns * MAX_ROWS / rows)), MAX_ROWS
    return PictureArea(columns, rows)


def _read_png(path: Path) -> bytes:
    """Return a PNG's bytes; empty for what is none, or too large to be handed over."""
    try:
        with open(open_read(os.path.abspath(path)), "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError:
        return b""
    return data if data.startswith(_PNG) and 24 < len(data) <= _MAX_BYTES else b""


def _encode_kitty(data: bytes, area: PictureArea) -> str:
    encoded = base64.b64encode(data).decode()
    pieces = [encoded[at : at + _CHUNK] for at in range(0, len(encoded), _CHUNK)]
    first = f"a=T,f=100,q=2,C=1,c={area.columns},r={area.rows},"
    return "".join(
        f"\x1b_G{first if number == 0 else ''}m={int(number < len(pieces) - 1)};{piece}\x1b\\"
        for number, piece in enumerate(pieces)
    )


def _encode_iterm(data: bytes, area: PictureArea) -> str:
    shape = f"inline=1;size={len(data)};width={area.columns};height={area.rows};preserveAspectRatio=1"
    return f"\x1b]1337;File={shape}:{base64.b64encode(data).decode()}\x07"
