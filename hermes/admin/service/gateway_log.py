"""The gateway's log: a line of JSON for each event, never with message texts."""

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.admin.logs import LogTail, read_file_lines
from hermes.core.encoding import to_json

MAX_FILE_BYTES = 10 << 20
MAX_FILES = 5
"""The number of log files that are kept: the newest is `gateway.log`, then `gateway.1.log` and so on."""
_NAME = "gateway.log"
_POLL_SECONDS = 0.2
LEVELS = ("info", "warning", "error")


class GatewayLogEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One logged event. `time` is in seconds since the epoch; `event` is a word, `text` says more in English."""

    time: float
    event: str
    level: str = "info"
    account: str = ""
    lane: str = ""
    session: str = ""
    turn: str = ""
    text: str = ""
    outcome: str = ""
    count: int = 0
    seconds: float = 0.0


class GatewayLog:
    """Appends entries to the log of a home; each is redacted when it is written. Errors of the disk are ignored."""

    def __init__(self, folder: Path, redact: Callable[[str], str]) -> None:
        self._folder = folder
        self._redact = redact
        self._handle = -1
        self._size = 0

    def write_entry(self, line: GatewayLogEntry) -> None:
        """Append an entry."""
        body = (self._redact(to_json(line).decode()) + "\n").encode()
        with contextlib.suppress(OSError):
            if self._handle < 0 or self._size + len(body) > MAX_FILE_BYTES:
                self._open_file()
            os.write(self._handle, body)
            self._size += len(body)

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _open_file(self) -> None:
        self.close()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._folder / _NAME
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_size + 4_096 > MAX_FILE_BYTES:
                for number in range(MAX_FILES - 1, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(_log_file(self._folder, number - 1), _log_file(self._folder, number))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._handle = os.open(file, flags, 0o600)
        self._size = os.fstat(self._handle).st_size


def read_log(folder: Path, account: str, count: int, level: str = "") -> list[GatewayLogEntry]:
    """Return the newest entries of an account (of all without one), of this level or above, the newest last."""
    found: deque[GatewayLogEntry] = deque(maxlen=count)
    for number in range(MAX_FILES - 1, -1, -1):
        found.extend(
            one for text in read_file_lines(_log_file(folder, number)) if (one := _parse_entry(text, account, level))
        )
    return list(found)


async def follow_log(folder: Path, account: str, level: str = "") -> AsyncIterator[GatewayLogEntry]:
    """Yield entries that are written from now on, without an end."""
    tail = LogTail(_log_file(folder, 0))
    try:
        while True:
            for text in tail.read_new_lines():
                if (one := _parse_entry(text, account, level)) is not None:
                    yield one
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        tail.close()


def create_entry(event: str, **fields: str | int | float) -> GatewayLogEntry:
    """Create an entry with the present time."""
    return msgspec.convert({"time": round(time.time(), 3), "event": event, **fields}, GatewayLogEntry)


def _parse_entry(text: str, account: str, level: str) -> GatewayLogEntry | None:
    try:
        line = msgspec.json.decode(text, type=GatewayLogEntry)
    except msgspec.DecodeError:
        return None
    if level and line.level in LEVELS and LEVELS.index(line.level) < LEVELS.index(level):
        return None
    mine = not account or line.account == account or line.lane.partition(":")[0] == account
    return line if mine else None


def _log_file(folder: Path, number: int) -> Path:
    return folder / (_NAME if not number else f"gateway.{number}.log")
