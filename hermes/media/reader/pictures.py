"""Decodes a picture and makes it fit a limit of pixels and bytes: upright, its first frame, in the largest form that
fits. The same picture gives the same bytes.
"""

import io
import struct
import warnings
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import IO, TYPE_CHECKING, NamedTuple

from hermes.media.reader.failures import DAMAGED, MEMORY, TOO_LARGE, UNSUPPORTED, UnreadableError, import_failure
from hermes.media.reader.picture_bytes import AVIF, BMP, HEIF, JPEG, PNG, TIFF, WEBP, sniff_picture, strip_metadata

if TYPE_CHECKING:
    from PIL import Image

EXTRA = "media"
MAX_PICTURE = 64 << 20
"""Bytes of a picture's file."""
_MAX_PIXELS = 400_000_000
_MAX_DECODED = 100_000_000
"""Bytes of the pixels that are held at once: four each, whatever a picture has."""
_MAX_COEFFICIENTS = 90_000_000
"""Bytes that a progressive JPEG is held in while it is decoded, at any size."""
_SEE_THROUGH = frozenset(("RGBA", "LA", "PA", "La", "RGBa"))
_STRIP_ROWS = 64
_SHRINK = 0.7
_MIN_SIDE = 16
_JPEG_QUALITY = 85
_ORIENTATION = 0x0112
_PLUGINS = {WEBP: "WebPImagePlugin", AVIF: "AvifImagePlugin", TIFF: "TiffImagePlugin", BMP: "BmpImagePlugin"}
_DAMAGED = (
    *(OSError, ValueError, ArithmeticError, SyntaxError, EOFError, LookupError, TypeError, AttributeError),
    *(RuntimeError, AssertionError, struct.error, zlib.error),
)
"""What Pillow raises for what is no picture, or a damaged one."""


class SizeLimit(NamedTuple):
    """The most pixels of a side, and the most bytes as it is sent (in base64)."""

    pixels: int
    bytes: int


class EncodedPicture(NamedTuple):
    """A picture within a limit; without data the file is sent as it is."""

    media_type: str
    data: bytes
    size: tuple[int, int]
    original: tuple[int, int]
    """The size that the file has."""


def fit_picture(file: IO[bytes], limit: SizeLimit, *, clean: bool) -> EncodedPicture:
    """Return the picture in a file within the limit. With `clean` it is a PNG or JPEG without metadata; else it
    stays as it is where it fits. Raises UnreadableError.
    """
    if _read_length(file) > MAX_PICTURE:
        raise UnreadableError(TOO_LARGE, f"{MAX_PICTURE >> 20} MB")
    kind = sniff_picture(file.read(64))
    file.seek(0)
    if not kind:
        raise UnreadableError(UNSUPPORTED)
    try:
        from PIL import Image
    except ImportError as error:
        raise import_failure(error, EXTRA) from None
    # Its own limit warns on the terminal, like what is wrong with a file: ours holds below.
    warnings.simplefilter("ignore")
    Image.MAX_IMAGE_PIXELS = _MAX_PIXELS // 2
    try:
        return _fit_heif(file, limit) if kind == HEIF else _fit_plain(file, kind, limit, clean=clean)
    except Image.DecompressionBombError:
        raise UnreadableError(TOO_LARGE, f"{_MAX_PIXELS:,} pixels") from None
    except _DAMAGED as error:
        raise UnreadableError(DAMAGED, str(error)[:200] or type(error).__name__) from None


def _fit_plain(file: IO[bytes], kind: str, limit: SizeLimit, *, clean: bool) -> EncodedPicture:
    """Return a picture of a format that Pillow reads within the limit."""
    from PIL import Image

    if kind in _PLUGINS:
        plugin = import_module(f"PIL.{_PLUGINS[kind]}")
        if kind == AVIF:
            vars(plugin)["DEFAULT_MAX_THREADS"] = 1
    with Image.open(file, formats=[kind]) as picture:
        fits = max(picture.size) <= limit.pixels and _read_length(file) * 4 // 3 + 4 <= limit.bytes
        if fits and not clean and getattr(picture, "n_frames", 1) == 1:
            return EncodedPicture("", b"", picture.size, picture.size)
        if fits and clean and kind in (PNG, JPEG) and picture.getexif().get(_ORIENTATION, 1) == 1:
            return _strip_picture(picture, file, kind)
        original = picture.size
        _choose_scale(picture, limit, is_jpeg=kind == JPEG)
        return _encode_within(picture, limit)._replace(original=original)


