"""The profile that a home's browser keeps: in one browser at a time, locked by a file beside it."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from hermes.core.errors import BrowserError
from hermes.i18n.messages import N_
from hermes.util.file_lock import is_lock_held, open_lock_file, try_lock


class BrowserProfileFolder:
    """The folder of the profile below `root`, a folder of its own in the home."""

    def __init__(self, root: Path) -> None:
        self.path = root / "profile"
        self._lock = root / "lock"

    @property
    def is_in_use(self) -> bool:
        """Whether a browser has it open."""
        return is_lock_held(self._lock)

    @contextlib.contextmanager
    def hold(self) -> Iterator[str]:
        """Hold the profile for one browser, and yield its real path; it is made where it is missing.

        Raises BrowserError where another browser has it, and OSError.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)
        with open_lock_file(self._lock) as handle:
            if not try_lock(handle):
                raise BrowserError(
                    N_("The browser's profile is in use by another session."),
                    N_("Close that session, or set `browser.profile` to `memory`."),
                )
            yield os.path.realpath(self.path)

    def remove(self) -> bool:
        """Remove all that sites have stored in it; return whether there was anything. Raises as `hold`."""
        if not self.path.exists():
            return False
        with self.hold() as path:
            shutil.rmtree(path)
        return True
