"""Finds files that programs obey without being asked: git's hooks and settings, tasks of editors.

Where they exist already the kernel protects them. New ones, which a command can make and must be able
to (`git init`, `git clone`), are looked for after it: harmless settings stay, the rest is moved aside,
under a name that nothing obeys. A folder whose list of entries has not changed since is not read again.
"""

import contextlib
import itertools
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from hermes.i18n.messages import N_
from hermes.safety.autorun_files import find_project_settings, is_git_shaped
from hermes.util.file_handles import open_folder

_MAX_FOLDERS = 50_000
_LOOK_SECONDS = 2.0
"""Seconds that one look may take."""
_MAX_FILE_BYTES = 262_144
_MAX_HOOK_FILES = 2_000
"""The most files read in one folder of hooks; a folder with more is moved aside as a whole."""
_MAX_NOTES = 20
HELD_SUFFIX = ".held"
_SECTION_LINE = re.compile(r"\s*\[\s*([A-Za-z0-9.-]+)(?:\s+\"(?:[^\"\\\n]|\\.)*\")?\s*\]\s*(?:[#;].*)?$")
_ENTRY_LINE = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")
_HARMLESS_KEYS = frozenset(
    [
        "core.repositoryformatversion",
        "core.filemode",
        "core.bare",
        "core.logallrefupdates",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.symlinks",
        "core.autocrlf",
        "core.eol",
        "core.safecrlf",
        "core.compression",
        "core.sparsecheckout",
        "core.sparsecheckoutcone",
        "extensions.objectformat",
        "extensions.worktreeconfig",
        "extensions.partialclone",
        "extensions.refstorage",
        "user.name",
        "user.email",
        "remote.fetch",
        "remote.url",
        "remote.pushurl",
        "remote.promisor",
        "remote.partialclonefilter",
        "remote.tagopt",
        "remote.prune",
        "remote.mirror",
        "branch.remote",
        "branch.merge",
        "branch.rebase",
        "branch.description",
        "submodule.url",
        "submodule.active",
        "submodule.update",
        "pull.rebase",
        "pull.ff",
        "push.default",
        "push.autosetupremote",
        "init.defaultbranch",
        "commit.gpgsign",
        "gc.auto",
        "lfs.repositoryformatversion",
        "merge.conflictstyle",
        "rebase.autostash",
        "rerere.enabled",
        "fetch.prune",
        "advice.detachedhead",
    ]
)
_SAFE_URL = re.compile(r"(https?|ssh|git|file)://[^\s;\\]+$|[\w.@-]+:[\w./~-]+$|(?!-)[\w./~@-]+$")
_SAFE_VALUE = re.compile(r"[\w./@*+:^~, -]*$")


class EntryStamp(Struct, frozen=True):
    """One state of a file or folder. Programs cannot set the time of change."""

    inode: int
    changed: int


class _SeenFolder(Struct, frozen=True):
    stamp: EntryStamp
    folders: tuple[str, ...]
    is_git: bool
    settings: tuple[str, ...]
    """Files directly in it that editors, agents or shells obey."""


