"""Globs as regular expressions that never backtrack: those of gitignore(5), and those that name files to be found."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

_MAX_DOUBLE_STARS = 3
_MAX_PATTERN = 1_000
_MAX_TEXT = 10_000
"""Characters of the longest text of globs."""
_MAX_CHOICES = 256
_MAX_BRACES = 20
_MAGIC = re.compile(r"[*?\[{!/]")


class GlobError(ValueError):
    """A glob cannot be understood; the text says why."""


class _GlobRule(NamedTuple):
    """One glob: what it means as a regular expression, and whether that is about whole paths or names."""

    pattern: re.Pattern[str]
    is_about_paths: bool
    is_negated: bool
    is_for_folders: bool

    def is_match(self, path: str) -> bool:
        """Return whether a path, or its last name, fits."""
        return self.pattern.fullmatch(path if self.is_about_paths else path.rpartition("/")[2]) is not None


class PathGlobs:
    """Which files, by paths relative to where a search begins, some globs leave, as ripgrep reads them.

    A glob without a slash is about names, one with a slash about the whole path; `!` before it leaves out what fits,
    also all below a folder; `{a,b}` stands for either. Of several the last one that fits decides, and what fits none
    is left out where one of them has no `!`. Unlike ripgrep, `folder/` stands for all below it, braces may hold braces,
    and `./` at the beginning means nothing. Raises `GlobError`.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_TEXT:
            raise GlobError("it is too long")
        self._rules = [_read_rule(glob) for glob in split_globs(text) if not glob.startswith("#")]
        self._wanted = [rule for rule in self._rules if not rule.is_negated]
        self._is_plain = len(self._wanted) == len(self._rules)
        self._left_out = {"": False}

    @property
    def regex(self) -> str:
        """A regular expression for the paths of all that is left, and of some that is not."""
        parts = (f"{'' if rule.is_about_paths else '(?:[^/]+/)*'}(?:{rule.pattern.pattern})" for rule in self._wanted)
        return "|".join(parts) or ".*"

    def is_match(self, path: str) -> bool:
        """Return whether a file is left."""
        if not self._is_plain and self._is_left_out(path.rpartition("/")[0]):
            return False
        for rule in reversed(self._rules):
            if not rule.is_for_folders and rule.is_match(path):
                return not rule.is_negated
        return not self._wanted

    def _is_left_out(self, folder: str) -> bool:
        """Return whether a folder, or one that it is in, is left out with all that is below."""
        unknown: list[str] = []
        while (found := self._left_out.get(folder)) is None:
            unknown.append(folder)
            folder = folder.rpartition("/")[0]
        for one in reversed(unknown):
            fitting = next((rule.is_negated for rule in reversed(self._rules) if rule.is_match(one)), False)
            found = self._left_out[one] = fitting or found
        return found


_GLOB_PARTS = re.compile(r"\\.|\[[!^]?\]?[^]]*\]|(?P<gap>[\s,])|.", re.DOTALL)


def split_globs(text: str) -> list[str]:
    """Return the globs of a text, with blanks or commas between them; but one where a part of it would be no glob."""
    found, level = [""], 0
    for part in _GLOB_PARTS.finditer(text):
        level += {"{": 1, "}": -1}.get(part[0], 0)
        if part["gap"] and not level:
            found.append("")
        else:
            found[-1] += part[0]
    globs = [one for one in found if one]
    if len(globs) > 1 and all(map(_MAGIC.search, globs)):
        return globs
    return [text.strip()] if text.strip() else []


def _read_rule(glob: str) -> _GlobRule:
    """Return what a glob means. Raises `GlobError`."""
    is_negated = glob.startswith("!")
    bare = glob[is_negated:]
    bare = bare.removeprefix("./")
    check_glob(bare)
    is_for_folders = bare.endswith("/")
    bare = bare.rstrip("/") if is_for_folders else bare
    if is_for_folders and not is_negated:
        bare = f"{bare if '/' in bare else f'**/{bare}'}/**"
    choices = list(islice(expand_braces(bare), _MAX_CHOICES + 1))
    found = [regex_from_glob(one.removeprefix("/")) for one in choices]
    if len(choices) > _MAX_CHOICES or not all(found):
        raise GlobError("it has too many choices, or too many `**`" if any(choices) else "it names nothing")
    is_about_paths = "/" in bare
    return _GlobRule(
        re.compile("|".join(f"(?:{one})" for one in found), re.DOTALL),
        is_about_paths,
        is_negated,
        is_for_folders and is_negated,
    )


def check_glob(glob: str) -> None:
    """Raise `GlobError` for a bracket, a brace or a backslash without what belongs to it."""
    level, at = 0, 0
    while at < len(glob):
        end = at + 1
        if glob[at] == "\\":
            end = at + 2
        elif glob[at] == "[":
            end = find_class_end(glob, at) + 1
            if not end:
                raise GlobError("a `]` is missing")
            _check_ranges(glob[at + 1 : end - 1])
        level += {"{": 1, "}": -1}.get(glob[at], 0)
        at = end
    if at > len(glob):
        raise GlobError("nothing follows its last backslash")
    if level > 0:
        raise GlobError("a `}` is missing")


def _check_ranges(inner: str) -> None:
    if "/" in inner:
        raise GlobError("a `/` stands in brackets")
    for first, last in re.findall(r"(?s)(.)-(.)", inner.lstrip("!^")):
        if first > last:
            raise GlobError(f"the range {first}-{last} is empty")


def find_class_end(glob: str, at: int) -> int:
    """Return where the bracket that begins at a place ends; -1 where it does not. A `]` at its beginning is in it."""
    return glob.find("]", at + 2 + (glob[at + 1 : at + 2] in ("!", "^")))


def expand_braces(glob: str, depth: int = 0) -> Iterator[str]:
    """Yield the globs that one with `{a,b}` stands for; a choice of nothing is none."""
    start, marks = _find_braces(glob)
    if not marks or depth > _MAX_BRACES:
        yield glob
        return
    ends = [start, *marks]
    choices = [glob[one + 1 : other] for one, other in zip(ends, marks, strict=False)]
    for choice in [one for one in choices if one] or [""]:
        yield from expand_braces(glob[:start] + choice + glob[marks[-1] + 1 :], depth + 1)


def _find_braces(glob: str) -> tuple[int, list[int]]:
    """Return where the first brace is, and the places of its commas and of its end; none where it has no end."""
    start, level, marks, at = -1, 0, list[int](), 0
    while at < len(glob):
        char = glob[at]
        if char == "\\":
            at += 1
        elif char == "[" and (end := find_class_end(glob, at)) > 0:
            at = end
        elif char == "{":
            start, level = (at if start < 0 else start), level + 1
        elif char in ",}" and level:
            level -= char == "}"
            marks += [at] if level == (char == ",") else []
            if not level:
                return start, marks
        at += 1
    return -1, []


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
    """Return a bracket of a glob, given what is in it, as a regular expression. No bracket stands for a slash."""
    is_negated = characters[0] in "!^"
    inner, made, at = characters[is_negated:], "", 0
    while at < len(inner):
        is_range = inner[at + 1 : at + 2] == "-" and at + 2 < len(inner)
        if not is_range:
            made += re.escape(inner[at])
        elif inner[at] <= inner[at + 2]:
            made += f"{re.escape(inner[at])}-{re.escape(inner[at + 2])}"
        at += 3 if is_range else 1
    return f"[^/{made}]" if is_negated else f"(?!/)[{made}]" if made else "(?!)"


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
        elif char == "[" and (end := find_class_end(glob, at)) > 0:
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