def _read_length(file: IO[bytes]) -> int:
    place = file.tell()
    length = file.seek(0, io.SEEK_END)
    file.seek(place)
    return length


def _fit_heif(file: IO[bytes], limit: SizeLimit) -> EncodedPicture:
    """Return a HEIC picture within the limit; its pixels are taken row by row, since a phone's are many."""
    try:
        import pi_heif
    except ImportError as error:
        raise import_failure(error, EXTRA) from None
    pi_heif.options.DECODE_THREADS = 1
    pi_heif.options.THUMBNAILS = pi_heif.options.DEPTH_IMAGES = pi_heif.options.AUX_IMAGES = False
    found = pi_heif.open_heif(file)
    width, height = found.size
    if width * height * 4 > _MAX_DECODED:
        raise UnreadableError(MEMORY)
    whole = _reduce_rows(found.mode, found.size, memoryview(found.data), found.stride, limit.pixels)
    return _encode_within(whole, limit)._replace(original=(width, height))


def _strip_picture(picture: "Image.Image", file: IO[bytes], kind: str) -> EncodedPicture:
    """Return a picture that fits without what is no part of it. A damaged one is found now, not by a provider."""
    _check_pixels(picture)
    picture.load()
    file.seek(0)
    return EncodedPicture(f"image/{kind.lower()}", strip_metadata(file.read(), kind), picture.size, picture.size)


