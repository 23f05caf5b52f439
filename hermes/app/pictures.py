"""Pictures from files, as parts of a message."""

import base64
from pathlib import Path

from hermes.core.errors import UsageError
from hermes.core.messages import PERSON
from hermes.core.parts import ImagePart

LIMIT = 20 << 20
"""Bytes of one picture; providers refuse larger ones."""

_KINDS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def read_picture(file: Path) -> ImagePart:
    """The picture in a file (PNG, JPEG, GIF or WebP, told by its first bytes). Raises UsageError when it is none."""
    try:
        with open(file, "rb") as source:
            data = source.read(LIMIT + 1)
    except OSError as error:
        raise UsageError(f"The picture {file} cannot be read: {error.strerror}.") from None
    if len(data) > LIMIT:
        raise UsageError(f"The picture {file} is larger than 20 MB.", "Make it smaller.")
    kind = next((kind for start, kind in _KINDS if data.startswith(start)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if not kind:
        raise UsageError(f"{file} is not a PNG, JPEG, GIF or WebP picture.")
    return ImagePart(media_type=kind, data=base64.b64encode(data).decode(), provenance=PERSON)
