"""Checks whether a provider's prompt cache keeps what was sent, and if not, what changed.

A `CacheWatch` belongs to a client, a `PrefixFingerprint` to the messages of one lineage. While all is well a request
costs a checksum of the bytes that are new in it; everything older is checked only when hits are missing.
"""

import zlib

from msgspec import Struct

from hermes.core.frame import EpochFrame
from hermes.core.usage import Usage

MIN_CACHED_PROMPT = 1_024
"""Tokens: no provider caches a shorter prompt."""
MIN_REPORTED_LOSS = 2_048
"""Tokens that may be missing before a warning, or a fifth of what was expected, whichever is more."""
TTL_SECONDS = {"5m": 300.0, "1h": 3_600.0}
_USUAL_TTL = TTL_SECONDS["5m"]
_MAX_POINTS = 64
_RECENT_POINTS = 16


class ChecksumPoint(Struct):
    """The end of a message in the buffer: its number, its offset, the checksum of all bytes up to it."""

    number: int
    end: int
    checksum: int | None = None


class PrefixFingerprint:
    """Checksums of encoded messages at a few message ends: the last sixteen, and ever fewer of the older ones.

    There are at most 64 of them, however long the conversation.
    """

    def __init__(self) -> None:
        self._points: list[ChecksumPoint] = []
        self._at = 0
        self._checksum = 0

    def add_message_end(self, number: int, end: int) -> None:
        """Note that a message ends at this offset; one of a rebuilt buffer that is known already is ignored."""
        if end <= (self._points[-1].end if self._points else 0):
            return
        self._points.append(ChecksumPoint(number, end))
        if len(self._points) > _MAX_POINTS:
            self._points[:-_RECENT_POINTS] = self._points[:-_RECENT_POINTS:2]

    def checksum_sent(self, messages: bytearray) -> None:
        """Take the checksum of what is new in messages that were sent as they are."""
        with memoryview(messages) as view:
            for point in self._points:
                if point.checksum is None and point.end <= len(view):
                    self._checksum = zlib.crc32(view[self._at : point.end], self._checksum)
                    self._at, point.checksum = point.end, self._checksum

    def find_difference(self, messages: bytearray) -> str:
        """Describe where messages first differ from what was sent; empty when they begin with all of it."""
        before = ChecksumPoint(0, 0, 0)
        with memoryview(messages) as view:
            for point in self._points:
                if point.checksum is None:
                    break
                checksum = zlib.crc32(view[before.end : point.end], before.checksum or 0)
                if checksum != point.checksum:
                    return _describe_range(before, point)
                before = point
        return ""


def _describe_range(before: ChecksumPoint, point: ChecksumPoint) -> str:
    first, last = before.number + 1, point.number
    which = f"message {last}" if first == last else f"one of the messages {first} to {last}"
    return f"{which} (bytes {before.end:,} to {point.end:,} of the messages)"


class AnsweredRequest(Struct):
    """The last answered request of a lineage."""

    fingerprint: PrefixFingerprint
    frame: EpochFrame | None = None
    usage: Usage = Usage()
    at: float = 0.0
    key: str = ""
    warned: bool = False
    """Whether the user was told of missing hits; once an epoch is enough."""

    def __repr__(self) -> str:
        """Return a form without the key."""
        return f"Sent(at={self.at})"


class CacheWatch:
    """Watches the cache hits of one client's lineages. It judges only a provider that has reported some."""

    def __init__(self, title: str, ttl: str) -> None:
        self._title = title
        self._seconds = TTL_SECONDS.get(ttl, _USUAL_TTL)
        self._reads = False
        self._writes = False

    def check_answer(
        self, sent: AnsweredRequest, messages: bytearray, frame: EpochFrame, latest: AnsweredRequest
    ) -> str:
        """Note an answered request; return a line for the user when expected cache hits are missing.

        `latest` has when it was sent, with which key, and what the provider counted.
        """
        line = ""
        expected = self._expected_hits(sent, latest)
        lost = expected - latest.usage.cache_read
        if lost > max(MIN_REPORTED_LOSS, expected // 5) and not sent.warned:
            sent.warned = True
            line = self._format_warning(expected, latest.usage, find_change(sent, messages, frame))
        usage = latest.usage
        self._reads = self._reads or usage.cache_read > 0
        self._writes = self._writes or usage.cache_write > 0
        if self._reads or self._writes:
            sent.fingerprint.checksum_sent(messages)
        sent.frame, sent.usage, sent.at, sent.key = frame, usage, latest.at, latest.key
        return line

    def _expected_hits(self, sent: AnsweredRequest, latest: AnsweredRequest) -> int:
        """Return the tokens that should have come from the cache; 0 when nothing can be expected.

        A provider that counts what it writes has said what it keeps; of another it is the whole prompt. Keys
        may belong to accounts with caches of their own.
        """
        pause = latest.at - sent.at
        if sent.frame is None or not 0 <= pause < self._seconds or sent.key != latest.key:
            return 0
        kept = sent.usage.cache_read + sent.usage.cache_write if self._writes else sent.usage.input
        known = self._reads or self._writes
        return min(kept, latest.usage.input) if known and kept >= MIN_CACHED_PROMPT else 0

    def _format_warning(self, expected: int, usage: Usage, where: str) -> str:
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


def find_change(sent: AnsweredRequest, messages: bytearray, frame: EpochFrame) -> str:
    """Return the first element of a request that is not what was sent before: a tool, the
    system prompt, or a message.
    """
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
        return f"the system prompt (byte {_count_same_bytes(before.system, frame.system):,} of it)"
    return sent.fingerprint.find_difference(messages)


def _count_same_bytes(old: str, new: str) -> int:
    """Return how many bytes two texts share at their beginning."""
    pairs = enumerate(zip(old, new, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))
    return len(old[:at].encode("utf-8", "replace"))
