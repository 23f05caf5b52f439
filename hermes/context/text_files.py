"""Reads text files that go into a prompt: within limits, and only regular files of text."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from hermes.util.text import clean_surrogates, truncate_middle

_BYTES_PER_CHARACTER = 4
"""The most bytes of a character in UTF-8."""


class NotTextError(Exception):
    """The file cannot be used as text; the message says why, for a person."""


def read_text(path: str | Path, limit: int) -> str:
    """Return the file's text, stripped; over `limit` characters its beginning and end, with a note on what is left out.

    However large the file is, no more than its two ends is read. Raises `FileNotFoundError` where there is none, and
    `NotTextError`.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        raise NotTextError(f"cannot be read: {error.strerror}") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise NotTextError("is not a regular file")
    with open(handle, "rb") as file:
        try:
            raw, left_out = _read_ends(file, status.st_size, limit * _BYTES_PER_CHARACTER)
        except OSError as error:
            raise NotTextError(f"cannot be read: {error.strerror}") from None
    if any(b"\0" in piece for piece in raw):
        raise NotTextError("is not a text file")
    pieces = [clean_surrogates(piece.decode("utf-8", errors="replace")).lstrip("\ufeff") for piece in raw]
    if len(pieces) == 1:
        return truncate_middle(pieces[0].strip(), limit)
    head = int(limit * 0.7)
    begin, end = pieces[0].strip()[:head], pieces[1].strip()[-(limit - head) :]
    return f"{begin}\n[... about {left_out:,} bytes left out ...]\n{end}"


def _read_ends(file: BinaryIO, size: int, most: int) -> tuple[list[bytes], int]:
    """Return the whole content, or its two ends and how much is left out."""
    if size <= 2 * most:
        return [file.read(2 * most)], 0
    begin = file.read(most)
    file.seek(size - most)
    return [begin, file.read(most)], size - most
