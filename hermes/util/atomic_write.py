"""Replace a file as a whole: readers see the old content or the new, never a part."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from hermes.util.file_handles import hold_path

PathCheck = Callable[[str], None]


def write_atomic(
    path: Path,
    data: bytes,
    *,
    mode: int | None = None,
    sync: bool = True,
    check: PathCheck | None = None,
    make_folders: bool = False,
) -> None:
    """Write `data` to `path` through a temporary file in the same folder.

    A file that exists keeps its permission bits unless `mode` is given; a new one gets `mode` or the umask's default.
    With `sync` the content reaches the disk before the name does. Raises OSError; the old file is then unchanged.
    `check` gets the real path that is about to be written, and may raise: the folder is held open by then, so that a
    link that is swapped afterwards has no effect. With `make_folders`, missing folders are made.
    """
    try:
        with hold_path(os.path.join(os.getcwd(), path)) as held:
            if held.missing and not make_folders:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            if check is not None:
                check(held.real)
            held.replace(data, mode, sync=sync)
    except OSError as error:
        error.filename = os.fspath(path)  # a write through a handle names none, or the temporary file
        raise


def sync_folder(folder: Path) -> None:
    """Flush renames in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
