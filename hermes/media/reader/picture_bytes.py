"""What a picture is by its first bytes, and PNG and JPEG without what is no part of the picture."""

import struct

PNG, JPEG, GIF, WEBP, AVIF, HEIF, TIFF, BMP = "PNG", "JPEG", "GIF", "WEBP", "AVIF", "HEIF", "TIFF", "BMP"
_STARTS = (
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"\xff\xd8\xff", JPEG),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
    (b"II*\0", TIFF),
    (b"MM\0*", TIFF),
)
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_AVIF_BRANDS = (b"avif", b"avis")
_KEPT_CHUNKS = frozenset(
    (b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"pHYs", b"bKGD")
)
_KEPT_SEGMENTS = (0xE0, 0xEE)
_PROFILE = b"ICC_PROFILE\0"
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, b"\xff\xd9"


def sniff_picture(head: bytes) -> str:
    """Return the format of a picture by its first 64 bytes; empty for what is none that is read."""
    for start, kind in _STARTS:
        if head.startswith(start):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    if head[:2] == b"BM" and head[6:10] == b"\0\0\0\0":
        return BMP
    return _sniff_brand(head) if head[4:8] == b"ftyp" else ""


def _sniff_brand(head: bytes) -> str:
    size = min(int.from_bytes(head[:4], "big"), 64)
    brands = {head[8:12], *(head[at : at + 4] for at in range(16, max(size, 16), 4))}
    if not brands.isdisjoint(_AVIF_BRANDS):
        return AVIF
    return "" if brands.isdisjoint(_HEIF_BRANDS) else HEIF


def strip_metadata(data: bytes, kind: str) -> bytes:
    """Return a PNG or JPEG without places, cameras, names and previews; its pixels are the same bytes. Raises
    ValueError for what is damaged.
    """
    return _strip_png(data) if kind == PNG else _strip_jpeg(data)


def _strip_png(data: bytes) -> bytes:
    kept = [data[:8]]
    at = 8
    while at + 8 <= len(data):
        (size,) = struct.unpack_from(">I", data, at)
        name = data[at + 4 : at + 8]
        end = at + 12 + size
        if name in _KEPT_CHUNKS:
            kept.append(data[at:end])
        at = end
        if name == b"IEND":
            return b"".join(kept)
    raise ValueError("a PNG without an end")


def _strip_jpeg(data: bytes) -> bytes:
    kept = [data[:2]]
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        segment = data[at : at + 2 + size]
        if marker == _START_OF_SCAN:
            end = data.find(_END_OF_IMAGE, at)
            return b"".join((*kept, data[at:end] if end > 0 else data[at:], _END_OF_IMAGE))
        is_profile = marker == 0xE2 and segment[4:].startswith(_PROFILE)
        is_metadata = 0xE0 <= marker <= 0xEF or marker == 0xFE
        if is_profile or marker in _KEPT_SEGMENTS or not is_metadata:
            kept.append(segment)
        at += 2 + size
    raise ValueError("a JPEG without a picture")
