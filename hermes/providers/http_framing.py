"""The head of an HTTP/1.1 answer and the three ways in which its body ends (RFC 9112, sections 4 to 7)."""

from typing import Protocol

from msgspec import Struct

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.providers.http_common import HttpTarget

_HEX = frozenset(b"0123456789abcdefABCDEF")
_MAX_LINE = 16 * 1024
_LENGTH_DIGITS = 18


class BodyFraming(Protocol):
    """Finds the end of a body."""

    done: bool
    surplus: bool
    """Whether bytes stood behind the end."""

    def feed(self, data: bytes, where: HttpTarget) -> bytes:
        """Return the body's own bytes in what has arrived. Raises `TransportError` when they break the rules."""
        ...


class LengthFraming:
    """A body of a length known beforehand."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0
        self.surplus = False

    def feed(self, data: bytes, where: HttpTarget) -> bytes:
        """Return bytes up to the length."""
        taken = data[: self._left]
        self._left -= len(taken)
        self.done = self._left == 0
        self.surplus = len(taken) < len(data)
        return taken


class CloseFraming:
    """A body that ends with the connection."""

    def __init__(self) -> None:
        self.done = False
        self.surplus = False

    def feed(self, data: bytes, where: HttpTarget) -> bytes:
        """Return all of it."""
        return data


class ChunkedFraming:
    """A body in chunks, each with its length before it."""

    def __init__(self) -> None:
        self._rest = b""
        self._left = 0
        self._ending = False
        self._trailer = False
        self.done = False
        self.surplus = False

    def feed(self, data: bytes, where: HttpTarget) -> bytes:
        """Return the chunks' contents, joined."""
        data = self._rest + data if self._rest else data
        self._rest = b""
        position, size = 0, len(data)
        taken: list[bytes] = []
        while position < size and not self.done:
            if self._left:
                piece = data[position : position + self._left]
                taken.append(piece)
                position += len(piece)
                self._left -= len(piece)
                self._ending = not self._left
                continue
            end = data.find(b"\r\n", position)
            if end < 0:
                if size - position > _MAX_LINE:
                    raise _framing_error(where)
                self._rest = data[position:]
                break
            self._read_line(data[position:end], where)
            position = end + 2
        self.surplus = self.done and position < size
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def _read_line(self, line: bytes, where: HttpTarget) -> None:
        """Read a line between chunks: the end of the last one, the length of the next, or a trailer field."""
        if self._trailer:
            self.done = not line
        elif self._ending:
            if line:
                raise _framing_error(where)
            self._ending = False
        else:
            digits = line.split(b";", 1)[0].strip()
            if not digits or len(digits) > 15 or not _HEX.issuperset(digits):
                raise _framing_error(where)
            self._left = int(digits, 16)
            self._trailer = self._left == 0


def _framing_error(where: HttpTarget) -> TransportError:
    return TransportError(FailureKind.BAD_RESPONSE, f"{where.authority} sent a body that breaks the rules of HTTP.")


class ResponseHead(Struct, frozen=True):
    """Status and fields of an answer; names in lower case, repeated ones joined by commas."""

    status: int
    version: str
    fields: dict[str, str]

    @property
    def is_persistent(self) -> bool:
        """Return whether the connection may serve another request."""
        options = self.fields.get("connection", "").lower()
        return "close" not in options and (self.version == "HTTP/1.1" or "keep-alive" in options)

    def select_framing(self) -> BodyFraming:
        """Return the framing that tells where the body ends."""
        if self.status in (204, 304):
            return LengthFraming(0)
        if "chunked" in self.fields.get("transfer-encoding", "").lower():
            return ChunkedFraming()
        length = self.fields.get("content-length", "").split(",")[0].strip()
        known = length.isascii() and length.isdigit() and len(length) <= _LENGTH_DIGITS
        return LengthFraming(int(length)) if known else CloseFraming()


def parse_head(raw: bytes, where: HttpTarget) -> ResponseHead:
    """Read the lines before a body. Raises `TransportError` when they are not HTTP/1."""
    first, *lines = raw.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit()):
        raise TransportError(FailureKind.BAD_RESPONSE, f"What answers at {where.authority} does not speak HTTP.")
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        key = name.strip().lower()
        value = value.strip()
        fields[key] = f"{fields[key]}, {value}" if key in fields else value
    return ResponseHead(status=int(code), version=version, fields=fields)
