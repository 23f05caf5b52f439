"""What commands see of homes, as rows with a reason each: homes are hidden, and in them can be read what programs are
run by: tool chains, the folders of PATH, and what those lead to.
"""

import contextlib
import glob
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from hermes.execution.layout import PathAccess
from hermes.i18n.messages import N_
from hermes.safety.home_places import TOOL_ROWS, TOOL_VARIABLES
from hermes.safety.paths import Places, is_key_name, is_or_below, is_root_like, read_refusal

_HOME_PARENTS = ("/home", "/Users", "/root", "/var/root", "/media", "/run/media", "/Volumes")
_WINDOWS_HOMES = "/mnt/?/Users"
_SHARED_HOMES = ("/home/linuxbrew/.linuxbrew", "/Users/Shared")
"""Folders among the homes that are nobody's: programs for all, and what people share."""
_FIRST_PERSON = 1_000
"""The lowest number of a person's account."""
_NO_PERSON = 65_534
_PROGRAM_FOLDERS = frozenset(("bin", "sbin", "libexec", "shims", "Scripts"))
_PARTS_OF_INSTALLED = frozenset(("lib", "lib64", "libexec", "share", "pyvenv.cfg", "conda-meta"))
"""Names beside a folder of programs that say that the folder above was installed, and is no project."""
_DERIVED = N_("what a program of PATH leads to")
_MAX_PROGRAMS = 4_000
_MAX_STEPS = 8
"""How many programs lead from one to the next: a link, what runs it, what that was made from."""
_MAX_HEAD_BYTES = 512


class LayoutRow(Struct, frozen=True):
    """How one path appears to commands, and why."""

    path: str
    access: PathAccess
    reason: str


def find_other_homes(home: str, workspace: str) -> tuple[str, ...]:
    """Return further homes in which keys are looked for: the account's, where `HOME` names another one, and that of
    somebody in which a person works.
    """
    import pwd

    found: list[str] = []
    with contextlib.suppress(KeyError):
        found.append(_real_home(pwd.getpwuid(os.getuid()).pw_dir))
    if os.path.dirname(workspace) in ("/home", "/Users"):
        found.append(workspace)
    return tuple(dict.fromkeys(one for one in found if one and one != home))


def find_homes(places: Places) -> tuple[str, ...]:
    """Return the folders that hold homes, of this person and of others, and disks that people plug in."""
    found = [places.home, *places.other_homes, *_HOME_PARENTS, *glob.glob(_WINDOWS_HOMES), *_list_peoples_homes()]
    real = dict.fromkeys(one for one in map(_real_home, found) if one)
    return tuple(one for one in real if not any(one != above and is_or_below(one, above) for above in real))


def home_rows(places: Places, homes: Iterable[str], environ: Mapping[str, str], code: Iterable[str]) -> list[LayoutRow]:
    """Return what commands read of hidden homes (resolved); the rows name paths as programs do, links not followed."""
    hidden = tuple(homes)
    folders = _list_path_folders(environ.get("PATH", ""), hidden)
    own = [*code, sys.prefix, sys.base_prefix, sys.executable]
    rows = list(_tool_rows(places, environ))
    for folder in folders:
        rows.append(LayoutRow(folder, PathAccess.READ, N_("a folder of PATH")))
        keys = filter(is_key_name, _list_programs(folder))
        rows += [LayoutRow(one, PathAccess.HIDDEN, N_("a key inside of what is shown")) for one in keys]
    rows += [LayoutRow(one, PathAccess.READ, N_("Hermes' code and interpreter")) for one in own]
    rows += [LayoutRow(one, PathAccess.READ, N_("for everybody")) for one in _SHARED_HOMES]
    search = _ProgramSearch(places, hidden, [row.path for row in rows])
    rows += search.find_rows([*folders, os.path.dirname(sys.executable)])
    return [row for row in rows if not _is_home(row.path, hidden)]


def _list_path_folders(path: str, homes: tuple[str, ...]) -> list[str]:
    named = dict.fromkeys(os.path.normpath(one) for one in path.split(os.pathsep) if os.path.isabs(one))
    return [one for one in named if _is_in_homes(one, homes) and not _is_home(one, homes)]


def _tool_rows(places: Places, environ: Mapping[str, str]) -> Iterator[LayoutRow]:
    for home in (places.home, *places.other_homes):
        for reason, chains in TOOL_ROWS.items():
            yield from (LayoutRow(f"{home}/{chain}", PathAccess.READ, reason) for chain in chains)
    for name, parts in TOOL_VARIABLES.items():
        if os.path.isabs(folder := environ.get(name, "")):
            paths = (os.path.normpath(os.path.join(folder, part)) for part in parts)
            yield from (LayoutRow(one, PathAccess.READ, N_("a tool chain that a variable names")) for one in paths)


