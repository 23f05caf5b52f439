"""What of an answer is spoken: its sentences, without code, tables and addresses, up to a limit."""

import re
import unicodedata
from collections.abc import Sequence

from msgspec import Struct

from hermes.i18n.messages import tr
from hermes.markup.blocks import BlockKind
from hermes.markup.document import MarkdownPart, is_marker, parse_parts
from hermes.markup.inline import Span

_ADDRESS = re.compile(r"(?:https?://|www\.|mailto:)[^\s<>()\[\]]+|(?<![\w/])(?:~|\.{0,2})/[\w.~-]+(?:/[\w.~-]+)+/?")
_BLANKS = re.compile(r"[ \t]+")
_SPACE_BEFORE_SIGN = re.compile(r"[ \t]+([.,;:!?])")
_EMPTY_BRACKETS = re.compile(r"\(\s*\)|\[\s*\]")
_ENDS = ".!?…:。！？："
_SENTENCE_END = re.compile(r"[.!?…](?=\s)|[。！？]|\n")
_SCRIPTS = (
    ("HIRAGANA", "ja"),
    ("KATAKANA", "ja"),
    ("HANGUL", "ko"),
    ("CJK", "cmn"),
    ("CYRILLIC", "ru"),
    ("ARABIC", "ar"),
    ("HEBREW", "he"),
    ("GREEK", "el"),
    ("DEVANAGARI", "hi"),
    ("THAI", "th"),
)


class SpokenText(Struct, frozen=True):
    """The text to speak; empty where there is nothing to say aloud."""

    text: str
    was_cut: bool = False
    """Whether it goes on beyond the limit."""


def make_spoken_text(markdown: str, limit: int) -> SpokenText:
    """Return what of an answer is spoken. What is left out is said in a sentence at its end."""
    lines: list[str] = []
    left_out = False
    for part in parse_parts(markdown):
        if part.kind in (BlockKind.CODE, BlockKind.TABLE, BlockKind.TEXT):
            left_out = True
            continue
        if part.kind is BlockKind.RULE:
            continue
        line = _clean(_join_spans(part.spans))
        if any(one.isalnum() for one in line):
            lines.append(_with_number(part, line if line[-1] in _ENDS else f"{line}."))
    text = "\n".join(lines)
    if not text:
        return SpokenText("")
    cut = _cut_text(text, limit)
    was_cut = len(cut) < len(text)
    if was_cut:
        cut += "\n" + tr("The rest is in the text.")
    elif left_out:
        cut += "\n" + tr("What cannot be read aloud, such as code, is in the text.")
    return SpokenText(cut, was_cut)


def guess_language(text: str) -> str:
    """Return the language that a text's script stands for, such as `ru`; empty for Latin letters, which many share."""
    counts: dict[str, int] = {}
    letters = 0
    for letter in text[:2_000]:
        if not letter.isalpha():
            continue
        letters += 1
        if letter.isascii():
            continue
        name = unicodedata.name(letter, "")
        found = next((language for script, language in _SCRIPTS if name.startswith(script)), "")
        if found:
            counts[found] = counts.get(found, 0) + 1
    if counts.get("ja"):
        return "ja"
    best = max(counts, key=lambda one: counts[one], default="")
    return best if best and counts[best] * 3 >= letters else ""


def _join_spans(spans: Sequence[Span]) -> str:
    """Return the words of a paragraph: a link's without its address, none of a picture."""
    found = []
    for words, style, href in spans:
        if "image" in style.split() or (href and words.strip() in (href, href.removeprefix("mailto:"))):
            continue
        found.append(words)
    return "".join(found)


def _clean(text: str) -> str:
    text = _EMPTY_BRACKETS.sub("", _ADDRESS.sub("", text))
    kept = "".join(one for one in text if unicodedata.category(one) not in ("So", "Sk", "Cf", "Cn", "Co"))
    return _SPACE_BEFORE_SIGN.sub(r"\1", _BLANKS.sub(" ", kept.replace("\n", " "))).strip()


def _with_number(part: MarkdownPart, line: str) -> str:
    """Return an item of a numbered list with its number."""
    marker = part.containers[-1] if part.containers and is_marker(part.containers[-1]) else ""
    return f"{marker} {line}" if marker[:1].isdigit() else line


def _cut_text(text: str, limit: int) -> str:
    """Return the text up to the last sentence that fits, else up to the last word."""
    if len(text) <= limit:
        return text
    head = text[:limit]
    ends = [match.end() for match in _SENTENCE_END.finditer(head)]
    if ends and ends[-1] > limit // 4:
        return head[: ends[-1]].rstrip()
    return head.rpartition(" ")[0].rstrip() or head
