"""The files that a plug-in runs from, and those that it has written.

A plug-in never runs from the folder that the person sees: what its digest was taken of is stored under that digest, so
that a change between the look and the start changes nothing that runs.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hermes.core.errors import ConfigError
from hermes.plugin_host.folders import PluginFile, PluginFolder, compute_digest, read_files

MAX_DATA_BYTES = 128 * 1024 * 1024
MAX_DATA_FILES = 2_000
"""The most bytes and entries of a plug-in's data folder."""
_DIGEST_LENGTH = 32


def store_plugin_files(folder: PluginFolder, place: Path) -> str:
    """Store a plug-in's files and return the folder, the same for the same files. Raises OSError."""
    target = Path(os.path.realpath(place)) / f"{folder.identity}-{folder.digest[:_DIGEST_LENGTH]}"
    if _holds_files(target, folder.digest):
        return str(target)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = tempfile.mkdtemp(prefix=".new-", dir=place)
    try:
        for one in folder.files:
            _write_file(Path(made), one)
        if os.path.lexists(target):
            shutil.rmtree(target)
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            os.rename(made, target)  # another process may have been first, with the same files
    finally:
        shutil.rmtree(made, ignore_errors=True)
    if not _holds_files(target, folder.digest):
        raise OSError(f"its files could not be stored in {target}")
    return str(target)


def _holds_files(target: Path, digest: str) -> bool:
    try:
        return compute_digest(tuple(sorted(read_files(str(target)), key=lambda one: one.name))) == digest
    except (OSError, ConfigError):
        return False


def _write_file(place: Path, file: PluginFile) -> None:
    path = place / file.name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700 if file.is_program else 0o600)
    with os.fdopen(handle, "wb") as opened:
        opened.write(file.content)


def exceeds_data_limit(folder: Path) -> bool:
    """Return whether a plug-in's data are more than it may have. What cannot be read counts as too much."""
    size = 0
    try:
        for count, entry in enumerate(_walk_entries(str(folder))):
            size += _measure_entry(entry)
            if count >= MAX_DATA_FILES or size > MAX_DATA_BYTES:
                return True
    except OSError:
        return True
    return False


def _walk_entries(folder: str) -> Iterator[os.DirEntry[str]]:
    waiting = [folder]
    while waiting:
        with contextlib.suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _measure_entry(entry: os.DirEntry[str]) -> int:
    """Return the bytes that an entry takes on the disk; it may have gone meanwhile."""
    try:
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except FileNotFoundError:
        return 0
