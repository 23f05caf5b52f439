"""Keeps the layout of a session until something changes on which it depends: no path costs a look at the disk."""

import contextlib
import math
import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Iterable

from hermes.execution.layout import AccessLayout

_Stamp = tuple[int, int] | None


class MountWatch:
    """Counts the changes of this process's mounts (proc(5), mountinfo). One serves all sessions of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._poll: select.poll | None = None
        with contextlib.suppress(OSError):
            handle = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, handle)
            self._poll = select.poll()
            self._poll.register(handle, select.POLLPRI)

    def count_changes(self) -> int:
        """Return how many times the mounts were seen to have changed."""
        if self._poll is not None:
            with self._lock:
                self._count += bool(self._poll.poll(0))
        return self._count


class LayoutCache:
    """Holds a layout. `build` makes it; `watched` are folders whose list of entries it depends on.

    It is made again after `discard`, after a change of the mounts, and when a watched folder's list has changed.
    """

    def __init__(
        self, build: Callable[[], AccessLayout], watched: Callable[[], Iterable[str]], mounts: MountWatch
    ) -> None:
        self._build = build
        self._list_watched = watched
        self._mounts = mounts
        self._lock = threading.Lock()
        self._generation = 0
        self._built = 0.0
        self._held: tuple[int, int, tuple[tuple[str, _Stamp], ...], AccessLayout] | None = None

    def discard(self) -> None:
        """Let the next look make the layout again."""
        self._generation += 1

    def get_layout(self, max_seconds: float = math.inf) -> AccessLayout:
        """Return the layout as it is now; `max_seconds` is how old it may be although no change was seen."""
        held = self._held
        changes = self._mounts.count_changes()
        is_new = time.monotonic() - self._built < max_seconds
        is_same = held is not None and is_new and held[:2] == (self._generation, changes)
        if held is not None and is_same and all(_read_stamp(path) == stamp for path, stamp in held[2]):
            return held[3]
        with self._lock:
            generation = self._generation
            watched = tuple((path, _read_stamp(path)) for path in self._list_watched())
            built = time.monotonic()
            layout = self._build()
            self._held, self._built = (generation, changes, watched, layout), built
            return layout


def _read_stamp(path: str) -> _Stamp:
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_ino, found.st_mtime_ns
    return None
