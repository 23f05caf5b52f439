"""Puts files back as they were before the agent changed them: first it is worked out what would happen.

A path is put back only where it stands as the agent left it. No link is followed on the way to it.
"""

import contextlib
import os
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from hermes.checkpoints.file_state import Looker, open_folder
from hermes.checkpoints.object_store import ObjectStore, digest_of
from hermes.core.checkpoints import Checkpoint, FileChange, FileState, Kind, Purpose
from hermes.safety.paths import is_or_below
from hermes.util.atomic import replace_in

_SURE = 64
"""Files that reach the disk one by one, before their names do; of more, what a crash cuts short is done again."""


class Fate(StrEnum):
    """What becomes of a path."""

    SAME = "same"
    """It is as it was."""
    RESTORE = "restore"
    DELETE = "delete"
    FOREIGN = "foreign"
    """Somebody else has changed it since: it is put back only when the person says so."""
    UNKNOWN = "unknown"
    """Nobody knows who has changed it, since the process died: as with `FOREIGN`."""
    UNCOPIED = "uncopied"
    """There is no copy of what stood there."""
    FAILED = "failed"
    """It could not be put back."""


class Step(Struct, frozen=True):
    """One path: how it is to be, how it is now, and what becomes of it."""

    path: str
    wanted: FileState
    now: FileState
    fate: Fate
    why: str = ""
    """Why it failed, as the system says it."""

    @property
    def acts(self) -> bool:
        """Whether something would be done."""
        return self.fate in (Fate.RESTORE, Fate.DELETE)


class Chain(Struct):
    """What several checkpoints know of a path: how it was before the first, and how it was left by the last."""

    path: str
    wanted: FileState
    left: tuple[FileState, ...]
    known: bool = True
    """Whether it is known how each left it, and each found it as the one before had left it."""
    foreign: bool = False


History = tuple[Checkpoint, Sequence[FileChange]]


def chains(histories: Sequence[History], files: Collection[str] | None = None) -> list[Chain]:
    """What checkpoints, the oldest first, know of each path; of `files` and what is below them if these are given."""
    found: dict[str, Chain] = {}
    for checkpoint, changes in histories:
        # A restoring that was cut short has left some files as they were, and some as they were to be.
        halfway = checkpoint.open and checkpoint.purpose is Purpose.RESTORE
        for change in changes:
            if files is None or any(is_or_below(change.path, one) for one in files):
                _join(found, change, halfway=halfway)
    return list(found.values())


def _join(found: dict[str, Chain], change: FileChange, *, halfway: bool) -> None:
    left = tuple(one for one in (change.after, change.before if halfway else None) if one is not None)
    chain = found.get(change.path)
    if chain is None:
        found[change.path] = Chain(change.path, change.before, left, known=change.after is not None)
        return
    chain.foreign = chain.foreign or (bool(chain.left) and change.before not in chain.left)
    chain.known = chain.known and change.after is not None
    chain.left = left


def planned(found: Sequence[Chain], looker: Looker, *, force: bool = False) -> list[Step]:
    """What would be done, by path. The looker copies what stands there now."""
    return [_step(chain, looker, force=force) for chain in sorted(found, key=lambda chain: chain.path)]


def _step(chain: Chain, looker: Looker, *, force: bool) -> Step:
    try:
        now = looker.of(chain.path)
    except OSError as error:
        return Step(chain.path, chain.wanted, chain.wanted, Fate.FAILED, error.strerror or str(error))
    step = Step(chain.path, chain.wanted, now, Fate.DELETE if chain.wanted.kind is Kind.ABSENT else Fate.RESTORE)
    if now == chain.wanted:
        return structs.replace(step, fate=Fate.SAME)
    if not chain.wanted.kept:
        return structs.replace(step, fate=Fate.UNCOPIED)
    if force:
        return step
    if chain.foreign or (chain.left and now not in chain.left):
        return structs.replace(step, fate=Fate.FOREIGN)
    return step if chain.known else structs.replace(step, fate=Fate.UNKNOWN)


