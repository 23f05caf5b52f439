"""The single check for paths: what may be done with a path, by all of its names, as the disk is at this moment."""

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

from hermes.safety.paths import (
    HOME_FOLDERS,
    Places,
    is_or_below,
    iter_guarded_files,
    iter_guarded_folders,
    read_refusal,
    write_refusal,
)
from hermes.safety.shell.findings import Verdict
from hermes.safety.start_links import explain_start_link, later_refusal
from hermes.util.file_handles import find_real_path

Operation = Literal["read", "write"]

_PROC_INSIDE = re.compile(r"^/proc/[^/]+/(?:task/[^/]+/)?(?:root|cwd|fd|exe)(?=/|$)")
_VARIABLES = re.compile(r"\$(?:HOME|\{HOME\})(?=/|$)")
_HERMES = re.compile(r"\$(?:HERMES_HOME|\{HERMES_HOME\})(?=/|$)")
_KINDS = (
    (stat.S_ISFIFO, "it is a named pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a disk"),
)
_CACHE_SECONDS = 2.0
"""Seconds for which the protected folders are taken to be unchanged: their second names are mounts, made by hand."""
_MAX_FILES = 2_000
_MAX_FOLDERS = 64


class PathJudgement(Struct, frozen=True):
    """The judgement of a path. `real` is where it leads now, all links followed; empty when that is not known."""

    verdict: Verdict
    rule: str = ""
    reason: str = ""
    real: str = ""


def judge_path(path: str, op: Operation, cwd: str, places: Places) -> PathJudgement:
    """Judge a path, as a person or a model writes it, from the folder `cwd`.

    It is judged as it is written, as other programs may read it (`~user`, `$HOME`, `file://`, percent signs), as the
    disk has it with every link followed, and by its identity: another name of a protected file is protected. Code that
    opens it afterwards judges it once more as it is opened: links may be swapped meanwhile. Never raises.
    """
    if not path.strip():
        return PathJudgement(Verdict.DENY, "no-path", "it is empty")
    if "\0" in path:
        return PathJudgement(Verdict.DENY, "no-path", "no path holds a null character")
    real = ""
    for number, reading in enumerate(_path_readings(path, places)):
        named = os.path.join(cwd, reading)
        found = resolve_real_path(named)
        if number == 0:
            real = found
        if not found:
            return PathJudgement(Verdict.DENY, "protected-path", "where it leads cannot be told")
        if why := path_refusal(named, found, op, places):
            return PathJudgement(Verdict.DENY, "protected-path", why, real)
    if why := _nature_refusal(real, places):
        return PathJudgement(Verdict.DENY, "protected-path", why, real)
    return _judge_written(real, places) if op == "write" else PathJudgement(Verdict.ALLOW, real=real)


def _judge_written(real: str, places: Places) -> PathJudgement:
    """Judge a path (resolved) that is written, by what leads to it and what it holds."""
    if why := later_refusal(real, places):
        return PathJudgement(Verdict.DENY, "protected-path", why, real)
    if why := explain_start_link(real, places):
        return PathJudgement(Verdict.ASK, "start-link", why, real)
    if write_refusal(real, places):
        return PathJudgement(Verdict.ASK, "protected-path", "it holds the project's keys", real)
    return PathJudgement(Verdict.ALLOW, real=real)


def hard_link_refusal(status: os.stat_result, places: Places) -> str:
    """Return why a file of this status may not be used: it is a second name of a protected one; empty when it may."""
    wanted = (status.st_dev, status.st_ino)
    is_guarded = status.st_nlink > 1 and any(identity == wanted for identity in iter_protected_identities(places))
    return "it is another name of a protected file" if is_guarded else ""


def _path_readings(path: str, places: Places) -> Iterator[str]:
    """Yield the path as tools read it first, then as it may be meant."""
    yield _expand_tilde(path, places) if path.startswith("~") else path
    seen = {path}
    meant = _HERMES.sub(lambda _: places.hermes, _VARIABLES.sub(lambda _: places.home, path, count=1), count=1)
    others = [meant, re.sub(r"^file:(?://(?:localhost)?)?(?=/)", "", meant, flags=re.IGNORECASE)]
    others += [unquote(others[-1]), others[-1].replace("\\", "/"), others[-1].strip(), others[-1].rstrip(". ")]
    for other in others:
        if other and other not in seen and "\0" not in other:
            seen.add(other)
            yield _expand_tilde(other, places)


