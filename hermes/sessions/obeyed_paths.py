"""Tells what a restore must not write, because programs obey what lies there: git, editors, other agents, shells.

A process in the background may have put it there between two turns, so that a checkpoint has it as what was there
before. The look after commands has taken it away since, and a restore is looked at by nobody.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from hermes.checkpoints.path_states import is_hidden_file
from hermes.checkpoints.restore import RestoreStep
from hermes.core.checkpoints import FileState, Kind
from hermes.execution.base import TerminalBackend
from hermes.execution.git_programs import is_led_to
from hermes.execution.git_settings import list_harmful_parts
from hermes.execution.layout import PathAccess
from hermes.execution.sandbox.planted_files import PlantedFiles
from hermes.safety.autorun_files import (
    completes_repository,
    find_settings,
    is_git_shaped,
    is_never_written,
    is_setting,
    split_git_target,
)
from hermes.safety.paths import Places
from hermes.safety.start_links import find_setting_links, find_start_links, list_linked_names, list_names
from hermes.util.file_handles import hold_unlinked

_GIT_SETTINGS = ("config", "config.worktree")
_DATA_PARTS = ("HEAD", "objects", "refs")
"""The parts of a repository that are no more than data, where its settings and hooks are harmless."""
_MAX_SETTINGS_BYTES = 262_144


class ObeyedPaths:
    """What programs obey by the disk as it is now, and as a restore of these steps would leave it.

    `read` returns the content of a state's copy. Where a wall stands around commands, what git's settings, start files
    and links lead to counts, too: there it is kept from them. Used in a thread.
    """

    def __init__(
        self,
        steps: Iterable[RestoreStep],
        places: Places,
        backend: TerminalBackend,
        read: Callable[[str], bytes | None],
    ) -> None:
        self._places = places
        self._read = read
        self._wanted = {
            one.path: one.wanted for one in steps if one.changes_path and one.wanted.kind is not Kind.ABSENT
        }
        self._names: defaultdict[str, set[str]] = defaultdict(set)
        for path in self._wanted:
            self._names[os.path.dirname(path)].add(os.path.basename(path))
        self._backend = backend if backend.contained else None
        self._led: frozenset[str] = frozenset()
        self._links: tuple[tuple[str, str], ...] = ()
        if self._backend is not None:
            self._look(self._backend)

    def has(self, path: str, state: FileState) -> bool:
        """Return whether programs would obey what a restore puts at a path. A folder by itself tells them nothing."""
        return state.kind in (Kind.FILE, Kind.LINK) and (
            is_hidden_file(path, self._places, copies_keys=True)
            or is_never_written(path)
            or (state.kind is Kind.LINK and self._stands_for_settings(path))
            or (self._backend is not None and self._is_led_to(self._backend, path))
            or self._is_part_of_repository(path, state)
        )

    def _look(self, backend: TerminalBackend) -> None:
        """Find out what is obeyed now: a session that was resumed may not have run a command yet."""
        home, workspace = self._places.home, self._places.workspace
        layout = backend.current_layout()
        opened = layout.paths_with(PathAccess.WRITE) if layout is not None else ()
        start, found = dict(find_start_links(self._places)), PlantedFiles(home=home)
        found.record_baseline([workspace, *opened], start)
        self._led = frozenset((*found.list_obeyed(), *start))
        self._links = (*found.links, *find_setting_links(workspace))

    def _stands_for_settings(self, path: str) -> bool:
        folder, name = os.path.split(path)
        return any(find_settings(folder, (name,), (name,)))

    def _is_led_to(self, backend: TerminalBackend, path: str) -> bool:
        return (
            any(one in self._led for one in _list_upward(path))
            or any(map(is_setting, list_linked_names(path, self._links)))
            or backend.is_kept(path)
            or is_led_to(path, self._places.home)
        )

    def _is_part_of_repository(self, path: str, state: FileState) -> bool:
        """Return whether a path changes what a repository makes git run, or makes a repository of a folder that does.

        What is data in it comes back, or the files of a person's bare repository would be lost.
        """
        for folder, part in split_git_target(path):
            names = {*list_names(folder), *self._names[folder]}
            if completes_repository(part, names) and not self._is_harmless(folder, part, path, state):
                return True
        return False

    def _is_harmless(self, folder: str, part: str, path: str, state: FileState) -> bool:
        if part in _DATA_PARTS:
            return is_git_shaped(list_names(folder)) or not self._runs_programs(folder)
        if state.kind is Kind.LINK:
            return False
        if part in _GIT_SETTINGS:
            return _are_harmless_settings(self._read(state.mark))
        return part == "hooks" and path.endswith(".sample")

    def _runs_programs(self, folder: str) -> bool:
        """Return whether what stands in a folder, and no restore replaces, makes git run programs once it is one of
        git's.
        """
        hooks = (one for one in list_names(f"{folder}/hooks") if not one.endswith(".sample"))
        settings = (one for one in _GIT_SETTINGS if f"{folder}/{one}" not in self._wanted)
        return (
            any(hooks)
            or os.path.lexists(f"{folder}/commondir")
            or not all(_are_harmless_settings(_read_file(f"{folder}/{one}")) for one in settings)
        )


def _list_upward(path: str) -> Iterator[str]:
    """Yield a path, and the folders that it is in."""
    while path not in ("", "/"):
        yield path
        path = os.path.dirname(path)


def _are_harmless_settings(data: bytes | None) -> bool:
    """Return whether git runs no program for these settings; None are such as cannot be read."""
    return data is not None and not list_harmful_parts(data.decode("utf-8", "surrogateescape"))


def _read_file(path: str) -> bytes | None:
    """Return the content of a file; nothing where there is none, None where it is no plain file or too large."""
    try:
        with hold_unlinked(path) as held, os.fdopen(held.open_read(), "rb") as file:
            data = file.read(_MAX_SETTINGS_BYTES)
    except FileNotFoundError:
        return b""
    except OSError:
        return None
    return data if len(data) < _MAX_SETTINGS_BYTES else None
