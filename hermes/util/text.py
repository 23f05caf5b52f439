"""Small text functions that every layer needs: cutting, escaping, cleaning."""

import re

from hermes.util.localizable import Localizable, change_text, fill_template

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def clean_surrogates(text: str) -> str:
    """Join split surrogate pairs and replace lone surrogates by U+FFFD, so that the text encodes as UTF-8."""
    if not _SURROGATE.search(text):
        return text
    joined = _PAIR.sub(lambda match: match[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _SURROGATE.sub("\ufffd", joined)


def truncate_middle(text: str, limit: int, *, head_share: float = 0.7) -> str:
    """Cut `text` to about `limit` characters, keeping its beginning and its end and stating how much was left out."""
    if len(text) <= limit:
        return text
    head = int(limit * head_share)
    tail = limit - head
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[... {left_out} characters left out ...]\n{text[len(text) - tail :]}"


SHOWN_CHARACTERS, SHOWN_LINES = 1_000, 12
"""The most characters and lines of a command that a person is shown at once."""


def is_long(text: str) -> bool:
    """Return whether a command is too long to be shown as a whole."""
    return len(text) > SHOWN_CHARACTERS or text.count("\n") >= SHOWN_LINES


def shorten_command(text: str) -> str:
    """Shorten a long command for showing it: its beginning and its end, with how much is between them."""
    if not is_long(text):
        return text
    half = SHOWN_LINES // 2
    lines = text.split("\n")
    head = "\n".join(lines[:half])[: SHOWN_CHARACTERS * 2 // 3]
    tail = "\n".join(lines[-half:])[-SHOWN_CHARACTERS // 3 :]
    head, tail = (text[: len(head)], text[len(text) - min(len(tail), len(text) - len(head)) :])
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[... {left_out:,} characters are not shown here ...]\n{tail}" if left_out > 0 else text


def to_one_line(text: str, limit: int = 120) -> str:
    """Return the text on one line, at most `limit` characters, for status lines and titles."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


def strip_control_characters(text: str) -> str:
    """Remove what a terminal would obey: escapes, control and direction characters."""
    return change_text(text, _strip_control)


def _strip_control(text: str) -> str:
    return _CONTROL.sub("", text.replace("\r\n", "\n")) if _CONTROL.search(text) else text


def redact_url(url: str) -> str:
    """Return a URL as it may be shown and stored: without user, password, query and fragment, which may hold keys."""
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        scheme, rest = "", url
    place = re.split(r"[?#]", rest, maxsplit=1)[0]
    host, slash, path = place.partition("/")
    return f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"


_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    "\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uff01-\uff5e\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)


_BLANKS = frozenset("\u2800\U00016fe4\U0001d159")
"""Characters that count as letters, marks or symbols and show nothing."""
_UNSEEN_KINDS = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_MARKS = ("Mn", "Me")
_MAX_STACKED_MARKS = 4
"""The most marks over one letter that any language writes; more of them cover the text around."""


def escape_confusable_characters(text: str) -> str:
    """Escape every character that a person cannot see, or takes for another one."""
    return change_text(text, _escape_confusable)


def _escape_confusable(text: str) -> str:
    if text.isascii():
        return _HIDDEN.sub(_escape_match, text) if _HIDDEN.search(text) else text
    from unicodedata import category

    parts: list[str] = []
    stacked = 0
    for one in text:
        kind = category(one)
        stacked = stacked + 1 if kind in _MARKS else 0
        seen = one in "\t\n" or (kind not in _UNSEEN_KINDS and one not in _BLANKS and stacked <= _MAX_STACKED_MARKS)
        parts.append(one if seen else _escape_character(one))
    return _HIDDEN.sub(_escape_match, "".join(parts))


def _escape_match(match: re.Match[str]) -> str:
    return _escape_character(match[0])


def _escape_character(one: str) -> str:
    return f"\\u{{{ord(one):x}}}"


_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f"
    "\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)


def escape_unseen_characters(text: str) -> str:
    """Escape every character that cannot be seen, or that a terminal would obey; characters that only look
    like another one stay, as Chinese punctuation does.
    """
    return _UNSEEN.sub(_escape_match, text)


def end_sentence(text: str) -> str:
    """Return the text with a final punctuation mark, so that another sentence can follow it."""
    if not text or text.rstrip()[-1:] in (*".!?:;。！？…)\"'", ""):
        return text
    return fill_template("{text}.", {"text": text}) if isinstance(text, Localizable) else f"{text.rstrip()}."
