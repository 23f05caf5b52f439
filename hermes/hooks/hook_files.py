"""The files that a set of hooks would run: their digest, and whether they are still what was enabled.

A command names its scripts in words; every word that may be a file counts, wherever it lies and whether or not one is
there yet, but not what only the superuser writes (`/usr/bin/python3`), nor what the command itself writes
(`>> ~/hooks.log`). What such a script starts by itself is not followed.
"""

import hashlib
import os
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from glob import iglob
from itertools import islice

from msgspec import Struct

from hermes.hooks.definitions import HookDefinition
from hermes.safety.paths import is_or_below
from hermes.util.file_handles import RefusedPathError, open_read

_SYSTEM_FOLDERS = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/opt/homebrew/", "/nix/store/", "/proc/")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?[-=+?]([^{}]*))?\}|(\w+))")
_MAX_FILE_BYTES = 32 * 1024 * 1024
_MAX_FILES = 500
_MAX_PATH = 4_096
_MAX_DEPTH = 3
_GLOB = re.compile(r"[*?\[]")
_HAS_WORDS = re.compile(r"[\s;|&()<>`]")
_TEXT_PROGRAMS = frozenset({"echo", "printf", "exit", "true", "false", ":", "tee", "touch"})
"""Programs that neither run nor read the files that they may name."""
_SHELL_WORDS = frozenset(
    str.split("! [ [[ ] ]] case cd do done elif else esac exec fi for if in set test then while { }")
)
"""Words of the shell itself, which name no file."""
_SEPARATORS = ";|&()<>`"
_OUTPUT_OPERATORS = frozenset((">", ">>", ">|", "&>", "&>>"))


class FileMark(Struct, frozen=True):
    """What tells a state of a file from another without reading it; no program can set the time of its last change."""

    device: int
    inode: int
    size: int
    changed_ns: int


class HookFilesError(Exception):
    """The files of hooks cannot be read; the text says which and why."""


