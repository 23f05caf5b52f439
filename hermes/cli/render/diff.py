"""A unified diff as lines of a terminal."""

import re
from collections.abc import Sequence

from hermes.cli.render.theme import Theme
from hermes.i18n.messages import say_many
from hermes.markup.cells import sanitize_line, truncate_text

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_STYLES = {"+": "diff.add", "-": "diff.remove"}


def shown(theme: Theme, lines: Sequence[str], width: int, most: int) -> list[str]:
    """The diff's lines with their numbers in the file (for a removed line in the old one), at most `most` of them and
    one that says how many more there are. Without colours and boxes (`theme.plain`) the numbers are left out."""
    found: list[str] = []
    places = _places(lines)
    digits = 0 if theme.plain else len(str(max((number for number in places if number), default=0)))
    for raw, place in zip(lines[:most], places, strict=False):
        text = sanitize_line(raw).rstrip()
        number = f"{place or '':>{digits}} " if digits and any(places) else ""
        body = truncate_text(text, max(width - len(number), 8), "…" if theme.unicode else "...")
        found.append((theme.paint("diff.number", number) if place else number) + theme.paint(_style(text, place), body))
    if len(lines) > most:
        mark = "…" if theme.unicode else "..."
        more = say_many("{n} more line", "{n} more lines", len(lines) - most)
        found.append(theme.paint("diff.number", f"{mark} {more}"))
    return found


def _places(lines: Sequence[str]) -> list[int | None]:
    """The number of each line in its file; None for what is no line of one."""
    found: list[int | None] = []
    old = new = 0
    for line in lines:
        if match := _HUNK.match(line):
            old, new = int(match[1]), int(match[2])
            found.append(None)
        elif (not old and not new) or line.startswith("\\"):
            found.append(None)
        elif line.startswith(("--- ", "+++ ", "diff ")) and (line.startswith("d") or _file_head(lines, len(found))):
            old = new = 0
            found.append(None)
        elif line.startswith("-"):
            found.append(old)
            old += 1
        elif line.startswith("+"):
            found.append(new)
            new += 1
        else:
            found.append(new)
            old, new = old + 1, new + 1
    return found


def _file_head(lines: Sequence[str], at: int) -> bool:
    """Whether the line begins the next file, and is not one that was taken out of this one."""
    near = lines[at : at + 3] if lines[at].startswith("---") else lines[max(at - 1, 0) : at + 2]
    return len(near) > 1 and near[0].startswith("--- ") and near[1].startswith("+++ ")


def _style(text: str, place: int | None) -> str:
    if text.startswith("@@"):
        return "diff.hunk"
    if place is None:
        return "diff.file" if text.startswith(("--- ", "+++ ", "diff ")) else "result"
    return _STYLES.get(text[:1], "result")
