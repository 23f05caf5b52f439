"""Tells what a person said in one front-end of a session from what was said in another one of the same session."""

from collections import deque

_MOST_REMEMBERED = 300
"""Messages of one place that may wait for their turns."""


class OwnWords:
    """The messages that were posted from one place and have not begun a turn yet."""

    def __init__(self) -> None:
        self._posted: deque[str] = deque(maxlen=_MOST_REMEMBERED)
        self.unknown = 0
        """Turns to come whose words may be from here: what an earlier process has left."""

    def add(self, text: str) -> None:
        """Note words that are posted from here."""
        self._posted.append(text)

    def take(self, text: str) -> bool:
        """Return whether these words, which begin a turn or join one, are from here; they are forgotten then."""
        if text in self._posted:
            self._posted.remove(text)
            return True
        if self.unknown:
            self.unknown -= 1
            return True
        return False
