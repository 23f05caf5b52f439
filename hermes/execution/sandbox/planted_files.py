"""Files in writable folders that programs obey without being asked: git's hooks and settings, tasks of editors.

Where they stand already the kernel keeps them. New ones, which a command can make and must be able to (`git init`,
`git clone`), are looked for after it: settings that do no harm stay, the rest is moved beside itself, under a name
that nothing obeys. A folder whose list of entries has not changed since is not read again.
"""

import contextlib
import itertools
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

_MOST_FOLDERS = 50_000
_PATIENCE = 2.0
"""Seconds that one look may take."""
_LARGEST = 262_144
_MOST_FILES = 2_000
"""Files of one folder of hooks; one with more is taken away as a whole."""
_MOST_NOTES = 20
HELD = ".held"
_SECTION = re.compile(r"\s*\[\s*([A-Za-z0-9.-]+)(?:\s+\"(?:[^\"\\\n]|\\.)*\")?\s*\]\s*(?:[#;].*)?$")
_ENTRY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")
_HARMLESS = frozenset(
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
_URL = re.compile(r"(https?|ssh|git|file)://[^\s;\\]+$|[\w.@-]+:[\w./~-]+$|(?!-)[\w./~@-]+$")
_WORDS = re.compile(r"[\w./@*+:^~, -]*$")


class Mark(Struct, frozen=True):
    """One state of a file or folder. The time of change cannot be set by programs."""

    inode: int
    changed: int


class _Seen(Struct, frozen=True):
    mark: Mark
    folders: tuple[str, ...]
    git: bool


class Plants:
    """What is known of repositories and tasks below some folders. Used by one thread at a time."""

    def __init__(self) -> None:
        self._folders: dict[str, _Seen] = {}
        self._marks: dict[str, Mark] = {}
        """What was there before the commands that run now, or has been looked at since."""
        self._kept: dict[str, tuple[bytes, int]] = {}
        self._made: set[str] = set()
        self.complete = True
        """Whether the last look saw every folder."""

    def git_dirs(self) -> list[str]:
        """The repositories that were found, but for those that commands made: these may go again."""
        return sorted(path for path, seen in self._folders.items() if seen.git and path not in self._made)

    def begin(self, roots: Sequence[str], tasks: Sequence[str]) -> None:
        """Take what is below `roots` as the person's own; `tasks` are names of files directly in them."""
        self._walk(roots)
        before, self._marks = self._marks, {}
        for path in self._obeyed(roots, tasks):
            if (mark := _mark(path)) is not None:
                self._marks[path] = mark
                if before.get(path) != mark:
                    self._keep(path)

    def look(self, roots: Sequence[str], tasks: Sequence[str], fixed: Callable[[str], bool]) -> list[str]:
        """Take away what is obeyed and new or changed, but for what was `fixed` by the kernel; a line for each."""
        before = self._folders
        self._walk(roots)
        self._made |= {path for path, seen in self._folders.items() if seen.git and path not in before}
        notes: list[str] = []
        for path in self._obeyed(roots, tasks):
            mark = _mark(path)
            if mark is None or self._marks.get(path) == mark or fixed(path):
                continue
            if (note := self._neutralised(path)) and len(notes) < _MOST_NOTES:
                notes.append(note)
            if (mark := _mark(path)) is not None:
                self._marks[path] = mark
                self._keep(path)
        return notes

    def _neutralised(self, path: str) -> str:
        name = os.path.basename(path)
        try:
            with _opened(path) as (folder, entry):
                if name in ("config", "config.worktree") and (text := _text(entry, folder)) is not None:
                    clean = harmless(text)
                    if clean == text or self._nothing_new(path, text):
                        return ""
                    held = _move_aside(entry, folder)
                    before = self._kept.get(path)
                    if before is not None and any(_harmful(before[0].decode("utf-8", "replace"))):
                        _write(entry, folder, *before)  # the person's own settings are among them
                    else:
                        _write(entry, folder, clean.encode(), 0o600)
                    return f"Settings in {path} that let git run programs were taken out; all of it is in {held}."
                held = _move_aside(entry, folder)
                if (before := self._kept.get(path)) is not None:
                    _write(entry, folder, *before)
                    return f"{path} was changed by a command and is as it was again; the change is in {held}."
            return f"{path} was made by a command, and programs would run what it says: it is now {held}."
        except OSError as error:
            return f"{path} was made by a command, and could not be taken away: {error.strerror}. Look at it."

    def _nothing_new(self, path: str, text: str) -> bool:
        """Whether all that could make git run a program stood in the settings before, under the same headings."""
        kept, _ = self._kept.get(path, (b"", 0))
        found = list(_harmful(text))
        if any(line.lstrip().startswith("[") or line.endswith("\\") for _, line in found):
            return False  # it says what other lines mean
        return not Counter(found) - Counter(_harmful(kept.decode("utf-8", "replace")))

    def _keep(self, path: str) -> None:
        with contextlib.suppress(OSError), _opened(path) as (folder, entry):
            if (data := _bytes(entry, folder)) is not None:
                self._kept[path] = data, stat.S_IMODE(os.lstat(path).st_mode)

    def _obeyed(self, roots: Sequence[str], tasks: Sequence[str]) -> Iterator[str]:
        for root in roots:
            yield from _links(root, tasks)
            yield from _files(f"{root}/{name}" for name in tasks)
        for folder in [path for path, seen in self._folders.items() if seen.git]:
            yield from _files([f"{folder}/config", f"{folder}/config.worktree"])
            yield from _files([f"{folder}/hooks"], but=".sample")
            if _led_away(folder):
                yield f"{folder}/commondir"

    def _walk(self, roots: Sequence[str]) -> None:
        until = time.monotonic() + _PATIENCE
        queue = list(roots)
        found: dict[str, _Seen] = {}
        for path in queue:
            if len(found) >= _MOST_FOLDERS or time.monotonic() > until:
                break
            mark = _mark(path)
            if mark is None or path in found:
                continue
            seen = self._folders.get(path)
            if seen is None or seen.mark != mark:
                seen = _read(path, mark)
            found[path] = seen
            queue += seen.folders
        self.complete = len(found) >= len(set(queue)) or all(_mark(path) is None for path in queue if path not in found)
        self._folders = found


def harmless(text: str) -> str:
    """A git configuration with only the lines that cannot make git run a program, or read one elsewhere."""
    section = ""
    kept: list[str] = []
    lines = text.split("\n")  # as git does, which knows no other ends of lines
    for line in (one.removesuffix("\r") for one in lines):
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            kept.append(line)
        elif found := _SECTION.match(line):
            section = found[1].lower()
            kept.append(line)
        elif (found := _ENTRY.match(line)) and _allowed(section, found[1].lower(), found[2] or ""):
            kept.append(line)
    return text if len(kept) == len(lines) else "\n".join(kept)


def _harmful(text: str) -> Iterator[tuple[str, str]]:
    """The lines that could make git run a program, each with the heading that it stands under."""
    heading = ""
    for line in (one.removesuffix("\r") for one in text.split("\n")):
        if _SECTION.match(line):
            heading = line.strip()
        elif harmless(alone := f"{heading}\n{line}") != alone:
            yield heading, line


def allowed_setting(name: str, value: str) -> bool:
    """Whether a setting of git's (`user.name`, `remote.origin.url`) cannot make it run a program."""
    section, _, rest = name.partition(".")
    return _allowed(section.lower(), rest.rpartition(".")[2].lower(), value)


def _allowed(section: str, key: str, value: str) -> bool:
    if f"{section}.{key}" not in _HARMLESS:
        return False
    if key in ("url", "pushurl"):
        return _URL.match(value) is not None
    if f"{section}.{key}" == "submodule.update":
        return value in ("checkout", "rebase", "merge", "none")
    return _WORDS.match(value) is not None


def _mark(path: str) -> Mark | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return Mark(found.st_ino, found.st_ctime_ns)


def _links(root: str, names: Iterable[str]) -> Iterator[str]:
    """Links in the place of the folders that these names lie in."""
    for folder in dict.fromkeys(f"{root}/{name.partition('/')[0]}" for name in names if "/" in name):
        if os.path.islink(folder):
            yield folder


def _led_away(folder: str) -> bool:
    """Whether a repository's folder names another one for its settings and hooks, as only git's work trees do."""
    try:
        with _opened(f"{folder}/commondir") as (handle, name):
            data = _bytes(name, handle)
    except OSError:
        return False
    own = os.path.basename(os.path.dirname(folder)) == "worktrees"
    return not own or data is None or data.strip() != b"../.."


def _read(path: str, mark: Mark) -> _Seen:
    """A folder's folders, those of repositories too: another one may lie anywhere in them."""
    names: set[str] = set()
    folders: list[str] = []
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            names.add(entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    git = {"objects", "refs"} <= names or {"HEAD", "commondir"} <= names or {"HEAD", "config"} <= names
    # A folder of that name that is no repository yet becomes one by `git init`, which keeps what lies in it.
    git = git or (os.path.basename(path) == ".git" and bool({"hooks", "config"} & names))
    return _Seen(mark, tuple(folders), git)


def _files(paths: Iterable[str], but: str = "\0") -> Iterator[str]:
    """Those that exist, folders replaced by what is directly in them."""
    for path in paths:
        try:
            kind = os.lstat(path).st_mode
        except OSError:
            continue
        if not stat.S_ISDIR(kind):
            if not path.endswith((but, HELD)):
                yield path
            continue
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            names = [one.path for one in itertools.islice(entries, _MOST_FILES) if not one.name.endswith((but, HELD))]
            yield from names if len(names) < _MOST_FILES else [path]


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[int, str]]:
    """A handle on the folder of a file, reached without following a link, and the file's name in it.

    A command that still runs may swap folders for links meanwhile.
    """
    handle = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in Path(path).parent.parts[1:]:
            below = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            os.close(handle)
            handle = below
        yield handle, os.path.basename(path)
    finally:
        os.close(handle)


def _bytes(name: str, folder: int) -> bytes | None:
    """A plain file's content; None for anything else and for what is too large."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(name, flags, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        return file.read() if stat.S_ISREG(about.st_mode) and about.st_size <= _LARGEST else None


def _text(name: str, folder: int) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        data = _bytes(name, folder)
        return None if data is None else data.decode("utf-8")
    return None


def _move_aside(name: str, folder: int) -> str:
    """The name that it has then, which nothing obeys."""
    held = name + HELD
    try:
        os.rename(name, held, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:  # a folder of that name was put in the way
        held = f"{name}.{os.urandom(4).hex()}{HELD}"
        os.rename(name, held, src_dir_fd=folder, dst_dir_fd=folder)
    with contextlib.suppress(OSError):
        handle = os.open(held, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(handle, "rb"):
            if stat.S_ISREG(os.fstat(handle).st_mode):
                os.fchmod(handle, 0o600)
    return held


def _write(name: str, folder: int, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb") as file:
        file.write(data)
