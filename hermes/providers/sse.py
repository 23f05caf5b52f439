"""Reads server-sent events as they arrive (WHATWG HTML, section 9.2.6 "Interpreting an event stream")."""

from hermes.providers.wire import ServerEvent, WireError

MAX_EVENT_BYTES = 32 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class SseReader:
    """Takes bytes cut anywhere, returns whole events.

    Fields other than `event` and `data` are ignored. An event without data is not dispatched, as the standard says.
    Raises `WireError` for an event larger than `limit` bytes. Bytes that are not UTF-8 become U+FFFD.
    """

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._scanned = 0
        self._started = False
        self._skip_lf = False
        self._event = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that `chunk` completes, in order."""
        if not self._started:
            chunk = self._strip_bom(chunk)
        if not self._rest and not self._data and not self._event and not self._skip_lf:
            whole = _parse_whole_lines(chunk)
            if whole is not None:
                return whole
        if self._skip_lf and chunk:
            self._skip_lf = False
            chunk = chunk[1:] if chunk[:1] == b"\n" else chunk
        self._rest += chunk
        events: list[ServerEvent] = []
        for line in self._cut_lines():
            self._take_line(line, events)
        if len(self._rest) + self._size > self._limit:
            raise WireError(f"The provider sent one event of more than {self._limit} bytes.")
        return events

    def close(self) -> list[ServerEvent]:
        """Return the event that the stream ended in the middle of, if its data line is there.

        The standard discards it; providers that forget the last empty line are common, and a line of JSON that
        was cut is noticed by its decoder.
        """
        events: list[ServerEvent] = []
        if self._rest:
            self._take_line(bytes(self._rest), events)
            self._rest.clear()
        self._take_line(b"", events)
        return events

    def _strip_bom(self, chunk: bytes) -> bytes:
        """Hold back what may still become a byte order mark; drop a whole one."""
        head = bytes(self._rest) + chunk
        self._rest.clear()
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._rest += head
            return b""
        self._started = True
        return head.removeprefix(_BOM)

    def _cut_lines(self) -> list[bytes]:
        """Cut the whole lines off the buffer. CR, LF and CR LF end a line; an LF after a final CR may come later."""
        if not self._started:
            return []
        rest = self._rest
        end = max(rest.rfind(b"\n", self._scanned), rest.rfind(b"\r", self._scanned))
        if end < 0:
            self._scanned = len(rest)
            return []
        self._skip_lf = end == len(rest) - 1 and rest[end] == 0x0D
        block = bytes(rest[: end + 1])
        del rest[: end + 1]
        self._scanned = 0
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = block.split(b"\n")
        lines.pop()
        return lines

    def _take_line(self, line: bytes, events: list[ServerEvent]) -> None:
        if not line:
            if self._data:
                data = b"\n".join(self._data).decode("utf-8", "replace")
                events.append(ServerEvent(event=self._event, data=data))
            self._event = ""
            self._data = []
            self._size = 0
            return
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")


def _parse_whole_lines(chunk: bytes) -> list[ServerEvent] | None:
    """Parse a chunk that is nothing but whole `data: ...` lines, each followed by an empty line: the fast path."""
    if not chunk.startswith(b"data: ") or not chunk.endswith(b"\n\n") or b"\r" in chunk:
        return None
    blocks = chunk[:-2].split(b"\n\n")
    for block in blocks:
        if b"\n" in block or not block.startswith(b"data: "):
            return None
    return [ServerEvent(event="", data=block[6:].decode("utf-8", "replace")) for block in blocks]
