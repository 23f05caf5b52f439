"""Finds the sessions of a home that are open in some process, from their locks without taking any."""

import re
from pathlib import Path

from hermes.config.home import HermesHome
from hermes.core.errors import BusyError
from hermes.i18n.messages import N_
from hermes.util.file_lock import is_lock_held

_SHARED_LOCK = re.compile(r"(auth|gateway|memory(-.*)?|skills)\.lock")


def list_open_sessions(home: HermesHome) -> list[str]:
    """Return the ids of sessions that are open now, in a process or in what a dead process left running."""
    return [file.stem for file in list_lock_files(home) if is_lock_held(file)]


def list_lock_files(home: HermesHome) -> list[Path]:
    """Return the lock file of every session; the locks of what sessions share are none of theirs."""
    found = sorted(home.locks.glob("*.lock")) if home.locks.is_dir() else []
    return [file for file in found if not _SHARED_LOCK.fullmatch(file.name)]


def require_no_gateway(home: HermesHome, what: str) -> None:
    """Raise BusyError, which says what cannot be done, when the gateway of the home runs."""
    if is_lock_held(home.locks / "gateway.lock"):
        raise BusyError(
            N_("{what} while the gateway runs.", what=what),
            N_("`hermes gateway stop` ends it, `hermes gateway start` starts it again."),
        )


def require_no_open_session(home: HermesHome, what: str) -> None:
    """Raise BusyError, which says what cannot be done, when a session of the home is open."""
    held = list_open_sessions(home)
    if held:
        require_no_gateway(home, what)
        shown = ", ".join(held[:5])
        raise BusyError(
            N_("{what} while sessions are open: {sessions}.", what=what, sessions=shown),
            N_("Close them first; `/quit` ends a chat."),
        )
