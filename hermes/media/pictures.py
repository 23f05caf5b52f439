"""Pictures made to fit: decoded by the reader in its box, never in Hermes."""

import os

import msgspec
from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.sandbox.tmpdir import create_memory_file
from hermes.i18n.messages import N_
from hermes.media.worker_process import ReaderAnswer, run_reader, run_reader_here

TAKEN_SIDE = 2_000
"""Pixels of the longer side of a picture that a session takes in.

Vendors look at no more: Anthropic makes larger ones smaller than 1,568 (2,576 for some models) and refuses more than
2,000 where there are many, OpenAI fits them into 2,048, Gemini cuts them into tiles of 768.
"""
TAKEN_BYTES = 5 << 20
"""Bytes of it in base64: the least that a large vendor takes (Anthropic: 5 MB)."""


class FittedPicture(Struct, frozen=True):
    """A picture within a limit. An empty media type: it fits as it is."""

    media_type: str
    size: tuple[int, int]
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


def _read_answer(answer: ReaderAnswer) -> FittedPicture:
    try:
        found = msgspec.json.decode(answer.head, type=FittedPicture)
    except msgspec.MsgspecError:
        raise ToolError(N_("it is damaged: its reader gave no answer that can be used")) from None
    return msgspec.structs.replace(found, data=answer.data)
