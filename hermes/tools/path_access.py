"""What a session may see of this machine: file tools obey the layout that its commands are confined by.

A path is judged as it is opened, each link on the way as well as its end: first by the rules of names, which nothing
lifts, then by the layout. What commands do not see is read only with a person's yes for it.
"""

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.base import DeniedPath
from hermes.execution.layout import PathAccess
from hermes.execution.sandbox.home_rows import find_project_folder
from hermes.execution.sandbox.opened_keys import is_kept_key, look_for_keys
from hermes.safety.autorun_files import OBEYED_REASON
from hermes.safety.paths import is_home_entry, is_or_below, list_secret_paths
from hermes.tools.session import ToolContext
from hermes.util.file_handles import LISTED_FOLDER_FLAGS, HeldPath, RefusedPathError, hold_path, open_folder

_HOME = re.compile(r"/home/[^/]+|/root|/Users/[^/]+|/var/root")
_HIDDEN_REASON = "commands do not see it, and nobody has opened it"


class SessionView:
    """What commands of a session see at one moment."""

    def __init__(self, context: ToolContext) -> None:
        self.context = context
        self.layout = context.backend.current_layout()
        self._opened = [one.path for one in context.backend.list_opened()]

    def is_hidden(self, real: str) -> bool:
        """Return whether commands do not see a path (absolute, without links); where no wall hides anything, whether it
        is what a home keeps for programs.
        """
        places, layout = self.context.places, self.layout
        if is_or_below(real, places.hermes) or any(is_or_below(real, one) for one in places.own):
            return False  # the rules of names say what is open there
        if layout is None:
            return is_home_entry(real, places)
        access = layout.access_of(real)
        if access is PathAccess.PRIVATE:
            # Another program's: the session has a folder of its own.
            return self.context.backend.to_command_path(real) == real
        if access is PathAccess.HIDDEN:
            return not any(is_or_below(real, name) for name, _ in layout.links)
        # The layout does not know the keys that were made since: they are known by their names.
        return self._is_opened(real) and is_kept_key(real)

    def is_key(self, real: str) -> bool:
        """Return whether what is hidden is a key, by its name, or because it stays hidden in what is opened."""
        return is_kept_key(real) or self._is_opened(real)

    def _is_opened(self, real: str) -> bool:
        """Return whether a path lies in what a person opened outside of the workspace."""
        inside = any(is_or_below(real, one) for one in self._opened)
        return inside and not is_or_below(real, self.context.places.workspace)

    def can_be_opened(self, path: str) -> bool:
        """Return whether commands do not see what is at a path (absolute), and a person may open it to them."""
        if self.layout is None or path[:1] != "/" or not self.is_hidden(os.path.normpath(path)):
            return False
        trace = trace_path(path, self.context) if os.path.exists(path) else None
        if trace is None or not trace.hidden:
            return False
        return all(self.context.backend.can_open(DeniedPath(one, is_write=False)) for one in trace.hidden)

    def is_closed(self, real: str) -> bool:
        """Return whether a path is hidden and not opened to the call."""
        return self.is_hidden(real) and not is_allowed(real, self.context)


class PathTrace(Struct, frozen=True):
    """Where a path leads, with what of the way commands do not see."""

    real: str
    hidden: tuple[str, ...] = ()


def trace_path(path: str, context: ToolContext) -> PathTrace | None:
    """Return where an absolute path leads now; None where that cannot be told."""
    seen: list[str] = []
    view = SessionView(context)

    def note_place(real: str) -> str:
        seen.append(real)
        return ""

    try:
        with hold_path(path, note_place, link_target=make_link_target(context)) as held:
            return PathTrace(held.real, tuple(one for one in dict.fromkeys(seen) if view.is_hidden(one)))
    except (OSError, ValueError):
        return None


def make_link_target(context: ToolContext) -> Callable[[str, str], str]:
    """Return what a link means for the session: in its commands' eyes, to which some folders are their own."""

    backend = context.backend

    def find_target(folder: str, target: str) -> str:
        return backend.to_local_path(os.path.join(backend.to_command_path(folder), target))

    return find_target


def hold_for_reading(path: str, display_path: str, context: ToolContext) -> HeldPath:
    """Return a path with its folder held open, judged on the way. Raises `ToolError` where it is closed, OSError."""
    from hermes.safety.path_policy import path_refusal  # what it needs is read when there is a file to open

    view = SessionView(context)

    def judge(real: str) -> str:
        why = path_refusal(real, real, "read", context.places)
        return why or (_HIDDEN_REASON if view.is_closed(real) else "")

    try:
        return hold_path(path, judge, link_target=make_link_target(context))
    except RefusedPathError as error:
        raise ToolError(f"{display_path} is not open to tools: {error.reason}.") from None


def explain_obeyed(real: str, context: ToolContext) -> str:
    """Return why a path (resolved) is not written, as the disk is now: programs obey it because something leads to it,
    links of the home or in the place of settings, or a repository. Empty when nothing does, and for what a link of the
    home leads to when the person has allowed the call that.
    """
    from hermes.execution.git_programs import is_led_to
    from hermes.safety.start_links import explain_start_link, later_refusal

    if why := later_refusal(real, context.places):
        return why
    if is_led_to(real, context.places.home):
        return OBEYED_REASON
    if why := explain_start_link(real, context.places):
        return why if real not in context.allowed_writes else ""
    return OBEYED_REASON if context.backend.is_kept(real) else ""


