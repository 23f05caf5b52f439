"""Finds files that programs obey without being asked: git's hooks, settings and stopped rebases, tasks of editors.

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
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from pathlib import Path

from msgspec import Struct

from hermes.execution.git_settings import (
    GLOBAL_SETTINGS,
    LedPlaces,
    find_global_hooks,
    find_led_places,
    follow_settings,
    list_harmful_parts,
    list_settings,
    strip_harmful_settings,
)
from hermes.execution.sandbox.baseline import SEVERAL_NAMES, Baseline, BaselineFile, EntryStamp, SavedFile
from hermes.i18n.messages import N_
from hermes.safety.autorun_files import HELD_SUFFIX, find_settings, is_git_shaped, is_obeyed_around, is_setting
from hermes.safety.paths import is_or_below
from hermes.safety.start_links import list_linked_names, list_names
from hermes.util.file_handles import HeldPath, hold_unlinked

_MAX_FOLDERS = 50_000
_LOOK_SECONDS = 2.0
"""Seconds of processor time that one look may take. What commands keep the machine busy with cuts no look short."""
_WAIT_SECONDS = 20.0
"""Seconds that one look may take with all that it waits for, such as a slow disk."""
_MAX_FILE_BYTES = 262_144
_MAX_HOOK_FILES = 2_000
"""The most files read in one folder of hooks; a folder with more is moved aside as a whole."""
_MAX_NOTES = 20
_MAX_FIXED = 200
"""The most files in deeper folders that the kernel is asked to fix; the look takes care of more."""
_MAX_STORED_BYTES = 8_000_000
_RACE_NS = 50_000_000
_NOTHING = SavedFile(EntryStamp(0, 0), 0o600)
_GIT_SETTINGS = ("config", "config.worktree")


class _Role(Enum):
    """What a file is to the programs that obey it, by where it was found: its name says that in git's folders alone."""

    WHOLE = auto()
    """All that it says is obeyed."""
    SETTINGS = auto()
    STEPS = auto()
    """What a command of git's that has stopped does next."""
    STRATEGY = auto()
    CONNECTION = auto()
    """It connects a folder with a repository."""


_GIT_FILES = {
    "config": _Role.SETTINGS,
    "config.worktree": _Role.SETTINGS,
    "info/attributes": _Role.WHOLE,
    "rebase-merge/git-rebase-todo": _Role.STEPS,
    "rebase-merge/strategy": _Role.STRATEGY,
    "rebase-apply/git-rebase-todo": _Role.STEPS,
    "sequencer/todo": _Role.STEPS,
    "gitdir": _Role.CONNECTION,
}
"""The files of a repository by which git runs programs: its settings, the steps of a command that has stopped, and what
names its work tree.
"""
_FIXED_PARTS = ("hooks", *_GIT_SETTINGS, "info/attributes", "commondir")
"""What of a repository commands never change while they run."""
_STEP_THAT_RUNS = re.compile(r"\s*(?:(?:exec|x)(?:\s|$)|!)")
_OWN_STRATEGIES = frozenset(("ort", "recursive", "resolve", "octopus", "ours", "subtree"))
"""git's own ways to merge; any other name is that of a program."""


class _SeenFolder(Struct, frozen=True):
    stamp: EntryStamp
    folders: tuple[str, ...]
    is_git: bool
    settings: tuple[str, ...]
    """Files directly in it that editors, agents or shells obey."""
    pointers: tuple[str, ...]
    """What leads from it to a repository, or to what nobody looks at."""
    specials: tuple[str, ...] = ()
    """What is neither a folder nor a file nor a link, such as sockets."""

    @property
    def is_connected(self) -> bool:
        """Whether it is a repository, or a work tree of one that lies elsewhere."""
        return self.is_git or ".git" in self.pointers


