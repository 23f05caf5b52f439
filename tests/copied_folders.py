"""Folders that are made once and copied for each test: `fill_folder`.

A repository with two commits is the work of a dozen processes, and a copy of it is a few dozen files.
"""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path


def fill_folder(target: Path, make: Callable[[Path], None]) -> None:
    """Put into a folder, which is there, what a function makes in one; links, modes and times are copied, too."""
    shutil.copytree(_make_once(make), target, symlinks=True, dirs_exist_ok=True)


@cache
def _make_once(make: Callable[[Path], None]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="made-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = folder / "work"
    made.mkdir()
    make(made)
    return made
