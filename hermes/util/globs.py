"""Globs as regular expressions that never backtrack: those of gitignore(5), and those that name files to be found."""

import re
from collections.abc import Iterator
from itertools import islice

_MAX_DOUBLE_STARS = 3
_MAX_PATTERN = 1_000
_MAX_CHOICES = 64
_MAX_BRACES = 20


class PathGlob:
    """Which paths, relative to where a search begins, fit a glob as ripgrep reads it.

    A glob without a slash is about names, one with a slash about the whole path; `!` before it turns it round, `{a,b}`
    stands for either. One that is too wild fits nothing.
    """

    def __init__(self, glob: str) -> None:
        self.is_negated = glob.startswith("!")
        bare = glob[self.is_negated :]
        bare = f"{bare}**" if bare.endswith("/") else bare
        self.is_about_paths = "/" in bare
        found = [regex_from_glob(one.lstrip("/")) for one in islice(expand_braces(bare), _MAX_CHOICES)]
        self.regex = "|".join(f"(?:{one})" for one in found if one) or "(?!)"
        self._pattern = re.compile(self.regex, re.DOTALL)

    def is_match(self, path: str) -> bool:
        """Return whether a path fits."""
        found = self._pattern.fullmatch(path if self.is_about_paths else path.rpartition("/")[2])
        return (found is None) is self.is_negated


def expand_braces(glob: str, depth: int = 0) -> Iterator[str]:
    """Yield the globs that one with `{a,b}` stands for."""
    start = _find_outside_escape(glob, "{", 0)
    end = _find_closing(glob, start)
    if start < 0 or end < 0 or depth > _MAX_BRACES:
        yield glob
        return
    for choice in _split_choices(glob[start + 1 : end]):
        yield from expand_braces(glob[:start] + choice + glob[end + 1 :], depth + 1)


def _split_choices(text: str) -> list[str]:
    """Return what stands between the commas of a brace, but for those of braces in it."""
    found, level = [""], 0
    for char in text:
        level += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and not level:
            found.append("")
        else:
            found[-1] += char
    return found


def _find_outside_escape(glob: str, char: str, at: int) -> int:
    while at < len(glob):
        if glob[at] == char:
            return at
        at += 2 if glob[at] == "\\" else 1
    return -1


def _find_closing(glob: str, start: int) -> int:
    depth, at = 0, start
    while 0 <= at < len(glob):
        depth += {"{": 1, "}": -1}.get(glob[at], 0)
        if not depth:
            return at
        at += 2 if glob[at] == "\\" else 1
    return -1


def regex_from_glob(glob: str) -> str:
    """Return a pattern of gitignore(5) as a regular expression without backtracking; empty for one that is too wild."""
    segments = glob.split("/")
    if segments.count("**") > _MAX_DOUBLE_STARS or len(glob) > _MAX_PATTERN:
        return ""
    made = []
    for number, segment in enumerate(segments):
        last = number == len(segments) - 1
        if segment == "**":
            made.append(".+" if last else "(?:[^/]+/)*")
        else:
            made.append(_regex_from_segment(segment) + ("" if last else "/"))
    return "".join(made)


def _regex_from_class(characters: str) -> str:
    inner = characters.replace("\\", "\\\\").replace("[", "\\[")
    return f"[^{inner[1:]}]" if inner[0] in "!^" else f"[{inner}]"


def _regex_from_segment(glob: str) -> str:
    """Return one name of a pattern as a regular expression. What is between two stars matches at its first
    place, for good.
    """
    chunks, at = [""], 0
    while at < len(glob):
        char = glob[at]
        if char == "*":
            chunks += [""] if chunks[-1] or len(chunks) == 1 else []
        elif char == "?":
            chunks[-1] += "[^/]"
        elif char == "[" and (end := glob.find("]", at + 2)) > 0:
            chunks[-1] += _regex_from_class(glob[at + 1 : end])
            at = end
        else:
            at += char == "\\" and at + 1 < len(glob)
            chunks[-1] += re.escape(glob[at])
        at += 1
    if len(chunks) == 1:
        return chunks[0]
    head, *middle, tail = chunks
    return head + "".join(f"(?>[^/]*?{one})" for one in middle if one) + "[^/]*" + tail
