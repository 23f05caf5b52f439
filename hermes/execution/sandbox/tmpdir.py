"""A sandboxed session's private folder on this machine: its temporary files, and empty files to hide others with."""

import asyncio
import contextlib
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Sequence

from hermes.core.errors import ToolError
from hermes.execution.layout import AccessLayout, PathAccess

_CACHE_VARIABLES = {"XDG_CACHE_HOME": "cache", "npm_config_cache": "cache/npm", "YARN_CACHE_FOLDER": "cache/yarn"}
_REMOVE_SECONDS = 20.0
_PREFIX, _LOCK = "hermes-", "lock"
_NAME, _MODE = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}"), 0o700
"""As `tempfile.mkdtemp` makes them."""
_MAX_REMOVED = 200
"""The most abandoned folders that are removed at a time."""


class SandboxTmpdir:
    """A private folder, made at once and removed by `close`. `private` are the folders that it stands in for.

    Sockets of ours, and what hides other files, lie beside the folders that commands see, out of their reach.
    """

    def __init__(self, private: Sequence[str], parent: str | None = None) -> None:
        try:
            self.root = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            self._lock = os.open(f"{self.root}/{_LOCK}.new", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            os.rename(f"{self.root}/{_LOCK}.new", f"{self.root}/{_LOCK}")  # so no lock of that name is ever not held
            self.replacements: dict[str, str] = {}
            for number, path in enumerate(private):
                self.replacements[path] = f"{self.root}/tmp{number or ''}"  # noqa: S108
            self.tmp = f"{self.root}/tmp"  # noqa: S108
            for folder in dict.fromkeys((self.tmp, *self.replacements.values())):
                os.mkdir(folder, 0o700)
                os.chmod(folder, 0o1777)  # noqa: S103 - nobody else gets to it through the private folder above
            self.empty_folder = f"{self.root}/nothing"
            os.mkdir(self.empty_folder, 0)
            self.settings_folder = f"{self.root}/settings"
            os.mkdir(self.settings_folder, 0o700)
            self.empty_file = f"{self.root}/no_file"
            os.close(os.open(self.empty_file, os.O_CREAT | os.O_EXCL, 0))
        except OSError as error:
            raise ToolError(f"No folder for the sandbox's temporary files could be made: {error}.") from None

    def to_local_path(self, path: str, layout: AccessLayout) -> str:
        """Return where a path that a command names lies on this machine: its /tmp is in the session's own folder."""
        plain = os.path.normpath(path)
        for inside, folder in self.replacements.items():
            if (plain == inside or plain.startswith(inside + "/")) and layout.access_of(plain) is PathAccess.PRIVATE:
                return folder + plain[len(inside) :]
        return path

    def to_command_path(self, path: str) -> str:
        """Return how a command names a path of this machine."""
        for inside, folder in self.replacements.items():
            if path == folder or path.startswith(folder + "/"):
                return inside + path[len(folder) :]
        return path

    def find_leftovers(self, layout: AccessLayout) -> str:
        """Return a private folder, as commands name it, in which they have left something; empty when there is none.

        Neither caches count nor what is only on the way to something of the layout's.
        """
        way = {
            one.removeprefix(inside + "/").split("/")[0]
            for inside in self.replacements
            for one in layout.access_by_path
        }
        for inside, folder in self.replacements.items():
            with contextlib.suppress(OSError):
                if not {*os.listdir(folder)} <= {*way, *_CACHE_VARIABLES.values()}:
                    return inside
        return ""

    def cache_variables(self, tmp: str) -> dict[str, str]:
        """Return variables that lead caches of tools to a writable folder, by the name that commands know it by."""
        return {name: f"{tmp}/{folder}" for name, folder in _CACHE_VARIABLES.items()}

    def all_variables(self, tmp: str) -> dict[str, str]:
        """Return the cache variables, and those that lead temporary files there, where
        /tmp is not the session's own.
        """
        return {**self.cache_variables(tmp), **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), tmp)}

    async def close(self) -> None:
        """Remove the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        await remove_folders([self.root])


async def remove_folders(roots: Sequence[str]) -> None:
    """Remove such folders; a command may have left trees in them that are too deep for anything but `rm`."""
    for root in roots:
        with contextlib.suppress(OSError):
            os.chmod(f"{root}/nothing", 0o700)
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_REMOVE_SECONDS):
            done = await asyncio.create_subprocess_exec(
                "/bin/rm",
                "-rf",
                "--",
                *roots,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            await done.wait()


def find_abandoned(parent: str = "") -> list[str]:
    """Return folders of ours whose process ended without removing them: nobody holds their lock."""
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(parent or tempfile.gettempdir()) as entries:
        for one in entries:
            if _NAME.fullmatch(one.name) and one.is_dir(follow_symlinks=False) and _is_abandoned(one.path):
                found.append(one.path)
            if len(found) == _MAX_REMOVED:
                break
    return found


def _is_abandoned(root: str) -> bool:
    with contextlib.suppress(OSError):
        about = os.lstat(f"{root}/{_LOCK}")
        folder = os.lstat(root)
        if {about.st_uid, folder.st_uid} != {os.geteuid()} or stat.S_IMODE(folder.st_mode) != _MODE or about.st_size:
            return False  # what a person made, whatever its name
        handle = os.open(f"{root}/{_LOCK}", os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(handle)
        return True
    return False


def create_memory_file(name: str, data: bytes = b"") -> int:
    """Return a handle on an unnamed file in memory that holds `data`."""
    handle = os.memfd_create(name)
    os.pwrite(handle, data, 0)
    return handle
