"""The one door for a path: what may be done with it, by every name that it has, as the disk is at this moment."""

import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import islice
from typing import Literal
from urllib.parse import unquote

from msgspec import Struct

from hermes.safety.paths import guarded_files, guarded_folders, read_refused, write_refused
from hermes.safety.places import Places
from hermes.safety.shell.findings import Verdict
from hermes.util.atomic import place_of

Operation = Literal["read", "write"]

_HOMES = re.compile(r"^(/home/[^/]+|/root|/Users/[^/]+|/var/root)(?=/|$)")
_INSIDE = re.compile(r"^/proc/[^/]+/(?:task/[^/]+/)?(?:root|cwd|fd|exe)(?=/|$)")
_VARIABLES = re.compile(r"\$(?:HOME|\{HOME\})(?=/|$)")
_HERMES = re.compile(r"\$(?:HERMES_HOME|\{HERMES_HOME\})(?=/|$)")
_KINDS = (
    (stat.S_ISFIFO, "it is a named pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a disk"),
)
_OTHER_NAME = "it is another name of a protected file"
_FRESH = 2.0
"""Seconds for which the protected folders are taken to be the same: their second names are mounts, made by hand."""
_MOST_FILES = 2_000
_MOST_FOLDERS = 64


class PathJudgement(Struct, frozen=True):
    """What may happen with a path. `real` is where it leads now, every link followed; empty when that is not known."""

    verdict: Verdict
    rule: str = ""
    reason: str = ""
    real: str = ""


def judge_path(path: str, op: Operation, cwd: str, places: Places) -> PathJudgement:
    """What may be done with a path, as a person or a model writes it, from the folder `cwd`.

    It is judged as it is written, as other programs may read it (`~user`, `$HOME`, `file://`, percent signs), as the
    disk has it with every link followed, and by what it is: another name of a protected file is protected. Whoever
    opens it afterwards judges what is open (`opened_refused`): links may be swapped meanwhile. Never raises.
    """
    if not path.strip():
        return PathJudgement(Verdict.DENY, "no-path", "it is empty")
    if "\0" in path:
        return PathJudgement(Verdict.DENY, "no-path", "no path holds a null character")
    real = ""
    for number, reading in enumerate(_readings(path, places)):
        named = os.path.join(cwd, reading)
        found = _real(named)
        if number == 0:
            real = found
        if not found:
            return PathJudgement(Verdict.DENY, "protected-path", "where it leads cannot be told")
        why = _refused(named, found, op, places)
        if why:
            return PathJudgement(Verdict.DENY, "protected-path", why, real)
    why = _by_nature(real, places)
    if why:
        return PathJudgement(Verdict.DENY, "protected-path", why, real)
    if op == "write" and write_refused(real, places):
        return PathJudgement(Verdict.ASK, "protected-path", "it holds the project's keys", real)
    return PathJudgement(Verdict.ALLOW, real=real)


def opened_refused(handle: int, places: Places) -> str:
    """Why an open file may not be read; empty when it may. It is judged by itself: a link that was swapped between the
    gate and the opening changes nothing."""
    real = place_of(handle)
    if not real:
        return ""
    why = _refused(real, real, "read", places)
    if why:
        return why
    status = os.fstat(handle)
    return _OTHER_NAME if status.st_nlink > 1 and _is_guarded(status, places) else ""


def _readings(path: str, places: Places) -> Iterator[str]:
    """The path as tools take it first, then as it may be meant."""
    yield _tilde(path, places) if path.startswith("~") else path
    seen = {path}
    meant = _HERMES.sub(lambda _: places.hermes, _VARIABLES.sub(lambda _: places.home, path, count=1), count=1)
    others = [meant, re.sub(r"^file:(?://(?:localhost)?)?(?=/)", "", meant, flags=re.IGNORECASE)]
    others += [unquote(others[-1]), others[-1].replace("\\", "/"), others[-1].strip(), others[-1].rstrip(". ")]
    for other in others:
        if other and other not in seen and "\0" not in other:
            seen.add(other)
            yield _tilde(other, places)


