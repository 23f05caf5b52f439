"""Makes pictures smaller for providers that find them, or a whole request, too large.

Each step has a limit of pixels and bytes; the first is the narrowest that large vendors name (8,000 pixels a side and
5 MB: Anthropic's page on vision), each further one about half of it, the last leaves out what is still large. The same
picture gives the same bytes. The reader of pictures (`hermes/media/`, extra `media`) does the work, in a process of its
own; without it only the last step is left.
"""

import base64
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec

from msgspec import Struct, structs

from hermes.core.errors import HermesError
from hermes.core.frame import PICTURE_REWRITES, Rewrite
from hermes.core.messages import ImagePart


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


@lru_cache(maxsize=16)
def _shrink_data(data: str, limit: PictureLimit) -> tuple[str, str] | None:
    """Return the media type (empty: unchanged) and base64 data of a picture within the limit; None when it cannot be
    read or made so here. It is decoded by a process of its own, for which this waits.
    """
    from hermes.media.pictures import fit_picture_data

    try:
        raw = base64.b64decode(data, validate=True)
        found = fit_picture_data(raw, limit.pixels, limit.bytes)
    except (ValueError, HermesError):
        return None
    return (found.media_type, base64.b64encode(found.data).decode()) if found.media_type else ("", data)
