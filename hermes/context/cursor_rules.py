"""Rules of the Cursor editor (`.cursor/rules/*.mdc`): a head that says when a rule applies, then its text.

A rule that always applies is read like any other file of a project. The others are named with what they are for, and
the model reads one when it gets there. Format: cursor.com/docs/context/rules.
"""

import os
from collections.abc import Iterator, Sequence

from msgspec import Struct

FOLDER = os.path.join(".cursor", "rules")
_SUFFIX = ".mdc"
_MAX_RULES = 40
_MAX_VISITED = 2_000
_FENCE = "---"


class CursorRule(Struct, frozen=True, kw_only=True):
    """A rule: its text, and when it applies."""

    text: str
    description: str = ""
    globs: tuple[str, ...] = ()
    always: bool = False


def find_rules(folder: str) -> list[str]:
    """Return the paths of a folder's rules by name, those in subfolders too, at most 40."""
    return sorted(_walk_rules(os.path.join(folder, FOLDER)))[:_MAX_RULES]


def _walk_rules(top: str) -> Iterator[str]:
    seen = 0
    for at, folders, names in os.walk(top):
        folders.sort()
        seen += len(names) + len(folders)
        if seen > _MAX_VISITED:
            return
        yield from (os.path.join(at, name) for name in names if name.endswith(_SUFFIX))


def parse_rule(text: str) -> CursorRule:
    """Parse a rule. One without a head applies only when somebody names it.

    The head is no YAML: `globs: *.ts, src/**` stands there without quotes.
    """
    lines = text.split("\n")
    if lines[0].strip() != _FENCE:
        return CursorRule(text=text)
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == _FENCE), 0)
    if not end:
        return CursorRule(text=text)
    fields = _parse_head(lines[1:end])
    globs = ",".join(fields.get("globs", [])).strip("[] ")
    return CursorRule(
        text="\n".join(lines[end + 1 :]).strip(),
        description=" ".join(fields.get("description", [])).strip(),
        globs=tuple(one for one in map(_unquote, globs.split(",")) if one),
        always=fields.get("alwaysApply", [""])[0].lower() == "true",
    )


def _parse_head(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each key: what stands behind it, and the items below it."""
    fields: dict[str, list[str]] = {}
    key = ""
    for line in lines:
        name, colon, value = line.partition(":")
        item = line.strip().removeprefix("- ") if line.strip().startswith("- ") else ""
        if item and key:
            fields[key].append(_unquote(item))
        elif colon and not line[:1].isspace():
            key = name.strip()
            fields[key] = [_unquote(value)]
    return fields


def describe_rule(rule: CursorRule, path: str) -> str:
    """Return the line that names a rule which is not read yet."""
    globs = f" for {', '.join(rule.globs)}" if rule.globs else ""
    return f"- {path}{globs}" + (f": {rule.description}" if rule.description else "")


def _unquote(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
