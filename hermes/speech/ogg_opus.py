"""Opus in Ogg, read without a decoder: how long it is, and how loud it looks.

The length of each packet stands in its first byte and the rest of the format is framing, so an untrusted file needs no
parser in C for that. A packet of a variable rate is as large as what is said in it is rich: the picture of a voice
message is drawn from these sizes. Sources: RFC 3533 (Ogg), RFC 6716 section 3 (packets), RFC 7845 (Opus in Ogg).
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO

from msgspec import Struct

RATE = 48_000
"""Samples a second by which Opus counts, whatever was recorded."""
MOST_POINTS = 256
"""Points of the picture that platforms show."""
_POINTS_A_SECOND = 10
_LONGEST_SECONDS = 4 * 3_600
_PAGE_HEADER = 27
_MAX_PACKET = 65_536
_SILK_FRAMES = (480, 960, 1_920, 2_880)
_HYBRID_FRAMES = (480, 960)
_CELT_FRAMES = (120, 240, 480, 960)


class VoiceFacts(Struct, frozen=True):
    """What platforms show of a voice message: its length in seconds, and 1 to 256 points of loudness, 0 to 255."""

    seconds: float
    waveform: bytes


def read_voice_facts(file: BinaryIO) -> VoiceFacts | None:
    """Return the facts of a file from its beginning on; None where it is not Opus in Ogg. It is read page by page."""
    sizes: list[float] = []
    per_point = RATE // _POINTS_A_SECOND
    samples, filled, loudest, skipped, end = 0, 0, 0.0, -1, 0
    for packet_size, head, position in _iter_packets(file):
        end = max(end, position)
        if skipped < 0:
            if not head.startswith(b"OpusHead") or len(head) < 19:
                return None
            skipped = int.from_bytes(head[10:12], "little")
            continue
        if head.startswith(b"OpusTags"):
            continue
        length = _count_samples(head)
        samples += length
        filled += length
        loudest = max(loudest, packet_size / max(length, 1))
        while filled >= per_point:
            filled -= per_point
            sizes.append(loudest)
            loudest = 0.0
        if samples > _LONGEST_SECONDS * RATE:
            return None
    # The last page says where the sound ends, which may be within its last packet.
    samples = min(samples, end) if end > skipped else samples
    if skipped < 0 or samples <= skipped:
        return None
    return VoiceFacts((samples - skipped) / RATE, draw_waveform(sizes or [loudest]))


def draw_waveform(levels: list[float]) -> bytes:
    """Return at most 256 points of the levels, the highest of each stretch, the loudest of all as 255."""
    if len(levels) > MOST_POINTS:
        bounds = [number * len(levels) // MOST_POINTS for number in range(MOST_POINTS + 1)]
        levels = [max(levels[start:end]) for start, end in pairwise(bounds)]
    lowest, highest = min(levels), max(levels)
    spread = highest - lowest or highest or 1.0
    floor = lowest if highest > lowest else 0.0
    return bytes(min(255, round(255 * (one - floor) / spread)) for one in levels)


def _iter_packets(file: BinaryIO) -> Iterator[tuple[int, bytes, int]]:
    """Yield each packet's size, its first bytes and the position of its page's end; end where it is no Ogg any more."""
    size, head = 0, b""
    while True:
        page = file.read(_PAGE_HEADER)
        if len(page) < _PAGE_HEADER or page[:4] != b"OggS":
            return
        lacing = file.read(page[26])
        body = file.read(sum(lacing))
        if len(body) < sum(lacing):
            return
        at, position = 0, int.from_bytes(page[6:14], "little", signed=True)
        for length in lacing:
            head = (head + body[at : at + length])[:32] if len(head) < 32 else head
            size, at = size + length, at + length
            if size > _MAX_PACKET:
                return
            if length < 255:
                yield size, head, position
                size, head = 0, b""


def _count_samples(packet: bytes) -> int:
    """Return the samples of a packet by its first bytes (RFC 6716, section 3.1)."""
    if not packet:
        return 0
    config, code = packet[0] >> 3, packet[0] & 3
    if config < 12:
        length = _SILK_FRAMES[config % 4]
    elif config < 16:
        length = _HYBRID_FRAMES[config % 2]
    else:
        length = _CELT_FRAMES[config % 4]
    frames = (1, 2, 2, packet[1] & 63 if len(packet) > 1 else 0)[code]
    return min(length * frames, 5_760)
