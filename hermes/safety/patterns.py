"""Patterns of a person's: what they cover, and which one covers exactly one thing."""

import fnmatch
import re

_SPECIAL = re.compile(r"[*?\[]")
_SURPRISING = re.compile(r"(?:^|/)\.\.(?:/|$)|[{}]")


def covers(pattern: str, subject: str) -> bool:
    """Whether a pattern covers the subject of a finding.

    They are compared word by word. `*`, `?` and `[...]` are as in file names and stay inside one word, where they stand
    for no `..` and no braces; a `*` that is a word of its own stands for any words.
    """
    if pattern == subject:
        return True
    wanted, words = pattern.split(), subject.split()
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


def _same(word: str, wanted: str) -> bool:
    if word == wanted:
        return True
    return fnmatch.fnmatchcase(word, wanted) and (not _SURPRISING.search(word) or bool(_SURPRISING.search(wanted)))
