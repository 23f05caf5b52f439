"""Patterns that a person writes for commands: matching them, and making one for exactly one command."""

import fnmatch
import re
import shlex
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"[*?\[]")
_SURPRISING = re.compile(r"(?:^|/)\.\.(?:/|$)|[{}]")
_QUOTED = re.compile(r"[\s'\"\\]")
"""Characters for which a word needs quotes: without them it could be several words, or another one."""


def covers_subject(pattern: str, subject: str) -> bool:
    """Return whether a pattern covers the subject of a finding.

    They are compared word by word; a word with spaces is in quotes, as in a shell. `*`, `?` and `[...]` are as in file
    names and stay inside one word, where they match no `..` and no braces; a `*` that is a word of its own matches any
    words.
    """
    return pattern == subject or _words_match(_split_words(pattern), _split_words(subject))


def concerns_subject(pattern: str, subject: str) -> bool:
    """Return whether a strict rule's pattern concerns a subject, in any reading of its quotes."""
    if covers_subject(pattern, subject):
        return True
    readings = (_split_words(pattern), pattern.split())
    words = _split_words(subject)
    flat = " ".join(words).split()
    return any(_words_match(wanted, found) for wanted in readings for found in (words, flat))


def _words_match(wanted: Sequence[str], words: Sequence[str]) -> bool:
    at, star, mark, place = 0, -1, 0, 0
    while at < len(words):
        if place < len(wanted) and wanted[place] == "*":
            star, mark, place = place, at, place + 1
        elif place < len(wanted) and _word_matches(words[at], wanted[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            mark += 1
            at, place = mark, star + 1
        else:
            return False
    return all(word == "*" for word in wanted[place:])


def escape_pattern(subject: str) -> str:
    """Return the pattern that covers this subject and nothing else."""
    return _SPECIAL.sub(r"[\g<0>]", subject)


def quote_argv(argv: Iterable[str]) -> str:
    """Quote a command's words as the subject of a finding: `rm 'a b'` is another one than `rm a b`."""
    return " ".join(shlex.quote(word) if not word or _QUOTED.search(word) else word for word in argv)


def _split_words(text: str) -> list[str]:
    """Return the words of a pattern or a subject; quotes that do not end are letters like others."""
    if "'" in text or '"' in text or "\\" in text:
        try:
            return shlex.split(text)
        except ValueError:
            pass
    return text.split()


def _word_matches(word: str, wanted: str) -> bool:
    if word == wanted:
        return True
    return fnmatch.fnmatchcase(word, wanted) and (not _SURPRISING.search(word) or bool(_SURPRISING.search(wanted)))
