"""Finds the English template that a text was made from, so that it can be shown in another language.

What errors, notices and reasons of questions say is kept, logged and given to models and programs in English. Where a
person is shown it, it is taken apart again by the texts of the catalogue. What matches none of them stays as it is, so
words of files, servers and models come through untouched.
"""

import re
from collections.abc import Iterator
from functools import cache

from hermes.i18n.catalog import translations as _translations

_PLACE = re.compile(r"\{(\w+)[^{}]*\}")
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|(?<=,) (?=and )")
_LED = re.compile(r"\{(?P<place>\w+)\} ?(?P<rest>[^a-z{ ].{8,})", re.DOTALL)
_FOLLOWED = re.compile(r"(?P<rest>.{8,}[.!?。！？]) ?\{(?P<place>\w+)\}", re.DOTALL)
_LONGEST = 4_000
"""Characters that are looked at; more than that is no text of ours."""
_PIECES = 12
_WIDE_ENDS = ("。", "？", "！", "：", "；")
_CLEAR = 12
"""Letters of its own from which on a template that begins with a place is told from other sentences."""
_ANY, _SENTENCE_WITHIN, _SUBJECT, _WORD = ".*?", r"(?:(?![.!?] ).)*?", r"(?:(?![.:;] ).)*?", r"\S*"
"""What may stand in a place; one that a text begins with holds no other sentence."""
_DEEPEST = 3
LIST = "_said"
"""What the name of a place ends with that holds texts of ours, joined by commas."""
_KEY = 3
"""Characters that a template must begin with to be looked up by them."""


@cache
def translations(language: str) -> dict[str, str]:
    """The texts of the catalogue, and the sentences that stand beside a place of whole sentences in one of them."""
    table = dict(_translations(language))
    for text, said in _translations(language).items():
        for rule in (_LED, _FOLLOWED):
            theirs, ours = rule.fullmatch(text), rule.fullmatch(said)
            if theirs and ours and theirs["place"] == ours["place"]:
                table.setdefault(theirs["rest"], ours["rest"].strip())
    return table


def recognised(text: str, language: str, depth: int = 0) -> str:
    """The text in that language: as one text, sentence by sentence, and within their places."""
    known = translations(language)
    if not text or text in known:
        return known.get(text, text)
    if len(text) > _LONGEST or depth > _DEEPEST:
        return text
    if (whole := _filled(text, language, depth)) is not None:
        return whole
    pieces, every = _by_sentences(text, language, depth)
    if not every and (whole := _filled(text, language, depth, across=True)) is not None:
        return whole
    return pieces


def _by_sentences(text: str, language: str, depth: int) -> tuple[str, bool]:
    """The longest known pieces from the left, and whether all are known; what is not stays."""
    cuts = [0, *(found.end() for found in _SENTENCE.finditer(text)), len(text)]
    if not 2 < len(cuts) <= _PIECES:
        return text, False
    said, at, every = "", 0, True
    while at < len(cuts) - 1:
        ends = [end for end in range(len(cuts) - 1, at, -1) if (at, end) != (0, len(cuts) - 1)]
        for end in ends:
            piece = text[cuts[at] : cuts[end]].rstrip()
            found = translations(language).get(piece) or _filled(piece, language, depth)
            if found is not None:
                said += found + ("" if found.endswith(_WIDE_ENDS) else " ")
                at = end
                break
        else:
            said += text[cuts[at] : cuts[at + 1]]
            at, every = at + 1, False
    return said.rstrip(), every


def _filled(text: str, language: str, depth: int, *, across: bool = False) -> str | None:
    """The translation of the template that fits, the one with the most words of its own first.

    With `across` a place may hold several sentences.
    """
    for template in _fitting(text, language):
        if found := _pattern(template, across).fullmatch(text):
            values = {name: _value(name, value, language, depth + 1) for name, value in found.groupdict().items()}
            return _placed(translations(language)[template], values)
    return None


def _placed(said: str, values: dict[str, str]) -> str:
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), said)


def _value(name: str, value: str, language: str, depth: int) -> str:
    """What stood in a place: a text of ours with several words, or a list of ours; else a name, which stays."""
    if name.endswith(LIST) and (said := recognised(value, language, depth)) != value:
        return said
    if name.endswith(LIST):
        return "、".join(translations(language).get(one, one) for one in value.split(", "))
    return recognised(value, language, depth) if " " in value else value


def _fitting(text: str, language: str) -> Iterator[str]:
    table = _by_beginning(language)
    for template in sorted([*table.get(text[:_KEY], ()), *table.get("", ())], key=_own, reverse=True):
        if text.endswith(template.rpartition("}")[2]):
            yield template


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


@cache
def _pattern(template: str, across: bool) -> re.Pattern[str]:
    parts: list[str] = []
    at, names = 0, set[str]()
    usual = _ANY if across else _SENTENCE_WITHIN
    what = usual if not template.startswith("{") else _WORD if _own(template) < _CLEAR else _SUBJECT
    for place in _PLACE.finditer(template):
        parts.append(re.escape(template[at : place.start()]))
        parts.append(f"(?P={place[1]})" if place[1] in names else f"(?P<{place[1]}>{what})")
        what = usual
        names.add(place[1])
        at = place.end()
    return re.compile("".join([*parts, re.escape(template[at:])]), re.DOTALL)
