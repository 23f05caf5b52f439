"""Read pictures from files as parts of a message."""

import base64
import errno
import os
from pathlib import Path

from hermes.core.errors import UsageError
from hermes.core.messages import PERSON, ImagePart
from hermes.i18n.messages import N_
from hermes.util.file_handles import open_read

MAX_PICTURE_BYTES = 20 << 20
"""The largest picture in bytes; providers refuse larger ones."""

_SIGNATURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def read_picture(file: Path) -> ImagePart:
    """Read the picture in a file (PNG, JPEG, GIF or WebP, recognized by its first bytes).

    Raises UsageError when it is none.
    """
    try:
        with open(open_read(os.path.abspath(file)), "rb") as source:
            data = source.read(MAX_PICTURE_BYTES + 1)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise UsageError(N_("The picture {file} is not a regular file.", file=file)) from None
        raise UsageError(
            N_("The picture {file} cannot be read: {strerror}.", file=file, strerror=error.strerror)
        ) from None
    if len(data) > MAX_PICTURE_BYTES:
        raise UsageError(N_("The picture {file} is larger than 20 MB.", file=file), "Make it smaller.")
    kind = next((kind for start, kind in _SIGNATURES if data.startswith(start)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if not kind:
        raise UsageError(N_("{file} is not a PNG, JPEG, GIF or WebP picture.", file=file))
    return ImagePart(media_type=kind, data=base64.b64encode(data).decode(), provenance=PERSON)
