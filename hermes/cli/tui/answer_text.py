"""Render the model's text as it streams in: its answer, and its reasoning, which is shown on demand."""

from hermes.cli.tui.terminal_style import TerminalStyle

MAX_REASONING = 100_000
"""Characters of reasoning that are kept to be shown on demand."""


class AnswerText:
    """Turns streamed text into finished lines. `feed_answer` and `feed_reasoning` return lines as soon as
    nothing can change in them any more.
    """

    def __init__(self, terminal_style: TerminalStyle) -> None:
        self._terminal_style = terminal_style
        self._text = terminal_style.open_stream()
        self._thoughts = terminal_style.open_stream(style="reasoning")
        self._speaking = False
        self._thinking = 0
        self._reasoning: list[str] = []

    @property
    def speaking(self) -> bool:
        """Whether an answer is under way."""
        return self._speaking

    def feed_answer(self, text: str) -> list[str]:
        """Add to the answer and return its finished lines."""
        lines = [] if self._speaking else self.end_reasoning()
        self._speaking = True
        return [*lines, *self._text.feed(text)]

    def feed_reasoning(self, text: str) -> list[str]:
        """Add to the reasoning; it is shown now only where the person wants that."""
        if not self._thinking:
            self._reasoning.clear()
        if self._thinking < MAX_REASONING:
            self._reasoning.append(text)
        self._thinking += len(text)
        return self._thoughts.feed(text) if self._terminal_style.display.show_reasoning else []

    def end_answer(self) -> list[str]:
        """End the answer, or break it off, and return its last lines."""
        if not self._speaking:
            return []
        self._speaking = False
        return self._text.close()

    def end_reasoning(self) -> list[str]:
        """End the reasoning and return its last lines."""
        if not self._thinking:
            return []
        self._thinking = 0
        return self._thoughts.close()

    def render_tail(self, room: int) -> list[str]:
        """Render what is unfinished, in at most `room` lines."""
        if self._speaking:
            return self._text.tail(room)
        return self._thoughts.tail(room) if self._thinking and self._terminal_style.display.show_reasoning else []

    def format_reasoning(self) -> list[str]:
        """Return the last reasoning as lines; empty when there was none."""
        stream = self._terminal_style.open_stream(style="reasoning")
        return [*stream.feed("".join(self._reasoning)), *stream.close()]
