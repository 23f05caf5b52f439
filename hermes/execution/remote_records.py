"""What the far side of a connection tells of its runs, taken out of what they print. None of it is believed unread."""

import re
from collections.abc import Callable

from hermes.execution.base import Sink
from hermes.util.text import inert

_LARGEST = 6 * 1024 * 1024
"""Bytes of a record; what is longer is no record."""
_EARLY = 4_000
_NUMBERS = re.compile(rb"([0-9]{1,9}) ([0-9]{1,9})")


class Records:
    """Takes what the far side tells out of the output. `told` gets a letter and its data."""

    def __init__(self, mark: str, sink: Sink, told: Callable[[str, bytes], None]) -> None:
        self._begin = b"\x1e" + mark.encode() + b":"
        self._sink = sink
        self._told = told
        self._held = bytearray()
        self._seen = 0
        """How much of a record that has begun was looked at for its end."""

    def feed(self, data: bytes) -> None:
        """Take output as it comes; what may be the beginning of a record is held back."""
        self._held += data
        while (at := self._held.find(self._begin)) >= 0:
            end = self._held.find(b"\x1f", at + self._seen)
            if end < 0:
                self._seen = len(self._held) - at
                break
            self._give(at)
            record = bytes(self._held[len(self._begin) : end - at])
            del self._held[: end - at + 1]
            self._seen = 0
            self._told(record[:1].decode("ascii", "replace"), record[1:])
        if at < 0:
            at = self._held.rfind(b"\x1e", max(0, len(self._held) - len(self._begin) + 1))
            if at < 0 or not self._begin.startswith(self._held[at:]):
                at = len(self._held)
        elif len(self._held) - at > _LARGEST:
            at, self._seen = len(self._held), 0
        self._give(at)

    def flush(self) -> None:
        """There is no more: what was held back was no record."""
        self._seen = 0
        self._give(len(self._held))

    def _give(self, size: int) -> None:
        """Pass on what is held, as far as that."""
        if size:
            data = bytes(self._held[:size])
            del self._held[:size]
            self._sink(data)


class Early:
    """The last of what was printed before anything began: why it did not."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Take more."""
        self._data += data[-_EARLY:]
        del self._data[:-_EARLY]

    def text(self) -> str:
        """It, for a person's eyes and a terminal."""
        return inert(self._data.decode("utf-8", "replace")).strip()


def two_numbers(data: bytes) -> tuple[int, int]:
    """The two whole numbers of a record. Raises ValueError for anything else."""
    found = _NUMBERS.fullmatch(data)
    if found is None:
        raise ValueError(data[:80])
    return int(found[1]), int(found[2])
