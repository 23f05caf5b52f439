"""Fingerprints of what a decision was made on: an approval is for exactly that."""

import os
from collections.abc import Iterable

from hermes.core.encoding import hash_value
from hermes.safety.autorun_files import is_autorun_file
from hermes.safety.path_policy import resolve_real_path
from hermes.safety.shell.findings import CommandEffect, EffectKind
from hermes.tools.session import ToolState

_SKIPPED_FOLDERS = """
    .git .hg node_modules .venv venv .tox __pycache__ site-packages target .cache .pytest_cache .mypy_cache .ruff_cache
    .hypothesis
"""
_DATA_SUFFIXES = """
    .md .rst .txt .log .csv .tsv .png .jpg .jpeg .gif .webp .svg .ico .pdf .mp3 .mp4 .wav .zip .gz .html .css .scss
    .o .pyc
"""
"""Suffixes of files that nothing takes code from."""
_MAX_FILES = 5_000
PathMark = tuple[str, str, tuple[int, ...]]


def fingerprint_call(what: str, cwd: str, state: ToolState, effects: Iterable[CommandEffect]) -> str:
    """Return the hash of a command or call, its folder as it really is, its variables, and where its paths lead."""
    marks: list[PathMark] = []
    for effect in effects:
        runs = effect.kind is EffectKind.RUNS
        paths = (one for one in effect.targets if one[:1] == "/")
        marks += ((path, resolve_real_path(path), stamp_path(path) if runs else ()) for path in paths)
    body = (what, resolve_real_path(cwd), sorted(state.environment.items()), sorted(state.unset), sorted(set(marks)))
    return hash_value(body)


def fingerprint_files(paths: Iterable[str]) -> str:
    """Return the hash of these files as they are now; of folders only that they are the same folders."""
    marks = sorted((path, resolve_real_path(path), () if os.path.isdir(path) else stamp_path(path)) for path in paths)
    return hash_value(marks)


def list_run_files(paths: Iterable[str]) -> list[str] | None:
    """Return these files, and of folders those below that may hold code; None for very many."""
    found: dict[str, None] = {}
    for path in dict.fromkeys(paths):
        listed = _list_code_files(path) if os.path.isdir(path) else [path]
        if listed is None:
            return None
        found |= dict.fromkeys(listed)
    return list(found)


def _list_code_files(folder: str) -> list[str] | None:
    """Return the files below a folder that programs may take code or settings from, without packages'; None for very
    many.
    """
    skipped, data = _SKIPPED_FOLDERS.split(), tuple(_DATA_SUFFIXES.split())
    found: list[str] = []
    seen = 0
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if one not in skipped)
        seen += len(folders) + len(names)
        if seen > _MAX_FILES:
            return None
        paths = (os.path.join(at, one) for one in sorted(names) if not one.endswith(".sample"))
        found += (path for path in paths if not path.endswith(data) or is_autorun_file(path))
    return found


def stamp_path(path: str) -> tuple[int, ...]:
    """Return what tells one state of a file from another without reading it; programs cannot set its change time."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    if os.path.isdir(path):
        return (status.st_dev, status.st_ino)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def fingerprint_texts(*texts: str) -> str:
    """Return the hash of these texts."""
    return hash_value(texts)
