"""Which sessions of a home are open in some process, told by their locks without taking any."""

import contextlib
import fcntl
import os
from pathlib import Path

from hermes.config.home import Home
from hermes.core.errors import BusyError
from hermes.i18n.messages import phrase


def open_sessions(home: Home) -> list[str]:
    """The ids of sessions that a process has open now, or what a dead one left running."""
    return [file.stem for file in lock_files(home) if is_held(file)]


def lock_files(home: Home) -> list[Path]:
    """Every session's lock file there is."""
    return sorted(home.locks.glob("*.lock")) if home.locks.is_dir() else []


def is_held(file: Path) -> bool:
    """Whether somebody holds the lock on a file. One that is free is looked at for a moment and left alone."""
    try:
        handle = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.close(handle)
    return False


def must_be_idle(home: Home, what: str) -> None:
    """Raise BusyError, with `what` cannot be done, when a session of the home is open."""
    held = open_sessions(home)
    if held:
        shown = ", ".join(held[:5])
        raise BusyError(
            phrase("{what} while sessions are open: {sessions}.", what=what, sessions=shown),
            phrase("Close them first; `/quit` ends a chat."),
        )
