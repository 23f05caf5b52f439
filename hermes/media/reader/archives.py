"""Zip archives of others, with limits on what they unpack to; the containers of most documents."""

import io
import struct
import zipfile
import zlib
from typing import IO

from hermes.media.reader.failures import DAMAGED, ENCRYPTED, TOO_LARGE, UnreadableError

MAX_UNPACKED = 256 << 20
"""Bytes that are unpacked of one archive, all parts together."""
_MAX_ENTRIES = 20_000
_MAX_RATIO = 400
_RATIO_FROM = 4 << 20
"""Bytes of a part from which on its ratio counts: a short text may repeat itself as often as it likes."""
_MAX_WHOLE = 24 << 20
"""Bytes of a part that is read as a whole."""
_ENCRYPTED_FLAG = 1
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, struct.error, ValueError, KeyError)


class Archive:
    """An open archive that counts what it unpacks."""

    def __init__(self, file: IO[bytes]) -> None:
        try:
            self._zip = zipfile.ZipFile(file)
        except zipfile.BadZipFile:
            raise UnreadableError(DAMAGED, "its end is missing, or it is of another kind") from None
        except (*_BROKEN, NotImplementedError, IndexError) as error:
            raise UnreadableError(DAMAGED, str(error) or type(error).__name__) from None
        self.entries = self._zip.infolist()
        if len(self.entries) > _MAX_ENTRIES:
            raise UnreadableError(TOO_LARGE, f"{_MAX_ENTRIES:,} files")
        self._by_name = {one.filename.lstrip("/"): one for one in self.entries}
        self._left = MAX_UNPACKED

    def has_part(self, name: str) -> bool:
        """Return whether there is a part of this name."""
        return name in self._by_name

    def list_parts(self, start: str) -> list[str]:
        """Return the names of the parts that begin so, in the archive's order."""
        return [name for name in self._by_name if name.startswith(start)]

    def open_part(self, name: str) -> "Part":
        """Open a part to be read as a stream. Raises UnreadableError."""
        info = self._by_name.get(name)
        if info is None:
            raise UnreadableError(DAMAGED, f"it has no {name[:100]}")
        if info.flag_bits & _ENCRYPTED_FLAG:
            raise UnreadableError(ENCRYPTED)
        # What is only read in part may be of any size: what is unpacked is counted.
        if info.file_size > _RATIO_FROM and info.file_size > _MAX_RATIO * max(info.compress_size, 1):
            raise UnreadableError(TOO_LARGE, f"{MAX_UNPACKED >> 20} MB")
        try:
            return Part(self, self._zip.open(info))
        except (*_BROKEN, RuntimeError, NotImplementedError) as error:
            raise UnreadableError(DAMAGED, str(error)) from None

    def read_part(self, name: str, limit: int = _MAX_WHOLE) -> bytes:
        """Return a part as a whole; empty where it is absent. Raises UnreadableError."""
        if name not in self._by_name:
            return b""
        part = self.open_part(name)
        found = io.BytesIO()
        while chunk := part.read(1 << 16):
            found.write(chunk)
            if found.tell() > limit:
                raise UnreadableError(TOO_LARGE, f"{limit >> 20} MB")
        return found.getvalue()

    def count_bytes(self, size: int) -> None:
        """Count bytes that were unpacked. Raises UnreadableError where they are too many."""
        self._left -= size
        if self._left < 0:
            raise UnreadableError(TOO_LARGE, f"{MAX_UNPACKED >> 20} MB")


class Part:
    """A part of an archive as a stream: what is broken in it is told by name."""

    def __init__(self, archive: Archive, stream: IO[bytes]) -> None:
        self._archive = archive
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Return the next bytes; empty at the end. Raises UnreadableError."""
        try:
            data = self._stream.read(size)
        except (*_BROKEN, NotImplementedError) as error:
            raise UnreadableError(DAMAGED, str(error) or type(error).__name__) from None
        self._archive.count_bytes(len(data))
        return data
