"""What a command was kept from writing, read from what it printed."""

import os
import re
from collections.abc import Callable

from hermes.tools.backends.sandbox_policy import Kind, Layout

_SAID = re.compile(
    r"read-only file ?system|permission denied|operation not permitted|device or resource busy", re.IGNORECASE
)
_QUOTED = re.compile(r"[‘'\"`]([^‘’'\"`\n]{1,1000})[’'\"`]")
_BARE = re.compile(r"(?:^|[\s:=(,])(/[^\s:'\"`,;()]{1,1000})")
_NAMED = re.compile(r"(?:^|: )([^\s:'\"`‘’]{1,500}): (?:read-only file system|permission denied)", re.IGNORECASE)
_LINES = 60


def denied_path(output: str, layout: Layout, cwd: str, refused: Callable[[str], str]) -> str:
    """The path outside of what is writable that a refused write was for; its nearest folder when it does not exist.

    Empty when the output tells of none but those that are `refused` whatever a person says, or when the file could not
    be written without the sandbox either. The last refusal counts: it is what the command ended with.
    """
    for line in reversed(output.splitlines()[-_LINES:]):
        found = _SAID.search(line)
        if found is None:
            continue
        for name in (*_QUOTED.findall(line), *_NAMED.findall(line), *_BARE.findall(line)):
            path = os.path.realpath(os.path.join(cwd, name.replace("\0", "")))
            while not os.path.lexists(path):
                path = os.path.dirname(path)
            if layout.kind(path) is Kind.READ and os.access(path, os.W_OK) and not refused(path):
                return path
    return ""
