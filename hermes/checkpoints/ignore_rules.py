"""Ignore rules for the listing of a folder: what git ignores there, by its files alone, and what tools regenerate."""

import contextlib
import os
import re
from collections.abc import Collection, Sequence

from msgspec import Struct

REGENERABLE_FOLDERS = frozenset(
    {
        *(".git", ".hg", ".svn", ".jj", "node_modules", "bower_components", ".venv", "venv", ".tox", ".nox"),
        *("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".gradle", ".terraform"),
        *(".next", ".nuxt", ".cache", ".eggs", ".direnv"),
    }
)
"""Folders that tools regenerate, or that are a program's own history."""
_BUILD_FOLDERS = {"target": ("Cargo.toml", "pom.xml", "build.sbt")}
_CACHE_TAG = "CACHEDIR.TAG"
_MAX_BYTES = 256 * 1024
_MAX_RULES = 2_000
_MAX_DOUBLE_STARS = 3
_MAX_PATTERN = 1_000


class IgnoreRule(Struct, frozen=True):
    """One line of a file of patterns, as in gitignore(5)."""

    negated: bool
    folders_only: bool
    anchored: bool
    regex: str


class IgnoreRules(Struct, frozen=True):
    """The rules that hold in a folder, each with the path (below the root) of the folder that it comes from."""

    rules: tuple[tuple[str, IgnoreRule], ...] = ()
    names: re.Pattern[str] | None = None
    paths: re.Pattern[str] | None = None
    """Match whatever any rule could be about: most files match none, and one test tells."""

    def with_rules(self, folder: str, more: Sequence[IgnoreRule]) -> "IgnoreRules":
        """Return these rules and those that a folder (its path below the root, empty for the root) adds."""
        if not more or len(self.rules) > _MAX_RULES:
            return self
        rules = (*self.rules, *((folder, rule) for rule in more))
        names = [rule.regex for _, rule in rules if not rule.anchored]
        paths = [(re.escape(f"{owner}/") if owner else "") + rule.regex for owner, rule in rules if rule.anchored]
        return IgnoreRules(rules, _join_patterns(names), _join_patterns(paths))

    def is_ignored(self, path: str, name: str, *, folder: bool) -> bool:
        """Return whether a path below the root, with this last name, is left out."""
        if not (self.names and self.names.fullmatch(name)) and not (self.paths and self.paths.fullmatch(path)):
            return False
        for owner, rule in reversed(self.rules):
            if rule.folders_only and not folder:
                continue
            below = path[len(owner) + 1 :] if owner else path
            if re.fullmatch(rule.regex, below if rule.anchored else name, re.DOTALL):
                return not rule.negated
        return False


def _join_patterns(patterns: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{one})" for one in patterns), re.DOTALL) if patterns else None


def parse_rules(text: str) -> list[IgnoreRule]:
    """Return the rules of a file of patterns; a line that is none is skipped."""
    rules = []
    for line in text.splitlines()[:_MAX_RULES]:
        kept = line if line.endswith("\\ ") else line.rstrip()
        if not kept or kept.startswith("#"):
            continue
        negated = kept.startswith("!")
        bare = kept[negated:]
        folders_only, bare = bare.endswith("/"), bare.rstrip("/")
        anchored = "/" in bare
        with contextlib.suppress(re.error):
            regex = _regex_from_glob(bare.lstrip("/"))
            re.compile(regex)
            if regex:
                rules.append(IgnoreRule(negated, folders_only, anchored, regex))
    return rules


def read_rules(folder: int, name: str = ".gitignore") -> list[IgnoreRule]:
    """Return the rules that a file in an open folder holds; none when there is no such file."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return []
    with os.fdopen(handle, "rb") as file:
        return parse_rules(file.read(_MAX_BYTES).decode("utf-8", "surrogateescape"))


def read_rules_above(root: str) -> tuple[bool, IgnoreRules]:
    """Return whether a folder is in a repository, and the rules of the folders above it, up to the repository's."""
    above: list[str] = []
    at = root
    while not os.path.lexists(os.path.join(at, ".git")):
        at, name = os.path.split(at)
        if not name:
            return False, IgnoreRules()
        above.insert(0, name)
    ignored = IgnoreRules()
    known: list[IgnoreRule] = []
    for depth in range(len(above)):
        # What is above matches by name only: paths in it are of another root.
        folder = os.path.join(at, *above[:depth])
        known += [rule for rule in _read_rules_at(folder, ".gitignore") if not rule.anchored]
    known = [*_read_rules_at(os.path.join(at, ".git", "info"), "exclude"), *known] if at == root else known
    return True, ignored.with_rules("", known)


def is_regenerable(name: str, beside: Collection[str]) -> bool:
    """Return whether a folder of this name is one that tools regenerate; `beside` are the names next to it."""
    return name in REGENERABLE_FOLDERS or any(one in beside for one in _BUILD_FOLDERS.get(name, ()))


def is_cache_folder(names: Collection[str]) -> bool:
    """Return whether a folder is marked as a cache by what it holds."""
    return _CACHE_TAG in names


def _read_rules_at(folder: str, name: str) -> list[IgnoreRule]:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return read_rules(handle, name)
    finally:
        os.close(handle)


def _regex_from_glob(glob: str) -> str:
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
