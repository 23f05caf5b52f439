"""What a command was kept from writing, read from what it printed."""

import os
import re
from collections.abc import Callable, Iterator

from hermes.execution.sandbox.policy import Kind, Layout

_SAID = re.compile(
    r"read-only file ?system|permission denied|operation not permitted|device or resource busy|EROFS|EACCES"
    r"|is not writable|not writeable|cannot be written|unable to create temporary",
    re.IGNORECASE,
)
_READ_ONLY = re.compile(r"read-only file ?system|EROFS", re.IGNORECASE)
_QUOTED = re.compile(r"[‘'\"`]([^‘’'\"`\n]{1,1000})[’'\"`]")
_BARE = re.compile(r"(?:^|[\s:=(,])(/[^\s:'\"`,;()]{1,1000})")
_NAMED = re.compile(r"(?:^|: )([^\s:'\"`‘’]{1,500}): (?:read-only file system|permission denied)", re.IGNORECASE)
_NO_OBJECTS = re.compile(r"unable to create temporary (?:object directory|file)")
_PUSHED = re.compile(r"failed to push some refs to '(?:file://)?([^'\n]{1,1000})'")
_LINES = 60


def denied_path(output: str, layout: Layout, cwd: str, refused: Callable[[str], str]) -> str:
    """The path outside of what is writable that a refused write was for; its nearest folder when it does not exist.

    Empty when the output tells of none but those that are `refused` whatever a person says, or when the file could not
    be written without the sandbox either. The last refusal counts: it is what the command ended with.
    """
    found = (path for path, _ in _denied(output, layout, cwd) if os.access(path, os.W_OK) and not refused(path))
    return next(found, "")


def never_opened(output: str, layout: Layout, cwd: str, refused: Callable[[str], str]) -> str:
    """Why what a refused write was for is opened to nobody, in words; empty when the output tells of none such."""
    for path, read_only in _denied(output, layout, cwd):
        if read_only and (why := refused(path)):
            return f"the sandbox keeps {path} from being written and never opens it: {why}; do not try again"
    return ""


def _denied(output: str, layout: Layout, cwd: str) -> Iterator[tuple[str, bool]]:
    """The paths which are only read that refusals name, the last first, and whether they say that it is for that."""
    if _NO_OBJECTS.search(output) and (pushed := _PUSHED.findall(output)):
        output += f"\n{pushed[-1]!r}: permission denied"  # git names the other repository in another line
    for line in reversed(output.splitlines()[-_LINES:]):
        if _SAID.search(line) is None:
            continue
        for name in (*_QUOTED.findall(line), *_NAMED.findall(line), *_BARE.findall(line)):
            path = os.path.realpath(os.path.join(cwd, name.replace("\0", "")))
            while not os.path.lexists(path):
                path = os.path.dirname(path)
            if layout.kind(path) is Kind.READ:
                yield path, _READ_ONLY.search(line) is not None
