"""The rows of completions, cut as everything else is."""

from collections.abc import Callable

from prompt_toolkit.application.current import get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.controls import UIContent
from prompt_toolkit.layout.menus import CompletionsMenuControl


class CompletionRows(CompletionsMenuControl):
    """Shows completions; what is too long ends in an ellipsis instead of three dots. `is_first_marked` says whether the
    first one is shown as chosen before anybody has moved there.
    """

    def __init__(self, is_first_marked: Callable[[], bool]) -> None:
        super().__init__()
        self._is_first_marked = is_first_marked

    def create_content(self, width: int, height: int) -> UIContent:
        """Return the rows."""
        content = self._create_marked_content(width, height)
        get_line = content.get_line

        def get_cut_line(number: int) -> StyleAndTextTuples:
            return [(part[0], "…  ") if part[1] == "..." else part for part in get_line(number)]

        return UIContent(get_line=get_cut_line, cursor_position=content.cursor_position, line_count=content.line_count)

    def _create_marked_content(self, width: int, height: int) -> UIContent:
        state = get_app().current_buffer.complete_state
        if state is None or not self._is_first_marked():
            return super().create_content(width, height)
        state.complete_index = 0  # only for the drawing: a chosen entry would stand in the line
        try:
            return super().create_content(width, height)
        finally:
            state.complete_index = None
