"""Finds the English template that a text was made from, so that it can be shown in another language.

Errors, notices and reasons are kept, logged and given to models and programs in English. Where a person is shown one,
it is matched against the templates of the catalogue. A text that matches none stays as it is, so text of files, servers
and models is unchanged.
"""

import re
from collections.abc import Iterator
from functools import cache

from hermes.i18n.catalog import load_translations as _translations

_PLACE = re.compile(r"\{(\w+)[^{}]*\}")
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|(?<=,) (?=and )")
_LEADING_PLACE = re.compile(r"\{(?P<place>\w+)\} ?(?P<rest>[^a-z{ ].{8,})", re.DOTALL)
_TRAILING_PLACE = re.compile(r"(?P<rest>.{8,}[.!?。！？]) ?\{(?P<place>\w+)\}", re.DOTALL)
_MAX_CHARS = 4_000
"""The most characters that are looked at; a longer text is not a message."""
_MAX_SENTENCES = 12
_WIDE_ENDS = ("。", "？", "！", "：", "；")
_MIN_CLEAR_LETTERS = 12
"""The letters of its own that a template needs which begins with a place, to be told from other sentences."""
_ANY_TEXT, _ONE_SENTENCE, _SUBJECT, _WORD = ".*?", r"(?:(?![.!?] ).)*?", r"(?:(?![.:;] ).)*?", r"\S*"
"""Patterns for the content of a place; a place at the beginning of a text holds no other sentence."""
_MAX_DEPTH = 3
LIST_SUFFIX = "_said"
"""The suffix of the names of places that hold messages, joined by commas."""
_PREFIX_CHARS = 3
"""Characters that a template must begin with to be looked up by them."""


@cache
def load_templates(language: str) -> dict[str, str]:
    """Return the texts of the catalogue, and the sentences beside a place that holds whole sentences."""
    table = dict(_translations(language))
    for text, said in _translations(language).items():
        for rule in (_LEADING_PLACE, _TRAILING_PLACE):
            theirs, ours = rule.fullmatch(text), rule.fullmatch(said)
            if theirs and ours and theirs["place"] == ours["place"]:
                table.setdefault(theirs["rest"], ours["rest"].strip())
    return table


def translate_english(text: str, language: str, depth: int = 0) -> str:
    """Translate an English text: as a whole, else sentence by sentence, and within its places."""
    known = load_templates(language)
    if not text or text in known:
        return known.get(text, text)
    if len(text) > _MAX_CHARS or depth > _MAX_DEPTH:
        return text
    if (whole := _translate_by_template(text, language, depth)) is not None:
        return whole
    pieces, every = _translate_sentences(text, language, depth)
    if not every and (whole := _translate_by_template(text, language, depth, across=True)) is not None:
        return whole
    return pieces


def _translate_sentences(text: str, language: str, depth: int) -> tuple[str, bool]:
    """Translate the longest known pieces from the left. Return the text and whether all pieces are known."""
    cuts = [0, *(found.end() for found in _SENTENCE.finditer(text)), len(text)]
    if not 2 < len(cuts) <= _MAX_SENTENCES:
        return text, False
    result, at, every = "", 0, True
    while at < len(cuts) - 1:
        ends = [end for end in range(len(cuts) - 1, at, -1) if (at, end) != (0, len(cuts) - 1)]
        for end in ends:
            piece = text[cuts[at] : cuts[end]].rstrip()
            found = load_templates(language).get(piece) or _translate_by_template(piece, language, depth)
            if found is not None:
                result += found + ("" if found.endswith(_WIDE_ENDS) else " ")
                at = end
                break
        else:
            result += text[cuts[at] : cuts[at + 1]]
            at, every = at + 1, False
    return result.rstrip(), every


def _translate_by_template(text: str, language: str, depth: int, *, across: bool = False) -> str | None:
    """Return the translation of the template that fits, the one with the most words of its own first.

    With `across` a place may hold several sentences.
    """
    for template in _iter_fitting_templates(text, language):
        if found := _compile_template(template, across).fullmatch(text):
            values = {
                name: _translate_value(name, value, language, depth + 1) for name, value in found.groupdict().items()
            }
            return _fill_places(load_templates(language)[template], values)
    return None


def _fill_places(translation: str, values: dict[str, str]) -> str:
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), translation)


def _translate_value(name: str, value: str, language: str, depth: int) -> str:
    """Translate the content of a place: a message of several words, or a list of messages; a name stays as it is."""
    if name.endswith(LIST_SUFFIX) and (said := translate_english(value, language, depth)) != value:
        return said
    if name.endswith(LIST_SUFFIX):
        return "、".join(load_templates(language).get(one, one) for one in value.split(", "))
    return translate_english(value, language, depth) if " " in value else value


def _iter_fitting_templates(text: str, language: str) -> Iterator[str]:
    """Yield the templates that may fit the text, those with the most letters of their own first."""
    table = _group_by_prefix(language)
    for template in sorted(
        [*table.get(text[:_PREFIX_CHARS], ()), *table.get("", ())], key=_count_own_letters, reverse=True
    ):
        if text.endswith(template.rpartition("}")[2]):
            yield template


@cache
def _group_by_prefix(language: str) -> dict[str, list[str]]:
    """Return the templates that have places, by what they begin with; under an empty name those that begin with a
    place.
    """
    table: dict[str, list[str]] = {}
    for template in load_templates(language):
        if _PLACE.search(template) and _count_own_letters(template) >= _PREFIX_CHARS:
            first = template.partition("{")[0]
            table.setdefault(first[:_PREFIX_CHARS] if len(first) >= _PREFIX_CHARS else "", []).append(template)
    return table


@cache
def _count_own_letters(template: str) -> int:
    """Return how many letters a template has besides its places."""
    return sum(mark.isalpha() for mark in _PLACE.sub("", template))


@cache
def _compile_template(template: str, across: bool) -> re.Pattern[str]:
    """Compile a template to a pattern with a group for each place."""
    parts: list[str] = []
    at, names = 0, set[str]()
    usual = _ANY_TEXT if across else _ONE_SENTENCE
    what = (
        usual
        if not template.startswith("{")
        else _WORD
        if _count_own_letters(template) < _MIN_CLEAR_LETTERS
        else _SUBJECT
    )
    for place in _PLACE.finditer(template):
        parts.append(re.escape(template[at : place.start()]))
        parts.append(f"(?P={place[1]})" if place[1] in names else f"(?P<{place[1]}>{what})")
        what = usual
        names.add(place[1])
        at = place.end()
    return re.compile("".join([*parts, re.escape(template[at:])]), re.DOTALL)
