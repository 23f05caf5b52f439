"""A store of contents by their digest: compressed files in a folder of the home, written whole, deleted
when unreferenced.
"""

import contextlib
import fcntl
import os
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

_LEVEL = 1
_MAX_SYNCED = 32
"""The contents of one store that are synced before they get their names; later ones rely on the digest
after a power cut.
"""
_TEMPORARY_PREFIX = "new-"


def digest_content(data: bytes) -> str:
    """Return the digest that names a content."""
    from hashlib import blake2b

    return blake2b(data, digest_size=20).hexdigest()


class ObjectStore:
    """A content store in a folder, used from threads. Methods raise OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._objects = root / "objects"
        self._made_folders: set[str] = set()
        self._written = 0
        self.bytes_added = 0
        """The bytes that this process has stored since the last collection."""

    @contextlib.contextmanager
    def block_collection(self) -> Iterator[None]:
        """Block collection in every process while this lasts: a stored content is referenced before it ends."""
        with self._hold_lock(fcntl.LOCK_SH):
            yield

    def put(self, data: bytes) -> str:
        """Store a content and return its digest."""
        digest = digest_content(data)
        folder = self._objects / digest[:2]
        path = folder / digest[2:]
        if path.exists():
            return digest
        if digest[:2] not in self._made_folders:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._made_folders.add(digest[:2])  # folders are never removed
        temporary = folder / f"{_TEMPORARY_PREFIX}{os.urandom(6).hex()}"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                self.bytes_added += file.write(zlib.compress(data, _LEVEL))
                self._written += 1
                if self._written <= _MAX_SYNCED:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        return digest

    def get(self, digest: str) -> bytes | None:
        """Return a content, or None when it is not there, or no longer what it was."""
        try:
            data = zlib.decompress((self._objects / digest[:2] / digest[2:]).read_bytes())
        except (OSError, zlib.error):
            return None
        return data if digest_content(data) == digest else None

    @contextlib.contextmanager
    def try_exclusive(self) -> Iterator[bool]:
        """Keep others from storing contents while this lasts; yield False, at once, when somebody is storing."""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._hold_lock(fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True

    def collect(self, named: Collection[str]) -> int:
        """Delete every content that is not named, while `try_exclusive` holds; return the bytes that are left."""
        left = 0
        for entry in self._list_entries():
            if os.path.basename(os.path.dirname(entry.path)) + entry.name in named:
                left += entry.stat().st_size
            else:
                os.unlink(entry.path)
        return left

    def _list_entries(self) -> Iterator[os.DirEntry[str]]:
        with contextlib.suppress(FileNotFoundError):
            for folder in os.scandir(self._objects):
                yield from os.scandir(folder.path)

    @contextlib.contextmanager
    def _hold_lock(self, how: int) -> Iterator[None]:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, how)
            yield
        finally:
            os.close(handle)