def name_folder(real: str, context: ToolContext) -> str:
    """Return what a question about reading a path names: its project or folder, as a pattern; of a home's own only the
    path.
    """
    folder = real if os.path.isdir(real) else os.path.dirname(real)
    return _name_below(find_openable_project(folder, context, is_write=False), real, context)


def name_written_folder(real: str, context: ToolContext) -> str:
    """Return what a question about writing a file names: its folder, as a pattern; of a home's own only the file."""
    return _name_below(os.path.dirname(real), real, context)


def _name_below(folder: str, path: str, context: ToolContext) -> str:
    return path if folder == "/" or _is_home_or_above(folder, context.places.home) else f"{folder}/*"


def find_openable_project(path: str, context: ToolContext, *, is_write: bool) -> str:
    """Return the project that a path (resolved) lies in, where a person can open all of it; else the path itself."""
    wide = find_project_folder(path, context.places.home)
    return wide if wide == path or context.backend.can_open(DeniedPath(wide, is_write=is_write)) else path


def list_opened_by_yes(real: str, hidden: Sequence[str], context: ToolContext) -> tuple[str, ...]:
    """Return what of a path, and of what commands do not see on the way, a yes opens to a command: its project; of a
    path that the person has named nothing but that.
    """
    if is_named_by_person(real, hidden, context):
        return tuple(hidden)
    return tuple(dict.fromkeys(find_openable_project(one, context, is_write=False) for one in hidden))


def is_named_by_person(real: str, hidden: Iterable[str], context: ToolContext) -> bool:
    """Return whether the person has written this path in the conversation, so that it is open: it and nothing else.

    Only the words of a hidden place count: a link in what commands may write could make any words lead there.
    """
    cwd = str(context.state.cwd)
    for words in context.state.taint.list_named_paths():
        path = os.path.normpath(context.places.expand_path(words, cwd))
        if path == real and os.path.realpath(path) == real and not os.path.isdir(real):
            return SessionView(context).is_hidden(path)
    return False


def is_allowed(real: str, context: ToolContext) -> bool:
    """Return whether the person has opened this path to the call: a folder is opened but for the keys in it."""
    opened = (*(one.path for one in context.opened), *context.allowed_writes)
    return real in opened or (any(is_or_below(real, one) for one in opened) and not is_kept_key(real))


def find_hidden_below(root: str, context: ToolContext) -> list[str]:
    """Return what lies below a folder (resolved) and is hidden, or refused: folders and files that exist."""
    layout = context.backend.current_layout()
    keys = look_for_keys(root, context.places.home).keys if is_allowed(root, context) else ()
    kept = dict.fromkeys((*list_secret_paths(context.places), *keys))
    found = dict(kept)
    if layout is not None:
        found |= dict.fromkeys(
            path
            for path, access in layout.hide_covered().access_by_path.items()
            if access in (PathAccess.HIDDEN, PathAccess.PRIVATE)
        )
    start = root.rstrip("/") + "/"  # hundreds of places are compared with it
    below = (path for path in found if path.startswith(start) and path != root and os.path.lexists(path))
    return [path for path in below if path in kept or not is_allowed(path, context)]


def open_visible_parts(
    place: tuple[str, int, str], hidden: Sequence[str], held: ExitStack
) -> Iterator[tuple[int, bool]]:
    """Yield handles on what an engine may read of a place (its name, its handle, the one file in it), and whether it
    may only list names there: all of it, or of a folder with hidden entries what lies beside those. Raises OSError.
    """
    root, folder, name = place
    if name:
        yield _open_by_name(folder, name, held), False
    elif not hidden:
        yield folder, False
    else:
        yield folder, True
        yield from ((one, False) for one in _open_beside(root, folder, hidden, held))


def open_ignore_files(root: str, held: ExitStack) -> list[tuple[int, bool]]:
    """Return handles on the files above a folder by which git ignores, as `open_visible_parts` has them."""
    found: list[tuple[int, bool]] = []
    while root != "/":
        root = os.path.dirname(root)
        if not os.path.lexists(os.path.join(root, ".gitignore")):
            continue  # opening each folder on the way takes longer than a look
        with contextlib.suppress(OSError), ExitStack() as above:
            parent = open_folder(root)
            above.callback(os.close, parent)
            rules = _open_by_name(parent, ".gitignore", held)
            if stat.S_ISREG(os.fstat(rules).st_mode):
                found.append((rules, False))
    return found


def _open_beside(at: str, folder: int, hidden: Sequence[str], held: ExitStack) -> Iterator[int]:
    """Yield handles on what is in an open folder, called `at`, and not hidden; of links none."""
    for name in os.listdir(folder):
        path = os.path.join(at, name)
        if path in hidden:
            continue
        if any(one.startswith(f"{path}/") for one in hidden):
            with contextlib.suppress(OSError), ExitStack() as opened:
                below = os.open(name, LISTED_FOLDER_FLAGS, dir_fd=folder)
                opened.callback(os.close, below)
                yield from _open_beside(path, below, hidden, held)
            continue
        with contextlib.suppress(FileNotFoundError):
            part = _open_by_name(folder, name, held)
            if not stat.S_ISLNK(os.fstat(part).st_mode):
                yield part


def _open_by_name(folder: int, name: str, held: ExitStack) -> int:
    """Return a handle on what is in an open folder, which `held` closes. Raises OSError."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    held.callback(os.close, handle)
    return handle


def _is_home_or_above(folder: str, home: str) -> bool:
    return is_or_below(home, folder) or folder in ("/home", "/Users") or _HOME.fullmatch(folder) is not None
