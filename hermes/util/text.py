"""Small text functions that every layer needs: cutting, escaping, cleaning; and patterns that are compiled late."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import AnyStr, cast

from hermes.util.localizable import Localizable, change_text, fill_template

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class _LatePattern:
    """The text of a pattern until one of its methods is asked for, which is then the compiled one's."""

    def __init__(self, text: str, flags: int) -> None:
        self._source = (text, flags)

    def __getattr__(self, name: str) -> object:
        value: object = getattr(re.compile(*self._source), name)
        setattr(self, name, value)
        return value


def compile_late(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at its first use. A mistake in it is raised there, as `re.error`.

    Compiling all patterns of the package is a tenth of the cost of a short run, and most judge what it never sees.
    """
    return cast("re.Pattern[str]", _LatePattern(text, flags))


def find_each(text: AnyStr, part: AnyStr) -> Iterator[int]:
    """Yield every place of a part in a text; they do not overlap."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))


def clean_surrogates(text: str) -> str:
    """Join split surrogate pairs and replace lone surrogates by U+FFFD, so that the text encodes as UTF-8."""
    if not _SURROGATE.search(text):
        return text
    joined = _PAIR.sub(lambda match: match[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _SURROGATE.sub("\ufffd", joined)


def escape_surrogates(text: str) -> str:
    """Escape lone surrogates, which stand for bytes of a name that are not UTF-8, so that it can be sent and stored."""
    if not _SURROGATE.search(text):
        return text
    return change_text(text, lambda one: one.encode("utf-8", "backslashreplace").decode())


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


def find_choice(answer: str, choices: Sequence[str]) -> int | None:
    """Return which of the numbered choices a typed answer means: its number, or its words in any letter case. None for
    an answer in other words.
    """
    said = answer.strip()
    if said.isdecimal() and 0 < int(said[:9]) <= len(choices):
        return int(said) - 1
    return next((at for at, one in enumerate(choices) if one.strip().casefold() == said.casefold()), None)


def to_one_line(text: str, limit: int = 120) -> str:
    """Return the text on one line, at most `limit` characters, for status lines and titles."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DIRECTION = "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"

IGNORABLES = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""What shows nothing by itself (Unicode's Default_Ignorable_Code_Point, and the marks of annotations), for a character
class of a pattern.
"""


def strip_control_characters(text: str) -> str:
    """Remove what a terminal would obey, and escape what cannot be seen: for names, questions and other words that a
    person reads to know what something is. Joiners and selectors stay where scripts and emoji need them.
    """
    return change_text(text, lambda plain: _escape_unseen(_strip_control(plain)))


def strip_terminal_controls(text: str) -> str:
    """Remove what a terminal would obey, direction characters too: for prose and for text that goes on to programs."""
    return change_text(text, lambda plain: re.sub(_DIRECTION, "", _strip_control(plain)))


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


# Patterns of other characters than ASCII's are texts: most processes never use them, and compiling them takes time.
_HIDDEN = (
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
        return _CONTROL.sub(_escape_match, text) if _CONTROL.search(text) else text
    from unicodedata import category

    parts: list[str] = []
    stacked = 0
    for one in text:
        kind = category(one)
        stacked = stacked + 1 if kind in _MARKS else 0
        seen = one in "\t\n" or (kind not in _UNSEEN_KINDS and one not in _BLANKS and stacked <= _MAX_STACKED_MARKS)
        parts.append(one if seen else _escape_character(one))
    return re.sub(_HIDDEN, _escape_match, "".join(parts))


_LINE_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def escape_line_breaks(text: str) -> str:
    """Escape what ends a line, and what a terminal obeys, so that a name stays a part of the line that it stands in."""
    return change_text(text, lambda plain: _LINE_BREAKS.sub(_escape_match, plain))


def shorten_value(text: str, limit: int) -> str:
    """Return a value for a place in a line, without line breaks and cut in its middle."""
    return truncate_middle(escape_line_breaks(text), limit).replace("\n", " ")


def _escape_match(match: re.Match[str]) -> str:
    return _escape_character(match[0])


def _escape_character(one: str) -> str:
    return f"\\u{{{ord(one):x}}}"


_UNSEEN = (
    f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202f\u205f\u2800\ud800-\udfff"
    f"\U00013430-\U0001345f\U00016fe4\U0001d159{IGNORABLES}]"
)
_JOINERS = frozenset("\u200c\u200d")
_SELECTORS = "[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
_KEYCAPS = frozenset("0123456789#*")
_SYMBOLS = "\xa9\xae\u2010-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINED = f"[\u0600-\u109f\u1700-\u1cff\ua800-\uabff\ufb50-\ufdff\U00010800-\U00011fff{_SYMBOLS}]"
"""Letters of scripts that are written joined or stacked, and emoji; elsewhere a joiner changes nothing that is seen."""
_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_VARIED = (
    f"[\u1000-\u109f\u1800-\u18af\u2e80-\u33ff\ua840-\ua87f{_HAN}{_SYMBOLS}][\u180b-\ufe0f]"
    f"|[{_HAN}][\U000e0100-\U000e01ef]"
)
"""A character and a selector by which Unicode defines a variant of it: emoji, other symbols, letters of few scripts."""
_FLAG_OR_UNSEEN = f"\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{{2,6}}\U000e007f|{_UNSEEN}"
"""An unseen character, or as a whole the flag of a part of a country, whose letters are tags behind a black flag."""


def escape_unseen_characters(text: str) -> str:
    """Escape every character that cannot be seen, or that a terminal would obey; characters that only look
    like another one stay, as Chinese punctuation does, and so do joiners and selectors in their place.
    """
    return _escape_unseen(text)


def _escape_unseen(text: str) -> str:
    if text.isascii():
        return _CONTROL.sub(_escape_match, text) if _CONTROL.search(text) else text
    return re.sub(_FLAG_OR_UNSEEN, _escape_misplaced, text) if re.search(_UNSEEN, text) else text


def _escape_misplaced(match: re.Match[str]) -> str:
    kept = len(match[0]) > 1 or is_in_place(match.string, match.start())
    return match[0] if kept else _escape_character(match[0])


def is_in_place(text: str, at: int) -> bool:
    """Return whether an unseen character joins two letters or signs, or selects the form of the one before it."""
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    if text[at] in _JOINERS:
        if before and re.match(_SELECTORS, before):
            before = text[max(at - 2, 0) : at - 1]
        return all(re.match(_JOINED, one) and not re.match(_UNSEEN, one) for one in (before, after))
    if re.match(_SELECTORS, text[at]):
        return before in _KEYCAPS or bool(re.match(_VARIED, before + text[at]) and not re.match(_UNSEEN, before))
    return False


def quote_setting(value: str) -> str:
    """Return a text as a person may copy it into a list of the settings: in quotes where YAML would read another."""
    return value if re.fullmatch(r"[\w/][\w/.*' -]*", value) else json.dumps(value)


def end_sentence(text: str) -> str:
    """Return the text with a final punctuation mark, so that another sentence can follow it."""
    if not text or text.rstrip()[-1:] in (*".!?:;。！？…)\"'", ""):
        return text
    return fill_template("{text}.", {"text": text}) if isinstance(text, Localizable) else f"{text.rstrip()}."
