"""The paths in texts: in a message of a person's, in a question to them, in the words of a command."""

import os
import re
from collections.abc import Callable, Iterable
from itertools import takewhile

from hermes.safety.paths import Places
from hermes.safety.shell.findings import MADE_HERE, CommandEffect, CommandJudgement, EffectKind, SimpleCommand
from hermes.util.localizable import change_text

MAX_PATH = 4_096
FILE_CHANGES = (EffectKind.WRITES, EffectKind.OVERWRITES, EffectKind.DELETES)
CHANGING_KINDS = (*FILE_CHANGES, EffectKind.PERSISTS)
_MAX_CHARACTERS = 200_000
"""The most characters of a person's message in which paths are looked for."""
_MAX_PATHS = 200
_START = r"(?:~|\.{1,2})?/(?!/)"
_PATH = rf"""(?<![A-Za-z0-9_./~-])(?:"({_START}[^"\n]+)"|'({_START}[^'\n]+)'|({_START}(?:\\ |[^\s"'`<>|])+))"""
_LINE_RANGE = r":\d+(?:-\d+)?$"
_ENDS = ".,;:!?)]}>\u3001\u3002\uff0c\uff01\uff1f\uff1b\uff1a\uff09\u3011\u300b\u201d"


def find_named_paths(text: str) -> list[str]:
    """Return the paths in a text as they are written: absolute ones, those of the home, and those with dots before."""
    found: dict[str, None] = {}
    for match in re.finditer(_PATH, text[:_MAX_CHARACTERS]):
        quoted = match[1] or match[2]
        path = quoted or match[3].rstrip(_ENDS).replace("\\ ", " ")
        found |= dict.fromkeys((path, re.sub(_LINE_RANGE, "", path)))
        if len(found) > _MAX_PATHS:
            break
    return [one for one in found if one.strip("/")]


_LOCAL_PATH = re.compile(r"/[^\s'\"`<>|;,:(){}$]+")
_SPECIAL_PARAMETER = re.compile(r"\$\{([$?!#*@-])\}")
_RANDOM_NAME = "tmp.XXXXXXXXXX"
"""What stands for a name that `mktemp` has yet to make, as in its own manual."""


def rename_paths(text: str, to_command_path: Callable[[str], str]) -> str:
    """Return a message with its paths as commands and people name them: the session's own /tmp lies elsewhere."""

    def rename(part: str) -> str:
        return write_as_typed(_LOCAL_PATH.sub(lambda found: to_command_path(found[0]), part))

    return change_text(text, rename) if "/" in text or "${" in text else text


def write_as_typed(text: str) -> str:
    """Return a path of an analysed command as a person would write it: with `$$`, and the name from `mktemp`."""
    return _SPECIAL_PARAMETER.sub(r"$\1", text.replace(MADE_HERE, _RANDOM_NAME))


SEARCHES = (("find",), ("gfind",))
_LINKERS = ("ln", "gln", "link", "mount")


def is_led_by_links(effect: CommandEffect, judged: CommandJudgement) -> bool:
    """Return whether a deletion may go through links that cannot be looked at: those that its own line makes before,
    and those that a search finds.
    """
    before = takewhile(lambda one: one.argv != effect.argv, judged.commands)
    if any(one.argv[:1] and os.path.basename(one.argv[0]) in _LINKERS for one in before):
        return True
    return effect.argv[:1] in SEARCHES and any(word in ("-L", "-follow") for word in effect.argv)


def list_targets(effects: Iterable[CommandEffect], *kinds: EffectKind) -> set[str]:
    """Return the targets of the effects of these kinds, or of all that change something."""
    return {one for effect in effects if effect.kind in (kinds or CHANGING_KINDS) for one in effect.targets}


def list_command_paths(commands: Iterable[SimpleCommand], places: Places, *, is_slashed: bool = False) -> set[str]:
    """Return whatever in the words of commands may be a path, from the folder in which each would run; `is_slashed`:
    only what has a slash, so that it is hardly anything else.
    """
    words = ((simple.cwd, part) for simple in commands for word in simple.argv for part in split_word(word))
    return {places.expand_path(part, cwd) for cwd, part in words if "/" in part or not is_slashed}


def split_word(word: str) -> list[str]:
    """Return what may be a path in a word: the whole of it, or what follows `=` or `@`."""
    if len(word) > MAX_PATH or "\0" in word:
        return []
    return [one for one in (word.removeprefix("file://"), word.partition("=")[2], word.partition("@")[2]) if one]
