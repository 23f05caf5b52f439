"""Which calls a hook is for: the matcher of a group of hooks, and the rule of a single one."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

_NAME_LIST = re.compile(r"[A-Za-z0-9_ ,|\-]*")
"""A matcher of these characters alone is a list of names; any other is a regular expression."""
_RULE = re.compile(r"\s*([A-Za-z_][\w-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_MAX_PATTERN = 1_000
_SPLIT_COMMANDS = re.compile(r"&&|\|\||[;|&\n()`{}]")
_QUOTES = re.compile(r"[\"'\\]")
_WRAPPERS = re.compile(
    r"^(?:[A-Za-z_]\w*=\S*|(?:\S*/)?(?:sudo|env|command|exec|builtin|nohup|time|timeout|nice|stdbuf|xargs|setsid|doas)"
    r"(?:\s+(?:-\S+|\d+\w?))*|!|then|else|elif|do|if|while|until|(?:\S*/)?(?:ba|z|da|k)?sh\s+-\w*c)\s+"
)
_HIDDEN_PROGRAM = re.compile(r"(?:\S*/)?(?:eval|source|\.|(?:ba|z|da|k)?sh)(?:\s|$)|\$")
"""Parts of a command that run what cannot be read in it."""
_PATH_START = re.compile(r"^(?:~/|\./|/+)")
_COVERED_TOOLS = {"Edit": ("Write", "MultiEdit", "NotebookEdit"), "Read": ("Grep", "Glob")}
"""The tools that a rule for another one means, too."""
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
        if not any(one in names for one in (self._tool, *_COVERED_TOOLS.get(self._tool, ()))):
            return False
        values = [value for field in _RULE_FIELDS if isinstance(value := arguments.get(field), str)]
        return self._pattern == "*" or not values or any(map(self._matches_value, values))

    def _matches_value(self, value: str) -> bool:
        if self._pattern.startswith("domain:"):
            return _is_in_domain(value, self._pattern.removeprefix("domain:").strip().lower())
        parts = dict.fromkeys(one for part in (value, *_SPLIT_COMMANDS.split(value)) for one in _list_forms(part))
        if self._tool == "Bash" and any(map(_HIDDEN_PROGRAM.match, parts)):
            return True
        pattern = f"{self._pattern[:-2]}*" if self._pattern.endswith(":*") else self._pattern
        # A path in a rule is the home's, the file system's or the project's; those that are told are absolute.
        shapes = (pattern, f"*/{_PATH_START.sub('', pattern)}")
        matched = any(fnmatchcase(part, shape) for part in parts for shape in shapes)
        return matched or pattern.removesuffix(" *") in parts


def _is_in_domain(address: str, wanted: str) -> bool:
    """Return whether an address is of a domain or one below it; one that cannot be read counts."""
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return True
    return host is None or fnmatchcase(host, wanted) or host.endswith(f".{wanted.removeprefix('*.')}")


def _list_forms(part: str) -> Sequence[str]:
    """Return a part of a command as it stands, and without quotation marks, assignments and the programs that only run
    another one.
    """
    plain = part.strip()
    bare = _QUOTES.sub("", plain)
    while (shorter := _WRAPPERS.sub("", bare, count=1)) != bare:
        bare = shorter
    return (plain, _QUOTES.sub("", plain), bare)
