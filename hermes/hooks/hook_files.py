"""The files that a set of hooks would run: their digest, and whether they are still what was enabled.

A command names its scripts in words; every word that is a file counts, wherever it lies, but not what only the
superuser writes (`/usr/bin/python3`), nor what the command itself writes (`>> ~/hooks.log`), which is another file
after each call. What such a script starts by itself is not followed.
"""

import hashlib
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hermes.hooks.definitions import HookDefinition

_SYSTEM_FOLDERS = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/opt/homebrew/", "/nix/store/", "/dev/", "/proc/")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_MAX_FILE_BYTES = 32 * 1024 * 1024
_MAX_FILES = 500
_MAX_PATH = 4_096
_SEPARATORS = ";|&()<>"
_OUTPUT_OPERATORS = frozenset((">", ">>", ">|", "&>", "&>>"))


class FileMark(Struct, frozen=True):
    """What tells a state of a file from another without reading it; no program can set the time of its last change."""

    inode: int
    size: int
    changed_ns: int


class HookFilesError(Exception):
    """The files of hooks cannot be read; the text says which and why."""


def list_script_paths(hooks: Iterable[HookDefinition], folder: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files that the commands of hooks name, absolute with links followed, sorted. Reads the disk."""
    found: set[str] = set()
    for hook in hooks:
        for word in _split_command(hook.command):
            path = _find_file(word, folder, environ)
            if path:
                found.add(path)
    return tuple(sorted(found))[:_MAX_FILES]


def _split_command(command: str) -> Sequence[str]:
    """Return the words of a command; of one that no shell could read the pieces between blanks."""
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=_SEPARATORS)
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:
        words = command.split()
    # A program text in quotation marks (`sh -c 'x.sh arg'`) names files, too.
    pieces = [piece for word in words for piece in (word, *(word.split() if " " in word else ()))]
    before = ("", *pieces)
    return [piece for piece, operator in zip(pieces, before, strict=False) if operator not in _OUTPUT_OPERATORS]


def _find_file(word: str, folder: str, environ: Mapping[str, str]) -> str:
    """Return the file that a word of a command means, with links followed; empty where it means none that counts."""
    named = _VARIABLE.sub(lambda found: _get_variable(found[1] or found[2], folder, environ), word)
    value = named.partition("=")[2] if "=" in named and not named.startswith("/") else named
    if value.startswith("~/"):
        value = environ.get("HOME", "") + value[1:]
    if not value or len(value) > _MAX_PATH or "\0" in value:
        return ""
    path = value if "/" in value else shutil.which(value, path=environ.get("PATH", "")) or value
    real = os.path.realpath(os.path.join(folder, path))
    return real if os.path.isfile(real) and not real.startswith(_SYSTEM_FOLDERS) else ""


def _get_variable(name: str, folder: str, environ: Mapping[str, str]) -> str:
    return folder if name == "CLAUDE_PROJECT_DIR" else environ.get(name, "")


class HookFiles:
    """The files of a set of hooks as they were when it was read. Used in the caller's thread; reading is bounded."""

    def __init__(self, definition: bytes, paths: Sequence[str]) -> None:
        self._definition = definition
        self.paths = tuple(paths)
        self._marks: dict[str, FileMark] = {}

    def compute_digest(self) -> str:
        """Return the digest of the definition and of all files, and remember their states. Raises HookFilesError."""
        total = hashlib.sha256(self._definition)
        self._marks = {}
        for path in self.paths:
            mark, content = _read_file(path)
            self._marks[path] = mark
            total.update(os.fsencode(path) + b"\0" + hashlib.sha256(content).digest())
        return total.hexdigest()

    def is_unchanged(self) -> bool:
        """Return whether all files are as they were when the digest was computed, by their states."""
        return all(_mark_file(path) == self._marks.get(path) for path in self.paths)


def _mark_file(path: str) -> FileMark | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return FileMark(status.st_ino, status.st_size, status.st_ctime_ns)


def _read_file(path: str) -> tuple[FileMark, bytes]:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_FILE_BYTES:
                raise HookFilesError(f"{path} is too large, or no file")
            return FileMark(status.st_ino, status.st_size, status.st_ctime_ns), file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise HookFilesError(f"{path} cannot be read: {error.strerror}") from None