class PlantedFiles:
    """Tracks repositories and task files below some folders. Used by one thread at a time."""

    def __init__(self) -> None:
        self._folders: dict[str, _SeenFolder] = {}
        self._stamps: dict[str, EntryStamp] = {}
        """The state before the commands that run now, or at a later look."""
        self._saved_contents: dict[str, tuple[bytes, int]] = {}
        self._new_repositories: set[str] = set()
        self._known: set[str] = set()
        """Folders that were there before a command made a repository in them: a person may work there."""
        self.is_complete = True
        """Whether the last look saw every folder."""

    def list_git_dirs(self) -> list[str]:
        """Return the repositories that were found, except those that commands made: these may go again."""
        return sorted(
            path for path, seen in self._folders.items() if seen.is_git and path not in self._new_repositories
        )

    def record_baseline(self, roots: Sequence[str], tasks: Sequence[str]) -> None:
        """Take what is below `roots` as the person's own; `tasks` are names of files directly in them."""
        self._scan_folders(roots)
        before, self._stamps = self._stamps, {}
        """The state before the commands that run now, or at a later look."""
        for path in self._find_obeyed_files(roots, tasks):
            if (mark := _read_stamp(path)) is not None:
                self._stamps[path] = mark
                if before.get(path) != mark:
                    self._save_content(path)

    def quarantine_new(self, roots: Sequence[str], tasks: Sequence[str], fixed: Callable[[str], bool]) -> list[str]:
        """Move aside what programs obey and is new or changed, except what was `fixed` by the kernel; return a line for
        each.
        """
        self._note_new_repositories(roots)
        notes: list[str] = []
        for path in self._find_obeyed_files(roots, tasks):
            stamp = _read_stamp(path)
            if stamp is None or self._stamps.get(path) == stamp or fixed(path):
                continue
            if (note := self._neutralize_file(path)) and len(notes) < _MAX_NOTES:
                notes.append(note)
            if (stamp := _read_stamp(path)) is not None:
                self._stamps[path] = stamp
                self._save_content(path)
        return notes

    def _note_new_repositories(self, roots: Sequence[str]) -> None:
        before = self._folders
        self._scan_folders(roots)
        copied = self._copied()
        self._known |= {path for path in before if not f"{path}/".startswith(copied)}
        self._new_repositories |= {path for path, seen in self._folders.items() if seen.is_git and path not in before}

    def _neutralize_file(self, path: str) -> str:
        name = os.path.basename(path)
        try:
            with _open_parent(path) as (folder, entry):
                if name in ("config", "config.worktree") and (text := _read_text(entry, folder)) is not None:
                    clean = strip_harmful_settings(text)
                    if clean == text or self._has_no_new_risk(path, text):
                        return ""
                    held = _move_aside(entry, folder)
                    before = self._saved_contents.get(path)
                    if before is not None and any(_find_harmful_lines(before[0].decode("utf-8", "replace"))):
                        _write_new(entry, folder, *before)  # the person's own settings are among them
                    else:
                        _write_new(entry, folder, clean.encode(), 0o600)
                    return N_(
                        "Settings in {path} that let git run programs were taken out; all of it is in {held}.",
                        path=path,
                        held=held,
                    )
                held = _move_aside(entry, folder)
                if (before := self._saved_contents.get(path)) is not None:
                    _write_new(entry, folder, *before)
                    return N_(
                        "{path} was changed by a command and is as it was again; the change is in {held}.",
                        path=path,
                        held=held,
                    )
            return N_(
                "{path} was made by a command, and programs would run what it says: it is now {held}.",
                path=path,
                held=held,
            )
        except OSError as error:
            return N_(
                "{path} was made by a command, and could not be taken away: {strerror}. Look at it.",
                path=path,
                strerror=error.strerror,
            )

    def _has_no_new_risk(self, path: str, text: str) -> bool:
        """Return whether all that could make git run a program stood in the settings
        before, under the same headings.
        """
        saved, _ = self._saved_contents.get(path, (b"", 0))
        found = list(_find_harmful_lines(text))
        if any(line.lstrip().startswith("[") or line.endswith("\\") for _, line in found):
            return False  # it says what other lines mean
        return not Counter(found) - Counter(_find_harmful_lines(saved.decode("utf-8", "replace")))

    def _save_content(self, path: str) -> None:
        with contextlib.suppress(OSError), _open_parent(path) as (folder, entry):
            if (data := _read_bytes(entry, folder)) is not None:
                self._saved_contents[path] = data, stat.S_IMODE(os.lstat(path).st_mode)

    def _find_obeyed_files(self, roots: Sequence[str], tasks: Sequence[str]) -> Iterator[str]:
        for root in roots:
            yield from _find_links(root, tasks)
            yield from _list_files(f"{root}/{name}" for name in tasks)
        copied = self._copied()
        for folder, seen in self._folders.items():
            if seen.settings and not f"{folder}/".startswith(copied):
                yield from _list_files(f"{folder}/{name}" for name in seen.settings)
        for folder in [path for path, seen in self._folders.items() if seen.is_git]:
            yield from _list_files([f"{folder}/config", f"{folder}/config.worktree"])
            yield from _list_files([f"{folder}/hooks"], except_suffix=".sample")
            if _has_foreign_commondir(folder):
                yield f"{folder}/commondir"

    def _copied(self) -> tuple[str, ...]:
        """Where commands made a folder and a repository in it, as `git clone` does: what it brings stays as it is."""
        return tuple(f"{one}/" for one in map(os.path.dirname, self._new_repositories) if one not in self._known)

    def _scan_folders(self, roots: Sequence[str]) -> None:
        until = time.monotonic() + _LOOK_SECONDS
        queue = list(roots)
        found: dict[str, _SeenFolder] = {}
        for path in queue:
            if len(found) >= _MAX_FOLDERS or time.monotonic() > until:
                break
            stamp = _read_stamp(path)
            if stamp is None or path in found:
                continue
            seen = self._folders.get(path)
            if seen is None or seen.stamp != stamp:
                seen = _scan_folder(path, stamp)
            found[path] = seen
            queue += seen.folders
        self.is_complete = len(found) >= len(set(queue)) or all(
            _read_stamp(path) is None for path in queue if path not in found
        )
        """Whether the last look saw every folder."""
        self._folders = found


def strip_harmful_settings(text: str) -> str:
    """Return a git configuration with only the lines that cannot make git run a program, or read one elsewhere."""
    section = ""
    kept: list[str] = []
    lines = text.split("\n")  # as git does, which knows no other ends of lines
    for line in (one.removesuffix("\r") for one in lines):
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            kept.append(line)
        elif found := _SECTION_LINE.match(line):
            section = found[1].lower()
            kept.append(line)
        elif (found := _ENTRY_LINE.match(line)) and _is_harmless_entry(section, found[1].lower(), found[2] or ""):
            kept.append(line)
    return text if len(kept) == len(lines) else "\n".join(kept)


