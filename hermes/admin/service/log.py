"""The gateway's log: a line of JSON for each thing that happened, and never what anybody said."""

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.admin.logs import Tail, file_lines

LARGEST = 10 << 20
FILES = 5
"""Bytes of one file, and files that are kept: the newest is `gateway.log`, then `gateway.1.log` and so on."""
_NAME = "gateway.log"
_POLL = 0.2
LEVELS = ("info", "warning", "error")


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened. `time` in seconds since the epoch; `event` is a word, `text` says more in English."""

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
    """Appends lines to the log of a home; each is redacted as it is written. A disk that takes none is no fault."""

    def __init__(self, folder: Path, redact: Callable[[str], str]) -> None:
        self._folder = folder
        self._redact = redact
        self._handle = -1
        self._size = 0

    def write(self, line: Line) -> None:
        """Append a line."""
        body = (self._redact(msgspec.json.encode(line).decode()) + "\n").encode()
        with contextlib.suppress(OSError):
            if self._handle < 0 or self._size + len(body) > LARGEST:
                self._open()
            os.write(self._handle, body)
            self._size += len(body)

    def close(self) -> None:
        """Let the file go."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _open(self) -> None:
        self.close()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._folder / _NAME
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_size + 4_096 > LARGEST:
                for number in range(FILES - 1, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(_file(self._folder, number - 1), _file(self._folder, number))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._handle = os.open(file, flags, 0o600)
        self._size = os.fstat(self._handle).st_size


def log_lines(folder: Path, account: str, count: int, level: str = "") -> list[Line]:
    """The newest lines of an account (all of them without one), of this level or a graver one, the newest last."""
    found: deque[Line] = deque(maxlen=count)
    for number in range(FILES - 1, -1, -1):
        found.extend(one for text in file_lines(_file(folder, number)) if (one := _read(text, account, level)))
    return list(found)


async def follow_lines(folder: Path, account: str, level: str = "") -> AsyncIterator[Line]:
    """Lines that are written from now on, without an end."""
    tail = Tail(_file(folder, 0))
    try:
        while True:
            for text in tail.more():
                if (one := _read(text, account, level)) is not None:
                    yield one
            await asyncio.sleep(_POLL)
    finally:
        tail.close()


def line_now(event: str, **fields: str | int | float) -> Line:
    """A line about this moment."""
    return msgspec.convert({"time": round(time.time(), 3), "event": event, **fields}, Line)


def _read(text: str, account: str, level: str) -> Line | None:
    try:
        line = msgspec.json.decode(text, type=Line)
    except msgspec.DecodeError:
        return None
    if level and line.level in LEVELS and LEVELS.index(line.level) < LEVELS.index(level):
        return None
    mine = not account or line.account == account or line.lane.partition(":")[0] == account
    return line if mine else None


def _file(folder: Path, number: int) -> Path:
    return folder / (_NAME if not number else f"gateway.{number}.log")
