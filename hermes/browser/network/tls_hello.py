"""Reads what a client offers in the first message of TLS: the protocols that it wants to speak inside.

The layout: RFC 8446, section 4.1.2, and RFC 7301 for the protocols.
"""

_HANDSHAKE, _CLIENT_HELLO, _PROTOCOLS = 0x16, 1, 16


def list_offered_protocols(opening: bytes) -> tuple[bytes, ...] | None:
    """Return the protocols that a client hello offers, such as `h2`; None where the bytes are none, or cut off."""
    end = 5 + int.from_bytes(opening[3:5], "big")
    if len(opening) < max(end, 9) or opening[0] != _HANDSHAKE or opening[5] != _CLIENT_HELLO:
        return None
    try:
        return _read_protocols(_Cursor(opening[5:end]))
    except ValueError:
        return None


class _Cursor:
    """A place in bytes; what goes past their end raises ValueError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def is_at_end(self) -> bool:
        return self._place >= len(self._data)

    def take(self, count: int) -> bytes:
        found = self._data[self._place : self._place + count]
        if len(found) < count:
            raise ValueError("the message is cut off")
        self._place += count
        return found

    def take_number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def take_block(self, count: int) -> "_Cursor":
        """Return what follows a length of `count` bytes, as long as that says."""
        return _Cursor(self.take(self.take_number(count)))


def _read_protocols(message: _Cursor) -> tuple[bytes, ...]:
    message.take(1 + 3 + 2 + 32)  # kind, length, version, random
    for width in (1, 2, 1):  # session, cipher suites, compressions
        message.take_block(width)
    extensions = message.take_block(2) if not message.is_at_end else _Cursor(b"")
    while not extensions.is_at_end:
        kind, content = extensions.take_number(2), extensions.take_block(2)
        if kind == _PROTOCOLS:
            names, found = content.take_block(2), []
            while not names.is_at_end:
                found.append(names.take(names.take_number(1)))
            return tuple(found)
    return ()
