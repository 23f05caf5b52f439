"""Judges what a search engine prints by the files themselves.

An engine walks by names, and a name may have led it elsewhere for a moment. So each file is opened once and judged as
`read_file` judges it, what is shown is read from what is open, and a record that is not found there is dropped.
"""

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.safety.paths import Places
from hermes.tools.files import detect_encoding, open_regular
from hermes.util.atomic_write import path_of_handle

_LINE_LENGTH = 4_096
"""Characters (bytes, but in UTF-16) of a line that are read; the rest of it is skipped."""
_CUT = " [... "
"""How ripgrep ends a line that it shortened."""
_SHOWN = 500
_HEAD = 8_192
_LONGEST_NUMBER = 19
"""Digits of the number of a line; more is no such number."""
_BY_NAME = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
"""How a file is opened that is not read."""


class SearchRow(Struct, frozen=True):
    """One record of an engine: a path, and a line of it (`12:text` matched, `12-text` is beside a match)."""

    path: str
    rest: str = ""

    @property
    def number(self) -> str:
        """The number of the line; empty where there is none."""
        return self.rest[: len(self.rest) - len(self.rest.lstrip("0123456789"))]

    @property
    def is_result(self) -> bool:
        """Whether it is one of the results that are limited, not a line around one."""
        return self.rest[len(self.number) :][:1] != "-"


class HitReader:
    """Checks the records of one search. Used by one thread at a time.

    `mode` is `content`, `files_only`, `count` or `list`; `is_wanted` says which paths, relative to `root`, count.
    """

    def __init__(self, root: Path, mode: str, places: Places, is_wanted: Callable[[str], bool]) -> None:
        self._root = root
        self._is_single = root.is_file()
        self._mode = mode
        self._places = places
        self._is_wanted = is_wanted
        self._path = ""
        self._file: _NumberedLines | None = None
        self._matches = 0
        self._is_apart = False

    def check_rows(self, rows: Sequence[SearchRow | None]) -> list[SearchRow | None]:
        """Return what is to be shown of some records, which come in the engine's order."""
        found: list[SearchRow | None] = []
        for row in rows:
            if row is None:
                self._is_apart = True
                continue
            if self._mode == "list":
                found += [row] if self._is_listed(row.path) else []
                continue
            if row.path != self._path:
                found += self.finish()
                self._open_file(row.path)
            if self._file is None:
                continue
            number = row.number
            mark = len(number) + 1
            text = self._file.confirm(number, row.rest[mark:])
            if text is None:
                continue
            self._matches += row.rest[mark - 1] != "-"
            if self._mode == "content":
                found += [None] if self._is_apart else []
                found.append(SearchRow(row.path, row.rest[:mark] + text))
                self._is_apart = False
        return found

    def finish(self) -> Iterator[SearchRow]:
        """Yield what is shown of the last file once all of its records are known, and close it."""
        if self._matches and self._mode != "content":
            yield SearchRow(self._path, str(self._matches) if self._mode == "count" else "")
        self._matches = 0
        self.close()

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open_file(self, path: str) -> None:
        self._path = path
        if not self._is_wanted(path):
            return
        place = self._locate(path)
        with contextlib.suppress(ToolError):
            file = open_regular(place, path, self._places)
            if self._is_refused(place, file.fileno()):
                file.close()
            else:
                self._file = _NumberedLines(file)

    def _is_listed(self, path: str) -> bool:
        from hermes.safety.path_policy import open_file_refusal

        place = self._locate(path)
        try:
            handle = os.open(place, _BY_NAME | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not open_file_refusal(handle, self._places) and not self._is_refused(place, handle)
        finally:
            os.close(handle)

    def _locate(self, path: str) -> Path:
        return self._root if self._is_single else self._root / path

    def _is_refused(self, place: Path, handle: int) -> bool:
        """Return whether what is open is refused by its other name: by its real one it has been judged."""
        from hermes.safety.paths import read_refusal

        name = os.path.normpath(place)
        return name != path_of_handle(handle) and bool(read_refusal(name, self._places))


class _NumberedLines:
    """The lines of an open file, asked for in their order."""

    def __init__(self, file: BinaryIO) -> None:
        head = file.read(_HEAD)
        file.seek(0)
        encoding = detect_encoding(head)[0]
        self._file: BinaryIO | TextIO = file
        if encoding.startswith("utf-16"):
            self._file = io.TextIOWrapper(file, encoding, errors="replace", newline="\n")
        self._number = 0
        self._text = ""

    def confirm(self, number: str, printed: str) -> str | None:
        """Return the line of that number; None when it is another one than was printed, or there is none."""
        if not 0 < len(number) < _LONGEST_NUMBER:
            return None
        text = self._read_line(int(number))
        if text is None:
            return None
        shown = text[:_SHOWN]
        if printed in (text, shown):
            return shown
        printed = printed.removeprefix("\ufeff")
        cut = printed.rpartition(_CUT)[0]
        is_cut = cut == text or (len(cut) >= _SHOWN and text.startswith(cut))
        return shown if printed in (text, shown) or (cut and is_cut) else None

    def close(self) -> None:
        self._file.close()

    def _read_line(self, number: int) -> str | None:
        try:
            while self._number < number:
                line = part = self._file.readline(_LINE_LENGTH)
                if not line:
                    return None
                while len(part) == _LINE_LENGTH and part[-1:] not in ("\n", b"\n"):
                    part = self._file.readline(_LINE_LENGTH)
                self._number += 1
                if self._number == number:
                    text = line if isinstance(line, str) else line.decode("utf-8", "replace")
                    self._text = text.removesuffix("\n").rstrip("\r").removeprefix("\ufeff")
        except (OSError, ValueError):
            return None
        return self._text if self._number == number else None