class LookBudget:
    """The time that one look may take: seconds of this thread's processor time, and seconds with all waiting."""

    def __init__(self, busy: float, waiting: float) -> None:
        self._busy_until = time.thread_time() + busy
        self._until = time.monotonic() + waiting

    def is_used_up(self) -> bool:
        """Return whether one of the two is over."""
        return time.thread_time() >= self._busy_until or time.monotonic() >= self._until


class PlantedFiles:
    """Tracks repositories and files that programs obey below some folders. Used by one thread at a time.

    `stored` keeps on disk what is the person's own while commands run. `own` are the folders whose repositories a new
    work tree or submodule may belong to: what is only opened for a time is none of them. `home` is the person's.
    """

    def __init__(self, stored: BaselineFile | None = None, own: Collection[str] = ("/",), home: str = "/") -> None:
        self._stored = stored
        self._own = own
        self._home = home
        self._folders: dict[str, _SeenFolder] = {}
        self._roots: set[str] = set()
        self._files: dict[str, SavedFile] = {}
        """The files that are obeyed as they were before the commands that run now, or at a later look."""
        self._kept: tuple[str, ...] = ()
        """Files and folders of which all is obeyed: what start files lead to, and hooks that lie outside of git's."""
        self._included: tuple[str, ...] = ()
        """Files that git's settings include."""
        self._new_repositories: set[str] = set()
        self._known: set[str] = set()
        """Folders that were there before a command made a repository in them: a person may work there."""
        self.links: tuple[tuple[str, str], ...] = ()
        """Where the person's own links in the place of settings lead, each with the link."""
        self.unseen_folder = ""
        """A folder that commands write and that is not looked at: nothing may lead there, for other programs to find.
        """
        self.sockets: Sequence[str] = ()
        """The sockets that were found at the last look."""
        self.is_alone = True
        """Whether no other session's commands ran here when the baseline was taken."""
        self.is_complete = True
        """Whether the last look saw every folder."""
        self.is_enforced = True
        """Whether the kernel keeps commands from changing what is fixed; else that is written back after them."""

    def _list_git_dirs(self) -> list[str]:
        """Return the repositories that were found, except those that commands made: these may go again."""
        return sorted(
            path for path, seen in self._folders.items() if seen.is_git and path not in self._new_repositories
        )

    def list_obeyed(self) -> list[str]:
        """Return the files and folders that were found which programs obey, except what repositories that commands
        made brought.
        """
        listed = (f"{folder}/{name}" for folder, names in self._list_own_settings() for name in names)
        parts = (f"{folder}/{name}" for folder in self._list_git_dirs() for name in _FIXED_PARTS)
        return [*self._kept, *self._included, *itertools.islice(listed, _MAX_FIXED), *parts]

    def record_baseline(self, roots: Sequence[str], kept: Collection[str] = ()) -> list[str]:
        """Take what is below `roots` as the person's own, before a command and while none runs; of `kept`, which start
        files lead to, everything there is obeyed.

        What another session's commands, or those of one that was killed, have made meanwhile is not: it is moved aside.
        Return a line for each.
        """
        self.is_alone, left = True, None
        notes: list[str] = []
        with contextlib.suppress(OSError):  # a home that cannot be written: there is no baseline but this one
            self.is_alone, left = self._stored.open() if self._stored is not None else (True, None)
        if left is not None:
            self._adopt_baseline(left, roots, kept)
            # Which commands ran, and what a person allowed them, is not known any more.
            notes = self.quarantine_new(
                roots, lambda path: not self.is_enforced and os.path.basename(path) in _GIT_SETTINGS, is_late=True
            )
        if self.is_alone or left is None:
            self._roots, self._files, known = set(), {}, self._files
            self._kept = self._included = ()
            self._add_roots(roots, kept, known)
        self._store_baseline(is_shared=not self.is_alone)
        return notes

    def record_opened(self, roots: Sequence[str], kept: Collection[str] = ()) -> Sequence[str]:
        """Take what is below those of the roots that have been opened since as the person's own, and what has become
        obeyed by a change to files that commands do not write; return both.
        """
        opened = [one for one in roots if one not in self._roots]
        led = self._find_led_places()
        named = {*map(os.path.realpath, kept), *led.hooks, *led.settings}.difference(self._kept, self._included)
        found = [one for one in sorted(named) if _is_below_any(one, self._roots)]
        if opened or found:
            self._note_new_repositories(())
            self._add_roots(opened, kept, self._files, found)
            self._store_baseline(is_shared=True)
        return [*opened, *found]

    def _add_roots(
        self, opened: Collection[str], kept: Collection[str], known: dict[str, SavedFile], led: Collection[str] = ()
    ) -> None:
        """Take what is below these as the person's own, but for what was looked at already: commands may have changed
        that since. Places in `led` are obeyed from now on. Of files that have not changed since they were `known`
        nothing is read.
        """
        roots = self._roots.copy()

        def is_added(path: str) -> bool:
            return (_is_below_any(path, opened) and not _is_below_any(path, roots)) or _is_below_any(path, led)

        self._roots.update(opened)
        self._scan_folders(self._roots)
        self._follow_links(self._roots)
        found = self._find_led_places()
        hooks = (*map(os.path.realpath, kept), *found.hooks)
        self._add_led(filter(is_added, hooks), filter(is_added, found.settings))
        self._files = self._files | _read_files(filter(is_added, self._find_obeyed_files()), known)

    def _add_led(self, kept: Iterable[str], included: Iterable[str]) -> None:
        self._kept = tuple(dict.fromkeys((*self._kept, *kept)))
        self._included = tuple(dict.fromkeys((*self._included, *included)))

    def _find_led_places(self) -> LedPlaces:
        """Return what the person's settings of git, and those of the repositories that are theirs, lead to."""
        trees: defaultdict[str, list[str]] = defaultdict(list)
        for folder, seen in self._folders.items():
            if ".git" in seen.pointers:
                trees[find_repository(f"{folder}/.git")].append(folder)
        found = [find_led_places(one, self._home, trees[one]) for one in self._list_git_dirs()]
        found.append(LedPlaces(settings=follow_settings(GLOBAL_SETTINGS, self._home)[1]))
        hooks = dict.fromkeys(path for one in found for path in one.hooks)
        return LedPlaces(tuple(hooks), tuple(dict.fromkeys(path for one in found for path in one.settings)))

    def _follow_links(self, roots: Collection[str]) -> None:
        """Look at what the person's own links in the place of settings lead to as at what stands there."""
        listed = (f"{folder}/{name}" for folder, seen in self._folders.items() for name in seen.settings)
        found = ((os.path.realpath(path), path) for path in listed if os.path.islink(path))
        links = tuple((real, path) for real, path in found if os.path.isdir(real) and _is_below_any(real, roots))
        if links != self.links:
            self.links, self._folders = links, {}
            self._scan_folders(roots)

    def forget_baseline(self) -> None:
        """Drop the baseline on disk, after the last command has ended and what it left was looked at."""
        if self._stored is not None:
            with contextlib.suppress(OSError):
                self._stored.close()

    def quarantine_new(self, roots: Sequence[str], fixed: Callable[[str], bool], *, is_late: bool = False) -> list[str]:
        """Move aside what programs obey and is new or changed, except what was `fixed` by the kernel, and put back what
        is gone, unless it `is_late`, so that a person may have deleted it; return a line for each.
        """
        self._note_new_repositories(roots)
        known = self._files.copy()
        gone = [] if is_late else [one for one in sorted(known) if not os.path.lexists(one)]
        notes = [*filter(None, map(self._put_back, gone))][:_MAX_NOTES]
        found = self._find_obeyed_files()
        for path in sorted({*_list_plain(self._files), *found}):
            note = self._check_file(path, found.get(path, _Role.WHOLE), fixed)
            if note and len(notes) < _MAX_NOTES:
                notes.append(note)
        if self._files != known:  # what may stay is nothing that another look has to take back
            self._store_baseline(is_shared=True)
        return notes

    def _check_file(self, path: str, role: _Role, fixed: Callable[[str], bool]) -> str:
        """Move a file aside where it has to go, and note what it is then; return a line about it."""
        stamp = _read_stamp(path)
        before = self._files.get(path, _NOTHING)
        if stamp is None or before.stamp == stamp:
            return ""
        now, is_fixed = _save_file(path, stamp), fixed(path)
        # A mount keeps a name and not a file: what has other names is the person's own only while it stays as it was.
        is_own = is_fixed and self.is_enforced and not (before.mode | now.mode) & SEVERAL_NAMES
        may_stay = is_own or _has_same_content(before, now) or self._may_stay(path, role, now)
        note, left = ("", now) if may_stay else self._clean_file(path, role, now, is_fixed=is_fixed)
        self._files |= {path: left} if left is not None else {}
        return note

    def _put_back(self, path: str) -> str:
        """Write back what commands have deleted of the person's settings, and what is run of theirs, as the kernel
        keeps it where it can: there is no copy. Files of git's own come and go. Return a line about it.
        """
        was = self._files[path]
        is_kept = is_setting(path) or _is_below_any(path, (*self._kept, *self._included))
        with contextlib.suppress(OSError), hold_unlinked(path) as held:
            # Where more than the folder of settings is missing the project itself is gone.
            settings = [one for one in held.missing if one.startswith(".") or os.path.dirname(path) in self._kept]
            if was.data is not None and is_kept and len(held.missing) == len(settings) < 2:
                held.make_missing()
                _write_new(held, was.data, was.mode if stat.S_ISLNK(was.mode) else was.mode & ~SEVERAL_NAMES)
                self._files |= {path: _save_file(path, _read_stamp(path) or _NOTHING.stamp)}
                return N_("{path} was deleted while a command ran, and is there again.", path=path)
        return ""

    def _adopt_baseline(self, left: Baseline, roots: Sequence[str], kept: Collection[str]) -> None:
        """Go on from what was the person's own when the commands began that run, or ran when Hermes was killed."""
        self._files = {os.fsdecode(path): saved for path, saved in left.files.items()}
        self._roots = set(map(os.fsdecode, left.roots))
        self._kept, self._included = (tuple(map(os.fsdecode, one)) for one in (left.kept, left.included))
        self._add_roots([one for one in roots if one not in self._roots], kept, self._files)
        own = set(map(os.fsdecode, left.repositories))
        self._known |= self._folders.keys()  # which of them commands have made is not known: none is
        self._new_repositories = {path for path, seen in self._folders.items() if seen.is_git and path not in own}

    def _store_baseline(self, *, is_shared: bool) -> None:
        room = _MAX_STORED_BYTES
        files: dict[bytes, SavedFile] = {}
        for path, saved in self._files.items():
            room -= len(saved.data or b"")
            files[os.fsencode(path)] = saved if room >= 0 else SavedFile(saved.stamp, saved.mode)
        roots, repositories, kept, included = (
            frozenset(map(os.fsencode, one)) for one in (self._roots, self._list_git_dirs(), self._kept, self._included)
        )
        if self._stored is not None:
            with contextlib.suppress(OSError):
                self._stored.save(Baseline(roots, repositories, files, kept, included), is_shared=is_shared)

    def _note_new_repositories(self, roots: Sequence[str]) -> None:
        before = self._folders
        self._scan_folders(self._roots.union(roots))
        copied = self._copied()
        self._known |= {path for path in before if not f"{path}/".startswith(copied)}
        there = {path for path, seen in self._folders.items() if seen.is_git}
        self._new_repositories = {path for path in there if path in self._new_repositories or path not in before}
        self._note_new_hooks(before)

    def _note_new_hooks(self, before: Mapping[str, _SeenFolder]) -> None:
        """Note the folders of hooks that are obeyed since there are more repositories and work trees than before."""
        connected = (path for path, seen in self._folders.items() if seen.is_connected)
        is_connected = any(path not in before or not before[path].is_connected for path in connected)
        hooks = [*self._find_led_places().hooks] if is_connected else []
        new = map(os.path.dirname, self._new_repositories - before.keys())
        hooks += (path for one in new for path in find_global_hooks(one, self._home))
        self._add_led((one for one in hooks if one not in before and _is_below_any(one, self._roots)), ())

    def _clean_file(self, path: str, role: _Role, now: SavedFile, *, is_fixed: bool) -> tuple[str, SavedFile | None]:
        """Move a file aside that may not stay as it is `now`, and put there what may; return a line about it, and what
        was put there. None: nothing, or what a process has changed again already, which the next look has to see.
        """
        before = self._files.get(path, _NOTHING)
        text, wanted = None, before.data
        if role in _CLEANERS and (before.data is None or not is_fixed) and (text := _decode_text(now)) is not None:
            wanted = _CLEANERS[role](text, (before.data or b"").decode("utf-8", "replace")).encode()
            if wanted == now.data:
                return "", now
        mode = before.mode & ~SEVERAL_NAMES if wanted == before.data else _NOTHING.mode
        try:
            held = _replace_file(path, wanted, mode)
        except OSError as error:
            line = N_(
                "{path} was made by a command, and could not be taken away: {strerror}. Look at it.",
                path=path,
                strerror=error.strerror,
            )
            return line, None
        line = _describe_change(path, held, is_cleaned=text is not None, is_new=wanted is None)
        left = _save_file(path, _read_stamp(path) or _NOTHING.stamp)
        return line, left if wanted is not None and (left.mode, left.data) == (mode, wanted) else None

    def _may_stay(self, path: str, role: _Role, now: SavedFile) -> bool:
        """Return whether a new or changed file may stay as it is: it is a connection of the session's own, or a copy of
        one of the person's hooks, as git makes it in another work tree.
        """
        if role is _Role.CONNECTION:
            return self._is_own_connection(path, now)
        if role is not _Role.WHOLE or path in self._files:
            return False
        named = (path.removeprefix(one) for one in self._kept if path.startswith(f"{one}/"))
        same = (self._files.get(folder + rest, _NOTHING) for rest in named for folder in self._kept)
        return any(_has_same_content(one, now) for one in same)

    def _is_own_connection(self, path: str, now: SavedFile) -> bool:
        """Return whether this connects a folder with a repository, as git does by a file at each end, and may stand:
        commands of later sessions in that folder write the repository. So it is one of the session's own, or that of
        a submodule in what is around it; and it is looked at, so that nothing there makes git run programs.
        """
        folder, name = os.path.split(path)
        found = find_repository(path, now) if name == ".git" else folder
        is_seen = _is_below_any(found, self._roots) and not is_or_below(found, self.unseen_folder or "/proc")
        return is_seen and (_is_below_any(found, self._own) or (name == ".git" and _is_submodule(folder, found)))

    def _find_kept_files(self) -> Iterator[str]:
        """Yield what lies in the kept folders at any depth, but for the person's repositories there, which are looked
        at as such. A link that was put in the place of one of them, or on the way to it, is yielded itself.
        """
        queue = [*self._kept]
        for path in queue:
            seen = self._folders.get(path)
            if seen is None:
                steps = itertools.accumulate(path.split("/"), lambda above, name: f"{above}/{name}")
                yield from _list_plain([next(filter(os.path.islink, steps), path)])
            elif not (seen.is_git and path.endswith("/.git") and path not in self._new_repositories):
                queue += seen.folders
                yield from _list_plain(f"{path}/{name}" for name in list_names(path) if not name.endswith(HELD_SUFFIX))

    def _find_obeyed_files(self) -> dict[str, _Role]:
        found = dict.fromkeys(_list_files(self._included), _Role.SETTINGS)
        for folder, seen in self._folders.items():
            for name in seen.pointers:
                found[f"{folder}/{name}"] = _Role.CONNECTION if name == ".git" else _Role.WHOLE
        for folder in [path for path, seen in self._folders.items() if seen.is_git]:
            for name, role in _GIT_FILES.items():
                found |= dict.fromkeys(_list_files([f"{folder}/{name}"]), role)
            found |= dict.fromkeys(_list_files([f"{folder}/hooks"], except_suffix=".sample"), _Role.WHOLE)
            if _has_foreign_commondir(folder):
                found[f"{folder}/commondir"] = _Role.WHOLE
        for folder, names in self._list_own_settings():
            found |= dict.fromkeys(_list_files(f"{folder}/{name}" for name in names), _Role.WHOLE)
        return found | dict.fromkeys(self._find_kept_files(), _Role.WHOLE)

    def _list_own_settings(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        copied = sorted(self._copied())
        for folder, seen in self._folders.items():
            if seen.settings:
                root = next(filter(f"{folder}/".startswith, copied), "")
                listed = ((one, f"{folder}/{one}") for one in seen.settings)
                yield folder, tuple(one for one, path in listed if _is_obeyed_around(path, root, self.links))

    def _copied(self) -> tuple[str, ...]:
        """Where commands made a folder and a repository in it, as `git clone` does: what it brings stays as it is, but
        for what is obeyed by the name of that folder.
        """
        return tuple(f"{one}/" for one in map(os.path.dirname, self._new_repositories) if one not in self._known)

    def _scan_folders(self, roots: Iterable[str]) -> None:
        budget = LookBudget(_LOOK_SECONDS, _WAIT_SECONDS)
        queue = sorted(roots)
        found: dict[str, _SeenFolder] = {}
        for path in queue:
            if len(found) >= _MAX_FOLDERS or budget.is_used_up():
                break
            stamp = _read_stamp(path)
            if stamp is None or path in found:
                continue
            seen = self._folders.get(path)
            if seen is None or seen.stamp != stamp:
                seen = _scan_folder(path, stamp, list_linked_names(path, self.links), self.unseen_folder)
            found[path] = seen
            queue += seen.folders
        self.is_complete = len(found) >= len(set(queue)) or all(
            _read_stamp(path) is None for path in queue if path not in found
        )
        self._folders = found
        self.sockets = _list_sockets(found)


def _clean_settings(text: str, was: str) -> str:
    """Return settings of git's, which commands have changed, with nothing new that makes git run a program."""
    harmful, known = list_harmful_parts(text), list_harmful_parts(was)
    is_known = all(part.setting is not None and not part.is_broken for part in harmful)
    if is_known and not Counter(part.setting for part in harmful) - Counter(part.setting for part in known):
        return text
    # The person's own settings may be among what was there.
    return was if known else strip_harmful_settings(text)


def _clean_steps(text: str, was: str) -> str:
    left = Counter(one.strip() for one in was.split("\n"))
    kept: list[str] = []
    for line in text.split("\n"):
        left[line.strip()] -= 1
        if _STEP_THAT_RUNS.match(line) is None or left[line.strip()] >= 0:
            kept.append(line)
    return "\n".join(kept)


_CLEANERS: dict[_Role, Callable[[str, str], str]] = {
    _Role.SETTINGS: _clean_settings,
    _Role.STEPS: _clean_steps,
    _Role.STRATEGY: lambda text, was: text if text == was or text.strip() in _OWN_STRATEGIES else "ort\n",
}
"""What a file of git's that commands have changed may say, by what it says and what it said: nothing new that makes git
run a program.
"""


def _read_stamp(path: str) -> EntryStamp | None:
    """Return the state of what is at a path; one that has changed just now is like no other: the clock of the disk is
    coarse, and a change that follows at once would have the same time.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return None
    now = time.time_ns()
    return EntryStamp(found.st_ino, found.st_ctime_ns if now - found.st_ctime_ns > _RACE_NS else -now)


def _read_files(paths: Iterable[str], known: dict[str, SavedFile]) -> dict[str, SavedFile]:
    """Return the files as they are now; of one that has not changed since it was known nothing is read."""
    found: dict[str, SavedFile] = {}
    for path in paths:
        if (stamp := _read_stamp(path)) is not None:
            was = known.get(path)
            found[path] = was if was is not None and was.stamp == stamp else _save_file(path, stamp)
    return found


def _save_file(path: str, stamp: EntryStamp) -> SavedFile:
    """Return a file as it is, with its content where that is a plain file's and not too long, or where a link leads."""
    with contextlib.suppress(OSError), hold_unlinked(path) as held:
        found = held.read_status()
        if stat.S_ISLNK(found.st_mode):
            return SavedFile(stamp, found.st_mode, os.fsencode(os.readlink(held.name, dir_fd=held.handle)))
        names, data = SEVERAL_NAMES if found.st_nlink > 1 else 0, None
        if stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_FILE_BYTES:
            with os.fdopen(held.open_read(), "rb") as file:
                data = file.read(_MAX_FILE_BYTES)
        return SavedFile(stamp, stat.S_IMODE(found.st_mode) | names, data)
    return SavedFile(stamp)


def _decode_text(saved: SavedFile) -> str | None:
    """Return the text of a plain file; None for anything else."""
    with contextlib.suppress(UnicodeDecodeError):
        return saved.data.decode() if saved.data is not None and not stat.S_ISLNK(saved.mode) else None
    return None


def _replace_file(path: str, data: bytes | None, mode: int) -> str:
    """Move a file aside and put these bytes in its place; return its new name. Raises OSError."""
    with hold_unlinked(path) as held:
        name = _move_aside(held)
        if data is not None:
            _write_new(held, data, mode)
    return name


def _describe_change(path: str, held: str, *, is_cleaned: bool, is_new: bool) -> str:
    if is_new:
        return N_(
            "{path} was made by a command, and programs would run what it says: it is now {held}.", path=path, held=held
        )
    if is_cleaned:
        return N_(
            "What would let git run programs was taken out of {path}; all of it is in {held}.", path=path, held=held
        )
    return N_("{path} was changed by a command and is as it was again; the change is in {held}.", path=path, held=held)


def _has_same_content(before: SavedFile, now: SavedFile) -> bool:
    return now.data is not None and (now.mode | SEVERAL_NAMES, now.data) == (before.mode | SEVERAL_NAMES, before.data)


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_or_below(path, one) for one in folders)


