"""What the program says to a person, in that person's language.

The English text is the key. `words/LANGUAGE/*.json` beside this file hold the others, English to translated; a text
that is missing there is said in English. What a model reads is never said through here: its language must not move with
a person's.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar

from hermes.i18n.catalog import translations

ENGLISH = "en"
CHINESE = "zh"
LANGUAGES = (ENGLISH, CHINESE)

_spoken: ContextVar[str] = ContextVar("language", default=ENGLISH)


def speak(language: str) -> None:
    """Say everything in this language from now on: in this task, and in those that it starts."""
    _spoken.set(language if language in LANGUAGES else ENGLISH)


def spoken() -> str:
    """The language that is spoken here."""
    return _spoken.get()


def language_of(environ: Mapping[str, str]) -> str:
    """The language that the environment asks for, by the order POSIX gives these variables."""
    for name in ("HERMES_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        if wanted := environ.get(name, ""):
            return CHINESE if wanted[:2].lower() == CHINESE and not wanted[2:3].isalpha() else ENGLISH
    return ENGLISH


def say(text: str, /, **values: object) -> str:
    """The text in the person's language, its `{name}` places filled; without values braces are just braces."""
    language = _spoken.get()
    said = text if language == ENGLISH else translations(language).get(text, text)
    return said.format(**values) if values else said


def say_many(one: str, many: str, count: int, /, **values: object) -> str:
    """`one` for a count of one, `many` for all others, with `{n}` as the count; other languages know `many` only."""
    if _spoken.get() == ENGLISH and count == 1:
        return one.format(n=count, **values)
    return say(many, n=f"{count:,}", **values)


def phrase(text: str, /, **values: object) -> str:
    """The text in English, its places filled: marks one that is said later, by `say` of a name or by `translated`."""
    return text.format(**values) if values else text


def translated(text: str, /) -> str:
    """A text that was made in English (an error's, a notice's, a reason) in the person's language, for showing it."""
    language = _spoken.get()
    if language == ENGLISH:
        return _TO_THE_PERSON.sub(r"you \1", text) if "the person " in text else text
    from hermes.i18n.recognizer import recognised

    return recognised(text, language)


def joined(*parts: str) -> str:
    """Sentences one after the other; Chinese ones stand without a space between them."""
    text = ""
    for part in parts:
        space = " " if text and part and not text.endswith(_WIDE_ENDS) else ""
        text += space + part
    return text


def full_stop() -> str:
    """What ends a sentence."""
    return "." if _spoken.get() == ENGLISH else "。"


_TO_THE_PERSON = re.compile(r"\bthe person (said no|chose|switched)\b")
"""What a model is told of the person, who is told it as `you`."""
_WIDE_ENDS = ("。", "？", "！", "；", "：")
