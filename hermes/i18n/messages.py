"""Messages for people, in the person's language.

The English text is the key. `words/LANGUAGE/*.json` beside this file hold the translations; a text that is missing
there is shown in English. Text for models never goes through here: its language must not change with a person's.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar

from hermes.i18n.catalog import load_translations
from hermes.util.localizable import Localizable, fill_template

ENGLISH = "en"
CHINESE = "zh"
LANGUAGES = (ENGLISH, CHINESE)

_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


def set_language(language: str) -> None:
    """Set the language of messages in this task, and in those that it starts."""
    _language.set(language if language in LANGUAGES else ENGLISH)


def get_language() -> str:
    """Return the language of messages in this task."""
    return _language.get()


def language_from_environment(environ: Mapping[str, str]) -> str:
    """Return the language that the environment asks for, by the order POSIX gives these variables."""
    for name in ("HERMES_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        if wanted := environ.get(name, ""):
            return CHINESE if wanted[:2].lower() == CHINESE and not wanted[2:3].isalpha() else ENGLISH
    return ENGLISH


def tr(text: str, /, **values: object) -> str:
    """Translate a message into the person's language and fill its `{name}` places; without values braces are just
    braces.
    """
    language = _language.get()
    translation = text if language == ENGLISH else load_translations(language).get(text, text)
    return translation.format(**values) if values else translation


def tr_plural(one: str, many: str, count: int, /, **values: object) -> str:
    """Translate `one` for a count of one, else `many`, with `{n}` as the count; other languages have `many` only."""
    if _language.get() == ENGLISH and count == 1:
        return one.format(n=count, **values)
    return tr(many, n=f"{count:,}", **values)


def N_(text: str, /, **values: object) -> str:  # noqa: N802 - the name that gettext gives it
    """Mark a message for translation and return it in English, its places filled. It remembers its template and
    values, and is translated when it is shown, by `tr` of a name or by `localize`.
    """
    return fill_template(text, values) if values else text


def localize(text: str, /) -> str:
    """Translate a finished English text (an error's, a notice's, a reason) into the person's language, for showing
    it. A text that has no template and is not in the catalogue stays as it is.
    """
    language = _language.get()
    if language == ENGLISH:
        return _PERSON_PHRASE.sub(r"you \1", text) if "the person " in text else text
    table = load_translations(language)
    if not isinstance(text, Localizable):
        return table.get(text, text)
    values = {name: _localize_value(text.template, name, one) for name, one in text.values.items()}
    if (template := table.get(text.template)) is None:
        return _fill_simple_places(text, values)
    try:
        return template.format(**values)
    except (LookupError, ValueError):  # a wording of another process, whose values do not fit
        return text.plain


def localize_inside(title: str) -> str:
    """Translate a title for the middle of a sentence, where an English article at its beginning is small."""
    said = localize(title)
    return f"the {said[4:]}" if _language.get() == ENGLISH and said.startswith("The ") else said


def _localize_value(template: str, name: str, value: str | float) -> str | float:
    """Translate the value of a place: a message. What is quoted stays as it is, and so does a single word unless the
    place is for words to translate.
    """
    if isinstance(value, Localizable):
        return localize(value)
    if not isinstance(value, str) or f"`{{{name}" in template:
        return value
    return localize(value) if " " in value or name.endswith(LIST_SUFFIX) else value


def _fill_simple_places(text: Localizable, values: Mapping[str, str | float]) -> str:
    """Fill a template that only joins texts, and has no translation of its own. It may come from another process, so
    that only plain places are filled.
    """
    if any(mark.isalpha() for mark in _SIMPLE_PLACE.sub("", text.template)):
        return text.plain
    return _SIMPLE_PLACE.sub(lambda place: str(values.get(place[1], place[0])), text.template)


def join_sentences(*parts: str) -> str:
    """Join sentences; Chinese ones are joined without a space."""
    text = ""
    for part in parts:
        space = " " if text and part and not text.endswith(_WIDE_ENDS) else ""
        text += space + part
    return text


def full_stop() -> str:
    """Return the mark that ends a sentence in the person's language."""
    return "." if _language.get() == ENGLISH else "。"


_PERSON_PHRASE = re.compile(r"\bthe person (said no|chose|switched)\b")
"""Phrases in which a model reads of "the person"; the person reads "you" instead."""
_SIMPLE_PLACE = re.compile(r"\{(\w+)\}")
LIST_SUFFIX = "_said"
"""The suffix of the names of places that hold words to translate."""
_WIDE_ENDS = ("。", "？", "！", "；", "：")
