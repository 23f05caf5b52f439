"""The rows of completions, cut as everything else is."""

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.controls import UIContent
from prompt_toolkit.layout.menus import CompletionsMenuControl


class CompletionRows(CompletionsMenuControl):
    """Shows completions; what is too long ends in an ellipsis instead of three dots."""

    def create_content(self, width: int, height: int) -> UIContent:
        """Return the rows."""
        content = super().create_content(width, height)
        get_line = content.get_line

        def get_cut_line(number: int) -> StyleAndTextTuples:
            return [(part[0], "…  ") if part[1] == "..." else part for part in get_line(number)]

        return UIContent(get_line=get_cut_line, cursor_position=content.cursor_position, line_count=content.line_count)