def carried_out(steps: Sequence[Step], looker: Looker, objects: ObjectStore) -> list[Step]:
    """Do what was planned: take away first, the innermost first, then put back; each step as it came out."""
    acting = sorted((step for step in steps if step.acts), key=lambda step: step.path)
    sync = len(acting) <= _SURE
    done = {step.path: step for step in steps}
    away = [step for step in reversed(acting) if step.now.kind is not Kind.ABSENT and _in_the_way(step)]
    for step in away:
        done[step.path] = _tried(step, looker, objects, away=True, sync=sync)
    for step in acting:
        if step.fate is Fate.RESTORE and done[step.path].acts:
            done[step.path] = _tried(step, looker, objects, away=False, sync=sync)
    return list(done.values())


def _in_the_way(step: Step) -> bool:
    """Whether what stands there has to go before anything else: a file is replaced in one go by another."""
    return step.fate is Fate.DELETE or Kind.FOLDER in (step.now.kind, step.wanted.kind)


def sweep(paths: Iterable[str]) -> None:
    """Take away what a putting back that was killed has left beside the files that it was about to replace."""
    for path in paths:
        with contextlib.suppress(OSError):
            handle = open_folder(os.path.dirname(path))
            try:
                os.unlink(_temporary(path), dir_fd=handle)
            finally:
                os.close(handle)


def _temporary(path: str) -> str:
    """The name under which a file is written before it takes its place: always the same, so that it can be found."""
    return f".{os.path.basename(path)[:40]}.{digest_of(os.fsencode(path))[:16]}"


def _tried(step: Step, looker: Looker, objects: ObjectStore, *, away: bool, sync: bool) -> Step:
    try:
        _do(step, looker, objects, away=away, sync=sync)
    except OSError as error:
        return structs.replace(step, fate=Fate.FAILED, why=error.strerror or str(error))
    except _MeanwhileError:
        return structs.replace(step, fate=Fate.FOREIGN)
    except _DamagedError:
        return structs.replace(step, fate=Fate.UNCOPIED)
    return step


class _MeanwhileError(Exception):
    """It is not any more as it was when this was planned."""


class _DamagedError(Exception):
    """The copy is not there, or not what it was."""


def _do(step: Step, looker: Looker, objects: ObjectStore, *, away: bool, sync: bool) -> None:
    folder, name = os.path.split(step.path)
    both_folders = step.now.kind is Kind.FOLDER is step.wanted.kind
    if both_folders:
        if not away:
            _set_mode(step)
        return
    data = b""
    if step.wanted.kind is Kind.FILE:
        kept = objects.get(step.wanted.mark)
        if kept is None:
            raise _DamagedError
        data = kept
    now = looker.of(step.path)
    if now != step.now and not (now.kind is Kind.ABSENT and not away):
        raise _MeanwhileError
    handle = open_folder(folder)
    try:
        if away:
            _remove(name, handle, now)
        elif step.wanted.kind is Kind.FILE:
            replace_in(handle, name, data, step.wanted.mode, sync=sync, temporary=_temporary(step.path))
        elif step.wanted.kind is Kind.LINK:
            _link(name, handle, step)
        else:
            os.mkdir(name, step.wanted.mode, dir_fd=handle)
    finally:
        os.close(handle)


def _remove(name: str, folder: int, now: FileState) -> None:
    if now.kind is Kind.FOLDER:
        os.rmdir(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def _link(name: str, folder: int, step: Step) -> None:
    """Make a link in the place of what is there, in one go."""
    temporary = _temporary(step.path)
    os.symlink(os.fsdecode(step.wanted.target), temporary, dir_fd=folder)
    try:
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _set_mode(step: Step) -> None:
    handle = open_folder(os.path.dirname(step.path))
    try:
        below = os.open(os.path.basename(step.path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        try:
            os.fchmod(below, step.wanted.mode)
        finally:
            os.close(below)
    finally:
        os.close(handle)
