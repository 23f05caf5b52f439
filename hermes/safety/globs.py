"""Patterns of a person's: what they cover, and which one covers exactly one thing."""

import fnmatch
import re
import shlex
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"[*?\[]")
_SURPRISING = re.compile(r"(?:^|/)\.\.(?:/|$)|[{}]")
_QUOTED = re.compile(r"[\s'\"\\]")
"""What makes a word need quotes: without them it could be several words, or another one."""


def covers(pattern: str, subject: str) -> bool:
    """Whether a pattern covers the subject of a finding.

    They are compared word by word; a word with spaces stands in quotes, as in a shell. `*`, `?` and `[...]` are as in
    file names and stay inside one word, where they stand for no `..` and no braces; a `*` that is a word of its own
    stands for any words.
    """
    return pattern == subject or _covered(_words(pattern), _words(subject))


def speaks_of(pattern: str, subject: str) -> bool:
    """Whether a pattern of a rule that is stricter than Hermes is about a subject: in any reading of its quotes."""
    if covers(pattern, subject):
        return True
    readings = (_words(pattern), pattern.split())
    words = _words(subject)
    flat = " ".join(words).split()
    return any(_covered(wanted, found) for wanted in readings for found in (words, flat))


def _covered(wanted: Sequence[str], words: Sequence[str]) -> bool:
    at, star, mark, place = 0, -1, 0, 0
    while at < len(words):
        if place < len(wanted) and wanted[place] == "*":
            star, mark, place = place, at, place + 1
        elif place < len(wanted) and _same(words[at], wanted[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            mark += 1
            at, place = mark, star + 1
        else:
            return False
    return all(word == "*" for word in wanted[place:])


def literal(subject: str) -> str:
    """The pattern that covers this subject and nothing else."""
    return _SPECIAL.sub(r"[\g<0>]", subject)


def spelled(argv: Iterable[str]) -> str:
    """A command's words as the subject of a finding: `rm 'a b'` is another one than `rm a b`."""
    return " ".join(shlex.quote(word) if not word or _QUOTED.search(word) else word for word in argv)


def _words(text: str) -> list[str]:
    """The words of a pattern or a subject; quotes that do not end are letters like others."""
    if "'" in text or '"' in text or "\\" in text:
        try:
            return shlex.split(text)
        except ValueError:
            pass
    return text.split()


def _same(word: str, wanted: str) -> bool:
    if word == wanted:
        return True
    return fnmatch.fnmatchcase(word, wanted) and (not _SURPRISING.search(word) or bool(_SURPRISING.search(wanted)))
