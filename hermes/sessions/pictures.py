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


def read_picture(file: Path) -> ImagePart:
    """Read the picture in a file (PNG, JPEG, GIF, WebP, HEIC, AVIF, TIFF or BMP, recognized by its first bytes).

    It is made to fit when its message joins a session. Raises UsageError when it is none.
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
    from hermes.media.reader.picture_bytes import sniff_picture

    kind = sniff_picture(data[:64])
    if not kind:
        raise UsageError(N_("{file} is not a PNG, JPEG, GIF, WebP, HEIC, AVIF, TIFF or BMP picture.", file=file))
    return ImagePart(media_type=f"image/{kind.lower()}", data=base64.b64encode(data).decode(), provenance=PERSON)
