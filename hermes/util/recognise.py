"""Finds the English template that a text was made from, so that it can be shown in another language.

What errors, notices and reasons of questions say is kept, logged and given to models and programs in English. Where a
person is shown it, it is taken apart again by the texts of the catalogue. What matches none of them stays as it is, so
words of files, servers and models come through untouched.
"""

import re
from collections.abc import Iterator
from functools import cache

from hermes.util.say import translations

_PLACE = re.compile(r"\{(\w+)[^{}]*\}")
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|(?<=,) (?=and )")
_LONGEST = 4_000
"""Characters that are looked at; more than that is no text of ours."""
_PIECES = 12
_CLEAR = 12
"""Letters of its own from which on a template that begins with a place is told from other sentences."""
_ANY, _SUBJECT, _WORD = ".*?", r"(?:(?![.:;] ).)*?", r"\S*"
"""What may stand in a place; one that a text begins with holds no other sentence."""
_DEEPEST = 3
_KEY = 3
"""Characters that a template must begin with to be looked up by them."""


def recognised(text: str, language: str, depth: int = 0) -> str:
    """The text in that language: as a whole, or sentence by sentence, and within their places."""
    known = translations(language)
    if not text or text in known:
        return known.get(text, text)
    if len(text) > _LONGEST:
        return text
    if (whole := _filled(text, language, depth)) is not None:
        return whole
    return _by_sentences(text, language, depth)


def _by_sentences(text: str, language: str, depth: int) -> str:
    """The longest known pieces from the left; what is between them stays."""
    cuts = [0, *(found.end() for found in _SENTENCE.finditer(text)), len(text)]
    if not 2 < len(cuts) <= _PIECES:
        return text
    said, at = "", 0
    while at < len(cuts) - 1:
        for end in range(len(cuts) - 1, at, -1):
            piece = text[cuts[at] : cuts[end]]
            whole = (at, end) == (0, len(cuts) - 1)
            found = None if whole else _known(piece.rstrip(), language, depth)
            if found is not None:
                said += found + ("" if found.endswith(("。", "？", "！", "：", "；")) else " ")
                at = end
                break
        else:
            said += text[cuts[at] : cuts[at + 1]]
            at += 1
    return said.rstrip()


def _known(text: str, language: str, depth: int) -> str | None:
    return translations(language).get(text) or _filled(text, language, depth)


def _filled(text: str, language: str, depth: int) -> str | None:
    """The translation of the template that fits, the one with the most words of its own first."""
    if depth > _DEEPEST:
        return None
    for pattern, template in _fitting(text, language):
        if found := pattern.fullmatch(text):
            values = {name: recognised(value, language, depth + 1) for name, value in found.groupdict().items()}
            said = translations(language)[template]
            return _PLACE.sub(lambda place, values=values: values.get(place[1], place[0]), said)  # type: ignore[misc]
    return None


def _fitting(text: str, language: str) -> Iterator[tuple[re.Pattern[str], str]]:
    table = _by_beginning(language)
    for template in sorted([*table.get(text[:_KEY], ()), *table.get("", ())], key=_own, reverse=True):
        if _end(template) == "" or text.endswith(_end(template)):
            yield _pattern(template), template


@cache
def _by_beginning(language: str) -> dict[str, list[str]]:
    """The templates that have places, by what they begin with; under an empty name those that begin with a place."""
    table: dict[str, list[str]] = {}
    for template in translations(language):
        if _PLACE.search(template) and _own(template) >= _KEY:
            first = template.partition("{")[0]
            table.setdefault(first[:_KEY] if len(first) >= _KEY else "", []).append(template)
    return table


@cache
def _own(template: str) -> int:
    """How many letters a template has besides its places."""
    return sum(mark.isalpha() for mark in _PLACE.sub("", template))


def _end(template: str) -> str:
    return template.rpartition("}")[2]


@cache
def _pattern(template: str) -> re.Pattern[str]:
    parts: list[str] = []
    at, names = 0, set[str]()
    what = _ANY if not template.startswith("{") else _WORD if _own(template) < _CLEAR else _SUBJECT
    for place in _PLACE.finditer(template):
        parts.append(re.escape(template[at : place.start()]))
        parts.append(f"(?P={place[1]})" if place[1] in names else f"(?P<{place[1]}>{what})")
        what = _ANY
        names.add(place[1])
        at = place.end()
    return re.compile("".join([*parts, re.escape(template[at:])]), re.DOTALL)
