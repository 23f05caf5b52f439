"""What is left out of the listing of a folder: what git ignores there, by its files alone, and what tools make anew."""

import contextlib
import os
import re
from collections.abc import Collection, Sequence

from msgspec import Struct

HEAVY = frozenset(
    {
        *(".git", ".hg", ".svn", ".jj", "node_modules", "bower_components", ".venv", "venv", ".tox", ".nox"),
        *("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".gradle", ".terraform"),
        *(".next", ".nuxt", ".cache", ".eggs", ".direnv"),
    }
)
"""Folders that are made anew, or that are a program's own history."""
_BUILT = {"target": ("Cargo.toml", "pom.xml", "build.sbt")}
_TAG = "CACHEDIR.TAG"
_LARGEST = 256 * 1024
_MOST = 2_000
_WILDEST = 3
_LONGEST = 1_000


class Rule(Struct, frozen=True):
    """One line of a file of patterns, as gitignore(5) has it."""

    negated: bool
    folders_only: bool
    anchored: bool
    regex: str


class Ignored(Struct, frozen=True):
    """The rules that hold in a folder, each with the path (below the root) of the folder that it stands in."""

    rules: tuple[tuple[str, Rule], ...] = ()
    names: re.Pattern[str] | None = None
    paths: re.Pattern[str] | None = None
    """Match whatever any rule could be about: most files are none of it, and one look tells."""

    def with_rules(self, folder: str, more: Sequence[Rule]) -> "Ignored":
        """These and those that a folder (its path below the root, empty for the root) adds."""
        if not more or len(self.rules) > _MOST:
            return self
        rules = (*self.rules, *((folder, rule) for rule in more))
        names = [rule.regex for _, rule in rules if not rule.anchored]
        paths = [(re.escape(f"{owner}/") if owner else "") + rule.regex for owner, rule in rules if rule.anchored]
        return Ignored(rules, _any(names), _any(paths))

    def leaves_out(self, path: str, name: str, *, folder: bool) -> bool:
        """Whether a path below the root, with this last name, is left out."""
        if not (self.names and self.names.fullmatch(name)) and not (self.paths and self.paths.fullmatch(path)):
            return False
        for owner, rule in reversed(self.rules):
            if rule.folders_only and not folder:
                continue
            below = path[len(owner) + 1 :] if owner else path
            if re.fullmatch(rule.regex, below if rule.anchored else name, re.DOTALL):
                return not rule.negated
        return False


def _any(patterns: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{one})" for one in patterns), re.DOTALL) if patterns else None


def parsed(text: str) -> list[Rule]:
    """The rules of a file of patterns; a line that is none is left aside."""
    rules = []
    for line in text.splitlines()[:_MOST]:
        kept = line if line.endswith("\\ ") else line.rstrip()
        if not kept or kept.startswith("#"):
            continue
        negated = kept.startswith("!")
        bare = kept[negated:]
        folders_only, bare = bare.endswith("/"), bare.rstrip("/")
        anchored = "/" in bare
        with contextlib.suppress(re.error):
            regex = _regex(bare.lstrip("/"))
            re.compile(regex)
            if regex:
                rules.append(Rule(negated, folders_only, anchored, regex))
    return rules


def rules_in(folder: int, name: str = ".gitignore") -> list[Rule]:
    """The rules that a file in an open folder holds; none when there is no such file."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return []
    with os.fdopen(handle, "rb") as file:
        return parsed(file.read(_LARGEST).decode("utf-8", "surrogateescape"))


def rules_above(root: str) -> tuple[bool, Ignored]:
    """Whether a folder is in a repository, and the rules that the folders above it, up to the repository's, have."""
    above: list[str] = []
    at = root
    while not os.path.lexists(os.path.join(at, ".git")):
        at, name = os.path.split(at)
        if not name:
            return False, Ignored()
        above.insert(0, name)
    ignored = Ignored()
    known: list[Rule] = []
    for depth in range(len(above)):
        # What is above matches by name only: paths in it are of another root.
        folder = os.path.join(at, *above[:depth])
        known += [rule for rule in _rules_at(folder, ".gitignore") if not rule.anchored]
    known = [*_rules_at(os.path.join(at, ".git", "info"), "exclude"), *known] if at == root else known
    return True, ignored.with_rules("", known)


def made_anew(name: str, beside: Collection[str]) -> bool:
    """Whether a folder of this name is one of those that tools make anew; `beside` are the names next to it."""
    return name in HEAVY or any(one in beside for one in _BUILT.get(name, ()))


def is_cache(names: Collection[str]) -> bool:
    """Whether a folder says by what it holds that it is a cache."""
    return _TAG in names


def _rules_at(folder: str, name: str) -> list[Rule]:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return rules_in(handle, name)
    finally:
        os.close(handle)


def _regex(glob: str) -> str:
    """A pattern of gitignore(5) as a regular expression that needs no going back; empty for one that is too wild."""
    segments = glob.split("/")
    if segments.count("**") > _WILDEST or len(glob) > _LONGEST:
        return ""
    made = []
    for number, segment in enumerate(segments):
        last = number == len(segments) - 1
        if segment == "**":
            made.append(".+" if last else "(?:[^/]+/)*")
        else:
            made.append(_segment(segment) + ("" if last else "/"))
    return "".join(made)


def _one_of(characters: str) -> str:
    inner = characters.replace("\\", "\\\\").replace("[", "\\[")
    return f"[^{inner[1:]}]" if inner[0] in "!^" else f"[{inner}]"


def _segment(glob: str) -> str:
    """One name of a pattern. What stands between two stars is taken where it comes first, for good."""
    chunks, at = [""], 0
    while at < len(glob):
        char = glob[at]
        if char == "*":
            chunks += [""] if chunks[-1] or len(chunks) == 1 else []
        elif char == "?":
            chunks[-1] += "[^/]"
        elif char == "[" and (end := glob.find("]", at + 2)) > 0:
            chunks[-1] += _one_of(glob[at + 1 : end])
            at = end
        else:
            at += char == "\\" and at + 1 < len(glob)
            chunks[-1] += re.escape(glob[at])
        at += 1
    if len(chunks) == 1:
        return chunks[0]
    head, *middle, tail = chunks
    return head + "".join(f"(?>[^/]*?{one})" for one in middle if one) + "[^/]*" + tail
