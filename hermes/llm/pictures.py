"""Makes pictures smaller for providers that find them, or a whole request, too large.

Each step has a limit of pixels and bytes; the first is the narrowest that large vendors name (8,000 pixels a side and
5 MB: Anthropic's page on vision), each further one about half of it, the last leaves out what is still large. The same
picture gives the same bytes. Pillow (extra `media`) does the work; without it only the last step is left.
"""

import base64
import io
import re
import struct
import warnings
import zlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.core.frame import PICTURE_REWRITES, Rewrite
from hermes.core.messages import ImagePart

if TYPE_CHECKING:
    from PIL import Image


class PictureLimit(Struct, frozen=True):
    """The most pixels of a side, and the most bytes of a picture as it is sent (in base64)."""

    pixels: int
    bytes: int


_LIMITS = (
    PictureLimit(8_000, 5 << 20),
    PictureLimit(4_000, 5 << 19),
    PictureLimit(2_000, 5 << 18),
    PictureLimit(1_000, 5 << 17),
    PictureLimit(0, 32 << 10),
)
PICTURE_STEPS: dict[Rewrite, PictureLimit] = dict(zip(PICTURE_REWRITES, _LIMITS, strict=True))
"""The steps in their order. Pictures over the last one's bytes are left out."""

TOO_LARGE_NOTE = "[A picture stood here ({media_type}); it was too large to send.]"

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
"""What is decoded, whatever a picture is said to be: what vendors take. Of others some start programs (Ghostscript)."""
_MAX_PIXELS = 40_000_000
"""Pixels of the largest picture that is decoded; a JPEG's when it is decoded at an eighth, a quarter or half of its
size. One takes 700 MB of memory, and a few seconds.
"""
_SHRINK = 0.7
_MIN_SIDE = 16
_JPEG_QUALITY = 85
_SAID_PIXELS = re.compile(r"(\d{3,5}) ?(?:pixels|px)")
_SAID_BYTES = re.compile(r"(?:> ?(\d{5,9}) bytes|(\d{1,3}) ?mb\b)")


def find_picture_step(rewrites: Sequence[Rewrite]) -> Rewrite | None:
    """Return the step at which an epoch sends pictures; None where they go out as they are."""
    return next((one for one in rewrites if one in PICTURE_STEPS), None)


def fit_picture(image: ImagePart, step: Rewrite) -> ImagePart | None:
    """Return the picture as it is sent at this step; None when it is left out. One with an address stays."""
    limit = PICTURE_STEPS[step]
    if not image.data:
        return image
    if not limit.pixels:
        return image if len(image.data) <= limit.bytes else None
    found = _shrink_data(image.data, limit)
    if found is None:
        return image if len(image.data) <= limit.bytes else None
    return structs.replace(image, media_type=found[0] or image.media_type, data=found[1])


def choose_picture_step(
    images: Sequence[ImagePart], current: Rewrite | None, complaint: str, *, halve: bool
) -> Rewrite | None:
    """Return the next step at which any of these pictures is sent in another form, or None when there is none.

    `complaint` is what the provider said: the limits that it names are kept. With `halve` all pictures together take
    half of the bytes that they take now. Decodes and encodes pictures: not for the event loop.
    """
    now = _fit_all(images, current)
    for step in _list_further_steps(current):
        then = _fit_all(images, step)
        enough = _sum_bytes(then) <= _sum_bytes(now) // 2 if halve else _keeps_said_limits(step, complaint)
        if then != now and (enough or step is Rewrite.NO_LARGE_IMAGES):
            return step
    return None


def _list_further_steps(current: Rewrite | None) -> Sequence[Rewrite]:
    """Return the steps behind the current one; only the last where nothing can be made smaller."""
    rest = PICTURE_REWRITES[PICTURE_REWRITES.index(current) + 1 :] if current is not None else PICTURE_REWRITES
    return rest if find_spec("PIL") is not None else rest[-1:]


def _fit_all(images: Sequence[ImagePart], step: Rewrite | None) -> list[ImagePart | None]:
    return [image if step is None else fit_picture(image, step) for image in images]


def _sum_bytes(images: Sequence[ImagePart | None]) -> int:
    return sum(len(image.data) for image in images if image is not None)


def _keeps_said_limits(step: Rewrite, complaint: str) -> bool:
    """Return whether a step is within the pixels and bytes that a provider names."""
    limit, said = PICTURE_STEPS[step], complaint.lower().replace(",", "")
    pixels = [int(found) for found in _SAID_PIXELS.findall(said)]
    sizes = [int(exact) if exact else int(mb) << 20 for exact, mb in _SAID_BYTES.findall(said)]
    return limit.pixels <= min(pixels, default=limit.pixels) and limit.bytes <= min(sizes, default=limit.bytes)


_DAMAGED = (
    *(OSError, ValueError, ArithmeticError, SyntaxError, EOFError, LookupError, TypeError, AttributeError),
    *(RuntimeError, AssertionError, MemoryError, struct.error, zlib.error),
)
"""What Pillow raises for what is no picture, or a damaged one."""


@lru_cache(maxsize=16)
def _shrink_data(data: str, limit: PictureLimit) -> tuple[str, str] | None:
    """Return the media type (empty: unchanged) and base64 data of a picture within the limit; None when it cannot be
    read or made so here.
    """
    try:
        from PIL import Image
    except ImportError:
        return None
    # Its own limit only warns, like what is wrong with a file, and on the terminal: ours holds below.
    warnings.simplefilter("ignore", Image.DecompressionBombWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    try:
        raw = base64.b64decode(data, validate=True)
        with Image.open(io.BytesIO(raw), formats=_FORMATS) as picture:
            fits = max(picture.size) <= limit.pixels and len(data) <= limit.bytes
            if fits and getattr(picture, "n_frames", 1) == 1:
                return "", data
            scale = min(1.0, limit.pixels / max(picture.size))
            picture.draft("RGB", (int(picture.width * scale), int(picture.height * scale)))
            return _encode_within(picture, limit) if picture.width * picture.height <= _MAX_PIXELS else None
    except (*_DAMAGED, Image.DecompressionBombError):
        return None


def _encode_within(picture: "Image.Image", limit: PictureLimit) -> tuple[str, str] | None:
    """Return the first frame, upright, in the largest form that is within the limit."""
    from PIL import Image, ImageOps

    whole = ImageOps.exif_transpose(picture)
    see_through = whole.mode in ("RGBA", "LA", "PA") or "transparency" in whole.info
    whole = whole.convert("RGBA" if see_through else "RGB")
    scale = min(1.0, limit.pixels / max(whole.size))
    while True:
        size = (max(1, int(whole.width * scale)), max(1, int(whole.height * scale)))
        shrunk = whole if size == whole.size else whole.resize(size, Image.Resampling.LANCZOS)
        for media_type, raw in _encode_forms(shrunk):
            if len(raw) * 4 // 3 + 4 <= limit.bytes:
                return media_type, base64.b64encode(raw).decode()
        if max(size) <= _MIN_SIDE:
            return None
        scale *= _SHRINK


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


def _save(picture: "Image.Image", form: str) -> bytes:
    out = io.BytesIO()
    picture.save(out, form, quality=_JPEG_QUALITY)
    return out.getvalue()
