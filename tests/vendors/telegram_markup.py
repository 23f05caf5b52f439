"""How Telegram reads marked text: MarkdownV2 and HTML with their errors, and ranges held to their rules."""

import re
from collections.abc import Mapping, Sequence
from html import unescape

RESERVED = frozenset("_*[]()~`>#+-=|{}.!")
_TOGGLES = ("__", "||", "*", "_", "~")
_TAGS = frozenset(("b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "code", "pre", "a", "blockquote"))
_TAG = re.compile(r"<(/?)([a-zA-Z-]+)([^<>]*)>")
_LINK = re.compile(r"\]\(((?:[^()\\]|\\.)*)\)")
_ALONE = ("pre", "code")


class MarkupError(Exception):
    """The text cannot be read as it is marked; the server's words."""


def units(text: str) -> int:
    """UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def read(text: str, mode: str, entities: Sequence[Mapping[str, object]]) -> str:
    """The words of a text with marks. Raises MarkupError."""
    if mode == "MarkdownV2":
        return _markdown(text)
    if mode == "HTML":
        return _html(text)
    if mode:
        raise MarkupError("unsupported parse_mode")
    _check(text, entities)
    return text


def _check(text: str, entities: Sequence[Mapping[str, object]]) -> None:
    """Hold ranges to the rules; the real server mends or drops some of what is wrong here, which hides mistakes."""
    raw = text.encode("utf-16-le", "surrogatepass")
    found = [_range(one, raw) for one in entities]
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            _check_nested(one, other)


def _range(one: Mapping[str, object], raw: bytes) -> tuple[int, int, str]:
    begin, length, kind = one.get("offset"), one.get("length"), one.get("type")
    if not isinstance(begin, int) or not isinstance(length, int) or not isinstance(kind, str):
        raise MarkupError("can't parse entities: offset, length and type must be there")
    end = begin + length
    if begin < 0 or length <= 0 or 2 * end > len(raw):
        raise MarkupError(f"can't parse entities: {kind} at {begin} with {length} is outside of the text")
    for place in (begin, end):
        if 0xDC00 <= int.from_bytes(raw[2 * place : 2 * place + 2], "little") < 0xE000:
            raise MarkupError(f"can't parse entities: {kind} parts a character at {place}")
    if kind == "text_link" and not re.match(r"(https?|tg)://", str(one.get("url", ""))):
        raise MarkupError("can't parse entities: text_link without an address")
    return begin, end, kind


def _check_nested(one: tuple[int, int, str], other: tuple[int, int, str]) -> None:
    if other[0] >= one[1] or other[1] <= one[0]:
        return
    kinds = (one[2], other[2])
    inside = one[0] <= other[0] and other[1] <= one[1]
    if not inside and not (other[0] <= one[0] and one[1] <= other[1]):
        raise MarkupError(f"can't parse entities: {kinds[0]} and {kinds[1]} cross")
    if set(kinds) & set(_ALONE) and "blockquote" not in kinds:
        raise MarkupError(f"can't parse entities: {kinds[0]} and {kinds[1]} cannot be nested")


def _markdown(text: str) -> str:
    found: list[str] = []
    stack: list[str] = []
    at = 0
    while at < len(text):
        one = text[at]
        if one == "\\" and at + 1 < len(text) and ord(text[at + 1]) < 127:
            found.append(text[at + 1])
            at += 2
        elif one == "`":
            at = _code(text, at, "```" if text.startswith("```", at) else "`", found)
        elif (one == ">" and text[at - 1 : at] in ("", "\n")) or one not in RESERVED:
            found.append(one if one != ">" else "")
            at += 1
        else:
            at = _mark(text, at, stack)
    if stack:
        raise MarkupError("can't parse entities: Can't find end of the entity")
    return "".join(found)


def _mark(text: str, at: int, stack: list[str]) -> int:
    """A mark that opens or closes something; where it ends."""
    if mark := next((mark for mark in _TOGGLES if text.startswith(mark, at)), ""):
        _toggle(stack, mark, at)
        return at + len(mark)
    if text[at] == "[" or text.startswith("![", at):
        stack.append("[")
        return at + (1 if text[at] == "[" else 2)
    if stack and stack[-1] == "[" and (match := _LINK.match(text, at)):
        stack.pop()
        return match.end()
    raise MarkupError(
        f"can't parse entities: Character '{text[at]}' is reserved and must be escaped with the preceding '\\'"
    )


def _toggle(stack: list[str], mark: str, at: int) -> None:
    if stack and stack[-1] == mark:
        stack.pop()
    elif mark in stack:
        raise MarkupError(f"can't parse entities: Can't find end of the entity starting at byte offset {at}")
    else:
        stack.append(mark)


def _code(text: str, at: int, mark: str, found: list[str]) -> int:
    end = text.find(mark, at + len(mark))
    while end > 0 and text[end - 1] == "\\":
        end = text.find(mark, end + 1)
    if end < 0:
        raise MarkupError(f"can't parse entities: Can't find end of the entity starting at byte offset {at}")
    inside = text[at + len(mark) : end]
    if mark == "```":
        inside = re.sub(r"^[\w+#.-]*\n", "", inside)
    found.append(re.sub(r"\\(.)", r"\1", inside))
    return end + len(mark)


def _html(text: str) -> str:
    found: list[str] = []
    stack: list[str] = []
    at = 0
    while at < len(text):
        start = text.find("<", at)
        found.append(unescape(text[at : start if start >= 0 else len(text)]))
        if start < 0:
            break
        match = _TAG.match(text, start)
        if not match or match[2].lower() not in _TAGS:
            name = match[2] if match else ""
            raise MarkupError(f'can\'t parse entities: Unsupported start tag "{name}" at byte offset {start}')
        if not match[1]:
            stack.append(match[2].lower())
        elif not stack or stack.pop() != match[2].lower():
            raise MarkupError(f"can't parse entities: Unmatched end tag at byte offset {start}")
        at = match.end()
    if stack:
        raise MarkupError(f"can't parse entities: Can't find end tag corresponding to start tag \"{stack[-1]}\"")
    return "".join(found)
