"""Reads the log files of a home as entries, and follows them while they grow and are rotated."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from hermes.config.home import HermesHome
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_
from hermes.sessions.turn_log import FILE_NAME, OLD_FILE_NAME

LEVELS = ("debug", "info", "warning", "error", "critical")
_LOG_FILES = ("errors.old.log", OLD_FILE_NAME, "errors.log", FILE_NAME)
_FOLLOWED = ("errors.log", FILE_NAME)
_HEAD = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<ms>\d{3}) (?P<pid>\d+) (?P<level>[A-Z]+) (?P<source>\S+): (?P<text>.*)"
)
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_POLL = 0.2
_MAX_BYTES = 16 << 20
"""Bytes that are read from the end of one file."""


class LogEntry(Struct, frozen=True, kw_only=True):
    """One log entry with all its lines. `at` is in seconds since the epoch, None where a line has no time."""

    at: float | None
    level: str
    source: str
    pid: int | None
    text: str


class LogFilter(Struct, frozen=True, kw_only=True):
    """Selects log entries by minimum level, session, and time."""

    level: str = ""
    session: str = ""
    since: float = 0.0

    def matches_entry(self, entry: LogEntry) -> bool:
        """Return whether an entry passes the filter."""
        if self.level and entry.level in LEVELS and LEVELS.index(entry.level) < LEVELS.index(self.level):
            return False
        if self.since and (entry.at is None or entry.at < self.since):
            return False
        return not self.session or self.session in entry.text


def parse_since(text: str, now: float) -> float:
    """Parse the moment that `2h`, `30m`, `7d` or a date means. Raises UsageError."""
    found = _AGO.fullmatch(text.strip())
    if found is not None:
        return now - float(found[1]) * _UNITS[found[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            N_("{text!r} is not a time.", text=text[:40]), N_("Write it as 30m, 2h, 7d, or 2026-11-01.")
        ) from None


def read_log(home: HermesHome, log_filter: LogFilter, count: int) -> list[LogEntry]:
    """Return the last `count` entries that pass the filter, the oldest first; none where there is no log."""
    found: list[LogEntry] = []
    for name in _LOG_FILES:
        found += [
            one for one in parse_entries(read_file_lines(home.logs / name), "errors") if log_filter.matches_entry(one)
        ]
    for file in sorted(home.logs.glob("mcp-*.log")):
        found += [one for one in parse_entries(read_file_lines(file), file.stem) if log_filter.matches_entry(one)]
    found.sort(key=lambda one: one.at or 0.0)  # stable: what has no time stays in its file's order, in front
    return found[-count:] if count else []


async def follow_log(home: HermesHome, log_filter: LogFilter) -> AsyncIterator[LogEntry]:
    """Yield entries that are written from now on, without an end. Rotated files are followed on."""
    tails = [LogTail(home.logs / name) for name in _FOLLOWED]
    try:
        while True:
            lines = [line for tail in tails for line in tail.read_new_lines()]
            for entry in filter(log_filter.matches_entry, parse_entries(lines, "errors")):
                yield entry
            await asyncio.sleep(_POLL)
    finally:
        for tail in tails:
            tail.close()


def parse_entries(lines: Iterable[str], source: str) -> Iterator[LogEntry]:
    """Parse lines into entries: a line without a time belongs to the entry before, or is one of its own."""
    head: re.Match[str] | None = None
    body: list[str] = []
    for line in lines:
        found = _HEAD.fullmatch(line)
        if found is not None:
            if head is not None:
                yield _build_entry(head, body)
            head, body = found, [found["text"]]
        elif head is not None:
            body.append(line)
        elif line.strip():
            yield LogEntry(at=None, level="", source=source, pid=None, text=line)
    if head is not None:
        yield _build_entry(head, body)


def _build_entry(head: re.Match[str], body: list[str]) -> LogEntry:
    moment = time.mktime(time.strptime(head["at"], "%Y-%m-%d %H:%M:%S")) + int(head["ms"]) / 1000
    text = "\n".join(body).rstrip()
    return LogEntry(at=moment, level=head["level"].lower(), source=head["source"], pid=int(head["pid"]), text=text)


def read_file_lines(file: Path) -> list[str]:
    """Return the lines at the end of a file; none where it cannot be read."""
    try:
        with open(file, "rb", opener=_open_no_follow) as opened:
            size = os.fstat(opened.fileno()).st_size
            opened.seek(max(size - _MAX_BYTES, 0))
            return opened.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


class LogTail:
    """Reads the whole lines that a file gains, also when another file takes its name."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._handle = self._open_file()
        self._rest = b""
        if self._handle >= 0:
            os.lseek(self._handle, 0, os.SEEK_END)

    def read_new_lines(self) -> list[str]:
        """Return the lines that were added since the last call."""
        gained = self._read_bytes()
        if self._is_replaced():
            gained += self._read_bytes()
            self.close()
            self._handle = self._open_file()
            gained += self._read_bytes()
        text = self._rest + gained
        whole, newline, self._rest = text.rpartition(b"\n")
        return whole.decode("utf-8", "replace").splitlines() if newline else []

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _open_file(self) -> int:
        try:
            return _open_no_follow(str(self._file), os.O_RDONLY)
        except OSError:
            return -1

    def _read_bytes(self) -> bytes:
        if self._handle < 0:
            return b""
        if os.lseek(self._handle, 0, os.SEEK_CUR) > os.fstat(self._handle).st_size:
            os.lseek(self._handle, 0, os.SEEK_SET)  # it was emptied
        pieces = []
        while piece := os.read(self._handle, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces)

    def _is_replaced(self) -> bool:
        try:
            there = os.stat(self._file)
        except OSError:
            return False
        return self._handle < 0 or not os.path.samestat(there, os.fstat(self._handle))


def _open_no_follow(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
