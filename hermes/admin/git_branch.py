"""Read the branch of the folder's repository from its files, without running git."""

import os
import re
from pathlib import Path

from hermes.util.text import escape_unseen_characters, to_one_line

_MAX_BYTES = 4_096
_COMMIT = re.compile("[0-9a-f]{40,64}")
_BRANCH = "ref: refs/heads/"


def read_branch(folder: str) -> str:
    """Return the branch that is checked out in the folder's repository, a short commit where none is, or nothing."""
    for one in (Path(folder), *Path(folder).parents):
        mark = one / ".git"
        try:
            if mark.is_dir():
                return _read_head(mark)
            if mark.is_file():  # a worktree, or a submodule
                text = _read_text(mark)
                if text.startswith("gitdir: "):
                    return _read_head(one / text.removeprefix("gitdir: ").strip())
        except OSError:
            return ""
    return ""


def _read_head(git: Path) -> str:
    head = _read_text(git / "HEAD").strip()
    name = head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else head[:7] if _COMMIT.fullmatch(head) else ""
    return to_one_line(escape_unseen_characters(name), 40)


def _read_text(file: Path) -> str:
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(handle, _MAX_BYTES).decode("utf-8", "replace")
    finally:
        os.close(handle)
