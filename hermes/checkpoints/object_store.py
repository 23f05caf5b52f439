"""Contents by their digest: compressed files in a folder of the home, written whole, deleted when nobody names them."""

import contextlib
import fcntl
import os
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

_LEVEL = 1
_SURE = 32
"""Contents of one store that reach the disk before their names do; beyond, a digest tells what a power cut spoiled."""
_TEMPORARY = "new-"


def digest_of(data: bytes) -> str:
    """The name of a content."""
    from hashlib import blake2b

    return blake2b(data, digest_size=20).hexdigest()


class ObjectStore:
    """The folder, used from threads. Methods raise OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._objects = root / "objects"
        self._made: set[str] = set()
        self._written = 0
        self.grown = 0
        """Bytes that this process has put since it last looked at all."""

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """While this lasts nothing is collected, in any process: what is put is named by somebody before it ends."""
        with self._locked(fcntl.LOCK_SH):
            yield

    def put(self, data: bytes) -> str:
        """Keep a content; its digest."""
        digest = digest_of(data)
        folder = self._objects / digest[:2]
        path = folder / digest[2:]
        if path.exists():
            return digest
        if digest[:2] not in self._made:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._made.add(digest[:2])  # folders are never removed
        temporary = folder / f"{_TEMPORARY}{os.urandom(6).hex()}"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                self.grown += file.write(zlib.compress(data, _LEVEL))
                self._written += 1
                if self._written <= _SURE:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        return digest

    def get(self, digest: str) -> bytes | None:
        """A content; None when it is not there, or no longer what it was."""
        try:
            data = zlib.decompress((self._objects / digest[:2] / digest[2:]).read_bytes())
        except (OSError, zlib.error):
            return None
        return data if digest_of(data) == digest else None

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """While this lasts nobody puts contents; False, at once, when somebody does."""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True

    def collect(self, named: Collection[str]) -> int:
        """Delete every content that is not named, for whoever is `alone`; the bytes that are left."""
        left = 0
        for entry in self._entries():
            if os.path.basename(os.path.dirname(entry.path)) + entry.name in named:
                left += entry.stat().st_size
            else:
                os.unlink(entry.path)
        return left

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        with contextlib.suppress(FileNotFoundError):
            for folder in os.scandir(self._objects):
                yield from os.scandir(folder.path)

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, how)
            yield
        finally:
            os.close(handle)
