"""How one session's commands see this machine: its policy, what a person opened, what is fixed in what is writable."""

import contextlib
import itertools
import math
import os
import re
from collections.abc import Iterable, Sequence

import msgspec

from hermes.core.errors import ToolError
from hermes.execution.base import DeniedPath, NetworkMode, ShellCommand
from hermes.execution.layout import AccessLayout
from hermes.execution.sandbox.layout_cache import LayoutCache, MountWatch
from hermes.execution.sandbox.opened_keys import MAX_KEYS, look_for_keys
from hermes.execution.sandbox.policy import (
    OpenedPlaces,
    SandboxPolicy,
    add_fixed_paths,
    build_layout,
    explain_closed_path,
    explain_grant_refusal,
    explain_read_refusal,
    find_refused_paths,
    find_sockets,
    find_unseen_path,
    find_unwritable_path,
    hidden_path,
    hide_sockets,
)
from hermes.execution.sandbox.settings_copies import SettingsCopies
from hermes.execution.sandbox.tmpdir import SandboxTmpdir
from hermes.i18n.messages import N_
from hermes.safety.paths import is_or_below

_ENTERED_FOLDER = re.compile(r"(?:^|[\s;&|({])cd\s+(?:-\S+\s+)?[\"']?([^\s\"';&|()$`]{1,1000})")
_TOLD_FOLDER = re.compile(r": Entering directory [`']([^'\n]{1,1000})'")
"""What make and ninja print when they go on in another folder."""
_MAX_ENTERED = 8
_MAX_LAYOUT_SECONDS = 5.0
"""Seconds after which a command's layout is made again without a change that was seen: not all folders are watched."""


