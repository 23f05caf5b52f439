"""Whether a provider's prompt cache keeps what was sent, and if not, what changed.

A watch belongs to a client, a `Fingerprint` to the messages of one lineage. While all is well a request costs a
checksum of the bytes that are new in it; everything older is checked only when hits are missing.
"""

import zlib

from msgspec import Struct

from hermes.core.frame import EpochFrame
from hermes.core.usage import Usage

LEAST_PROMPT = 1_024
"""Tokens: no provider caches a shorter prompt."""
LEAST_LOSS = 2_048
"""Tokens that may be missing before anything is said, or a fifth of what was expected, whichever is more."""
TTL_SECONDS = {"5m": 300.0, "1h": 3_600.0}
_USUAL_TTL = TTL_SECONDS["5m"]
_POINTS = 64
_NEAR = 16


class Point(Struct):
    """The end of a message in the buffer: its number, its offset, the checksum of all bytes up to it."""

    number: int
    end: int
    checksum: int | None = None


class Fingerprint:
    """Checksums of encoded messages at a few message ends: the last sixteen, and ever fewer of the older ones.

    At most 64 of them, however long the conversation.
    """

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._at = 0
        self._checksum = 0

    def joined(self, number: int, end: int) -> None:
        """A message has been appended that ends at this offset; one of a buffer that is made again says nothing new."""
        if end <= (self._points[-1].end if self._points else 0):
            return
        self._points.append(Point(number, end))
        if len(self._points) > _POINTS:
            self._points[:-_NEAR] = self._points[:-_NEAR:2]

    def sent(self, messages: bytearray) -> None:
        """The messages were sent as they are: take the checksum of what is new."""
        with memoryview(messages) as view:
            for point in self._points:
                if point.checksum is None and point.end <= len(view):
                    self._checksum = zlib.crc32(view[self._at : point.end], self._checksum)
                    self._at, point.checksum = point.end, self._checksum

    def difference(self, messages: bytearray) -> str:
        """Where messages differ first from what was sent, in words; empty when they begin with all of it."""
        before = Point(0, 0, 0)
        with memoryview(messages) as view:
            for point in self._points:
                if point.checksum is None:
                    break
                checksum = zlib.crc32(view[before.end : point.end], before.checksum or 0)
                if checksum != point.checksum:
                    return _named(before, point)
                before = point
        return ""


def _named(before: Point, point: Point) -> str:
    first, last = before.number + 1, point.number
    which = f"message {last}" if first == last else f"one of the messages {first} to {last}"
    return f"{which} (bytes {before.end:,} to {point.end:,} of the messages)"


class Sent(Struct):
    """What is known of the last answered request of a lineage."""

    fingerprint: Fingerprint
    frame: EpochFrame | None = None
    usage: Usage = Usage()
    at: float = 0.0
    key: str = ""
    told: bool = False
    """Whether the person was told of missing hits; once an epoch is enough."""

    def __repr__(self) -> str:
        """Without the key."""
        return f"Sent(at={self.at})"


class CacheWatch:
    """Watches the cache hits of one client's lineages. It judges only a provider that has reported some."""

    def __init__(self, title: str, ttl: str) -> None:
        self._title = title
        self._seconds = TTL_SECONDS.get(ttl, _USUAL_TTL)
        self._reads = False
        self._writes = False

    def answered(self, sent: Sent, messages: bytearray, frame: EpochFrame, latest: Sent) -> str:
        """Take note of an answered request; a line for the person when hits are missing that were to be expected.

        `latest` has when it was sent, with which key, and what the provider counted.
        """
        line = ""
        expected = self._expected(sent, latest)
        lost = expected - latest.usage.cache_read
        if lost > max(LEAST_LOSS, expected // 5) and not sent.told:
            sent.told = True
            line = self._line(expected, latest.usage, changed(sent, messages, frame))
        usage = latest.usage
        self._reads = self._reads or usage.cache_read > 0
        self._writes = self._writes or usage.cache_write > 0
        if self._reads or self._writes:
            sent.fingerprint.sent(messages)
        sent.frame, sent.usage, sent.at, sent.key = frame, usage, latest.at, latest.key
        return line

    def _expected(self, sent: Sent, latest: Sent) -> int:
        """The tokens that should have come from the cache; 0 when nothing can be expected.

        A provider that counts what it writes has said what it keeps; of another it is the whole prompt. Keys may belong
        to accounts with caches of their own.
        """
        pause = latest.at - sent.at
        if sent.frame is None or not 0 <= pause < self._seconds or sent.key != latest.key:
            return 0
        kept = sent.usage.cache_read + sent.usage.cache_write if self._writes else sent.usage.input
        known = self._reads or self._writes
        return min(kept, latest.usage.input) if known and kept >= LEAST_PROMPT else 0

    def _line(self, expected: int, usage: Usage, where: str) -> str:
        rate, hoped = usage.cache_read / usage.input, expected / usage.input
        why = (
            f"The request differs from the one before at {where}."
            if where
            else f"It began with the same bytes as the one before: {self._title} did not keep them."
        )
        return (
            f"Prompt cache: {rate:.0%} of the prompt came from {self._title}'s cache where {hoped:.0%} was expected, "
            f"so {expected - usage.cache_read:,} tokens were paid for again. {why}"
        )


def changed(sent: Sent, messages: bytearray, frame: EpochFrame) -> str:
    """The first element of a request that is not what was sent before: a tool, the system prompt, or a message."""
    before = sent.frame
    if before is None:
        return ""
    if before.tools != frame.tools:
        pairs = zip(before.tools, frame.tools, strict=False)
        number = next((at for at, (old, new) in enumerate(pairs) if old != new), None)
        if number is None:
            return f"the tools ({len(frame.tools)}, there were {len(before.tools)})"
        return f"tool {number + 1} ({frame.tools[number].name})"
    if before.system != frame.system:
        return f"the system prompt (byte {_same_bytes(before.system, frame.system):,} of it)"
    return sent.fingerprint.difference(messages)


def _same_bytes(old: str, new: str) -> int:
    """How many bytes two texts begin with that are the same."""
    pairs = enumerate(zip(old, new, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))
    return len(old[:at].encode("utf-8", "replace"))
