"""Render a unified diff as lines of a terminal."""

import re
from collections.abc import Sequence

from hermes.cli.render.theme import Theme
from hermes.i18n.messages import tr_plural
from hermes.markup.cells import sanitize_line, truncate_text

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_STYLES = {"+": "diff.add", "-": "diff.remove"}


def format_diff(theme: Theme, lines: Sequence[str], width: int, most: int) -> list[str]:
    """Format at most `most` lines of the diff with their numbers in the file (for a removed line in the old one), and a
    line that says how many more there are. Without colors and boxes (`theme.plain`) the numbers are left out.
    """
    found: list[str] = []
    line_numbers = _number_lines(lines)
    digits = 0 if theme.plain else len(str(max((number for number in line_numbers if number), default=0)))
    for raw, line_number in zip(lines[:most], line_numbers, strict=False):
        text = sanitize_line(raw).rstrip()
        number = f"{line_number or '':>{digits}} " if digits and any(line_numbers) else ""
        body = truncate_text(text, max(width - len(number), 8), "…" if theme.unicode else "...")
        found.append(
            (theme.paint("diff.number", number) if line_number else number)
            + theme.paint(_choose_style(text, line_number), body)
        )
    if len(lines) > most:
        mark = "…" if theme.unicode else "..."
        more = tr_plural("{n} more line", "{n} more lines", len(lines) - most)
        found.append(theme.paint("diff.number", f"{mark} {more}"))
    return found


def _number_lines(lines: Sequence[str]) -> list[int | None]:
    """Return the number of each line in its file; None for what is no line of a file."""
    found: list[int | None] = []
    old = new = 0
    for line in lines:
        if match := _HUNK.match(line):
            old, new = int(match[1]), int(match[2])
            found.append(None)
        elif (not old and not new) or line.startswith("\\"):
            found.append(None)
        elif line.startswith(("--- ", "+++ ", "diff ")) and (
            line.startswith("d") or _is_file_header(lines, len(found))
        ):
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


def _is_file_header(lines: Sequence[str], at: int) -> bool:
    """Return whether the line begins the next file, and is not one that was taken out of this file."""
    near = lines[at : at + 3] if lines[at].startswith("---") else lines[max(at - 1, 0) : at + 2]
    return len(near) > 1 and near[0].startswith("--- ") and near[1].startswith("+++ ")


def _choose_style(text: str, line_number: int | None) -> str:
    if text.startswith("@@"):
        return "diff.hunk"
    if line_number is None:
        return "diff.file" if text.startswith(("--- ", "+++ ", "diff ")) else "result"
    return _STYLES.get(text[:1], "result")
