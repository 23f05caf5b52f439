"""The files over which a command's sandbox has mounts of their own: such a mount hides a key, or keeps a file as it is.

A mount is gone for the command once somebody outside renames another file over the one that it was made over, or
deletes that, as editors and git do.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress

from hermes.execution.layout import AccessLayout, PathAccess
from hermes.i18n.messages import N_
from hermes.safety.paths import is_or_below
from hermes.util.cancellation import cancel_tasks

_MAX_HELD = 128
"""The most of what is kept as it is that is held open for one command."""
_WATCH_SECONDS = 0.25
"""How often it is looked whether a file was replaced: a look costs some 2 microseconds a file."""


class MountedFiles:
    """What is mounted over files for a command that starts now, in a layout in which these `keys` are hidden. What it
    may not change is held open until the `resources` are closed: so its number is given to nothing else.
    """

    def __init__(
        self, layout: AccessLayout, keys: Iterable[str], resources: AsyncExitStack, *, by_mounts: bool
    ) -> None:
        self._access_of = access_of = layout.access_of
        listed = layout.paths_with(PathAccess.READ) if by_mounts else ()
        inside = (one for one in listed if access_of(os.path.dirname(one)) is PathAccess.WRITE)
        self._fixed = {one: _hold_path(one, resources) if at < _MAX_HELD else None for at, one in enumerate(inside)}
        shown = (one for one in keys if by_mounts and access_of(os.path.dirname(one)) is not PathAccess.HIDDEN)
        self._replaced: list[tuple[str, int]] = []
        self._hidden = {one: _read_status(one) for one in shown if access_of(one) is PathAccess.HIDDEN}

    def is_fixed(self, path: str) -> bool:
        """Return whether the command cannot change a file, as far as mounts tell."""
        stands = all(_is_same(one, held) for one, held in self._fixed.items() if is_or_below(path, one))
        return stands and self._access_of(path) is not PathAccess.WRITE

    def describe_shown_key(self) -> str:
        """Return a line about a key that the command may see by now; "" when there is none."""
        path = next((one for one, was in self._hidden.items() if os.path.lexists(one) and not _is_same(one, was)), "")
        return path and N_(
            "{path} was replaced while a command ran, which could read it from then on. The command was ended: if you "
            "do not trust it, change that key.",
            path=path,
        )

    def describe_change(self) -> str:
        """Return a line about what the command may change by now, and has changed since this was last asked; "" when
        there is none.
        """
        was, self._replaced = self._replaced, []
        for path, held in self._fixed.items():
            if held is not None and not _is_same(path, held) and (found := _read_status(path)) is not None:
                self._replaced.append((path, found.st_ctime_ns))
        path = next((entry[0] for entry in self._replaced if entry not in was), "")
        return path and N_(
            "{path} was replaced while a command ran, which changed it then. The command was ended.", path=path
        )


class MountedFilesWatch:
    """Watches, while commands run, for files that somebody replaces outside of them. `list_checks` returns what is to
    be called for each of these.
    """

    def __init__(self, list_checks: Callable[[], Sequence[Callable[[], Awaitable[None]]]]) -> None:
        self._list_checks = list_checks
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch until no command runs, if that is not done already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="mounts of commands")

    async def close(self) -> None:
        """Stop watching."""
        await cancel_tasks([self._task] if self._task is not None else [])

    async def _run(self) -> None:
        while checks := self._list_checks():
            await asyncio.sleep(_WATCH_SECONDS)
            for check in checks:
                await check()


def _hold_path(path: str, resources: AsyncExitStack) -> os.stat_result | None:
    """Hold what is at a path open, and return its status; None where it cannot be held."""
    with suppress(OSError):
        handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        resources.callback(os.close, handle)
        return os.fstat(handle)
    return None


def _read_status(path: str) -> os.stat_result | None:
    with suppress(OSError):
        return os.lstat(path)
    return None


def _is_same(path: str, held: os.stat_result | None) -> bool:
    found = _read_status(path)
    return held is not None and found is not None and os.path.samestat(found, held)
