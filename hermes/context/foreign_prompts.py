"""The text of another agent's command: what is filled in, and what becomes a request to the model.

Words are counted from 0 where a text has a `$0` or `$ARGUMENTS[0]`, as in newer files of Claude Code, and from 1
elsewhere. `NAME=VALUE` fills `$NAME`, as in codex. A command line that the other agent would run by itself is a request
to the model, which runs it by its tools and under their rules.
"""

import re
import shlex

_PLACE = re.compile(r"\$(?:ARGUMENTS\[(\d)\]|(ARGUMENTS)(?!\w)|(\d)(?!\w)|([A-Z][A-Z0-9_]*)(?!\w))")
_COUNTS_FROM_ZERO = re.compile(r"\$(?:ARGUMENTS\[\d\]|0(?!\w))")
_COMMAND_LINE = re.compile(r"!`([^`\n]+)`")
_NAMED_WORD = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)


def split_words(text: str) -> list[str]:
    """Return the words of what was typed, as a shell splits them where it can."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def has_command_lines(body: str) -> bool:
    """Return whether another agent would run command lines of this text by itself."""
    return _COMMAND_LINE.search(body) is not None


def has_named_places(body: str) -> bool:
    """Return whether a text has places that are filled by name."""
    return any(match[4] for match in _PLACE.finditer(body))


def format_foreign_prompt(body: str, arguments: str) -> str:
    """Return the text with what is typed filled in; where nothing of it has a place, it stands below."""
    words = split_words(arguments)
    named = {match[1]: match[2] for word in words if (match := _NAMED_WORD.fullmatch(word))}
    first = 0 if _COUNTS_FROM_ZERO.search(body) else 1
    is_used = False

    def fill(match: re.Match[str]) -> str:
        nonlocal is_used
        number, whole, short, name = match.groups()
        if name is not None and name not in named:
            return match[0]
        is_used = True
        if whole:
            return arguments
        if name is not None:
            return named[name]
        at = int(number) if number is not None else int(short) - first
        return words[at] if 0 <= at < len(words) else ""

    text = _PLACE.sub(fill, _ask_for_output(body))
    return text if is_used or not arguments else f"{text}\n\n{arguments}"


def translate_foreign_prompt(body: str) -> str:
    """Return the text as a command of the person's own, whose words are counted from 1."""
    first = 0 if _COUNTS_FROM_ZERO.search(body) else 1

    def rename(match: re.Match[str]) -> str:
        number, _whole, short, _name = match.groups()
        at = number if number is not None else short
        return f"${int(at) + (1 if number is not None else 1 - first)}" if at is not None else match[0]

    return _PLACE.sub(rename, _ask_for_output(body))


def _ask_for_output(body: str) -> str:
    return _COMMAND_LINE.sub(lambda match: f"(run `{match[1]}` and use its output)", body)