class _ProgramSearch:
    """Finds what programs lead to in hidden homes: their own folders, and what those are run by."""

    def __init__(self, places: Places, homes: tuple[str, ...], opened: Iterable[str]) -> None:
        self._places = places
        self._homes = homes
        self._opened = {os.path.realpath(one) for one in opened if os.path.lexists(one)}
        self._queue: list[tuple[str, int]] = []
        self._seen: set[str] = set()

    def find_rows(self, folders: Iterable[str]) -> Iterator[LayoutRow]:
        """Yield a row for each folder or program that those of these folders lead to."""
        self._queue += [(path, 0) for folder in folders for path in _list_programs(folder)]
        for path, steps in self._queue:
            if steps >= _MAX_STEPS or len(self._queue) > _MAX_PROGRAMS:
                continue
            for target in _follow_program(path):
                if target not in self._seen:
                    self._seen.add(target)
                    self._queue.append((target, steps + 1))
                    yield from self._open_target(target, steps)

    def _open_target(self, target: str, steps: int) -> Iterator[LayoutRow]:
        real = os.path.realpath(target)
        if read_refusal(real, self._places):
            return
        if real != target and _is_in_homes(target, self._homes):
            yield LayoutRow(target, PathAccess.READ, _DERIVED)  # the name by which it is known is a link on the way
        if _is_in_homes(real, self._homes) and not _is_covered(real, self._opened):
            folder = find_program_folder(real, self._homes, self._places)
            self._opened.add(folder)
            self._queue += [(one, steps + 1) for one in _find_base_programs(folder)]
            yield LayoutRow(folder, PathAccess.READ, _DERIVED)


def find_program_folder(program: str, homes: Iterable[str], places: Places) -> str:
    """Return the folder that was installed with a program (resolved); the program alone where there is no such folder.

    A folder that holds a repository is somebody's project, and none that keys or a home lie in is a program's.
    """
    folder = os.path.dirname(program)
    above = os.path.dirname(folder)
    if os.path.basename(folder) not in _PROGRAM_FOLDERS or is_root_like(above, places):
        return program
    names: set[str] = set()
    with contextlib.suppress(OSError):
        names = {*os.listdir(above)}
    installed = bool(names & _PARTS_OF_INSTALLED) and ".git" not in names
    return above if installed and not any(is_or_below(one, above) for one in homes) else program


def find_project_folder(path: str, home: str) -> str:
    """Return the repository, or the environment of Python's, that a path (resolved) in a home lies in, since a part of
    one does not work alone; the path itself where there is none.
    """
    at = path
    while at.startswith(f"{home}/"):
        if any(os.path.lexists(f"{at}/{mark}") for mark in (".git", "pyvenv.cfg")):
            return at
        at = os.path.dirname(at)
    return path


def _list_programs(folder: str) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return sorted(one.path for one in entries)[:_MAX_PROGRAMS]
    return []


def _follow_program(path: str) -> Iterator[str]:
    """Yield where a program leads: what it is a link to, a step after the other, and what runs a script."""
    for _ in range(_MAX_STEPS):
        try:
            path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        except OSError:
            break
        yield path
    if interpreter := _read_interpreter(path):
        yield interpreter


def _read_interpreter(path: str) -> str:
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            head = os.read(handle, _MAX_HEAD_BYTES) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
        finally:
            os.close(handle)
        words = head.split(b"\n")[0][2:].split() if head.startswith(b"#!") else []
        if words and words[0].startswith(b"/"):
            return os.fsdecode(words[0])
    return ""


def _find_base_programs(folder: str) -> Iterator[str]:
    """Yield what an environment of Python's was made from."""
    with contextlib.suppress(OSError, UnicodeDecodeError), open(f"{folder}/pyvenv.cfg", encoding="utf-8") as file:
        for line in file.read(8_192).splitlines():
            name, _, value = line.partition("=")
            if name.strip() in ("home", "executable", "base-executable") and value.strip().startswith("/"):
                yield f"{value.strip()}/python3" if name.strip() == "home" else value.strip()
    yield f"{folder}/bin/python3"


def _list_peoples_homes() -> Iterator[str]:
    with contextlib.suppress(OSError), open("/etc/passwd", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(":")
            if len(fields) == 7 and fields[2].isdigit() and _FIRST_PERSON <= int(fields[2]) < _NO_PERSON:
                yield fields[5]


def _real_home(path: str) -> str:
    """Return a home, resolved; empty where it is not there, or is a folder of the system's."""
    real = os.path.realpath(path) if os.path.isabs(path) else "/"
    is_system = real.count("/") < 2 and real not in _HOME_PARENTS
    return "" if real == "/" or (is_system and not _is_private_folder(real)) or not os.path.isdir(real) else real


def _is_private_folder(path: str) -> bool:
    """Return whether a folder directly below the root is a home all the same: its name is none of the system's."""
    return os.path.basename(path) not in (
        *("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "mnt", "nix", "opt", "proc", "run", "sbin", "srv"),
        *("sys", "tmp", "usr", "var", "System", "Library", "Applications", "private"),
    )


def _is_in_homes(path: str, homes: Iterable[str]) -> bool:
    return any(is_or_below(path, one) for one in homes)


def _is_home(path: str, homes: Iterable[str]) -> bool:
    """Return whether a path is a home as a whole (resolved), or a folder above one."""
    return any(is_or_below(one, path) for one in homes)


def _is_covered(path: str, opened: set[str]) -> bool:
    while path not in opened and path not in ("/", "//", ""):
        path = os.path.dirname(path)
    return path in opened
