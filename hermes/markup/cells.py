"""Text in terminal cells: sanitizing, measuring and wrapping."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from hermes.util.text import clean_surrogates

_ODD = re.compile(
    "[\x00-\x1f\x7f-\x9f\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff\U0001d173-\U0001d17a]"
)
_SEQUENCE = re.compile("(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]")
_BREAK = re.compile("[\r\x0b\x0c\x1c-\x1f\x85\xa0\u2028\u2029\u202f\u205f\t\n]")
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\U0001d173-\U0001d17a]"
)
_LONE = re.compile("(?<![^\x00-\x7f\u200c\u200d\ufe0f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\u200c\u200d\ufe0f])")
_SELECTOR = re.compile("(?<![#*0-9©®‼-㊙\U0001f000-\U0001faff])\ufe0f")
_JOINED = re.compile("\ufe0f(?=\u200d)")
_NARROW = re.compile(
    "[ -~\xa1-\xac\xae-\u02ff\u0370-\u0482\u048a-\u0530\u1e00-\u1fbc\u2010-\u2027\u2030-\u205e\u20a0-\u20bf"
    "\u2190-\u2199\u2200-\u22ff\u2500-\u259f]*"
).fullmatch
_CHINESE = re.compile("[\u2e80-\u303e\u3041-\u30ff\u4e00-\u9fff\uff01-\uff60]").fullmatch
_NOT_FIRST = frozenset("、。，．！？：；）」』】》〉〕”’…—,.!?:;)]}%")
_NOT_LAST = frozenset("（「『【《〈〔“‘([{")
_ADDRESS = re.compile("[(<\\[\"'`]?[a-zA-Z][a-zA-Z0-9+.-]*://[!-~]*")
MAX_WHOLE_ADDRESS = 2_000
"""The longest address in characters that is not broken though it is wider than the line."""
_UNBREAKABLE = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]\s*|[^\s\u2e80-\u9fff\uff00-\uffef]+\s*")
"""A Chinese letter or a word, with the spaces behind it."""
_CLOSING = "，。；：？！）」”、"
_MIN_FOLD_WIDTH = 20
Range = tuple[int, int]
_SEARCH_JOINER = re.compile("[\u200d\ufe0f\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]").search
"""Finds what joins several characters to one grapheme, two cells wide at most: joiners, flags, skin tones."""
_MAX_GRAPHEME_LENGTH = 16


def sanitize_line(line: str) -> str:
    """Return the line without anything that a terminal obeys or that is invisible.

    Color sequences are removed as a whole, tabs are expanded, what would move the cursor or break the line becomes a
    space. Joiners stay where scripts and emoji need them: between two characters that are not ASCII.
    """
    if not _ODD.search(line):
        return line
    line = clean_surrogates(_SEQUENCE.sub("", line)).expandtabs(4)
    line = _UNSEEN.sub("", _BREAK.sub(" ", line))
    if "\u200c" in line or "\u200d" in line or "\ufe0f" in line:
        line = _SELECTOR.sub("", line)
        line = _JOINED.sub("", line)
        line = _LONE.sub("", line)
    return line


@lru_cache(maxsize=8192)
def _character_width(letter: str) -> int:
    if letter == "\ufe0f":
        return 1  # it may make the emoji before it two cells wide; a line that is too short does no harm
    if is_narrow(letter):
        return 1
    if _CHINESE(letter) and unicodedata.category(letter)[0] not in "CM":
        return 2  # most letters that are not narrow; the table behind `wcwidth` takes 30 ms to load
    from wcwidth import wcwidth

    return max(wcwidth(letter), 0)


def _split_graphemes(text: str, start: int, end: int) -> Iterable[str]:
    """Return the characters of that part of the text, with those of one grapheme together."""
    return _iterate_graphemes(text, start, end) if _SEARCH_JOINER(text, start, end) else text[start:end]


def _iterate_graphemes(text: str, start: int, end: int) -> Iterator[str]:
    from wcwidth import iter_graphemes

    for sign in iter_graphemes(text, start, end):
        if len(sign) == 1 or (
            len(sign) <= _MAX_GRAPHEME_LENGTH and _SEARCH_JOINER(sign) and _grapheme_width(sign) <= 2
        ):
            yield sign
        else:
            yield from sign


def _grapheme_width(sign: str) -> int:
    if len(sign) == 1:
        return _character_width(sign)
    from wcwidth import wcswidth

    return max(wcswidth(sign), 0)


def is_narrow(text: str) -> bool:
    """Return whether every character takes one cell."""
    return text.isascii() or _NARROW(text) is not None


def measure_width(text: str) -> int:
    """Return how many cells the text takes at most."""
    return len(text) if is_narrow(text) else sum(map(_grapheme_width, _split_graphemes(text, 0, len(text))))


def truncate_text(text: str, width: int, more: str = "…") -> str:
    """Return as much of the text as fits into `width` cells; `more` at its end marks a cut."""
    if measure_width(text) <= width:
        return text
    room = width - len(more)
    if room <= 0:
        return more[: max(width, 0)]
    if is_narrow(text):
        return text[:room].rstrip() + more
    used = at = 0
    for sign in _split_graphemes(text, 0, len(text)):
        used += _grapheme_width(sign)
        if used > room:
            return text[:at].rstrip() + more
        at += len(sign)
    return text


def pad_text(text: str, width: int, *, right: bool = False, centre: bool = False) -> str:
    """Pad the text with spaces to `width` cells."""
    spare = max(width - measure_width(text), 0)
    left = spare if right else spare // 2 if centre else 0
    return f"{' ' * left}{text}{' ' * (spare - left)}"


def fit_text(text: str, width: int) -> str:
    """Return the text in exactly `width` cells: cut with `…`, or padded with spaces."""
    return pad_text(truncate_text(text, width), width)


def fold_line(text: str, columns: int) -> list[str]:
    """Break a line into several of at most so many columns, indented like the first.

    It breaks at spaces and between Chinese characters, but not before a closing mark; a longer word stays whole.
    """
    room = max(columns, _MIN_FOLD_WIDTH)
    if measure_width(text) <= room:
        return [text]
    margin = text[: len(text) - len(text.lstrip())]
    lines: list[str] = []
    line = margin
    for piece in _UNBREAKABLE.findall(text[len(margin) :]):
        if line.strip() and measure_width(line) + measure_width(piece.rstrip()) > room and piece[0] not in _CLOSING:
            lines.append(line.rstrip())
            line = margin
        line += piece
    return [*lines, line.rstrip()]


def wrap_text(text: str, width: int, *, whole: bool = False) -> list[Range]:
    """Return where the lines of the text begin and end when it is wrapped to `width` cells.

    It wraps at words (Chinese anywhere). With `whole` an address wider than a line is not broken, so that
    the terminal wraps it and it can be copied.
    """
    size = len(text)
    if size <= width and "\n" not in text and (is_narrow(text) or measure_width(text) <= width):
        return [(0, size)]
    wrap = _wrap_narrow if is_narrow(text.replace("\n", "")) else _wrap_wide
    found: list[Range] = []
    start = 0
    while True:
        end = text.find("\n", start)
        end = size if end < 0 else end
        found += wrap(text, (start, end), width, whole)
        if end == size:
            return found
        start = end + 1


def _wrap_narrow(text: str, part: Range, width: int, whole: bool) -> list[Range]:
    start, end = part
    found: list[Range] = []
    while end - start > width:
        at = text.rfind(" ", start, start + width + 1)
        if at <= start or text[start:at].isspace():
            at = _find_address_end(text, start, end, whole) or start + width
        found.append((start, at))
        start = at
        while start < end and text[start] == " ":
            start += 1
    if start < end or not found:
        found.append((start, end))
    return found


def _find_address_end(text: str, start: int, end: int, whole: bool) -> int:
    """Return where an address that begins at `start` ends; 0 when it is to be broken like any word."""
    if not whole or not (match := _ADDRESS.match(text, start, end)) or match.end() - start > MAX_WHOLE_ADDRESS:
        return 0
    return match.end()


def _wrap_wide(text: str, part: Range, width: int, whole: bool) -> list[Range]:
    start, end = part
    found: list[Range] = []
    while start < end:
        stop = _find_line_end(text, start, end, width)
        if stop < end:
            stop = max(stop, _find_address_end(text, start, end, whole))
        found.append((start, stop))
        start = stop
        while start < end and text[start] == " ":
            start += 1
    return found or [part]


def _find_line_end(text: str, start: int, end: int, width: int) -> int:
    """Return where the line that begins at `start` ends."""
    used, best, before, wide, at = 0, start, "", False, start
    for sign in _split_graphemes(text, start, end):
        cells = _grapheme_width(sign)
        if sign == " " or (cells and (cells > 1 or wide) and _can_break_between(before, sign)):
            best = at
        used += cells
        if used > width and cells and at > start:
            return at if text[start:best].strip() == "" else best
        wide = cells > 1 if cells else wide
        before = sign
        at += len(sign)
    return end


def _can_break_between(before: str, after: str) -> bool:
    """Return whether a line may end between these two, one of which takes two cells."""
    return before != "\u200d" and after not in _NOT_FIRST and before not in _NOT_LAST
