"""Render the Markdown of an answer for a terminal of lines."""

import shutil
import sys
from collections.abc import Mapping

from hermes.cli.render.markdown import MarkdownRenderer
from hermes.cli.render.theme import DEFAULT_SKIN, Theme, detect_color_depth, find_skin
from hermes.config.display import DisplaySettings
from hermes.core.errors import UsageError


class MarkdownText:
    """A `TextShaper`: gives out each block of the text once it is finished."""

    def __init__(self, display: DisplaySettings, environ: Mapping[str, str]) -> None:
        try:
            skin = find_skin(display.skin, display.skins)
        except UsageError:
            skin = find_skin(DEFAULT_SKIN, {})
        utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        theme = Theme(skin, detect_color_depth(environ), plain=display.plain, unicode=utf8)
        self._markdown = MarkdownRenderer(theme, lambda: shutil.get_terminal_size((80, 24)).columns - 1)

    def feed_text(self, text: str) -> str:
        """Add text and return the lines that are finished by it."""
        return _join_lines(self._markdown.feed(text))

    def flush_text(self) -> str:
        """Return the last lines of the text; what follows begins another one."""
        return _join_lines(self._markdown.close())


def _join_lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
