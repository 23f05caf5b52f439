"""What a decision was made on, as a hash: an approval is for exactly that."""

import hashlib
import os
from collections.abc import Iterable

import msgspec

from hermes.safety.autorun_files import runs_later
from hermes.safety.shell.findings import Effect, EffectKind
from hermes.tools.session import ToolState

_NOT_LOOKED_INTO = frozenset(
    [
        ".git",
        ".hg",
        "node_modules",
        ".venv",
        "venv",
        ".tox",
        "__pycache__",
        "site-packages",
        "target",
        ".cache",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
    ]
)
_DATA = """
    .md .rst .txt .log .csv .tsv .png .jpg .jpeg .gif .webp .svg .ico .pdf .mp3 .mp4 .wav .zip .gz .html .css .scss
    .o .pyc
"""
"""Ends of files that nothing takes code from."""
_MOST_FILES = 5_000
Mark = tuple[str, str, tuple[int, ...]]


def seal(what: str, cwd: str, state: ToolState, effects: Iterable[Effect] = (), paths: Iterable[str] = ()) -> str:
    """The hash of a command or call, its folder as it really is, its variables, and where its paths lead."""
    marks: list[Mark] = [(path, _real(path), ()) for path in paths]
    for effect in effects:
        runs = effect.kind is EffectKind.RUNS
        marks += [
            (target, _real(target), stamp(target) if runs else ()) for target in effect.targets if target[:1] == "/"
        ]
    body = (what, _real(cwd), sorted(state.environment.items()), sorted(state.unset), sorted(set(marks)))
    return hashlib.sha256(msgspec.json.encode(body)).hexdigest()


def file_seal(paths: Iterable[str]) -> str:
    """The hash of these files as they are now; of folders only that they are the same folders."""
    marks = sorted((path, _real(path), () if os.path.isdir(path) else stamp(path)) for path in paths)
    return hashlib.sha256(msgspec.json.encode(marks)).hexdigest()


def code_in(folder: str) -> list[str] | None:
    """The files below a folder that programs may take code or orders from, not packages'; None for very many."""
    data = tuple(_DATA.split())
    found: list[str] = []
    seen = 0
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if one not in _NOT_LOOKED_INTO)
        seen += len(folders) + len(names)
        if seen > _MOST_FILES:
            return None
        paths = (os.path.join(at, one) for one in sorted(names) if not one.endswith(".sample"))
        found += (path for path in paths if not path.endswith(data) or runs_later(path))
    return found


def stamp(path: str) -> tuple[int, ...]:
    """What tells one state of a file from another without reading it; the change time cannot be set by a program."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    if os.path.isdir(path):
        return (status.st_dev, status.st_ino)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return ""


def text_seal(*texts: str) -> str:
    """The hash of these texts."""
    return hashlib.sha256(msgspec.json.encode(texts)).hexdigest()
