"""The difference between two states of a file, short enough to read."""

from collections.abc import Callable

from msgspec import Struct

from hermes.core.checkpoints import FileState, Kind

MAX_COMPARED_LINES = 4_000
"""The most lines of a file that are compared; of a longer one only the size is given."""
MAX_DIFF_LINES = 400
"""The most lines of one file's difference."""
_MAX_LINE_LENGTH = 500


class FileDiff(Struct, frozen=True, kw_only=True):
    """The difference of one file. `change` is `changed`, `created`, `deleted` or `mode`; `text` a unified diff
    without its head.

    `text` is empty for a file that is binary, too large or not kept, which `note` names (`binary`, `large`,
    `hidden`, `link`, `other`). `cut`: the difference is longer than what is shown.
    """

    path: str
    change: str
    text: str = ""
    note: str = ""
    added: int = 0
    removed: int = 0
    cut: bool = False


def compare_file_states(path: str, was: FileState, now: FileState, content: Callable[[str], bytes | None]) -> FileDiff:
    """Compare two states of a file; `content` returns the stored bytes of a digest."""
    change = "created" if was.kind is Kind.ABSENT else "deleted" if now.kind is Kind.ABSENT else "changed"
    if was.kind is now.kind is Kind.FILE and was.mark == now.mark:
        return FileDiff(path=path, change="mode", note=f"{was.mode:o} -> {now.mode:o}")
    for state in (was, now):
        if state.kind not in (Kind.FILE, Kind.ABSENT):
            return FileDiff(path=path, change=change, note=state.kind.value)
    old, new = _read_lines(was, content), _read_lines(now, content)
    if old is None or new is None:
        return FileDiff(path=path, change=change, note="binary")
    if len(old) + len(new) > MAX_COMPARED_LINES:
        return FileDiff(path=path, change=change, note="large", added=len(new), removed=len(old))
    return _compare_lines(path, change, old, new)


def _compare_lines(path: str, change: str, old: list[str], new: list[str]) -> FileDiff:
    import difflib

    lines = [line[:_MAX_LINE_LENGTH] for line in difflib.unified_diff(old, new, n=3, lineterm="")][2:]
    return FileDiff(
        path=path,
        change=change,
        text="\n".join(lines[:MAX_DIFF_LINES]),
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
        cut=len(lines) > MAX_DIFF_LINES,
    )


def _read_lines(state: FileState, content: Callable[[str], bytes | None]) -> list[str] | None:
    """Return a file's lines; None for a binary file or one that is not stored any more."""
    if state.kind is Kind.ABSENT:
        return []
    data = content(state.mark)
    if data is None or b"\0" in data[:8_192]:
        return None
    try:
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return data.decode("latin-1").splitlines()
