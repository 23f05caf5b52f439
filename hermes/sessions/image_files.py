"""Pictures from files, as parts of a message."""

import base64
import os
import stat
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
        # Opening a pipe or a terminal would wait for somebody to write.
        with open(file, "rb", opener=_without_waiting) as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise UsageError(f"The picture {file} is not a regular file.")
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


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