def list_script_paths(hooks: Iterable[HookDefinition], folder: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths that the commands of hooks may mean as files, absolute and as they are named, sorted: also those
    where nothing lies now, since a file may be put there. Reads the disk.
    """
    found: set[str] = set()
    for hook in hooks:
        words = [_expand_word(word, folder, environ) for word in _split_command(hook.command) if word]
        # A command that changes its folder (`cd scripts && ./check.sh`) means files below that one.
        bases = dict.fromkeys((folder, *(one for word in words if (one := _find_folder(word, folder)))))
        for word in words:
            found.update(_find_files(word, tuple(bases), environ))
    return tuple(sorted(found))


def _split_command(command: str, depth: int = 0) -> Iterator[str]:
    """Yield the words of a command that may name a file which is run or read: not those that are written (`>> log`),
    nor those of `echo`. Of a text that no shell could read the pieces between blanks.
    """
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=_SEPARATORS)
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:
        words = command.split()
    is_written = is_text = False
    for word in words:
        if not word.strip(_SEPARATORS):
            is_written = word in _OUTPUT_OPERATORS  # not `>(`, which runs what it names
            is_text = is_text and is_written
        elif is_written:
            is_written = False
        elif not is_text:
            is_text = word in _TEXT_PROGRAMS
            if word not in _SHELL_WORDS:
                yield word.strip("\"'")
            # A program text in quotation marks (`sh -c 'x.sh arg'`) names files, too.
            if depth < _MAX_DEPTH and _HAS_WORDS.search(word):
                yield from _split_command(word, depth + 1)


def _expand_word(word: str, folder: str, environ: Mapping[str, str]) -> str:
    """Return a word with the variables that are known put in, and without the name that it is assigned to. Of what only
    the shell knows (`$(pwd)/check.sh`) the literal end stays, below the folder.
    """
    named = _VARIABLE.sub(lambda found: _get_variable(found[1] or found[3], folder, environ) or found[2] or "", word)
    value = named.partition("=")[2] if "=" in named and not named.startswith("/") else named
    if value.startswith("~/"):
        return environ.get("HOME", "") + value[1:]
    return value


def _get_variable(name: str, folder: str, environ: Mapping[str, str]) -> str:
    return folder if name in ("CLAUDE_PROJECT_DIR", "PWD") else environ.get(name, "")


def _find_folder(word: str, folder: str) -> str:
    """Return the folder that a word means; empty where it means none."""
    if not word or len(word) > _MAX_PATH or "\0" in word or word in (".", "/"):
        return ""
    path = os.path.normpath(os.path.join(folder, word))
    return path if os.path.isdir(path) else ""


def _find_files(word: str, bases: Sequence[str], environ: Mapping[str, str]) -> Iterable[str]:
    """Yield the paths that a word of a command may mean, from each folder that it may be said in."""
    if not word or len(word) > _MAX_PATH or "\0" in word or word.startswith("-"):
        return
    if "/" not in word and (program := shutil.which(word, path=environ.get("PATH", ""))):
        if not os.path.realpath(program).startswith(_SYSTEM_FOLDERS):
            yield program
        return
    names = _list_named(word, bases)
    yield from (one for one in names if not os.path.realpath(one).startswith(_SYSTEM_FOLDERS))


def _list_named(word: str, bases: Sequence[str]) -> Iterable[str]:
    """Yield absolute paths for a word; one that begins with a slash may have had a variable before that."""
    if os.path.isabs(word):
        yield os.path.normpath(word)
        if os.path.exists(word):
            return
    for base in bases:
        path = os.path.normpath(os.path.join(base, word.lstrip("/")))
        if _GLOB.search(word):
            yield os.path.dirname(path) + "/"  # what is put there counts, too
            yield from islice(iglob(path), _MAX_FILES)
        else:
            yield path


def find_present_files(names: Iterable[str]) -> tuple[str, ...]:
    """Return the files that lie where paths lead to, links followed, sorted."""
    return tuple(sorted({os.path.realpath(one) for one in names if os.path.isfile(one)}))


class HookFiles:
    """The files of a set of hooks as they were when it was read: `list_names` returns the paths that its commands may
    mean. Used in the caller's thread; reading is bounded.
    """

    def __init__(self, definition: bytes, list_names: Callable[[], Sequence[str]], folder: str) -> None:
        self._definition = definition
        self._list_names = list_names
        self._folder = folder
        self._marks: dict[str, FileMark | None] = {}
        self.paths: tuple[str, ...] = ()
        """The files that were there when the digest was computed, links followed."""

    def compute_digest(self) -> str:
        """Return the digest of the definition and of all files, and remember their states. Raises HookFilesError.

        A file of the session's folder that only a link in it leads to is refused: a link can be led elsewhere in the
        moment before the file is run.
        """
        names = self._list_names()
        self._marks = {one: _mark_file(one) for one in names}
        self.paths = find_present_files(names)
        if len(names) > _MAX_FILES:
            raise HookFilesError(f"their commands name more than {_MAX_FILES} files")
        for name in names:
            if is_or_below(name, self._folder) and os.path.isfile(name) and os.path.realpath(name) != name:
                raise HookFilesError(f"a link leads to {name}: name the file itself")
        total = hashlib.sha256(self._definition)
        for path in self.paths:
            total.update(os.fsencode(path) + b"\0" + hashlib.sha256(_read_file(path)).digest())
        return total.hexdigest()

    def is_unchanged(self) -> bool:
        """Return whether all names lead to what they led to when the digest was computed, nothing included."""
        return all(_mark_file(name) == mark for name, mark in self._marks.items())


def _mark_file(path: str) -> FileMark | None:
    """Return the mark of the file that a path leads to, or of the folder where it ends with a slash; else None."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode) and not path.endswith("/"):
        return None
    return FileMark(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


def _read_file(path: str) -> bytes:
    try:
        with open(open_read(path), "rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, RefusedPathError) as error:
        raise HookFilesError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise HookFilesError(f"{path} is too large")
    return content