def _tilde(path: str, places: Places) -> str:
    """`~` and `~name` written out; nobody is looked up."""
    if not path.startswith("~"):
        return path
    user, slash, rest = path[1:].partition("/")
    if user in ("+", "-"):
        return f".{slash}{rest}"
    if not user:
        return places.home + slash + rest
    return ("/root" if user == "root" else f"{os.path.dirname(places.home)}/{user}") + slash + rest


def _real(named: str) -> str:
    try:
        return os.path.realpath(named)
    except (OSError, ValueError):
        return ""


def _refused(named: str, real: str, op: Operation, places: Places) -> str:
    refused = partial(write_refused, asked=True) if op == "write" else read_refused
    names = dict.fromkeys((real, os.path.normpath(named)))
    for name in list(names):
        single = name[1:] if name.startswith("//") else name
        inner = _INSIDE.sub("", single)
        names |= dict.fromkeys((single, inner or "/", _HOMES.sub(places.home, inner, count=1)))
        if sys.platform in ("darwin", "win32"):
            names[single.lower()] = None
    if _INSIDE.match(os.path.normpath(named)):
        return "it goes through the inside of a running program"
    return next((why for name in names if (why := refused(name, places))), "")


def _by_nature(real: str, places: Places) -> str:
    """What speaks against a path besides its name: what is no file, and second names of what is protected."""
    try:
        status = os.stat(real)
    except FileNotFoundError:
        return _mounted(os.path.dirname(real), places)
    except OSError:
        return ""
    kind = next((why for test, why in _KINDS if test(status.st_mode)), "")
    if kind and real != "/dev/null":
        return kind
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 and _is_guarded(status, places):
        return _OTHER_NAME
    return _mounted(real if stat.S_ISDIR(status.st_mode) else os.path.dirname(real), places)


def _is_guarded(status: os.stat_result, places: Places) -> bool:
    wanted = (status.st_dev, status.st_ino)
    return any(identity == wanted for identity in _identities(places))


def _identities(places: Places) -> Iterator[tuple[int, int]]:
    """Device and inode of each protected file that exists, as far as that is quickly told."""
    for path in guarded_files(places):
        yield from _identity(path)
    left = _MOST_FILES
    for folder in guarded_folders(places):
        for status in islice(_below(folder, places), left):
            left -= 1
            yield status.st_dev, status.st_ino


def _below(folder: str, places: Places) -> Iterator[os.stat_result]:
    """The files in a folder and in those below it, as many folders as are quickly read."""
    waiting = [folder]
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            return
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        waiting += [one.path for one in entries if one.is_dir(follow_symlinks=False) and one.path not in places.own]
        with contextlib.suppress(OSError):
            yield from (one.stat(follow_symlinks=False) for one in entries if one.is_file(follow_symlinks=False))


def _identity(path: str) -> Iterator[tuple[int, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return
    yield status.st_dev, status.st_ino


def _mounted(folder: str, places: Places) -> str:
    """Whether a folder, or one above it, is a protected one that was mounted here under another name."""
    there = folder
    above: set[tuple[int, int]] = set()
    while True:
        above.update(_identity(folder))
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    for guarded, identity in _guarded_folders(places.home, places.hermes, int(time.monotonic() / _FRESH)):
        # By its own name it has been judged already.
        if identity in above and not any(_inside(place, (guarded,)) for place in (there, places.workspace)):
            return "it is a protected folder under another name"
    return ""


@lru_cache(maxsize=4)
def _guarded_folders(home: str, hermes: str, _age: int) -> tuple[tuple[str, tuple[int, int]], ...]:
    """The protected folders that exist, with device and inode; looked at anew every few seconds, once for all
    sessions: they are the same wherever one works."""
    places = Places(home=home, hermes=hermes, workspace="")
    own = set(_identity(home))
    found = ((path, identity) for path in guarded_folders(places) for identity in _identity(path))
    return tuple((path, identity) for path, identity in found if identity not in own)


def _inside(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
