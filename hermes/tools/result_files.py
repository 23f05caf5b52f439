"""Saves results too large for a conversation: the whole goes to a file, the model gets both ends and the path."""

import os
import re
from pathlib import Path

from hermes.util.text import truncate_middle

RESULT_CAP = 100_000
"""The most characters of one result, whatever its tool allows."""
BATCH_CAP = 200_000
"""The most characters of all results of one batch."""
PREVIEW = 1_500
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def write_spill(text: str, folder: Path, name: str) -> Path:
    """Write `text` to a new private file in `folder`, named after a call. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stem = _UNSAFE.sub("_", name)[:64] or "result"
    for number in range(1000):
        path = folder / (f"{stem}.txt" if not number else f"{stem}_{number}.txt")
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
        return path
    raise FileExistsError(f"too many files named {stem} in {folder}")


def spill_result(text: str, folder: Path, call_id: str) -> str:
    """Write `text` to a new private file in `folder` and return the preview that stands for it. Raises OSError."""
    path = write_spill(text, folder, call_id)
    lines = text.count("\n") + 1
    return (
        f"{truncate_middle(text, PREVIEW)}\n\n[The result has {len(text)} characters in {lines} lines, too many "
        f"to show. "
        f"All of it is in {path}: use read_file with offset and limit, or search_files, on that path.]"
    )
