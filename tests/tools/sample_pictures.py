"""Pictures for tests, made byte by byte."""

import struct
import zlib


def make_png(width: int = 2, height: int = 2, color: tuple[int, int, int] = (200, 30, 30)) -> bytes:
    """Return a PNG of one colour."""
    row = b"\0" + bytes(color) * width

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * height)) + chunk(b"IEND", b"")
    )
