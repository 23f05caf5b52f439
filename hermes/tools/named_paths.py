"""The paths in texts: those that a person writes in a message, and those that a person reads in a question."""

import re
from collections.abc import Callable

from hermes.safety.shell.words import MADE_HERE
from hermes.util.localizable import change_text

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
