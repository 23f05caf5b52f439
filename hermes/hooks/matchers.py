"""Which calls a hook is for: the matcher of a group of hooks, and the rule of a single one."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

_NAME_LIST = re.compile(r"[A-Za-z0-9_ ,|\-]*")
"""A matcher of these characters alone is a list of names; any other is a regular expression."""
_RULE = re.compile(r"\s*([A-Za-z_][\w-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_MAX_PATTERN = 1_000
_SPLIT_COMMANDS = re.compile(r"&&|\|\||[;|&\n()]")
_RULE_FIELDS = ("command", "file_path", "path", "url", "pattern")


class MatcherError(ValueError):
    """A matcher or a rule cannot be used; the text says why."""


class ToolMatcher:
    """Compares names of tools with a matcher as other agents write them.

    Empty and `*` mean all; letters, digits, `_`, `-`, blanks, `,` and `|` alone are a list of names; all else is a
    regular expression that is looked for anywhere in a name. Raises MatcherError for one that is none.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self._pattern: re.Pattern[str] | None = None
        self._names: frozenset[str] | None = None
        if self.text in ("", "*"):
            return
        if len(self.text) > _MAX_PATTERN:
            raise MatcherError("the matcher is too long")
        if _NAME_LIST.fullmatch(self.text):
            self._names = frozenset(one.strip() for one in re.split(r"[,|]", self.text) if one.strip())
            return
        try:
            self._pattern = re.compile(self.text)
        except (re.error, RecursionError):
            raise MatcherError("the matcher is no regular expression") from None

    def matches(self, names: Sequence[str]) -> bool:
        """Return whether one of the names of a tool, or of a kind of event, is meant."""
        if self._names is not None:
            return any(name in self._names for name in names)
        return self._pattern is None or any(self._pattern.search(name) for name in names)


class CallRule:
    """A rule such as `Bash(git *)` that narrows a hook to some calls of a tool.

    A command is compared part by part, so that `cd x && git push` is a call of git. Raises MatcherError.
    """

    def __init__(self, text: str) -> None:
        found = _RULE.fullmatch(text[:_MAX_PATTERN])
        if found is None:
            raise MatcherError("its rule `if` cannot be read")
        self._tool = found[1]
        self._pattern = (found[2] or "*").strip()

    def matches(self, names: Sequence[str], arguments: Mapping[str, object]) -> bool:
        """Return whether a call is meant. What cannot be compared counts as meant, so that no guard is left out."""
        if self._tool not in names:
            return False
        values = [value for field in _RULE_FIELDS if isinstance(value := arguments.get(field), str)]
        return self._pattern == "*" or not values or any(map(self._matches_value, values))

    def _matches_value(self, value: str) -> bool:
        pattern = self._pattern
        if pattern.endswith(":*"):
            pattern = f"{pattern[:-2]}*"
        parts = [value, *_SPLIT_COMMANDS.split(value)]
        shapes = (pattern, f"**/{pattern}", f"*/{pattern}")
        return any(fnmatchcase(part.strip(), shape) for part in parts for shape in shapes) or any(
            part.strip() == pattern.removesuffix(" *") for part in parts
        )
