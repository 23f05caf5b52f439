"""The list of a person's Hermes homes: each home writes itself into it, so that commands of one never see another."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

_FILE = ".local/state/hermes/homes"
_MARKS = ("config.yaml", ".env", "hermes.db", "auth.json")
"""Names of which a folder has one that is still a home; a folder that was one may be anything today."""
_MAX_BYTES = 262_144


def locate_known_homes(environ: Mapping[str, str]) -> Path | None:
    """Return the file that lists the homes; None where no home of the person's is known."""
    user = environ.get("HOME", "")
    return Path(user, _FILE) if os.path.isabs(user) else None


def record_home(file: Path, root: Path) -> None:
    """Add a home to the list, unless it is there. A list that cannot be written stays as it is."""
    line = os.fsencode(root) + b"\n"
    with contextlib.suppress(OSError):
        if b"\n" in line[:-1] or line in _read_list(file):
            return
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(file, flags, 0o600)
        try:
            os.write(handle, line)  # one write, so that lines of two homes never mix
        finally:
            os.close(handle)


def list_known_homes(file: Path | None) -> tuple[str, ...]:
    """Return the homes of the list that are there, resolved."""
    lines = _read_list(file) if file is not None else []
    paths = dict.fromkeys(os.fsdecode(line.rstrip(b"\n")) for line in lines)
    return tuple(os.path.realpath(one) for one in paths if os.path.isabs(one) and _is_home(one))


def _is_home(path: str) -> bool:
    return any(os.path.lexists(os.path.join(path, name)) for name in _MARKS)


def _read_list(file: Path) -> list[bytes]:
    try:
        with open(file, "rb") as opened:
            return opened.read(_MAX_BYTES).splitlines(keepends=True)
    except OSError:
        return []
