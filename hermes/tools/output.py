"""Output of commands: bounded while it arrives, made plain before a model reads it.

Saves results too large for a conversation: the whole goes to a file, the model gets both ends and the path.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from hermes.util.text import compile_late, truncate_middle

CAP_BYTES = 50_000
CAP_LINES = 2_000

_ESCAPE = compile_late(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROL = compile_late(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")
_OVERWRITTEN = compile_late(r"[^\n]*\r(?=[^\n])")


class HeadTailBuffer:
    """A byte sink that keeps the first and the last of what it is given, in bounded memory."""

    def __init__(self, head: int = 2 * CAP_BYTES, tail: int = 2 * CAP_BYTES) -> None:
        self._head_limit = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take more output."""
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._tail_limit :]
            if len(self._tail) > 2 * self._tail_limit:
                del self._tail[: -self._tail_limit]

    def to_text(self) -> str:
        """Return what was kept as plain text; what was left out is named in its place."""
        kept = len(self._head) + min(len(self._tail), self._tail_limit)
        if self.total == kept:
            return strip_control_codes((self._head + self._tail).decode("utf-8", "replace"))
        head = strip_control_codes(self._head.decode("utf-8", "replace"))
        tail = strip_control_codes(self._tail[-self._tail_limit :].decode("utf-8", "replace"))
        return f"{head}\n[... {self.total - kept} bytes left out ...]\n{tail}"


class ForegroundCommand:
    """A command that a call waits for, until the person sends it into the background."""

    def __init__(self, sink: Callable[[bytes], None]) -> None:
        self.sink = sink
        """Takes its output, as long as nothing else does."""
        self.is_left = asyncio.Event()
        """Set when the call is to wait no longer."""

    def take_output(self, data: bytes) -> None:
        """Take output for whoever has it now."""
        self.sink(data)


class RollingBuffer:
    """A byte sink that keeps the last of what it is given and knows how much came before."""

    def __init__(self, limit: int = 200_000) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take more output."""
        self.total += len(data)
        self._buffer += data[-self._limit :]
        if len(self._buffer) > 2 * self._limit:
            del self._buffer[: -self._limit]

    def text_since(self, position: int) -> str:
        """Return the output after byte `position`, as far as it is still kept."""
        kept = self._buffer[-self._limit :]
        first = self.total - len(kept)
        lost = max(0, first - position)
        text = strip_control_codes(kept[max(0, position - first) :].decode("utf-8", "replace"))
        return f"[... {lost} bytes no longer kept ...]\n{text}" if lost else text


def strip_control_codes(text: str) -> str:
    """Return text without escape sequences and control characters; a line that was redrawn keeps its last state."""
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPE.sub("", text)
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text.replace("\r\n", "\n")).replace("\r", "")
    return text if text.isascii() and text.isprintable() else _CONTROL.sub("", text)


def truncate_text(text: str, limit: int = CAP_BYTES, lines: int = CAP_LINES) -> str:
    """Return at most `lines` lines and about `limit` characters, from both ends; what was left out is named."""
    split = text.split("\n")
    if len(split) > lines:
        head = lines // 2
        left_out = len(split) - lines
        split = [*split[:head], f"[... {left_out} lines left out ...]", *split[len(split) - (lines - head) :]]
        text = "\n".join(split)
    if len(text) > limit:
        head = limit // 2
        tail = limit - head
        text = f"{text[:head]}\n[... {len(text) - limit} characters left out ...]\n{text[len(text) - tail :]}"
    return text


RESULT_CAP = 100_000
"""The most characters of one result, whatever its tool allows."""


BATCH_CAP = 200_000
"""The most characters of all results of one batch."""


PREVIEW = 1_500


_UNSAFE = compile_late(r"[^A-Za-z0-9_-]+")


def write_spill(text: str, folder: Path, name: str) -> Path:
    """Write `text` to a new private file in `folder`, named after a call. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stem = _UNSAFE.sub("_", name)[:64] or "result"
    for number in range(1000):
        path = folder / (f"{stem}.txt" if not number else f"{stem}_{number}.txt")
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
        return path
    raise FileExistsError(f"too many files named {stem} in {folder}")


def spill_result(text: str, folder: Path, call_id: str) -> str:
    """Write `text` to a new private file in `folder` and return the preview that stands for it. Raises OSError."""
    path = write_spill(text, folder, call_id)
    lines = text.count("\n") + 1
    return (
        f"{truncate_middle(text, PREVIEW)}\n\n[The result has {len(text)} characters in {lines} lines, too many "
        f"to show. "
        f"All of it is in {path}: use read_file with offset and limit, or search_files, on that path.]"
    )


def spill_or_cut(text: str, folder: Path, call_id: str) -> str:
    """Return what `spill_result` does; where the file cannot be written, the beginning and why the rest is lost."""
    try:
        return spill_result(text, folder, call_id)
    except OSError as error:
        return f"{text[: RESULT_CAP // 4]}\n\n[The rest of {len(text)} characters is lost: {error}.]"
