"""Replace a file as a whole: readers see the old content or the new, never a part."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

PathCheck = Callable[[str], None]


_FOLDER_FLAGS = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


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
    target = os.path.realpath(path)
    name = os.path.basename(target)
    with contextlib.ExitStack() as opened:
        folder, missing = _open_nearest_folder(os.path.dirname(target), any_level=make_folders)
        opened.callback(os.close, folder)
        if check is not None:
            there = os.path.normpath(os.path.join(os.path.dirname(target), *[os.pardir] * len(missing)))
            check(os.path.join(path_of_handle(folder) or there, *missing, name))
        for part in missing:
            folder = _open_or_make_folder(part, folder)
            opened.callback(os.close, folder)
        replace_in_folder(folder, name, data, mode, sync=sync)


def replace_in_folder(
    folder: int, name: str, data: bytes, mode: int | None, *, sync: bool = True, temporary: str = ""
) -> None:
    """Write a file in an open folder atomically; a link of that name is itself replaced. Raises OSError.

    `temporary` is the name of the file until it is whole; a random one unless it is given.
    """
    if mode is None:
        mode = _mode_of(name, folder)
    temporary = temporary or f".{name[:40]}.{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        temporary = ""
    finally:
        if temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)


def _open_nearest_folder(folder: str, *, any_level: bool) -> tuple[int, list[str]]:
    """Open the folder, or with `any_level` the nearest existing one above it. Return its descriptor and the
    names that are missing below.
    """
    missing: list[str] = []
    while True:
        try:
            return os.open(folder, _FOLDER_FLAGS), missing[::-1]
        except FileNotFoundError:
            if not any_level:
                raise
            folder, name = os.path.split(folder)
            missing.append(name)


def _open_or_make_folder(name: str, folder: int) -> int:
    """Open a folder below an open one, making it unless it exists. A link in its place is refused."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)


def sync_folder(folder: Path) -> None:
    """Flush renames in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def path_of_handle(handle: int) -> str:
    """Return the real path of what is open; empty where the system does not say."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return ""


def _mode_of(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder).st_mode & 0o7777
    except FileNotFoundError:
        return 0o666 & ~_read_umask()


def _read_umask() -> int:
    """Return the process's umask; reading it needs setting it, so Linux's status file is preferred."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    current = os.umask(0o077)
    os.umask(current)
    return current
