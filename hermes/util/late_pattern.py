"""Regular expressions that are compiled when they are first used.

Compiling those of the package is a tenth of the cost of a short run, and most of them judge what it never sees.
"""

import re
from typing import cast


class _LatePattern:
    """The text of a pattern until one of its methods is asked for, which is then the compiled one's."""

    def __init__(self, text: str, flags: int) -> None:
        self._source = (text, flags)

    def __getattr__(self, name: str) -> object:
        value: object = getattr(re.compile(*self._source), name)
        setattr(self, name, value)
        return value


def compile_late(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at its first use. A mistake in it is raised there, as `re.error`."""
    return cast("re.Pattern[str]", _LatePattern(text, flags))
