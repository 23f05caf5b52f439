"""What a page has written to its console, and what failed in it: the last of it."""

from collections import deque

import msgspec
from msgspec import Raw, Struct

from hermes.browser.protocol import ConsoleCalled, ExceptionThrown, LogEntryAdded, RemoteObject
from hermes.util.text import to_one_line

MAX_MESSAGES = 100
MAX_MESSAGE = 500
_MAX_ARGUMENTS = 10


class ConsoleMessage(Struct, frozen=True):
    """A message of a page's console. `level` is log, info, warning, error or debug."""

    level: str
    text: str


class ConsoleLog:
    """The last messages of a tab."""

    def __init__(self) -> None:
        self.messages: deque[ConsoleMessage] = deque(maxlen=MAX_MESSAGES)
        self.dropped = 0
        self._errors = 0

    def take_event(self, method: str, params: Raw) -> None:
        """Take an event of the page's session, or of one of its frames."""
        if method == "Runtime.consoleAPICalled":
            called = msgspec.json.decode(params, type=ConsoleCalled)
            words = [_describe_argument(one) for one in called.args[:_MAX_ARGUMENTS]]
            self._add(called.type, " ".join(words))
        elif method == "Runtime.exceptionThrown":
            details = msgspec.json.decode(params, type=ExceptionThrown).exception_details
            said = details.exception.description if details.exception is not None else ""
            self._add("error", said or details.text)
        elif method == "Log.entryAdded":
            entry = msgspec.json.decode(params, type=LogEntryAdded).entry
            if not entry.url.endswith("/favicon.ico"):  # the browser asks for it, the page does not
                self._add(entry.level, f"{entry.text} {entry.url}".strip())

    def clear(self) -> None:
        """Forget the messages."""
        self.messages.clear()
        self.dropped = 0

    def take_errors(self) -> int:
        """Return how many errors there were since this was asked last."""
        count, self._errors = self._errors, 0
        return count

    def _add(self, level: str, text: str) -> None:
        self._errors += level in ("error", "assert")
        self.dropped += len(self.messages) == MAX_MESSAGES
        self.messages.append(ConsoleMessage(level, to_one_line(text[: 4 * MAX_MESSAGE], MAX_MESSAGE)))


def _describe_argument(value: RemoteObject) -> str:
    if isinstance(value.value, str):
        return value.value
    if value.value is not None or value.type in ("number", "boolean"):
        return value.unserializable_value or str(value.value)
    return value.description or value.unserializable_value or value.subtype or value.type
