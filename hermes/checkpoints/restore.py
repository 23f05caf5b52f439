"""Restores files as they were before the agent changed them: first it is planned what would happen.

A path is restored only where it is as the agent left it. No link is followed on the way to it.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from hermes.checkpoints.object_store import ObjectStore, digest_content
from hermes.checkpoints.path_states import StateReader, state_without_copy
from hermes.core.checkpoints import Checkpoint, FileChange, FileState, Kind, Purpose
from hermes.safety.paths import is_or_below
from hermes.util.file_handles import open_folder, replace_in_folder

_MAX_SYNCED = 64
"""The files that are synced one by one, before they get their names; of more, what a crash cuts short is done again."""


class RestoreOutcome(StrEnum):
    """The planned or actual outcome for a path."""

    SAME = "same"
    """It is as it was."""
    RESTORE = "restore"
    DELETE = "delete"
    FOREIGN = "foreign"
    """Somebody else has changed it since: it is restored only when the person says so."""
    ONLY = "only"
    """There is no copy of what is there, so that to delete or replace it would lose it for good: as with `FOREIGN`."""
    UNKNOWN = "unknown"
    """It is unknown who changed it, since the process died: as with `FOREIGN`."""
    UNCOPIED = "uncopied"
    """There is no copy of what was there."""
    FAILED = "failed"
    """It could not be restored."""


class RestoreStep(Struct, frozen=True):
    """One path of a restore: its wanted state, its current state, and the outcome."""

    path: str
    wanted: FileState
    now: FileState
    outcome: RestoreOutcome
    why: str = ""
    """The reason of a failure, as the system gives it, or why there is no copy to be put there."""

    @property
    def changes_path(self) -> bool:
        """Whether something would be done."""
        return self.outcome in (RestoreOutcome.RESTORE, RestoreOutcome.DELETE)


class PathHistory(Struct):
    """The history of a path over several checkpoints: its state before the first, and after the last."""

    path: str
    wanted: FileState
    left: tuple[FileState, ...]
    known: bool = True
    """Whether it is known how each left it, and each found it as the one before had left it."""
    foreign: bool = False


CheckpointHistory = tuple[Checkpoint, Sequence[FileChange]]


def build_path_histories(
    histories: Sequence[CheckpointHistory], files: Collection[str] | None = None
) -> list[PathHistory]:
    """Return the history of each path in checkpoints, the oldest first.

    Only of `files` and what is below them if these are given.
    """
    found: dict[str, PathHistory] = {}
    for checkpoint, changes in histories:
        # A restoring that was cut short has left some files as they were, and some as they were to be.
        halfway = checkpoint.open and checkpoint.purpose is Purpose.RESTORE
        for change in changes:
            if files is None or any(is_or_below(change.path, one) for one in files):
                _join_change(found, change, halfway=halfway)
    return list(found.values())


def _join_change(found: dict[str, PathHistory], change: FileChange, *, halfway: bool) -> None:
    left = tuple(one for one in (change.after, change.before if halfway else None) if one is not None)
    chain = found.get(change.path)
    if chain is None:
        found[change.path] = PathHistory(change.path, change.before, left, known=change.after is not None)
        return
    chain.foreign = chain.foreign or (bool(chain.left) and change.before not in chain.left)
    chain.known = chain.known and change.after is not None
    chain.left = left


def plan_restore(found: Sequence[PathHistory], reader: StateReader, *, force: bool = False) -> list[RestoreStep]:
    """Return the steps of a restore, by path. The reader copies what is there now."""
    uncopied = frozenset(one.wanted.mark for one in found if one.wanted.kind in (Kind.LARGE, Kind.HIDDEN))
    ordered = sorted(found, key=lambda chain: chain.path)
    return [_plan_step(chain, reader, uncopied, force=force) for chain in ordered]


def _plan_step(chain: PathHistory, reader: StateReader, uncopied: Collection[str], *, force: bool) -> RestoreStep:
    """Return the step of a path; `uncopied` are the stamps of what cannot be restored, by whatever name it is there."""
    try:
        now = reader.read_state(chain.path)
        outcome = _judge_path(chain, now, uncopied, force=force)
    except OSError as error:
        return RestoreStep(chain.path, chain.wanted, chain.wanted, RestoreOutcome.FAILED, error.strerror or str(error))
    return RestoreStep(chain.path, chain.wanted, now, outcome)


def _judge_path(chain: PathHistory, now: FileState, uncopied: Collection[str], *, force: bool) -> RestoreOutcome:
    """Return what is to be done with a path. Raises OSError for what cannot be told."""
    if now == chain.wanted:
        return RestoreOutcome.SAME
    if not chain.wanted.is_restorable:
        return RestoreOutcome.UNCOPIED
    if not force and _is_only_one(chain.path, now, uncopied):
        return RestoreOutcome.ONLY
    if not force and (chain.foreign or (chain.left and now not in chain.left)):
        return RestoreOutcome.FOREIGN
    if not force and not chain.known:
        return RestoreOutcome.UNKNOWN
    return RestoreOutcome.DELETE if chain.wanted.kind is Kind.ABSENT else RestoreOutcome.RESTORE


def _is_only_one(path: str, now: FileState, uncopied: Collection[str]) -> bool:
    """Return whether there is no copy of what is at a path, or it is another file by a new name of which no undo could
    restore the old one: to delete or replace it would lose it for good.
    """
    if now.kind is not Kind.FILE or not uncopied:
        return not now.is_restorable
    return state_without_copy(Kind.LARGE, os.lstat(path)).mark in uncopied


def leave_out(steps: Iterable[RestoreStep], is_obeyed: Callable[[str, FileState], bool], why: str) -> list[RestoreStep]:
    """Return the steps, those that would write what programs obey as if there were no copy, for this reason."""
    return [
        structs.replace(one, outcome=RestoreOutcome.UNCOPIED, why=why)
        if one.outcome is RestoreOutcome.RESTORE and is_obeyed(one.path, one.wanted)
        else one
        for one in steps
    ]


def restore_files(steps: Sequence[RestoreStep], reader: StateReader, objects: ObjectStore) -> list[RestoreStep]:
    """Carry out a plan and return each step as it came out.

    It removes first, the innermost path first, then restores.
    """
    acting = sorted((step for step in steps if step.changes_path), key=lambda step: step.path)
    sync = len(acting) <= _MAX_SYNCED
    done = {step.path: step for step in steps}
    away = [step for step in reversed(acting) if step.now.kind is not Kind.ABSENT and _is_in_the_way(step)]
    for step in away:
        done[step.path] = _try_step(step, reader, objects, away=True, sync=sync)
    for step in acting:
        if step.outcome is RestoreOutcome.RESTORE and done[step.path].changes_path:
            done[step.path] = _try_step(step, reader, objects, away=False, sync=sync)
    return list(done.values())


def _is_in_the_way(step: RestoreStep) -> bool:
    """Return whether what is there has to go before anything else: a file is replaced atomically by another."""
    return step.outcome is RestoreOutcome.DELETE or Kind.FOLDER in (step.now.kind, step.wanted.kind)


def remove_temporaries(paths: Iterable[str]) -> None:
    """Remove what a killed restore has left beside the files that it was about to replace."""
    for path in paths:
        with contextlib.suppress(OSError):
            handle = open_folder(os.path.dirname(path))
            try:
                os.unlink(_build_temporary_name(path), dir_fd=handle)
            finally:
                os.close(handle)


def _build_temporary_name(path: str) -> str:
    """Return the name under which a file is written before it takes its place: always the same, so that it can be
    found.
    """
    return f".{os.path.basename(path)[:40]}.{digest_content(os.fsencode(path))[:16]}"


def _choose_temporary_name(path: str, folder: int) -> str:
    """Return the name under which a file is written; another one that nobody can foresee where something, such as a
    folder of a command's, stands at the first.
    """
    name = _build_temporary_name(path)
    with contextlib.suppress(OSError):
        os.lstat(name, dir_fd=folder)
        return f"{name}.{os.urandom(6).hex()}"
    return name


def _try_step(step: RestoreStep, reader: StateReader, objects: ObjectStore, *, away: bool, sync: bool) -> RestoreStep:
    try:
        _restore_path(step, reader, objects, away=away, sync=sync)
    except OSError as error:
        return structs.replace(step, outcome=RestoreOutcome.FAILED, why=error.strerror or str(error))
    except _ChangedError:
        return structs.replace(step, outcome=RestoreOutcome.FOREIGN)
    except _DamagedCopyError:
        return structs.replace(step, outcome=RestoreOutcome.UNCOPIED)
    return step


class _ChangedError(Exception):
    """The path is no longer as it was when this was planned."""


class _DamagedCopyError(Exception):
    """The copy is not there, or not what it was."""


def _restore_path(step: RestoreStep, reader: StateReader, objects: ObjectStore, *, away: bool, sync: bool) -> None:
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
            raise _DamagedCopyError
        data = kept
    now = reader.read_state(step.path)
    if now != step.now and not (now.kind is Kind.ABSENT and not away):
        raise _ChangedError
    handle = open_folder(folder)
    try:
        if away:
            _remove_path(name, handle, now)
        elif step.wanted.kind is Kind.FILE:
            replace_in_folder(
                handle, name, data, step.wanted.mode, sync=sync, temporary=_choose_temporary_name(step.path, handle)
            )
        elif step.wanted.kind is Kind.LINK:
            _replace_link(name, handle, step)
        else:
            os.mkdir(name, step.wanted.mode, dir_fd=handle)
    finally:
        os.close(handle)


def _remove_path(name: str, folder: int, now: FileState) -> None:
    if now.kind is Kind.FOLDER:
        os.rmdir(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def _replace_link(name: str, folder: int, step: RestoreStep) -> None:
    """Put a link atomically in the place of what is there."""
    temporary = _choose_temporary_name(step.path, folder)
    os.symlink(os.fsdecode(step.wanted.target), temporary, dir_fd=folder)
    try:
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _set_mode(step: RestoreStep) -> None:
    handle = open_folder(os.path.dirname(step.path))
    try:
        below = os.open(os.path.basename(step.path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        try:
            os.fchmod(below, step.wanted.mode)
        finally:
            os.close(below)
    finally:
        os.close(handle)
