"""Where a conversation is cut: what stays at its beginning and its end, and the sizes that decide it."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from hermes.core.messages import Message, Role
from hermes.core.parts import ImagePart, TextPart, ToolCallPart, ToolResultPart
from hermes.store.rows import StoredMessage

_BYTES_PER_TOKEN = 4
_TOKENS_PER_IMAGE = 1_500
_AROUND = 10
"""Tokens of what stands around a message's words."""


class Room(Struct, frozen=True, kw_only=True):
    """How much stays, in messages and estimated tokens."""

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


def tokens(text: str) -> int:
    """An estimate of a text's tokens."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return size // _BYTES_PER_TOKEN


def weight(message: Message) -> int:
    """An estimate of a message's tokens."""
    total = _AROUND
    for part in message.parts:
        if isinstance(part, TextPart):
            total += tokens(part.text)
        elif isinstance(part, ToolCallPart):
            total += tokens(part.arguments) + tokens(part.name) + _AROUND
        elif isinstance(part, ToolResultPart):
            total += tokens(part.text) + _AROUND + _TOKENS_PER_IMAGE * len(part.images)
        elif isinstance(part, ImagePart):
            total += _TOKENS_PER_IMAGE
        else:
            total += tokens(part.text) + tokens(part.opaque)
    return total


def middle(rows: Sequence[StoredMessage], sizes: Sequence[int], room: Room, made: Collection[int]) -> tuple[int, int]:
    """Where the part between beginning and end begins, and where it ends; the same twice when there is none.

    No batch of results is cut off from its calls. What stands for other messages (`made`) is no beginning.
    """
    end = _end(rows, sizes, room)
    start = _start(rows, sizes, room, made)
    return (start, end) if start < end else (end, end)


def _whole(rows: Sequence[StoredMessage], place: int) -> bool:
    """Whether a cut before this place leaves every call with its results."""
    return place >= len(rows) or rows[place].message.role is not Role.TOOL


def _end(rows: Sequence[StoredMessage], sizes: Sequence[int], room: Room) -> int:
    """Where the part at the end begins: at least the last group is in it."""
    newest = next((place for place in range(len(rows) - 1, -1, -1) if _whole(rows, place)), 0)
    place, used = _filled(sizes, room)
    if place >= newest:
        return newest
    back = place
    while not _whole(rows, back):
        back -= 1
    if back and rows[back].message.role is Role.USER and rows[back - 1].message.role is Role.ASSISTANT:
        back -= 1  # the summary is a user's message: an assistant's should follow it
    if used + sum(sizes[back:place]) <= room.most:
        return back
    while not _whole(rows, place):
        place += 1
    return min(place, newest)


def _filled(sizes: Sequence[int], room: Room) -> tuple[int, int]:
    """Where the part at the end begins by number and tokens alone, and its tokens."""
    place, used = len(sizes), 0
    while place:
        more = used + sizes[place - 1]
        if more > room.most or (len(sizes) - place >= room.last and more > room.last_tokens):
            break
        place, used = place - 1, more
    return place, used


def _start(rows: Sequence[StoredMessage], sizes: Sequence[int], room: Room, made: Collection[int]) -> int:
    """How many messages stay at the beginning."""
    place, used = 0, 0
    wanted = min(room.first, len(rows))
    while place < len(rows) and rows[place].id not in made and used + sizes[place] <= room.first_tokens:
        if place >= wanted and _whole(rows, place):
            break
        used += sizes[place]
        place += 1
    while not _whole(rows, place):
        place -= 1
    return place
