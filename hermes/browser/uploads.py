"""Copies of files that are given to forms, in a folder that the browser in its box can read."""

import asyncio
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from hermes.browser.downloads import MAX_BYTES
from hermes.core.errors import BrowserError

UPLOAD_FOLDER = ".uploads"
"""Below the folder of downloads, which the box shows to the browser."""


async def copy_files(folder: Path, paths: Sequence[str]) -> list[str]:
    """Copy files, each into a folder of its own since forms see its name; return where the copies are.

    Raises BrowserError for what cannot be read, or is too large.
    """
    try:
        return await asyncio.to_thread(_copy_all, folder, paths)
    except OSError as error:
        raise BrowserError(f"A file could not be copied for the browser: {error}.") from error


def _copy_all(folder: Path, paths: Sequence[str]) -> list[str]:
    folder.mkdir(mode=0o700, exist_ok=True)
    taken = len(os.listdir(folder))
    copies: list[str] = []
    for number, path in enumerate(paths, taken):
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as source:
            state = os.fstat(source.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_BYTES:
                raise BrowserError(f"{path} is no file that can be uploaded: at most {MAX_BYTES >> 20} MB.")
            own = folder / str(number)
            own.mkdir(mode=0o700)
            copy = own / os.path.basename(path)
            with copy.open("xb") as target:
                shutil.copyfileobj(source, target)
            copies.append(str(copy))
    return copies
