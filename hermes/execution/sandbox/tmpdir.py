"""What a session in a sandbox has of its own on this machine: its temporary files, and empty things to hide others."""

import asyncio
import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Sequence

from hermes.core.errors import ToolError
from hermes.execution.sandbox.policy import Kind, Layout

_CACHES = {"XDG_CACHE_HOME": "cache", "npm_config_cache": "cache/npm", "YARN_CACHE_FOLDER": "cache/yarn"}
_PATIENCE = 20.0
_PREFIX, _LOCK = "hermes-", "lock"
_AGE = 300.0
"""Seconds before a room can be one that was left: one that is being made has no lock yet."""
_MOST = 20
"""Rooms of others that one session removes."""


class Room:
    """A private folder, made at once and removed by `close`. `private` are the folders that it stands in for.

    Sockets of ours, and what hides others, lie beside the folders that commands see, out of their reach.
    """

    def __init__(self, private: Sequence[str], parent: str | None = None) -> None:
        try:
            self.root = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            self._lock = os.open(f"{self.root}/{_LOCK}", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self.stands_for: dict[str, str] = {}
            for number, path in enumerate(private):
                self.stands_for[path] = f"{self.root}/tmp{number or ''}"  # noqa: S108
            self.tmp = f"{self.root}/tmp"  # noqa: S108
            for folder in dict.fromkeys((self.tmp, *self.stands_for.values())):
                os.mkdir(folder, 0o700)
                os.chmod(folder, 0o1777)  # noqa: S103 - nobody else gets to it through the private folder above
            self.nothing = f"{self.root}/nothing"
            os.mkdir(self.nothing, 0)
            self.no_file = f"{self.root}/no_file"
            os.close(os.open(self.no_file, os.O_CREAT | os.O_EXCL, 0))
        except OSError as error:
            raise ToolError(f"No folder for the sandbox's temporary files could be made: {error}.") from None

    def outside(self, path: str, layout: Layout) -> str:
        """Where a path of a command's lies on this machine: its /tmp is in the session's own folder."""
        plain = os.path.normpath(path)
        for inside, folder in self.stands_for.items():
            if (plain == inside or plain.startswith(inside + "/")) and layout.kind(plain) is Kind.PRIVATE:
                return folder + plain[len(inside) :]
        return path

    def inside(self, path: str) -> str:
        """How a command names a path of this machine."""
        for inside, folder in self.stands_for.items():
            if path == folder or path.startswith(folder + "/"):
                return inside + path[len(folder) :]
        return path

    def left(self, layout: Layout) -> str:
        """A private folder, as commands name it, in which they have left something; empty when there is none.

        Neither caches count nor what is only on the way to something of the layout's.
        """
        way = {one.removeprefix(inside + "/").split("/")[0] for inside in self.stands_for for one in layout.kinds}
        for inside, folder in self.stands_for.items():
            with contextlib.suppress(OSError):
                if not {*os.listdir(folder)} <= {*way, *_CACHES.values()}:
                    return inside
        return ""

    def caches(self, tmp: str) -> dict[str, str]:
        """Variables that lead caches of tools to where they can be written, by the name that commands know it by."""
        return {name: f"{tmp}/{folder}" for name, folder in _CACHES.items()}

    def variables(self, tmp: str) -> dict[str, str]:
        """The same, and those that lead temporary files there, for where /tmp is not the session's own."""
        return {**self.caches(tmp), **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), tmp)}

    async def close(self) -> None:
        """Remove it all; a command may have left trees in it that are too deep for anything but `rm`.

        With it goes what those left that were killed.
        """
        gone = [self.root, *await asyncio.to_thread(abandoned, os.path.dirname(self.root))]
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        for root in gone:
            with contextlib.suppress(OSError):
                os.chmod(f"{root}/nothing", 0o700)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                done = await asyncio.create_subprocess_exec(
                    "/bin/rm",
                    "-rf",
                    "--",
                    *gone,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                )
                await done.wait()


def abandoned(parent: str) -> list[str]:
    """Rooms of ours, some minutes old, whose process has ended without removing them: nobody holds their lock."""
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for one in entries:
            if one.name.startswith(_PREFIX) and one.is_dir(follow_symlinks=False) and _left(one.path):
                found.append(one.path)
            if len(found) == _MOST:
                break
    return found


def _left(root: str) -> bool:
    with contextlib.suppress(OSError):
        about = os.lstat(f"{root}/{_LOCK}")
        if about.st_uid != os.geteuid() or os.lstat(root).st_uid != about.st_uid:
            return False
        if time.time() - about.st_mtime < _AGE:
            return False
        handle = os.open(f"{root}/{_LOCK}", os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(handle)
        return True
    return False


def memory_file(name: str, data: bytes = b"") -> int:
    """A handle on an unnamed file in memory that holds `data`."""
    handle = os.memfd_create(name)
    os.pwrite(handle, data, 0)
    return handle
