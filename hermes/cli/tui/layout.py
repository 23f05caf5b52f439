"""Lay out the bottom of the terminal: live lines, a menu or the input line, completions, the status line."""

from collections.abc import Callable

from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.containers import ConditionalContainer, HSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl, SearchBufferControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.layout import Layout
from prompt_toolkit.layout.menus import CompletionsMenuControl
from prompt_toolkit.layout.processors import AppendAutoSuggestion, BeforeInput, HighlightIncrementalSearchProcessor

from hermes.cli.tui.composer import Composer
from hermes.i18n.messages import tr

_MAX_COMPLETIONS = 8


class LayoutSources:
    """The callbacks from which the layout gets what it shows. Each returns fragments, or whether something is shown."""

    def __init__(
        self,
        *,
        live: Callable[[], StyleAndTextTuples],
        status: Callable[[], StyleAndTextTuples],
        prompt: Callable[[], StyleAndTextTuples],
        menu: Callable[[], bool],
        status_shown: Callable[[], bool],
    ) -> None:
        self.live = live
        self.status = status
        self.prompt = prompt
        self.menu = menu
        self.status_shown = status_shown


def build_layout(composer: Composer, sources: LayoutSources) -> Layout:
    """Build the layout, with the input line in focus."""
    search = SearchBufferControl()
    control = BufferControl(
        buffer=composer.buffer,
        search_buffer_control=search,
        preview_search=True,
        input_processors=[
            HighlightIncrementalSearchProcessor(),
            AppendAutoSuggestion(),
            BeforeInput(sources.prompt),
        ],
    )
    live = Window(FormattedTextControl(sources.live), wrap_lines=False, dont_extend_height=True)
    line = Window(
        control,
        wrap_lines=True,
        dont_extend_height=True,
        height=lambda: Dimension(min=1, max=max(get_app().output.get_size().rows // 3, 3)),
        get_line_prefix=lambda number, wrapped: "  " if number or wrapped else "",
    )
    completions = Window(
        CompletionsMenuControl(),
        height=Dimension(min=1, max=_MAX_COMPLETIONS),
        dont_extend_height=True,
        style="class:completion-menu",
    )
    found = Window(search, height=1, get_line_prefix=lambda number, wrapped: tr("search back: "))
    status = Window(FormattedTextControl(sources.status), height=1, dont_extend_height=True, style="class:status")
    return Layout(
        HSplit(
            [
                live,
                line,
                ConditionalContainer(found, is_searching),
                ConditionalContainer(completions, has_completions & ~Condition(sources.menu)),
                ConditionalContainer(status, Condition(sources.status_shown) & ~is_searching),
            ]
        ),
        focused_element=line,
    )