def _has_foreign_commondir(folder: str) -> bool:
    """Return whether a repository's folder names another one for its settings and hooks,
    as only git's work trees do.
    """
    found = _save_file(f"{folder}/commondir", _NOTHING.stamp)
    own = os.path.basename(os.path.dirname(folder)) == "worktrees"
    return os.path.lexists(f"{folder}/commondir") and (not own or (found.data or b"").strip() != b"../..")


def _scan_folder(path: str, stamp: EntryStamp, linked: Iterable[str], unseen: str) -> _SeenFolder:
    """Scan a folder for its folders, those of repositories too: another one may lie anywhere in them. `linked` are
    its names by links, `unseen` is a folder that nothing may lead to.
    """
    names: set[str] = set()
    folders: list[str] = []
    links: list[str] = []
    specials: list[str] = []
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            names.add(entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                (specials, links)[entry.is_symlink()].append(entry.name)
    git = is_git_shaped(names)
    # A folder of that name that is no repository yet becomes one by `git init`, which keeps what lies in it.
    git = git or (os.path.basename(path) == ".git" and bool({"hooks", "config"} & names))
    settings = {name for one in (path, *linked) for name in find_settings(one, names, links)}
    pointers = {name for name in links if _leads_below(f"{path}/{name}", unseen)}
    pointers |= {".git"} if ".git" in names and f"{path}/.git" not in folders else set()
    return _SeenFolder(stamp, tuple(folders), git, tuple(sorted(settings)), tuple(sorted(pointers)), tuple(specials))


def _is_obeyed_around(path: str, root: str, links: Iterable[tuple[str, str]]) -> bool:
    """Return whether a setting is obeyed by who works in the folders around a new repository's `root`, by one of its
    names; it is where there is no such root.
    """
    return not root or any(is_obeyed_around(one, root) for one in (path, *list_linked_names(path, links)))


def _list_sockets(found: Mapping[str, _SeenFolder]) -> list[str]:
    return [path for folder, seen in found.items() for name in seen.specials if is_socket(path := f"{folder}/{name}")]


def _leads_below(link: str, unseen: str) -> bool:
    """Return whether a link leads below a folder that is not looked at, or there by the way of a process."""
    with contextlib.suppress(OSError):
        if os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link))).startswith("/proc/"):
            return True
    return bool(unseen) and is_or_below(os.path.realpath(link), unseen)


