"""Temporary folders that do not slow each other down on ext4: `move_temporary_folders`, `spread_folders`.

An ext4 without a journal gives no inode away that became free a moment ago: to make a file it looks through all of
those in the group of its folder. A test removes thousands of files, and the next one, whose folder lies in the same
group, pays for that with every file that it makes: a third of all CPU of the tests was spent there. The flag `T` of a
folder (chattr(1)) says that the folders in it have nothing to do with each other, so each gets a group of its own.
Everything else about them is as before, and other file systems do not know the flag.
"""

import array
import contextlib
import fcntl
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
_TOP_FOLDER = 0x00020000


def spread_folders(folder: Path) -> bool:
    """Have the file system keep the folders that are made in a folder apart; return whether it does."""
    if sys.platform != "linux":
        return False
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            flags = array.array("l", [0])
            fcntl.ioctl(handle, _GET_FLAGS, flags)
            flags[0] |= _TOP_FOLDER
            fcntl.ioctl(handle, _SET_FLAGS, flags)
            return True
        finally:
            os.close(handle)
    return False


def move_temporary_folders() -> Path | None:
    """Make a folder for the temporary files of this run whose folders are kept apart; None where that cannot be had.

    The workers of pytest-xdist inherit it. It has a short name, since sockets lie in it, and is as open as the folder
    around it.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return None
    around = Path(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="h-", dir=around))
    if not spread_folders(folder):
        folder.rmdir()
        return None
    folder.chmod(stat.S_IMODE(around.stat().st_mode))
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(around))  # pytest's own stay, to be looked at after a failure
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    return folder


def remove_temporary_folder(folder: Path) -> None:
    """Remove the folder, and what broken off tests have left in it."""
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder.parent)
    shutil.rmtree(folder, ignore_errors=True)
