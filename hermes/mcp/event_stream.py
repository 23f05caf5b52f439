"""Server-sent events with their ids and retry times, which resuming a stream needs (WHATWG HTML, section 9.2.6)."""

from msgspec import Struct

_BOM = b"\xef\xbb\xbf"


class StreamEvent(Struct, frozen=True):
    """An event, with the data of its lines. Events of other types than `message` are not messages."""

    type: str
    data: str


class EventStreamReader:
    """Takes bytes cut anywhere and returns whole events. Raises ValueError for one of more than `limit` bytes, comments
    and whatever else stands before it included.

    `last_id` and `retry_seconds` are those of the last event that named them, one without data too.
    """

    def __init__(self, limit: int) -> None:
        self.last_id = ""
        self.retry_seconds: float | None = None
        self._limit = limit
        self._has_begun = False
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._unused = 0
        """The bytes since the last message."""
        self._type = ""
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Return the events that `chunk` completes, in order; those without data are left out."""
        self._rest += chunk
        self._unused += len(chunk)
        if not self._has_begun and len(self._rest) >= len(_BOM):
            self._has_begun = True
            self._rest = bytearray(self._rest.removeprefix(_BOM))
        events: list[StreamEvent] = []
        if b"\n" in chunk or b"\r" in chunk:
            for line in self._cut_lines():
                self._take_line(line, events)
        self._unused = 0 if any(one.type == "message" for one in events) else self._unused
        if len(self._rest) + self._size > self._limit or self._unused > 2 * self._limit:
            raise ValueError
        return events

    def start_over(self) -> None:
        """Forget what a stream that has broken off has left unfinished; its last id and retry time stay."""
        self._rest.clear()
        self._has_begun = False
        self._data, self._size, self._type, self._id = [], 0, "", None
        self._unused = 0

    def _cut_lines(self) -> list[bytes]:
        """Cut the whole lines off the buffer; a CR at its end waits for the LF that may follow."""
        whole = bytes(self._rest)
        held = b"\r" if whole.endswith(b"\r") else b""
        plain = whole[: len(whole) - len(held)]
        lines = plain.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = bytearray(lines.pop() + held)
        return lines

    def _take_line(self, line: bytes, events: list[StreamEvent]) -> None:
        if not line:
            self._end_event(events)
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._limit:
                raise ValueError
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= 9:
            self.retry_seconds = int(value) / 1000

    def _end_event(self, events: list[StreamEvent]) -> None:
        if self._id is not None:
            self.last_id = self._id
        text = b"\n".join(self._data).decode("utf-8", "replace")
        if text:
            events.append(StreamEvent(self._type or "message", text))
        self._data, self._size, self._type, self._id = [], 0, "", None