def _choose_scale(picture: "Image.Image", limit: SizeLimit, *, is_jpeg: bool) -> None:
    """Have a JPEG decoded at a half, a quarter or an eighth of its size where that is enough, or all there is room
    for.
    """
    width, height = picture.size
    is_progressive = picture.info.get("progressive") or picture.info.get("progression")
    if is_jpeg and is_progressive and width * height * len(picture.getbands()) * 2 > _MAX_COEFFICIENTS:
        raise UnreadableError(MEMORY)
    scale = min(1.0, limit.pixels / max(width, height))
    picture.draft("RGB", (int(width * scale), int(height * scale)))
    for part in (2, 4, 8):
        if picture.width * picture.height * 4 <= _MAX_DECODED:
            break
        picture.draft("RGB", (width // part, height // part))
    _check_pixels(picture)


def _check_pixels(picture: "Image.Image") -> None:
    if picture.width * picture.height > _MAX_PIXELS:
        raise UnreadableError(TOO_LARGE, f"{_MAX_PIXELS:,} pixels")
    wide = 1 if picture.mode in ("1", "L", "P") else 4
    if picture.width * picture.height * wide > _MAX_DECODED:
        raise UnreadableError(MEMORY)


def _encode_within(picture: "Image.Image", limit: SizeLimit) -> EncodedPicture:
    """Return the first frame, upright, in the largest form that is within the limit."""
    from PIL import Image, ImageOps

    side = min(max(picture.size), limit.pixels)
    whole = _reduce_pixels(picture, limit.pixels)
    whole = ImageOps.exif_transpose(whole)
    whole.info.clear()  # comments and the like, which would be written again
    start = max(whole.size)
    while True:
        share = min(1.0, side / start)
        size = (max(1, int(whole.width * share)), max(1, int(whole.height * share)))
        shrunk = whole if size == whole.size else whole.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
        for media_type, raw in _encode_forms(shrunk):
            if len(raw) * 4 // 3 + 4 <= limit.bytes:
                return EncodedPicture(media_type, raw, shrunk.size, whole.size)
        if max(size) <= _MIN_SIDE:
            raise UnreadableError(TOO_LARGE, f"{limit.bytes >> 10} kB")
        side = int(side * _SHRINK)


def _reduce_pixels(picture: "Image.Image", side: int) -> "Image.Image":
    """Return the picture in plain colours, and of a size of which a copy has room."""
    mode = "RGBA" if picture.mode in _SEE_THROUGH or "transparency" in picture.info else "RGB"
    orientation = picture.getexif().get(_ORIENTATION, 1)
    is_large = picture.width * picture.height * 4 > _MAX_DECODED // 3
    if is_large and picture.format == "AVIF" and hasattr(picture, "_decoder"):
        # What Pillow would copy a second time as a whole.
        pixels: bytes = picture._decoder.get_frame(0)[0]  # noqa: SLF001
        whole = _reduce_rows(picture.mode, picture.size, pixels, len(picture.getbands()) * picture.width, side)
    elif is_large:
        picture.load()
        whole = _join_strips(
            picture.size, mode, side, lambda top, bottom: picture.crop((0, top, picture.width, bottom))
        )
        picture.close()  # its pixels are not needed beside the smaller ones
    else:
        whole = picture.convert(mode) if picture.mode != mode else picture
    if orientation != 1:
        whole.getexif()[_ORIENTATION] = orientation
    return whole


def _reduce_rows(mode: str, size: tuple[int, int], data: bytes | memoryview, stride: int, side: int) -> "Image.Image":
    """Return the picture that these rows of pixels are, not much larger than a side."""
    from PIL import Image

    def take_strip(top: int, bottom: int) -> "Image.Image":
        part = bytes(data[top * stride : bottom * stride])
        return Image.frombuffer(mode, (size[0], bottom - top), part, "raw", mode, stride, 1)

    return _join_strips(size, "RGBA" if mode in _SEE_THROUGH else "RGB", side, take_strip)


def _join_strips(
    size: tuple[int, int], mode: str, side: int, take_strip: "Callable[[int, int], Image.Image]"
) -> "Image.Image":
    """Return a picture made of strips, each converted and made smaller by a whole number."""
    from PIL import Image

    width, height = size
    factor = max(1, max(size) // side)
    if -(-width // factor) * -(-height // factor) * 4 > _MAX_DECODED // 2:
        raise UnreadableError(MEMORY)
    whole = Image.new(mode, (-(-width // factor), -(-height // factor)))
    for top in range(0, height, _STRIP_ROWS * factor):
        strip = take_strip(top, min(top + _STRIP_ROWS * factor, height))
        plain = strip if strip.mode == mode else strip.convert(mode)
        whole.paste(plain if factor == 1 else plain.reduce(factor), (0, top // factor))
    return whole


def _encode_forms(picture: "Image.Image") -> list[tuple[str, bytes]]:
    """Return the picture in the forms worth trying: PNG where it can be seen through, JPEG on white otherwise."""
    from PIL import Image

    forms: list[tuple[str, bytes]] = []
    if picture.mode == "RGBA":
        forms.append(("image/png", _save(picture, "PNG")))
        ground = Image.new("RGB", picture.size, "white")
        ground.paste(picture, mask=picture.getchannel("A"))
        picture = ground
    forms.append(("image/jpeg", _save(picture, "JPEG")))
    return forms


def encode_pixels(size: tuple[int, int], mode: str, pixels: bytes, limit: SizeLimit) -> EncodedPicture:
    """Return pixels as a picture within the limit. Raises UnreadableError."""
    try:
        from PIL import Image
    except ImportError as error:
        raise import_failure(error, EXTRA) from None
    return _encode_within(Image.frombuffer(mode, size, pixels, "raw", mode, 0, 1), limit)


def _save(picture: "Image.Image", form: str) -> bytes:
    out = io.BytesIO()
    if form == "PNG":
        picture.save(out, form)
    else:
        picture.save(out, form, quality=_JPEG_QUALITY)
    return out.getvalue()