def _find_harmful_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines that could make git run a program, each with its heading."""
    heading = ""
    for line in (one.removesuffix("\r") for one in text.split("\n")):
        if _SECTION_LINE.match(line):
            heading = line.strip()
        elif strip_harmful_settings(alone := f"{heading}\n{line}") != alone:
            yield heading, line


def is_harmless_setting(name: str, value: str) -> bool:
    """Return whether a setting of git's (`user.name`, `remote.origin.url`) cannot make it run a program."""
    section, _, rest = name.partition(".")
    return _is_harmless_entry(section.lower(), rest.rpartition(".")[2].lower(), value)


def _is_harmless_entry(section: str, key: str, value: str) -> bool:
    if f"{section}.{key}" not in _HARMLESS_KEYS:
        return False
    if key in ("url", "pushurl"):
        return _SAFE_URL.match(value) is not None
    if f"{section}.{key}" == "submodule.update":
        return value in ("checkout", "rebase", "merge", "none")
    return _SAFE_VALUE.match(value) is not None


def _read_stamp(path: str) -> EntryStamp | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return EntryStamp(found.st_ino, found.st_ctime_ns)


def _find_links(root: str, names: Iterable[str]) -> Iterator[str]:
    """Yield links in the place of the folders that these names lie in."""
    for folder in dict.fromkeys(f"{root}/{name.partition('/')[0]}" for name in names if "/" in name):
        if os.path.islink(folder):
            yield folder


def _has_foreign_commondir(folder: str) -> bool:
    """Return whether a repository's folder names another one for its settings and hooks,
    as only git's work trees do.
    """
    try:
        with _open_parent(f"{folder}/commondir") as (handle, name):
            data = _read_bytes(name, handle)
    except OSError:
        return False
    own = os.path.basename(os.path.dirname(folder)) == "worktrees"
    return not own or data is None or data.strip() != b"../.."


def _scan_folder(path: str, stamp: EntryStamp) -> _SeenFolder:
    """Scan a folder for its folders, those of repositories too: another one may lie anywhere in them."""
    names: set[str] = set()
    folders: list[str] = []
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            names.add(entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    git = is_git_shaped(names)
    # A folder of that name that is no repository yet becomes one by `git init`, which keeps what lies in it.
    git = git or (os.path.basename(path) == ".git" and bool({"hooks", "config"} & names))
    return _SeenFolder(stamp, tuple(folders), git, tuple(sorted(find_project_settings(path, names))))


def _list_files(paths: Iterable[str], except_suffix: str = "\0") -> Iterator[str]:
    """Yield the paths that exist, folders replaced by what is directly in them."""
    for path in paths:
        try:
            kind = os.lstat(path).st_mode
        except OSError:
            continue
        if not stat.S_ISDIR(kind):
            if not path.endswith((except_suffix, HELD_SUFFIX)):
                yield path
            continue
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            names = [
                one.path
                for one in itertools.islice(entries, _MAX_HOOK_FILES)
                if not one.name.endswith((except_suffix, HELD_SUFFIX))
            ]
            yield from names if len(names) < _MAX_HOOK_FILES else [path]


@contextlib.contextmanager
def _open_parent(path: str) -> Iterator[tuple[int, str]]:
    """Open the folder of a file, reached without following a link; yield its handle and the file's name in it.

    A command that still runs may swap folders for links meanwhile.
    """
    handle = open_folder(os.path.dirname(path))
    try:
        yield handle, os.path.basename(path)
    finally:
        os.close(handle)


def _read_bytes(name: str, folder: int) -> bytes | None:
    """Return a plain file's content; None for anything else and for what is too large."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(name, flags, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        return file.read() if stat.S_ISREG(about.st_mode) and about.st_size <= _MAX_FILE_BYTES else None


def _read_text(name: str, folder: int) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        data = _read_bytes(name, folder)
        return None if data is None else data.decode("utf-8")
    return None


def _move_aside(name: str, folder: int) -> str:
    """Move an entry to a name that nothing obeys; return that name."""
    held = name + HELD_SUFFIX
    try:
        os.rename(name, held, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:  # a folder of that name was put in the way
        held = f"{name}.{os.urandom(4).hex()}{HELD_SUFFIX}"
        os.rename(name, held, src_dir_fd=folder, dst_dir_fd=folder)
    with contextlib.suppress(OSError):
        handle = os.open(held, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(handle, "rb"):
            if stat.S_ISREG(os.fstat(handle).st_mode):
                os.fchmod(handle, 0o600)
    return held


def _write_new(name: str, folder: int, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb") as file:
        file.write(data)
