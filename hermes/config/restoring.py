"""Putting a restored home in the place of what was there, so that a death in the middle leaves nothing half.

A restore makes everything ready in a folder of the home. Then one small file, the journal, says that it counts: from
then on whoever comes next moves the rest into place, the one that wrote it or any later process.
"""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from hermes.core.errors import BusyError, ConfigError
from hermes.i18n.messages import phrase
from hermes.util.atomic import write_atomic

JOURNAL = "restore.json"
STAGE = ".restore-"
"""How the names of folders begin in which a restore is made ready."""
_PATIENCE = 15.0
_POLL = 0.02


@contextlib.contextmanager
def alone(root: Path) -> Iterator[None]:
    """Be the only one that restores this home. Raises BusyError when somebody else does for too long."""
    handle = os.open(root / ".restore.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + _PATIENCE
        while not _taken(handle):
            if time.monotonic() >= deadline:
                raise BusyError(
                    phrase("{home} is being restored by another process.", home=root), phrase("Try again later.")
                )
            time.sleep(_POLL)
        yield
    finally:
        os.close(handle)


def commit(root: Path, stage: Path, names: list[str], gone: list[str]) -> None:
    """Let the `names` that are ready in `stage` count, in the place of what is there; what is `gone` goes.

    From here on nothing takes it back but `withdraw`.
    """
    document = {"stage": stage.name, "names": names, "gone": gone}
    write_atomic(root / JOURNAL, json.dumps(document).encode(), mode=0o600)
    _sync(root)


def withdraw(root: Path) -> None:
    """Let nothing count that `commit` has written and nobody has begun to move."""
    (root / JOURNAL).unlink()
    _sync(root)


def finish(root: Path) -> None:
    """Move what counts into its place, if there is anything left to move. Raises ConfigError and BusyError."""
    with alone(root):
        for _ in steps(root):
            pass


def steps(root: Path) -> Iterator[None]:
    """What `finish` does, one rename at a time; it can be left and begun again at any of them."""
    try:
        journal = json.loads((root / JOURNAL).read_bytes())
        stage, names, gone = root / str(journal["stage"]), list(journal["names"]), list(journal["gone"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(
            phrase("{file} cannot be read: a restore was under way.", file=root / JOURNAL),
            phrase("Restore again from a backup, or remove that file."),
        ) from None
    old = stage / "old"
    old.mkdir(mode=0o700, exist_ok=True)
    for name in gone:
        if os.path.lexists(root / name):
            os.rename(root / name, _free(old, name))
            yield
    for name in names:
        fresh = stage / "new" / name
        if not os.path.lexists(fresh):
            continue
        if os.path.lexists(root / name):
            os.rename(root / name, _free(old, name))
            yield
        os.rename(fresh, root / name)
        yield
    _sync(root)
    (root / JOURNAL).unlink()
    _sync(root)
    yield
    shutil.rmtree(stage, ignore_errors=True)


def leftovers(root: Path) -> list[Path]:
    """Folders of restores that nothing came of; empty while one is under way."""
    if (root / JOURNAL).exists():
        return []
    return sorted(one for one in root.glob(f"{STAGE}*") if one.is_dir() and not one.is_symlink())


def _free(folder: Path, name: str) -> Path:
    """A name that is free there: what stood at the place of something can be more than one thing, one after another."""
    number = 0
    while os.path.lexists(place := folder / (name if not number else f"{name}.{number}")):
        number += 1
    return place


def _taken(handle: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _sync(folder: Path) -> None:
    """Have what was renamed in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
