"""Finds where a conversation is cut: the messages that stay at its beginning and end, and the sizes that decide it.

Says where condensed messages can be read again.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from hermes.context.engine import SEARCH_TOOL
from hermes.core.messages import Message, Role
from hermes.core.parts import ImagePart, TextPart, ToolCallPart, ToolResultPart
from hermes.store.records import StoredMessage

_BYTES_PER_TOKEN = 4
_TOKENS_PER_IMAGE = 1_500
_MESSAGE_OVERHEAD = 10
"""Tokens that surround a message's text."""


class RetentionLimits(Struct, frozen=True, kw_only=True):
    """How much of a conversation stays uncompressed, in messages and estimated tokens."""

    first: int
    """Messages at the beginning."""
    first_tokens: int
    """What they may take together; fewer stay when they would take more."""
    last: int
    """Messages at the end, however few their tokens are."""
    last_tokens: int
    """What the end is filled up to with more messages."""
    most: int
    """What the end may take; fewer than `last` messages stay when they would take more."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return size // _BYTES_PER_TOKEN


def estimate_message_tokens(message: Message) -> int:
    """Estimate the tokens of a message."""
    total = _MESSAGE_OVERHEAD
    for part in message.parts:
        if isinstance(part, TextPart):
            total += estimate_tokens(part.text)
        elif isinstance(part, ToolCallPart):
            total += estimate_tokens(part.arguments) + estimate_tokens(part.name) + _MESSAGE_OVERHEAD
        elif isinstance(part, ToolResultPart):
            total += estimate_tokens(part.text) + _MESSAGE_OVERHEAD + _TOKENS_PER_IMAGE * len(part.images)
        elif isinstance(part, ImagePart):
            total += _TOKENS_PER_IMAGE
        else:
            total += estimate_tokens(part.text) + estimate_tokens(part.opaque)
    return total


def find_middle(
    rows: Sequence[StoredMessage], sizes: Sequence[int], limits: RetentionLimits, replacement_ids: Collection[int]
) -> tuple[int, int]:
    """Return where the part between beginning and end begins and ends; both are the same when there is none.

    No batch of results is cut off from its calls. A message that replaces others (`replacement_ids`) never stays at the
    beginning.
    """
    end = _find_tail_start(rows, sizes, limits)
    start = _count_head_messages(rows, sizes, limits, replacement_ids)
    return (start, end) if start < end else (end, end)


def _is_group_boundary(rows: Sequence[StoredMessage], place: int) -> bool:
    """Return whether a cut before this place leaves every call with its results."""
    return place >= len(rows) or rows[place].message.role is not Role.TOOL


def _find_tail_start(rows: Sequence[StoredMessage], sizes: Sequence[int], limits: RetentionLimits) -> int:
    """Return where the part at the end begins; at least the last group is in it."""
    newest = next((place for place in range(len(rows) - 1, -1, -1) if _is_group_boundary(rows, place)), 0)
    place, used = _fill_tail(sizes, limits)
    if place >= newest:
        return newest
    back = place
    while not _is_group_boundary(rows, back):
        back -= 1
    if back and rows[back].message.role is Role.USER and rows[back - 1].message.role is Role.ASSISTANT:
        back -= 1  # the summary is a user's message: an assistant's should follow it
    if used + sum(sizes[back:place]) <= limits.most:
        return back
    while not _is_group_boundary(rows, place):
        place += 1
    return min(place, newest)


def _fill_tail(sizes: Sequence[int], limits: RetentionLimits) -> tuple[int, int]:
    """Return where the part at the end begins by number and tokens alone, and its tokens."""
    place, used = len(sizes), 0
    while place:
        more = used + sizes[place - 1]
        if more > limits.most or (len(sizes) - place >= limits.last and more > limits.last_tokens):
            break
        place, used = place - 1, more
    return place, used


def _count_head_messages(
    rows: Sequence[StoredMessage], sizes: Sequence[int], limits: RetentionLimits, replacement_ids: Collection[int]
) -> int:
    """Return how many messages stay at the beginning."""
    place, used = 0, 0
    wanted = min(limits.first, len(rows))
    while place < len(rows) and rows[place].id not in replacement_ids and used + sizes[place] <= limits.first_tokens:
        if place >= wanted and _is_group_boundary(rows, place):
            break
        used += sizes[place]
        place += 1
    while not _is_group_boundary(rows, place):
        place -= 1
    return place


class OriginalsLookup(Struct, frozen=True):
    """How the originals of one session are reached: by the model itself, where it has the tool, else by the user."""

    session_id: str
    searchable: bool = False

    def describe_message(self, number: int) -> str:
        """Say where the message of that number is."""
        if self.searchable:
            return f"{SEARCH_TOOL} with session_id {self.session_id} and around_message_id {number} shows it"
        return f"message {number} in what `hermes sessions show {self.session_id}` prints"

    def describe_all(self) -> str:
        """Say where every message is."""
        if self.searchable:
            return (
                f"`{SEARCH_TOOL}` with session_id {self.session_id} finds any message by words, and shows it by "
                f"its number "
                "as around_message_id"
            )
        return f"`hermes sessions show {self.session_id}` has them all; the user can look there"
