"""The model's words as they come: its answer, and its reasoning, which is shown on demand."""

from hermes.cli.tui.style import Look

MOST_REASONING = 100_000
"""Characters of reasoning that are kept to be shown on demand."""


class Speech:
    """Text in, finished lines out. `feed` and `think` give lines as soon as nothing can change in them any more."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._text = look.stream()
        self._thoughts = look.stream(style="reasoning")
        self._speaking = False
        self._thinking = 0
        self._kept: list[str] = []

    @property
    def speaking(self) -> bool:
        """Whether an answer is under way."""
        return self._speaking

    def feed(self, text: str) -> list[str]:
        """More of the answer."""
        lines = [] if self._speaking else self.end_thought()
        self._speaking = True
        return [*lines, *self._text.feed(text)]

    def think(self, text: str) -> list[str]:
        """More of the reasoning; shown now only where the person wants that."""
        if not self._thinking:
            self._kept.clear()
        if self._thinking < MOST_REASONING:
            self._kept.append(text)
        self._thinking += len(text)
        return self._thoughts.feed(text) if self._look.display.show_reasoning else []

    def end(self) -> list[str]:
        """The answer is over, or broken off."""
        if not self._speaking:
            return []
        self._speaking = False
        return self._text.close()

    def end_thought(self) -> list[str]:
        """The reasoning is over."""
        if not self._thinking:
            return []
        self._thinking = 0
        return self._thoughts.close()

    def tail(self, room: int) -> list[str]:
        """What is unfinished, in at most `room` lines."""
        if self._speaking:
            return self._text.tail(room)
        return self._thoughts.tail(room) if self._thinking and self._look.display.show_reasoning else []

    def reasoning(self) -> list[str]:
        """The last reasoning as lines; empty when there was none."""
        stream = self._look.stream(style="reasoning")
        return [*stream.feed("".join(self._kept)), *stream.close()]
