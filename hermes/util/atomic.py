"""Replace a file as a whole: readers see the old content or the new, never a part."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

Check = Callable[[str], None]


_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


def write_atomic(
    path: Path,
    data: bytes,
    *,
    mode: int | None = None,
    sync: bool = True,
    check: Check | None = None,
    folders: bool = False,
) -> None:
    """Write `data` to `path` through a temporary file in the same folder.

    A file that exists keeps its permission bits unless `mode` is given; a new one gets `mode` or the umask's default.
    With `sync` the content reaches the disk before the name does. Raises OSError; the old file then stands unchanged.
    `check` is told the real path that is about to be written, and raises what it will: the folder is held open by then,
    so that a link that is swapped afterwards leads nowhere else. With `folders` those that are missing are made then.
    """
    target = os.path.realpath(path)
    name = os.path.basename(target)
    with contextlib.ExitStack() as opened:
        folder, missing = _nearest(os.path.dirname(target), many=folders)
        opened.callback(os.close, folder)
        if check is not None:
            there = os.path.normpath(os.path.join(os.path.dirname(target), *[os.pardir] * len(missing)))
            check(os.path.join(place_of(folder) or there, *missing, name))
        for part in missing:
            folder = _made(part, folder)
            opened.callback(os.close, folder)
        replace_in(folder, name, data, mode, sync=sync)


def replace_in(
    folder: int, name: str, data: bytes, mode: int | None, *, sync: bool = True, temporary: str = ""
) -> None:
    """Write a file of a folder that is open, in one go; a link of that name is replaced itself. Raises OSError.

    `temporary` is the name that it has until it is whole; one that nobody uses, unless it is given.
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


def _nearest(folder: str, *, many: bool) -> tuple[int, list[str]]:
    """The folder, held open, or with `many` the nearest above it that exists; and the names that are missing below."""
    missing: list[str] = []
    while True:
        try:
            return os.open(folder, _FOLDER), missing[::-1]
        except FileNotFoundError:
            if not many:
                raise
            folder, name = os.path.split(folder)
            missing.append(name)


def _made(name: str, folder: int) -> int:
    """A folder in the one that is open; made unless it is there. A link in its place is refused."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)


def place_of(handle: int) -> str:
    """The real path of what is open; empty where the system does not say."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return ""


def _mode_of(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder).st_mode & 0o7777
    except FileNotFoundError:
        return 0o666 & ~_umask()


def _umask() -> int:
    """The process's umask; reading it needs setting it, so Linux's status file is preferred."""
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
