"""Opens files and folders by handle: what was judged is what is opened, whatever is swapped meanwhile.

A path is walked from the root. A link on the way is read, judged, and followed by hand; the folder that is reached is
held open, and all that is done there is done below its handle. The kernel walks a path without links in one call
(openat2(2)); where it cannot, the names are opened one by one.
"""

import contextlib
import ctypes
import errno
import functools
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

Judge = Callable[[str], str]
"""Returns what speaks against an absolute path without links; empty when nothing does."""
LinkTarget = Callable[[str, str], str]
"""Returns the absolute path that a link means, by the folder that it lies in and its text."""

FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
LISTED_FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_RDONLY
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 40
_AT_FDCWD = -100
_OPENAT2 = ctypes.c_long(437)
_NO_MAGIC_LINKS, _NO_LINKS = 2, 4
_HOW = struct.pack("=QQQ", FOLDER_FLAGS, 0, _NO_MAGIC_LINKS | _NO_LINKS)
_HOW_SIZE = ctypes.c_size_t(len(_HOW))


class RefusedPathError(Exception):
    """A path is not opened; the message is what speaks against it."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


class HeldPath:
    """A path whose folder is held open: `name` in the folder `handle`, together `real`, without links.

    `missing` are the folders between the two that are not there yet. To be used in a `with`, or closed.
    """

    def __init__(self, handle: int, name: str, real: str, missing: tuple[str, ...] = ()) -> None:
        self.handle = handle
        self.name = name
        self.real = real
        self.missing = missing

    def __enter__(self) -> "HeldPath":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def read_status(self) -> os.stat_result:
        """Return what is there, itself if it is a link. Raises OSError."""
        self._require_folder()
        return os.stat(self.name, dir_fd=self.handle, follow_symlinks=False)

    def open_read(self) -> int:
        """Open the regular file that is there; never wait. Raises OSError, `EINVAL` for what is no regular file."""
        if not stat.S_ISREG(self.read_status().st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", self.real)
        handle = os.open(self.name, _READ_FLAGS, dir_fd=self.handle)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "it is not a regular file", self.real)
        return handle

    def open_folder(self, *, listed: bool = True) -> int:
        """Open the folder that is there, to be listed or only to be gone through. Raises OSError."""
        self._require_folder()
        return os.open(self.name, LISTED_FOLDER_FLAGS if listed else FOLDER_FLAGS, dir_fd=self.handle)

    def list_names(self) -> list[str]:
        """Return the names in the folder that is there. Raises OSError."""
        handle = self.open_folder()
        try:
            return os.listdir(handle)
        finally:
            os.close(handle)

    def make_missing(self) -> None:
        """Make the folders that are missing on the way. A link in the place of one is refused. Raises OSError."""
        for name in self.missing:
            below = make_folder(self.handle, name)
            os.close(self.handle)
            self.handle = below
        self.missing = ()

    def replace(self, data: bytes, mode: int | None = None, *, sync: bool = True, temporary: str = "") -> None:
        """Write the file as a whole; a link of that name is itself replaced. Raises OSError; the old file stands."""
        self.make_missing()
        replace_in_folder(self.handle, self.name, data, mode, sync=sync, temporary=temporary)

    @contextlib.contextmanager
    def replaced(self) -> Iterator[str]:
        """Yield a new name in its folder; what the body puts there takes the place of what is here. Raises OSError."""
        self.make_missing()
        with _replaced(self.handle, self.name) as temporary:
            yield temporary

    def make_new(self, data: bytes, mode: int) -> None:
        """Write a file that must not exist yet. Raises OSError."""
        self._require_folder()
        with os.fdopen(os.open(self.name, NEW_FLAGS, mode, dir_fd=self.handle), "wb") as file:
            file.write(data)

    def rename(self, name: str) -> None:
        """Give what is there another name in its folder. Raises OSError."""
        self._require_folder()
        os.rename(self.name, name, src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def remove(self) -> None:
        """Remove the file or link that is there, or the empty folder. Raises OSError."""
        if stat.S_ISDIR(self.read_status().st_mode):
            os.rmdir(self.name, dir_fd=self.handle)
        else:
            os.unlink(self.name, dir_fd=self.handle)

    def _require_folder(self) -> None:
        if self.missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.real)


def hold_path(
    path: str, judge: Judge | None = None, *, follow: bool = True, link_target: LinkTarget | None = None
) -> HeldPath:
    """Return an absolute path with its folder held open, every link followed; without `follow` not one in its place.

    `judge` is asked about each link on the way, and about where the path leads. Folders may be missing at its end.
    Raises RefusedPathError, and OSError: too many links, a file among the folders, a folder that may not be entered.
    """
    held = _hold_plain_path(path)
    if held is None or (follow and _is_link(held)):
        if held is not None:
            held.close()
        return walk_path(path, judge, follow=follow, link_target=link_target)
    try:
        _check(judge, held.real)
    except BaseException:
        held.close()
        raise
    return held


def find_real_path(path: str) -> str:
    """Return what `os.path.realpath` does. Raises OSError and ValueError as that does.

    Where the kernel meets no link on the way, one call says so: a look at each name takes several times as long.
    """
    folder = _open_plain_folder(path)
    if folder == -errno.ENOENT:
        return path  # before the name that is missing no link was met, and behind it nothing is
    if folder >= 0:
        try:
            if not stat.S_ISLNK(os.lstat(path.rpartition("/")[2], dir_fd=folder).st_mode):
                return path
        except FileNotFoundError:
            return path
        except OSError:
            pass  # what is to be said of it is said by the other way
        finally:
            os.close(folder)
    return os.path.realpath(path)


def walk_path(
    path: str, judge: Judge | None = None, *, follow: bool = True, link_target: LinkTarget | None = None
) -> HeldPath:
    """Do what `hold_path` does, name by name: for links, and where the kernel does not know openat2."""
    walk = _Walk(link_target or _join_target)
    try:
        return walk.go(path, judge, follow=follow)
    finally:
        walk.close()


def open_read(path: str, judge: Judge | None = None, *, link_target: LinkTarget | None = None) -> int:
    """Open the regular file that an absolute path leads to, links followed; never wait.

    Raises RefusedPathError, and OSError.
    """
    with hold_path(path, judge, link_target=link_target) as held:
        return held.open_read()


class _Step(NamedTuple):
    handle: int
    name: str


class _Walk:
    """The folders from the root to where a walk is, all held open."""

    def __init__(self, link_target: LinkTarget) -> None:
        self._link_target = link_target
        self._steps: list[_Step] = []
        self._links_left = _MAX_LINKS

    def close(self) -> None:
        while self._steps:
            os.close(self._steps.pop().handle)

    def go(self, path: str, judge: Judge | None, *, follow: bool) -> HeldPath:
        waiting = self._start(path)
        while waiting:
            name = waiting.pop()
            if name == "..":
                self._step_up()
            if name in ("..", "."):
                continue
            is_last = not waiting
            if is_last and not follow:
                return self._take(name, (), judge)
            try:
                below = os.open(name, FOLDER_FLAGS, dir_fd=self._steps[-1].handle)
            except FileNotFoundError:
                return self._take_missing([name, *reversed(waiting)], judge)
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise
                target = self._read_link(name)
                if target is not None:
                    waiting = self._follow(name, target, waiting, judge)
                elif is_last:
                    return self._take(name, (), judge)
                else:
                    raise
            else:
                if is_last:
                    os.close(below)
                    return self._take(name, (), judge)
                self._steps.append(_Step(below, name))
        return self._take(".", (), judge)

    def _start(self, path: str) -> list[str]:
        """Return the names of an absolute path, the last one first, and go back to the root."""
        self.close()
        self._steps.append(_Step(os.open("/", FOLDER_FLAGS), ""))
        names = [one for one in reversed(path.split("/")) if one not in ("", ".")]
        # A slash at the end says that a folder is meant, as a dot does.
        return [".", *names] if path.endswith(("/", "/.")) else names

    def _step_up(self) -> None:
        if len(self._steps) > 1:
            os.close(self._steps.pop().handle)

    def _folder(self) -> str:
        return "/".join(one.name for one in self._steps) or "/"

    def _read_link(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self._steps[-1].handle)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise

    def _follow(self, name: str, target: str, waiting: list[str], judge: Judge | None) -> list[str]:
        """Return the names that are to be gone through now that a link was met."""
        folder = self._folder()
        _check(judge, os.path.join(folder, name))
        self._links_left -= 1
        if self._links_left < 0:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.path.join(folder, name))
        return [*waiting, *self._start(self._link_target(folder, target))]

    def _take_missing(self, names: list[str], judge: Judge | None) -> HeldPath:
        if ".." in names or "." in names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.path.join(self._folder(), *names))
        return self._take(names[-1], tuple(names[:-1]), judge)

    def _take(self, name: str, missing: tuple[str, ...], judge: Judge | None) -> HeldPath:
        folder = self._folder()
        real = folder if name == "." else os.path.join(folder, *missing, name)
        _check(judge, real)
        return HeldPath(os.dup(self._steps[-1].handle), name, real, missing)


def _join_target(folder: str, target: str) -> str:
    return os.path.join(folder, target)


def _check(judge: Judge | None, real: str) -> None:
    why = judge(real) if judge is not None else ""
    if why:
        raise RefusedPathError(why, real)


def _hold_plain_path(path: str) -> HeldPath | None:
    """Return a path whose folder the kernel reaches without a link; None where there is one, or it cannot say."""
    found = _open_plain_folder(path)
    return HeldPath(found, path.rpartition("/")[2], path) if found >= 0 else None


def _open_plain_folder(path: str) -> int:
    """Return a handle on the folder of a path as `_open_unlinked` does."""
    return _open_unlinked(path.rpartition("/")[0] or "/") if path != "/" and _is_plain(path) else -1


def _is_plain(path: str) -> bool:
    """Return whether a path is absolute, with nothing in it to be left out or gone back."""
    return path[:1] == "/" and path[:2] != "//" and os.path.normpath(path) == path


def _open_unlinked(folder: str) -> int:
    """Return a handle on a folder, by a plain path, which the kernel reaches without a link; where there is one, or
    another error, its number below zero, and -1 where the kernel cannot say.
    """
    if not _has_openat2() or "\0" in folder:  # of a name with a null character the kernel would read a part
        return -1
    found: int = _kernel().syscall(_OPENAT2, _AT_FDCWD, os.fsencode(folder), _HOW, _HOW_SIZE)
    return found if found >= 0 else -(ctypes.get_errno() or 1)


def _is_link(held: HeldPath) -> bool:
    try:
        return stat.S_ISLNK(held.read_status().st_mode)
    except FileNotFoundError:
        return False
    except BaseException:
        held.close()
        raise


@functools.cache
def _kernel() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def _has_openat2() -> bool:
    """Return whether the kernel knows openat2, and no filter takes it away."""
    if sys.platform != "linux":
        return False
    found: int = _kernel().syscall(_OPENAT2, _AT_FDCWD, b"/", _HOW, _HOW_SIZE)
    if found < 0:
        return False
    os.close(found)
    return True


def open_folder(path: str, *, listed: bool = False) -> int:
    """Return a handle on the folder of this absolute path, none of whose names is a link. Raises OSError."""
    if not listed and _is_plain(path) and (found := _open_unlinked(path)) >= 0:
        return found
    with hold_unlinked(path) as held:
        return held.open_folder(listed=listed)


def hold_unlinked(path: str) -> HeldPath:
    """Return an absolute path with its folder held open. Raises NotADirectoryError for a link on the way, and OSError;
    a link in its place is the caller's matter.
    """
    plain = os.path.normpath(path)

    def judge(real: str) -> str:
        if real != plain:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return ""

    return hold_path(path, judge, follow=False)


def make_folder(folder: int, name: str) -> int:
    """Open a folder below an open one, making it unless it exists. A link in its place is refused. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, FOLDER_FLAGS, dir_fd=folder)


def replace_in_folder(
    folder: int, name: str, data: bytes, mode: int | None, *, sync: bool = True, temporary: str = ""
) -> None:
    """Write a file in an open folder atomically; a link of that name is itself replaced. Raises OSError.

    `temporary` is the name of the file until it is whole; a random one unless it is given.
    """
    if mode is None:
        mode = _mode_of(name, folder)
    with _replaced(folder, name, temporary) as new:
        handle = os.open(new, NEW_FLAGS, 0o600, dir_fd=folder)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fchmod(handle, mode)
            if sync:
                os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _replaced(folder: int, name: str, temporary: str = "") -> Iterator[str]:
    """Yield a name for what is to take the place of another at once; after an error nothing of that name stays."""
    temporary = temporary or f".{name[:40]}.{os.urandom(6).hex()}"
    try:
        yield temporary
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _mode_of(name: str, folder: int) -> int:
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISREG(found):
            return found & 0o7777
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
