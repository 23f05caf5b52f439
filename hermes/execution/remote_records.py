"""Extracts the records about runs from what the remote side prints. None of them is trusted without a check."""

import re
from collections.abc import Callable

from hermes.execution.base import OutputSink
from hermes.util.text import strip_control_characters

_MAX_RECORD = 6 * 1024 * 1024
"""The most bytes of a record; anything longer is no record."""
_MAX_EARLY = 4_000
_NUMBERS = re.compile(rb"([0-9]{1,9}) ([0-9]{1,9})")


class RecordReader:
    """Separates the records of the remote side from the output. `take_record` gets a letter and its data."""

    def __init__(self, mark: str, sink: OutputSink, take_record: Callable[[str, bytes], None]) -> None:
        self._begin = b"\x1e" + mark.encode() + b":"
        self._sink = sink
        self._take_record = take_record
        self._buffer = bytearray()
        self._searched = 0
        """How much of a record that has begun was searched for its end."""

    def feed(self, data: bytes) -> None:
        """Take output as it arrives; what may be the beginning of a record is held back."""
        self._buffer += data
        while (at := self._buffer.find(self._begin)) >= 0:
            end = self._buffer.find(b"\x1f", at + self._searched)
            if end < 0:
                self._searched = len(self._buffer) - at
                """How much of a record that has begun was searched for its end."""
                break
            self._pass_on(at)
            record = bytes(self._buffer[len(self._begin) : end - at])
            del self._buffer[: end - at + 1]
            self._searched = 0
            """How much of a record that has begun was searched for its end."""
            self._take_record(record[:1].decode("ascii", "replace"), record[1:])
        if at < 0:
            at = self._buffer.rfind(b"\x1e", max(0, len(self._buffer) - len(self._begin) + 1))
            if at < 0 or not self._begin.startswith(self._buffer[at:]):
                at = len(self._buffer)
        elif len(self._buffer) - at > _MAX_RECORD:
            at, self._searched = len(self._buffer), 0
            """How much of a record that has begun was searched for its end."""
        self._pass_on(at)

    def flush(self) -> None:
        """Pass on what was held back: there is no more output, so it was no record."""
        self._searched = 0
        """How much of a record that has begun was searched for its end."""
        self._pass_on(len(self._buffer))

    def _pass_on(self, size: int) -> None:
        """Pass on that many bytes of the buffer."""
        if size:
            data = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._sink(data)


class EarlyOutput:
    """The last of what was printed before a run began: it tells why the run did not begin."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Take more output."""
        self._data += data[-_MAX_EARLY:]
        del self._data[:-_MAX_EARLY]

    def to_text(self) -> str:
        """Return the output, safe for a person's eyes and a terminal."""
        return strip_control_characters(self._data.decode("utf-8", "replace")).strip()


def parse_two_numbers(data: bytes) -> tuple[int, int]:
    """Parse the two whole numbers of a record. Raises ValueError for anything else."""
    found = _NUMBERS.fullmatch(data)
    if found is None:
        raise ValueError(data[:80])
    return int(found[1]), int(found[2])
