"""Joins an answer that goes on after a break to what was said before it.

Asked to go on exactly where their answer stopped, models repeat its last words, or begin it again. What they repeat is
found while it arrives and is neither shown nor stored again: as long as the new text may still be a repetition it is
held back, which is a few words at most unless it is one.
"""

from msgspec import structs

from hermes.core.messages import Message, TextPart

_RESTART_LENGTH = 24
"""Characters by which an answer that begins again is told from one that only begins with the same words."""
_ANCHOR_LENGTH = 24
"""Characters of the end of the text before by which the place is found at which a new wording has caught up with it."""
_TELLING_WEIGHT = 8
"""The least weight of repeated words that are not there by chance."""
_MIN_DISTINCT = 4
_FRAGMENT_LETTERS = 3
_SLACK = 400
_JUDGED_LENGTH = 1_000
"""Characters of repeated words by which they are judged."""
_WIDE = 0x2E80
"""From this code point on a character is worth as much as a short word."""


class ContinuationJoiner:
    """Takes the pieces of one continuation and returns what is new in them. `before` is what was said so far."""

    def __init__(self, before: str) -> None:
        self._before = before
        self._held = ""
        self._decided = not before.strip()
        self._dropped = 0
        self._separator = ""
        self._place = 0
        """Where in the text before all that is held stands, as far as it does."""
        self._compared = 0
        """The longest overlap that was looked for: what comes later is compared once, however small its pieces."""
        self._searched = 0

    def feed(self, text: str) -> str:
        """Take the next piece; return what may be shown now."""
        if self._decided:
            return text
        self._held += text
        return self._release(is_end=False)

    def finish(self) -> str:
        """Return what was still held back, now that the continuation is whole."""
        return "" if self._decided else self._release(is_end=True)

    def trim_message(self, message: Message) -> Message:
        """Return the message of the continuation without what it repeats.

        Of one that broke off before it was clear what is new, no text is left.
        """
        text = message.text
        left = self._dropped if self._decided else len(text)
        separator = self._separator if self._decided else ""
        if not left and not separator:
            return message
        parts = []
        for part in message.parts:
            if isinstance(part, TextPart):
                cut, left = min(left, len(part.text)), max(0, left - len(part.text))
                part = structs.replace(part, text=separator + part.text[cut:])  # noqa: PLW2901 - the same part, shorter
                separator = ""
                if not part.text:
                    continue
            parts.append(part)
        return structs.replace(message, parts=tuple(parts))

    def _release(self, *, is_end: bool) -> str:
        held, before = self._held, self._before
        fresh = held.lstrip()
        lead = len(held) - len(fresh)
        if not is_end and self._may_be_repetition(fresh, lead):
            return ""
        overlap = find_overlap(before, fresh, self._compared)
        self._compared = len(fresh)
        if overlap:
            return self._decide(lead + overlap)
        if _is_restart(before, fresh):
            return self._release_restart(fresh, lead, is_end=is_end)
        return self._decide(0)

    def _may_be_repetition(self, fresh: str, lead: int) -> bool:
        """Return whether all that has come is blank, or stands in the text before."""
        if not fresh:
            return lead < _SLACK
        if len(fresh) >= len(self._before) or self._place < 0:
            return False
        if not self._before.startswith(fresh, self._place):
            self._place = self._before.find(fresh, self._place + 1)
        return self._place >= 0

    def _release_restart(self, fresh: str, lead: int, *, is_end: bool) -> str:
        """Return what is new in an answer that began again, once it has come to where it broke off."""
        before = self._before
        if is_end and before.startswith(fresh):
            return self._decide(lead + len(fresh))
        end = _find_caught_up(before, fresh, self._searched)
        self._searched = self._searched if end else max(0, len(fresh) - _ANCHOR_LENGTH)
        if end and (is_end or end < len(fresh)):
            return self._decide(lead + end)
        if not is_end and len(fresh) <= 2 * len(before) + _SLACK:
            return ""
        # In other words it never comes to what was said: it stands by itself.
        self._separator = "" if before.endswith("\n") else "\n\n"
        return self._separator + self._decide(0)

    def _decide(self, dropped: int) -> str:
        self._decided = True
        self._dropped = dropped
        return self._held[dropped:]


def find_overlap(before: str, fresh: str, compared: int = 0) -> int:
    """Return how many characters at the beginning of `fresh`, more than `compared`, repeat the end of `before`; 0 where
    that is by chance.
    """
    beginning = fresh[:_ANCHOR_LENGTH]
    for length in range(min(len(before), len(fresh)), compared, -1):
        if not before.startswith(beginning[:length], len(before) - length):
            continue
        if before.endswith(fresh[:length]) and _is_repetition(before, fresh, length):
            return length
    return 0


def _is_repetition(before: str, fresh: str, length: int) -> bool:
    """Return whether an overlap is words said twice, not rows, digits or rules that go on as they were."""
    words = fresh[:length]
    if before.endswith(words * 2):
        return False
    judged = words[:_JUDGED_LENGTH]
    marks = {character for character in judged if not character.isspace()}
    weight = sum(3 if ord(character) >= _WIDE else 1 for character in judged)
    if weight >= _TELLING_WEIGHT and len(marks) >= _MIN_DISTINCT:
        return True
    # The last word, whole or in part, written from its beginning: nothing else would join without a space.
    begins_word = length == len(before) or not before[-length - 1].isalnum()
    return words.isalpha() and len(marks) >= _FRAGMENT_LETTERS and begins_word


def _is_restart(before: str, fresh: str) -> bool:
    return len(before) >= _RESTART_LENGTH and fresh.startswith(before.lstrip()[:_RESTART_LENGTH])


def _find_caught_up(before: str, fresh: str, searched: int) -> int:
    """Return where in an answer that began again the text after `before` begins; 0 when it has not come to it.

    What begins before `searched` was looked at already.
    """
    anchor = before.rstrip()[-_ANCHOR_LENGTH:]
    place = fresh.find(anchor, max(0, len(before) // 2 - _ANCHOR_LENGTH, searched))
    if place < 0:
        return 0
    end = place + len(anchor)
    spaces = len(before) - len(before.rstrip())
    while spaces and fresh[end : end + 1].isspace():
        end, spaces = end + 1, spaces - 1
    return end