def _expand_tilde(path: str, places: Places) -> str:
    """Expand `~` and `~name`; no user is looked up."""
    if not path.startswith("~"):
        return path
    user, slash, rest = path[1:].partition("/")
    if user in ("+", "-"):
        return f".{slash}{rest}"
    if not user:
        return places.home + slash + rest
    return ("/root" if user == "root" else f"{os.path.dirname(places.home)}/{user}") + slash + rest


def resolve_real_path(named: str) -> str:
    """Return where a path leads, all links followed; empty where that cannot be told."""
    with contextlib.suppress(OSError, ValueError):
        return find_real_path(named)
    return ""


def path_refusal(named: str, real: str, op: Operation, places: Places) -> str:
    """Return why a path may not be read or written by its names: `named` as it was written, `real` without links."""
    refused = partial(write_refusal, asked=True) if op == "write" else read_refusal
    names = dict.fromkeys((real, os.path.normpath(named)))
    for name in list(names):
        single = name[1:] if name.startswith("//") else name
        inner = _PROC_INSIDE.sub("", single)
        names |= dict.fromkeys((single, inner or "/", HOME_FOLDERS.sub(places.home, inner, count=1)))
        if sys.platform in ("darwin", "win32"):
            names[single.lower()] = None
    if _PROC_INSIDE.match(os.path.normpath(named)):
        return "it goes through the inside of a running program"
    return next((why for name in names if (why := refused(name, places))), "")


def _nature_refusal(real: str, places: Places) -> str:
    """Return reasons against a path besides its name: it is no file, or a second name of a protected one."""
    try:
        status = os.stat(real)
    except FileNotFoundError:
        return _mount_refusal(os.path.dirname(real), places)
    except OSError:
        return ""
    kind = next((why for test, why in _KINDS if test(status.st_mode)), "")
    if kind and real != "/dev/null":
        return kind
    if stat.S_ISREG(status.st_mode) and (why := hard_link_refusal(status, places)):
        return why
    return _mount_refusal(real if stat.S_ISDIR(status.st_mode) else os.path.dirname(real), places)


def iter_protected_identities(places: Places) -> Iterator[tuple[int, int]]:
    """Yield device and inode of each protected file that exists, as far as that is quickly found out."""
    for path in iter_guarded_files(places):
        yield from _file_identity(path)
    left = _MAX_FILES
    for folder in iter_guarded_folders(places):
        for status in islice(_files_below(folder, places), left):
            left -= 1
            yield status.st_dev, status.st_ino


def _files_below(folder: str, places: Places) -> Iterator[os.stat_result]:
    """Yield the files in a folder and in those below it, as many folders as are quickly read."""
    waiting = [folder]
    for _ in range(_MAX_FOLDERS):
        if not waiting:
            return
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        waiting += [one.path for one in entries if one.is_dir(follow_symlinks=False) and one.path not in places.own]
        with contextlib.suppress(OSError):
            yield from (one.stat(follow_symlinks=False) for one in entries if one.is_file(follow_symlinks=False))


def _file_identity(path: str) -> Iterator[tuple[int, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return
    yield status.st_dev, status.st_ino


def _mount_refusal(folder: str, places: Places) -> str:
    """Return the reason when a folder, or one above it, is a protected one that was mounted here under another
    name; else an empty text.
    """
    there = folder
    above: set[tuple[int, int]] = set()
    while True:
        above.update(_file_identity(folder))
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    for guarded, identity in _guarded_folders(places.home, places.hermes, int(time.monotonic() / _CACHE_SECONDS)):
        # By its own name it has been judged already.
        if identity in above and not any(is_or_below(place, guarded) for place in (there, places.workspace)):
            return "it is a protected folder under another name"
    return ""


@lru_cache(maxsize=4)
def _guarded_folders(home: str, hermes: str, _age: int) -> tuple[tuple[str, tuple[int, int]], ...]:
    """Return the protected folders that exist, with device and inode; looked at again every few seconds, once
    for all sessions: they are the same wherever one works.
    """
    places = Places(home=home, hermes=hermes, workspace="")
    own = set(_file_identity(home))
    found = ((path, identity) for path in iter_guarded_folders(places) for identity in _file_identity(path))
    return tuple((path, identity) for path, identity in found if identity not in own)