def _is_submodule(folder: str, repository: str) -> bool:
    """Return whether a repository is where git keeps that of the submodule in a folder, as the list of submodules in
    the repository around it says.
    """
    around = next((one for one in map(str, Path(folder).parents) if os.path.lexists(f"{one}/.git")), "")
    git = f"{around}/.git"
    if os.path.islink(git) or not os.path.isdir(git):
        git = find_repository(git)
    paths = (one for one in list_settings(f"{around}/.gitmodules") if (one.section, one.key) == ("submodule", "path"))
    own = {one.subsection for one in paths if (one.value or "").rstrip("/") == os.path.relpath(folder, around)}
    modules = f"{git}/modules/"
    return bool(git) and repository.startswith(modules) and repository.removeprefix(modules) in own


def find_repository(pointer: str, saved: SavedFile | None = None) -> str:
    """Return the folder (absolute, without links on the way) that a `.git` other than a folder leads to, as git reads
    it, now or as it was `saved`; empty when that could change while it stays as it is.
    """
    found = _save_file(pointer, _NOTHING.stamp) if saved is None else saved
    target = os.fsdecode(found.data or b"") if stat.S_ISLNK(found.mode) and os.path.isdir(pointer) else ""
    text = _decode_text(found) or ""
    named = target or (text.rstrip("\r\n").removeprefix("gitdir: ") if text.startswith("gitdir: ") else "")
    path = os.path.normpath(os.path.join(os.path.dirname(pointer), named))
    return path if named and "\0" not in named and os.path.realpath(path) == path else ""


def is_socket(path: str) -> bool:
    """Return whether a program can listen at a path."""
    with contextlib.suppress(OSError):
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    return False


def _list_plain(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths that are there and are no folders: of a folder what lies in it counts."""
    for path in paths:
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                yield path


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


def _move_aside(held: HeldPath) -> str:
    """Move an entry to a name that nothing obeys; return that name. A command that still runs may swap folders for
    links meanwhile: its folder is held.
    """
    name = held.name + HELD_SUFFIX
    try:
        held.rename(name)
    except OSError:  # a folder of that name was put in the way
        name = f"{held.name}.{os.urandom(4).hex()}{HELD_SUFFIX}"
        held.rename(name)
    with contextlib.suppress(OSError):
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=held.handle)
        try:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                os.fchmod(handle, 0o600)
        finally:
            os.close(handle)
    return name


def _write_new(held: HeldPath, data: bytes, mode: int) -> None:
    """Make a file, or a link where the mode is one's."""
    if stat.S_ISLNK(mode):
        os.symlink(data, os.fsencode(held.name), dir_fd=held.handle)
    else:
        held.make_new(data, mode)
