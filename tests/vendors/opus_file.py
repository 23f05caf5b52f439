"""Makes files of Opus in Ogg without an encoder: silence, and frames that are only long, for what counts bytes."""

import struct

_SILENCE = b"\xf8\xff\xfe"
"""20 ms of silence in one channel, as Opus codes it."""
_FRAME, _SKIPPED = 960, 312


def make_opus(seconds: float, *, loud: tuple[float, float] = (0.0, 0.0)) -> bytes:
    """Return a file that is so long; between the seconds of `loud` its packets are large, as those of speech are."""
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, _SKIPPED, 48_000, 0, 0)
    tags = b"OpusTags" + struct.pack("<I", 6) + b"hermes" + struct.pack("<I", 0)
    pages = [_page(0, 0, 2, [head]), _page(1, 0, 0, [tags])]
    count = max(1, round(seconds * 50))
    packets = [_SILENCE + bytes(60) if loud[0] <= number / 50 < loud[1] else _SILENCE for number in range(count)]
    packets.append(_SILENCE)  # for the samples that a decoder leaves out
    for at in range(0, len(packets), 50):
        end = min(len(packets), at + 50)
        is_last = end == len(packets)
        position = count * _FRAME + _SKIPPED if is_last else end * _FRAME
        pages.append(_page(2 + at // 50, position, 4 if is_last else 0, packets[at:end]))
    return b"".join(pages)


def _page(number: int, position: int, flags: int, packets: list[bytes]) -> bytes:
    lacing = b"".join(b"\xff" * (len(one) // 255) + bytes([len(one) % 255]) for one in packets)
    body = b"".join(packets)
    begin = b"OggS" + struct.pack("<BBqII", 0, flags, position, 4242, number)
    count = bytes([len(lacing)])
    total = _checksum(begin + bytes(4) + count + lacing + body)
    return begin + struct.pack("<I", total) + count + lacing + body


def _make_table() -> tuple[int, ...]:
    table = []
    for number in range(256):
        value = number << 24
        for _ in range(8):
            value = (value << 1) ^ 0x04C11DB7 if value & 0x80000000 else value << 1
        table.append(value & 0xFFFFFFFF)
    return tuple(table)


_TABLE = _make_table()


def _checksum(data: bytes) -> int:
    value = 0
    for one in data:
        value = ((value << 8) ^ _TABLE[(value >> 24) ^ one]) & 0xFFFFFFFF
    return value