class SessionLayout:
    """Builds the layout of a session, keeps it while nothing changes, and opens more when a person allows it."""

    def __init__(self, policy: SandboxPolicy, copies: SettingsCopies, mounts: MountWatch) -> None:
        self._policy = policy
        self._copies = copies
        self._opened = OpenedPlaces()
        self._fixed_paths: tuple[str, ...] = ()
        self._sockets: Sequence[str] = ()
        self._outer: frozenset[str] | None = None
        self.has_sockets = True
        """Whether commands can connect to sockets of files at all."""
        self._fixed: tuple[AccessLayout, tuple[str, ...], AccessLayout] | None = None
        """The layout without the fixed paths, these, and the layout with them."""
        self._cache = LayoutCache(self._build, self._list_watched, mounts)

    def current_layout(self) -> AccessLayout:
        """Return the layout as it is now, but for sockets, which only commands could reach."""
        # A key may be made anywhere in what is opened, and not all folders are watched.
        is_opened = self._opened.read or self._opened.written
        seconds = _MAX_LAYOUT_SECONDS if is_opened else math.inf
        unfixed, paths, held = self._cache.get_layout(seconds), self._fixed_paths, self._fixed
        if held is None or held[0] is not unfixed or held[1] is not paths:
            self._fixed = held = unfixed, paths, add_fixed_paths(unfixed, paths)
        return held[2]

    def build_unfixed(self, command: ShellCommand) -> AccessLayout:
        """Return the layout for a command before anything in what is writable is fixed, some seconds old at most. A
        folder that a person opened and that is not there is made.
        """
        self._make_folders(one for one in command.opened_paths if one.is_write)
        allowed = [one for one in command.opened_paths if self._is_openable_now(one)]
        if not allowed:
            return self._cache.get_layout(max_seconds=_MAX_LAYOUT_SECONDS)
        written, read = ([one.path for one in allowed if one.is_write is way] for way in (True, False))
        alone = OpenedPlaces((*self._opened.written, *written), (*self._opened.read, *read))
        shown = self._find_keys(alone)
        # What was a key once stays one, whatever a command does to the name by which it is known.
        self._opened = msgspec.structs.replace(self._opened, keys=shown.keys)
        return build_layout(self._policy, shown)

    def _make_folders(self, opened: Iterable[DeniedPath]) -> None:
        for one in opened:
            if not os.path.lexists(one.path) and not self.explain_refusal(one):
                with contextlib.suppress(OSError):  # the command then fails on it, and says so
                    os.mkdir(one.path)

    def _is_openable_now(self, denied: DeniedPath) -> bool:
        """Return whether a path that was opened still leads where it led, and its keys can be hidden."""
        return os.path.realpath(denied.path) == denied.path and not self.explain_refusal(denied)

    def build_for_command(self, command: ShellCommand, tmpdir: SandboxTmpdir) -> AccessLayout:
        """Return the layout for a command that starts now: with the sockets of now, and what was opened to it alone."""
        layout = self.build_unfixed(command)
        fixed = [one for one in self._fixed_paths if one not in command.git_settings]
        copies = self._copies.refresh(tmpdir) if self._policy.readable else ()
        seen = hide_sockets(layout, self._sockets, self._outer if self.has_sockets else ())
        found = msgspec.structs.replace(add_fixed_paths(seen, fixed), copies=copies)
        return found.keep_files() if command.keeps_files else found

    def note_found(self, paths: tuple[str, ...], sockets: Sequence[str], *, is_alone: bool) -> None:
        """Keep these paths read-only inside of what is writable, and note the sockets there. Those on which a program
        listens while no command runs (`is_alone`) are other programs' own.
        """
        if paths != self._fixed_paths:
            self._fixed_paths = paths
        self._sockets = sockets
        if is_alone and self._policy.network is NetworkMode.ON:
            self._outer = frozenset(find_sockets(sockets))

    def open_to_write(self, path: str) -> None:
        """Let commands write a path (resolved). Raises `ToolError` for what is protected."""
        self._require_openable(DeniedPath(path, is_write=True))
        self._opened = msgspec.structs.replace(self._opened, written=(*self._opened.written, path))
        self._cache.discard()

    def open_to_read(self, path: str) -> None:
        """Let commands read a path (resolved), but for keys in it. Raises `ToolError` for what is never opened."""
        self._require_openable(DeniedPath(path, is_write=False))
        self._opened = msgspec.structs.replace(self._opened, read=(*self._opened.read, path))
        self._cache.discard()

    def list_opened(self) -> tuple[DeniedPath, ...]:
        """Return what a person has opened to all commands of the session."""
        read, written = self._opened.read, self._opened.written
        return tuple(DeniedPath(one, is_write=way) for way, paths in ((False, read), (True, written)) for one in paths)

    def list_keys(self) -> tuple[str, ...]:
        """Return the keys that stay hidden in what was opened."""
        return self._opened.keys

    def is_open(self, path: str) -> bool:
        """Return whether a path lies in a folder that commands see, and may write, as this machine does."""
        roots = (self._policy.places.workspace, *self._policy.writable, *self._opened.written)
        return any(is_or_below(path, root) for root in roots)

    def explain_refusal(self, denied: DeniedPath) -> str:
        """Explain why a path (resolved) is never opened to commands; empty when a person may open it."""
        if any(is_or_below(denied.path, one) for one in self._opened.keys):
            return "keys, or Hermes' own, are in it"
        return (explain_grant_refusal if denied.is_write else explain_read_refusal)(denied.path, self._policy)

    def find_denied_path(self, command: str, cwd: str, output: str) -> DeniedPath | None:
        """Return the path that a command was kept from writing, or reading, where a grant would open it.

        What it complained of is looked for in its folder, and in those that it says, or prints, that it enters.
        """
        named = (*_ENTERED_FOLDER.findall(command), *dict.fromkeys(_TOLD_FOLDER.findall(output)))
        entered = (self._policy.places.expand_path(one, cwd) for one in named)
        found = (self._find_denied_in(folder, output) for folder in (cwd, *itertools.islice(entered, _MAX_ENTERED)))
        return next((one for one in found if one is not None), None)

    def _find_denied_in(self, cwd: str, output: str) -> DeniedPath | None:
        layout, policy = self.current_layout(), self._policy
        home = policy.places.home
        path = find_unwritable_path(output, layout, cwd, home, lambda path: explain_grant_refusal(path, policy))
        if path or policy.unreadable:
            return DeniedPath(path, is_write=True) if path else None
        path = find_unseen_path(output, layout, cwd, policy.homes, lambda path: explain_read_refusal(path, policy))
        # What is not seen in a place that is open already is a key.
        is_open = any(is_or_below(path, one.path) for one in self.list_opened())
        return DeniedPath(path, is_write=False) if path and not is_open else None

    def explain_closed_path(self, output: str, cwd: str, *, failed: bool) -> str:
        """Explain which path a command was kept from, and who could open it; "" when there is none. One that has not
        `failed` may still have passed over a file that is kept.
        """
        layout = self.current_layout()
        why = explain_closed_path(output, layout, cwd, self._policy, failed=failed)
        if why or not failed or self._policy.unreadable or not self._policy.homes:
            return why
        path = hidden_path(output, layout, cwd, self._policy.homes)
        if not path:
            return ""
        if why := explain_read_refusal(path, self._policy):
            return N_("the sandbox hides {path} from commands, whether it exists or not: {why}", path=path, why=why)
        return N_(
            "the sandbox hides {path} from commands, whether it exists or not: read_file or write_file on it asks the "
            "person, and terminal.sandbox.writable opens a folder for good",
            path=path,
        )

    def explain_kept_folder(self, output: str, cwd: str) -> str:
        """Explain that a failed command could make nothing new in a folder that keys are in, where Landlock alone holds
        it; "" when that is not so.
        """
        places = self._policy.places
        for path, _ in find_refused_paths(output, cwd):
            near = any(is_or_below(path, one) for one in (places.home, os.path.dirname(places.workspace)))
            is_kept = near and not is_or_below(path, places.workspace)
            if is_kept and not explain_grant_refusal(path, self._policy) and look_for_keys(path, places.home).keys:
                return N_(
                    "without bubblewrap commands make nothing new in {path}, since a key is in it or below, whatever a "
                    "person opens: write_file can",
                    path=path,
                )
        return ""

    def _build(self) -> AccessLayout:
        shown = self._find_keys(self._opened)  # another place may be opened meanwhile
        self._opened = msgspec.structs.replace(self._opened, keys=shown.keys)
        return build_layout(self._policy, shown)

    def _list_watched(self) -> tuple[str, ...]:
        """Return the folders of whose entries the layout says something each: what is to be hidden or shown in them."""
        return (self._policy.places.home, *self._opened.read, *self._opened.written)

    def _require_openable(self, denied: DeniedPath) -> None:
        """Raise `ToolError` where a path cannot be opened."""
        reason = self.explain_refusal(denied)
        if not reason and not os.path.exists(denied.path):
            reason = N_("it does not exist")
        if reason:
            raise ToolError(f"{denied.path} is not opened to commands: {reason}.")

    def _find_keys(self, opened: OpenedPlaces) -> OpenedPlaces:
        """Return what is opened with the keys in it, but for what is too large by now to be looked through for them.

        It may hold the workspace, whose own keys are as open as before.
        """
        own = (self._policy.places.workspace, *self._policy.writable, *self._policy.git_folders)
        room, closed, keys = MAX_KEYS, set[str](), list[str]()
        for place in (*opened.read, *opened.written):
            look = look_for_keys(place, self._policy.places.home)
            keys += (key for key in look.keys[:room] if not any(is_or_below(key, root) for root in own))
            closed |= set() if look.is_complete and len(look.keys) <= room else {place}
            room = max(0, room - len(look.keys))
        written, read = (tuple(one for one in way if one not in closed) for way in (opened.written, opened.read))
        known = filter(os.path.lexists, self._opened.keys)
        return OpenedPlaces(written, read, tuple(dict.fromkeys((*known, *keys))))
