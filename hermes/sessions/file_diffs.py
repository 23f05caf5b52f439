"""The difference between a file as it was and as it is, short enough to be looked at."""

from collections.abc import Callable

from msgspec import Struct

from hermes.core.checkpoints import FileState, Kind

MOST_LINES = 4_000
"""Lines of a file up to which lines are compared; of a longer one its size is told."""
MOST_SHOWN = 400
"""Lines of one file's difference."""
_LONGEST = 500


class FileDiff(Struct, frozen=True, kw_only=True):
    """One file. `change` is `changed`, `created`, `deleted` or `mode`; `text` a unified diff without its head.

    `text` is empty for a file that is binary, too large or not kept, which `note` names (`binary`, `large`, `hidden`,
    `link`, `other`). `cut`: the difference is longer than what is shown.
    """

    path: str
    change: str
    text: str = ""
    note: str = ""
    added: int = 0
    removed: int = 0
    cut: bool = False


def file_diff(path: str, was: FileState, now: FileState, content: Callable[[str], bytes | None]) -> FileDiff:
    """What has changed; `content` gives what is kept under a digest."""
    change = "created" if was.kind is Kind.ABSENT else "deleted" if now.kind is Kind.ABSENT else "changed"
    if was.kind is now.kind is Kind.FILE and was.mark == now.mark:
        return FileDiff(path=path, change="mode", note=f"{was.mode:o} -> {now.mode:o}")
    for state in (was, now):
        if state.kind not in (Kind.FILE, Kind.ABSENT):
            return FileDiff(path=path, change=change, note=state.kind.value)
    old, new = _lines(was, content), _lines(now, content)
    if old is None or new is None:
        return FileDiff(path=path, change=change, note="binary")
    if len(old) + len(new) > MOST_LINES:
        return FileDiff(path=path, change=change, note="large", added=len(new), removed=len(old))
    return _compared(path, change, old, new)


def _compared(path: str, change: str, old: list[str], new: list[str]) -> FileDiff:
    import difflib

    lines = [line[:_LONGEST] for line in difflib.unified_diff(old, new, n=3, lineterm="")][2:]
    return FileDiff(
        path=path,
        change=change,
        text="\n".join(lines[:MOST_SHOWN]),
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
        cut=len(lines) > MOST_SHOWN,
    )


def _lines(state: FileState, content: Callable[[str], bytes | None]) -> list[str] | None:
    """A file's lines; None for what is no text, or is not there any more."""
    if state.kind is Kind.ABSENT:
        return []
    data = content(state.mark)
    if data is None or b"\0" in data[:8_192]:
        return None
    try:
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return data.decode("latin-1").splitlines()
