"""Replaces a home by a restored one, so that a crash in the middle leaves nothing half done.

A restore makes everything ready in a folder of the home. Then one small file, the journal, commits it:
from then on
the next process, this one or a later one, moves the rest into place.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from hermes.core.errors import BusyError, ConfigError
from hermes.i18n.messages import N_
from hermes.util.atomic_write import sync_folder, write_atomic
from hermes.util.file_lock import hold_file_lock

JOURNAL = "restore.json"
STAGE_PREFIX = ".restore-"
"""The prefix of folders in which a restore is made ready."""
_LOCK_TIMEOUT = 15.0


@contextlib.contextmanager
def hold_restore_lock(root: Path, *, seconds: float = _LOCK_TIMEOUT) -> Iterator[None]:
    """Hold the lock on restoring this home. Raises BusyError when another process holds it for so many seconds."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold_file_lock(root / ".restore.lock", seconds))
        except TimeoutError:
            raise BusyError(
                N_("{home} is being restored by another process.", home=root), N_("Try again later.")
            ) from None
        yield


def commit_restore(
    root: Path, stage: Path, names: list[str], gone: list[str], *, kept: list[str] | None = None, kept_in: str = ""
) -> None:
    """Commit a restore: the `names` that are ready in `stage` replace what is there, and those in `gone` are
    removed. What is replaced of those in `kept` goes into the folder `kept_in` of the home.

    After this only `withdraw_restore` takes it back.
    """
    document = {"stage": stage.name, "names": names, "gone": gone, "kept": kept or [], "kept_in": kept_in}
    write_atomic(root / JOURNAL, json.dumps(document).encode(), mode=0o600)
    sync_folder(root)


def withdraw_restore(root: Path) -> None:
    """Take back a committed restore of which nothing has been moved yet."""
    (root / JOURNAL).unlink()
    sync_folder(root)


def finish_restore(root: Path) -> None:
    """Move a committed restore into place, if anything is left to move. Raises ConfigError and BusyError."""
    with hold_restore_lock(root):
        for _ in iter_restore_steps(root):
            pass


def iter_restore_steps(root: Path) -> Iterator[None]:
    """Do the work of `finish_restore`, one rename at a time; it can be left and begun again at any of them."""
    try:
        journal = json.loads((root / JOURNAL).read_bytes())
        stage, names, gone = root / str(journal["stage"]), list(journal["names"]), list(journal["gone"])
        kept, kept_in = list(journal.get("kept", ())), str(journal.get("kept_in", ""))
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(
            N_("{file} cannot be read: a restore was under way.", file=root / JOURNAL),
            N_("Restore again from a backup, or remove that file."),
        ) from None
    old = stage / "old"
    old.mkdir(mode=0o700, exist_ok=True)
    for name in gone:
        if os.path.lexists(root / name):
            os.rename(root / name, _find_free_path(old, name))
            yield
    for name in names:
        fresh = stage / "new" / name
        if not os.path.lexists(fresh):
            continue
        if os.path.lexists(root / name):
            folder = root / kept_in if name in kept and kept_in else old
            folder.mkdir(mode=0o700, exist_ok=True)
            os.rename(root / name, _find_free_path(folder, name))
            yield
        os.rename(fresh, root / name)
        yield
    sync_folder(root)
    (root / JOURNAL).unlink()
    sync_folder(root)
    yield
    shutil.rmtree(stage, ignore_errors=True)


def list_leftover_stages(root: Path) -> list[Path]:
    """Return folders of abandoned restores; empty while one is under way."""
    if (root / JOURNAL).exists():
        return []
    return sorted(one for one in root.glob(f"{STAGE_PREFIX}*") if one.is_dir() and not one.is_symlink())


def _find_free_path(folder: Path, name: str) -> Path:
    """Return a free path in the folder for that name, numbered if necessary."""
    number = 0
    while os.path.lexists(place := folder / (name if not number else f"{name}.{number}")):
        number += 1
    return place
