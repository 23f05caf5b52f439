"""Finds what a command was kept from writing, by reading what it printed."""

import os
import re
from collections.abc import Callable, Iterator, Sequence

from hermes.execution.sandbox.policy import PathAccess, SandboxLayout

_DENIED_MESSAGE = re.compile(
    r"read-only file ?system|permission denied|operation not permitted|device or resource busy|EROFS|EACCES"
    r"|is not writable|not writeable|cannot be written|unable to create temporary",
    re.IGNORECASE,
)


_READ_ONLY = re.compile(r"read-only file ?system|EROFS", re.IGNORECASE)


_QUOTED_NAME = re.compile(r"[‘'\"`]([^‘’'\"`\n]{1,1000})[’'\"`]")


_BARE_PATH = re.compile(r"(?:^|[\s:=(,])(/[^\s:'\"`,;()]{1,1000})")


_NAME_BEFORE_REASON = re.compile(
    r"(?:^|: )([^\s:'\"`‘’]{1,500}): (?:read-only file system|permission denied)", re.IGNORECASE
)


_MISSING = re.compile(
    r"no such file or directory|permission denied|read-only file ?system|ENOENT|EACCES|EROFS|does not exist|not found"
    r"|cannot access",
    re.IGNORECASE,
)


_MISSED = re.compile(
    r"(?:^|[: ])([^\s:'\"`‘’]{1,500}): (?:no such file or directory|permission denied|read-only file ?system)",
    re.IGNORECASE,
)


_GIT_UNWRITABLE = re.compile(r"unable to create temporary (?:object directory|file)")


_GIT_PUSH_FAILED = re.compile(r"failed to push some refs to '(?:file://)?([^'\n]{1,1000})'")


_MAX_LINES = 60


def find_denied_path(output: str, layout: SandboxLayout, cwd: str, refused: Callable[[str], str]) -> str:
    """Return the path outside of what is writable that a refused write was for; its nearest folder if it does not
    exist.

    Empty when the output names only paths that are `refused` whatever a person says, or when the file could not be
    written without the sandbox either. The last refusal counts: it is what the command ended with.
    """
    found = (
        path for path, _ in _find_denied_paths(output, layout, cwd) if os.access(path, os.W_OK) and not refused(path)
    )
    return next(found, "")


def explain_closed_path(output: str, layout: SandboxLayout, cwd: str, refused: Callable[[str], str]) -> str:
    """Explain why the path of a refused write is opened to nobody; empty when the output names no such path."""
    for path, read_only in _find_denied_paths(output, layout, cwd):
        if read_only and (why := refused(path)):
            return f"the sandbox keeps {path} from being written and never opens it: {why}; do not try again"
    return ""


def hidden_path(output: str, layout: SandboxLayout, cwd: str, homes: Sequence[str]) -> str:
    """The path in a home of which a failed command's output says that it is not there, and which commands cannot see.

    Empty when the output tells of none but start files, which many programs miss without harm. Whether there is such a
    file is not looked at.
    """
    for line in reversed(output.splitlines()[-_MAX_LINES:]):
        if _MISSING.search(line) is None:
            continue
        for name in (*_QUOTED_NAME.findall(line), *_MISSED.findall(line), *_BARE_PATH.findall(line)):
            path = os.path.normpath(os.path.join(cwd, name.replace("\0", "")))
            inside = any(path.startswith(f"{one}/") for one in homes)
            if inside and not os.path.basename(path).startswith(".") and layout.access_of(path) is PathAccess.HIDDEN:
                return path
    return ""


def _find_denied_paths(output: str, layout: SandboxLayout, cwd: str) -> Iterator[tuple[str, bool]]:
    """Yield the read-only paths that refusals name, the last first, and whether they say that this is the reason."""
    if _GIT_UNWRITABLE.search(output) and (pushed := _GIT_PUSH_FAILED.findall(output)):
        output += f"\n{pushed[-1]!r}: permission denied"  # git names the other repository in another line
    for line in reversed(output.splitlines()[-_MAX_LINES:]):
        if _DENIED_MESSAGE.search(line) is None:
            continue
        for name in (*_QUOTED_NAME.findall(line), *_NAME_BEFORE_REASON.findall(line), *_BARE_PATH.findall(line)):
            path = os.path.realpath(os.path.join(cwd, name.replace("\0", "")))
            while not os.path.lexists(path):
                path = os.path.dirname(path)
            if layout.access_of(path) is PathAccess.READ:
                yield path, _READ_ONLY.search(line) is not None
