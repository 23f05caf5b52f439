"""Pictures made to fit: decoded by the reader in its box, never in Hermes."""

import base64
import os
from collections.abc import Sequence

import msgspec
from msgspec import Struct, structs

from hermes.core.errors import ToolError
from hermes.core.messages import PROGRAM, ImagePart, TextPart
from hermes.execution.sandbox.tmpdir import create_memory_file
from hermes.i18n.messages import N_
from hermes.media.reader.picture_bytes import GIF, JPEG, PNG, WEBP, sniff_picture
from hermes.media.worker_process import ReaderAnswer, run_reader, run_reader_here

TAKEN_SIDE = 2_000
"""Pixels of the longer side of a picture that a session takes in.

Vendors look at no more: Anthropic makes larger ones smaller than 1,568 (2,576 for some models) and refuses more than
2,000 where there are many, OpenAI fits them into 2,048, Gemini cuts them into tiles of 768.
"""
TAKEN_BYTES = 5 << 20
"""Bytes of it in base64: the least that a large vendor takes (Anthropic: 5 MB)."""


_TAKEN_AS_IT_IS = (PNG, JPEG, GIF, WEBP)


class FittedPicture(Struct, frozen=True):
    """A picture within a limit. An empty media type: it fits as it is."""

    media_type: str
    size: tuple[int, int]
    original: tuple[int, int]
    """The size that the file has."""
    data: bytes = b""


async def take_picture(file: int) -> FittedPicture:
    """Return the picture of an open handle as a session takes it in: upright, its first frame, without metadata.

    Raises ToolError with the reason as the end of a sentence.
    """
    request: dict[str, object] = {"want": "clean picture", "pixels": TAKEN_SIDE, "bytes": TAKEN_BYTES}
    return _read_answer(await run_reader(file, request))


def fit_picture_data(data: bytes, pixels: int, size: int) -> FittedPicture:
    """Return a picture within these pixels a side and bytes in base64. Waits for the reader: not for the event loop.

    Raises ToolError with the reason as the end of a sentence.
    """
    file = create_memory_file("picture", data)
    try:
        return _read_answer(run_reader_here(file, {"want": "picture", "pixels": pixels, "bytes": size}))
    finally:
        os.close(file)


async def take_images(images: Sequence[ImagePart]) -> list[ImagePart | TextPart]:
    """Return pictures as a session takes them in; words stand for one that cannot be shown. One with an address stays.

    Where no reader can be had, what every vendor takes stays as it is, as long as it is small enough.
    """
    return [await _take_image(image) if image.data else image for image in images]


async def _take_image(image: ImagePart) -> ImagePart | TextPart:
    try:
        data = base64.b64decode(image.data, validate=True)
        if not sniff_picture(data[:64]):
            return image  # of a kind that nothing here knows: the provider judges
        file = create_memory_file("picture", data)
    except (ValueError, OSError):
        return image
    try:
        found = await take_picture(file)
    except ToolError as error:
        if can_stay(data[:64], len(data)) and not error.message.startswith("it is damaged"):
            return image
        return TextPart(text=f"[A picture came along that cannot be shown: {error.message}.]", provenance=PROGRAM)
    finally:
        os.close(file)
    return structs.replace(image, media_type=found.media_type, data=base64.b64encode(found.data).decode())


def can_stay(head: bytes, size: int) -> bool:
    """Return whether vendors take a picture as it is, by its first bytes and its size in bytes."""
    return sniff_picture(head) in _TAKEN_AS_IT_IS and size * 4 // 3 + 4 <= TAKEN_BYTES


def _read_answer(answer: ReaderAnswer) -> FittedPicture:
    try:
        found = msgspec.json.decode(answer.head, type=FittedPicture)
    except msgspec.MsgspecError:
        raise ToolError(N_("it is damaged: its reader gave no answer that can be used")) from None
    return structs.replace(found, data=answer.data)
