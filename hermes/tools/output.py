"""Output of commands: bounded while it comes, made plain before a model reads it."""

import re

CAP_BYTES = 50_000
CAP_LINES = 2_000

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])")


class HeadTail:
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

    def text(self) -> str:
        """What was kept, plain; what was left out is named in its place."""
        kept = len(self._head) + min(len(self._tail), self._tail_limit)
        if self.total == kept:
            return plain((self._head + self._tail).decode("utf-8", "replace"))
        head = plain(self._head.decode("utf-8", "replace"))
        tail = plain(self._tail[-self._tail_limit :].decode("utf-8", "replace"))
        return f"{head}\n[... {self.total - kept} bytes left out ...]\n{tail}"


class Rolling:
    """A byte sink that keeps the last of what it is given and knows how much came before."""

    def __init__(self, limit: int = 200_000) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take more output."""
        self.total += len(data)
        self._kept += data[-self._limit :]
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def since(self, position: int) -> str:
        """The output after byte `position`, as far as it is still kept."""
        kept = self._kept[-self._limit :]
        first = self.total - len(kept)
        lost = max(0, first - position)
        text = plain(kept[max(0, position - first) :].decode("utf-8", "replace"))
        return f"[... {lost} bytes no longer kept ...]\n{text}" if lost else text


def plain(text: str) -> str:
    """Text without escape sequences and control characters; a line that was redrawn keeps its last state."""
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPE.sub("", text)
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text.replace("\r\n", "\n")).replace("\r", "")
    return text if text.isascii() and text.isprintable() else _CONTROL.sub("", text)


def cut(text: str, limit: int = CAP_BYTES, lines: int = CAP_LINES) -> str:
    """At most `lines` lines and about `limit` characters, from both ends; what was left out is named."""
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
