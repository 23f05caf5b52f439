"""The policy of a sandbox, what its commands may reach, how that maps to this machine's folders, and what a command was
kept from writing, judged by what it printed.
"""

import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.base import NetworkMode
from hermes.execution.git_settings import list_settings, read_line
from hermes.execution.layout import AccessLayout, PathAccess
from hermes.execution.sandbox.home_rows import LayoutRow, find_homes, find_project_folder, home_rows
from hermes.execution.sandbox.opened_keys import can_hide_keys, is_kept_key
from hermes.execution.sandbox.planted_files import find_repository, is_socket
from hermes.i18n.messages import N_
from hermes.safety.autorun_files import OBEYED_REASON, is_git_shaped
from hermes.safety.paths import (
    Places,
    has_start_files_below,
    is_or_below,
    is_root_like,
    is_ssh_public,
    list_readable_paths,
    list_secret_paths,
    read_refusal,
    write_refusal,
)
from hermes.safety.start_links import explain_start_link, later_refusal, list_names

_SOCKET_FOLDERS = ("/run", "/var/run")
"""The folders where services of the machine listen: sockets that are as good as a way out."""
_NEEDED_PATHS = str.split("""
    /run/systemd/resolve/stub-resolv.conf /run/systemd/resolve/resolv.conf /run/resolvconf/resolv.conf
    /run/NetworkManager/resolv.conf /run/current-system /run/opengl-driver
""")
"""The paths in those folders that programs read."""
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
_CACHE_SECONDS = 2.0
"""Seconds for which questions about many paths look once at which keys there are: people make them by hand."""
_MAX_SOCKETS = 500
_MAX_HOME_ENTRIES = 2_000
"""The most entries of a home that are made writable one by one."""


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """What commands of a session may reach.

    The workspace in `places` is writable, `writable` too; what `unreadable` adds to the keys and Hermes'
    own folder cannot be read. `private` are folders for temporary files of which a session has its own.
    `code` is what runs outside of the sandbox, so that nothing in it may be changed. `hosts` are patterns:
    a name, `*.name`, with `:port` for one other than 80 and 443.
    """

    places: Places
    writable: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    """Homes, and folders of homes, that are hidden but for `readable` and what is opened."""
    readable: tuple[LayoutRow, ...] = ()
    git_folders: tuple[str, ...] = ()
    """The workspace's own git folders outside of it, which are writable too."""
    private: tuple[str, ...] = ("/tmp", "/var/tmp")  # noqa: S108 - a session has its own
    code: tuple[str, ...] = ()
    network: NetworkMode = NetworkMode.ALLOWLIST
    hosts: tuple[str, ...] = ()


class OpenedPlaces(Struct, frozen=True):
    """What a person opened to commands: paths to write, paths to read, and what stays hidden in both."""

    written: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


_NOTHING_OPENED = OpenedPlaces()


class ToolPlaces(Struct, frozen=True):
    """The homes of this machine, what of them is read to run programs, and where Hermes' own code lies."""

    homes: tuple[str, ...]
    rows: tuple[LayoutRow, ...]
    code: tuple[str, ...]


def find_tools(places: Places, environ: Mapping[str, str]) -> ToolPlaces:
    """Return what is the same for all sessions of a person on this machine."""
    homes, code = find_homes(places), find_code_paths()
    return ToolPlaces(homes, tuple(home_rows(places, homes, environ, code)), code)


def make_policy(
    places: Places,
    tools: ToolPlaces,
    *,
    writable: tuple[str, ...] = (),
    network: NetworkMode = NetworkMode.ALLOWLIST,
    hosts: tuple[str, ...] = (),
) -> SandboxPolicy:
    """Return the policy of a session. To those who are confined nothing of a home is shown but their workspace."""
    return SandboxPolicy(
        places=places,
        writable=writable,
        unreadable=(places.home,) if places.confined else (),
        homes=tools.homes,
        readable=() if places.confined else tools.rows,
        git_folders=() if places.confined else find_own_git_folders(places),
        code=tools.code,
        network=network,
        hosts=hosts,
    )


def build_layout(policy: SandboxPolicy, opened: OpenedPlaces = _NOTHING_OPENED) -> AccessLayout:
    """Return where on this machine the policy's paths lie now, but for sockets.

    What is writable must be named by its real path: a command may have put a link where another command's folder was.
    """
    rows = layout_rows(policy, opened)
    layout = AccessLayout(access_by_path={row.path: row.access for row in rows})
    layout = _simplify_layout(layout, policy.code)
    home = policy.places.home
    own = () if policy.places.confined else (home, f"{home}/.config")
    named = [*(row.path for row in policy.readable), *(link for folder in own for link in _list_links(folder))]
    return msgspec.structs.replace(layout, links=tuple(_links_of(named, layout)))


def hide_sockets(layout: AccessLayout, sockets: Iterable[str], outer: Collection[str] | None = None) -> AccessLayout:
    """Return the layout without the sockets of programs that listen now; where commands may listen on one themselves,
    in what is writable, only those in `outer`. None: commands have a network of their own, and listen in that.

    `sockets` are those that are there in what is writable, on which a program may listen by a relative name. Raises
    `ToolError` where these are too many to be hidden.
    """
    found = (
        (path, layout.access_of(path)) for path in find_sockets(sockets) if not _is_below_any(path, _KERNEL_FOLDERS)
    )
    seen = {path: access for path, access in found if access in (PathAccess.READ, PathAccess.WRITE)}
    hidden = [path for path, access in seen.items() if access is PathAccess.READ or outer is None or path in outer]
    if sum(seen[path] is PathAccess.WRITE for path in hidden) > _MAX_SOCKETS:
        raise ToolError("Programs listen on too many sockets in the workspace to hide all of them from commands.")
    access_by_path = {**layout.access_by_path, **dict.fromkeys(hidden, PathAccess.HIDDEN)}
    return msgspec.structs.replace(layout, access_by_path=access_by_path)


def layout_rows(policy: SandboxPolicy, opened: OpenedPlaces = _NOTHING_OPENED) -> list[LayoutRow]:
    """Return how the paths of a policy appear, those that exist; of rows for the same path the last one counts."""
    places = policy.places
    roots = _written_roots(policy, opened)
    homes = list(_existing_paths(policy.homes))
    hidden = find_hidden_paths(policy)
    rows = _rows_of(policy.private, PathAccess.PRIVATE, N_("the session's own"))
    rows += _rows_of((*homes, *_find_other_mounts(homes)), PathAccess.HIDDEN, N_("a home"))
    rows += _rows_of(_list_shown_entries(places.home, roots), PathAccess.READ, N_("the workspace is the home: no dot"))
    rows += _readable_rows(policy, homes, hidden)
    rows += [LayoutRow(one, PathAccess.HIDDEN, N_("keys, or other people's words")) for one in hidden]
    rows += _rows_of(_SOCKET_FOLDERS, PathAccess.HIDDEN, N_("services of the machine listen there"))
    public = _find_ssh_public_files(places.home, *opened.keys)
    needed = (*_NEEDED_PATHS, *list_readable_paths(places), *public, *policy.code)
    rows += _rows_of(needed, PathAccess.READ, N_("commands need it, and no key is in it"))
    for root in filter(_is_real, roots):
        reason = N_("the workspace") if root == places.workspace else N_("opened, or the workspace's own git folder")
        rows += [LayoutRow(one, PathAccess.WRITE, reason) for one in _writable_parts(root, places)]
    rows += _rows_of(_list_hook_files(places, roots), PathAccess.READ, N_("a hook runs it"))
    read = [one for one in opened.read if _is_real(one) and not _is_below_any(one, opened.written)]
    rows += [LayoutRow(one, PathAccess.READ, N_("opened to read")) for one in read]
    inside = [one for one in hidden if _is_below_any(one, opened.read)]
    rows += _rows_of((*inside, *opened.keys), PathAccess.HIDDEN, N_("a key inside of what is shown"))
    return rows


def _list_hook_files(places: Places, roots: Iterable[str]) -> list[str]:
    """Return the files in what is writable that the person's hooks run."""
    return [one for one in places.hook_files if _is_below_any(one, roots)]


def _readable_rows(policy: SandboxPolicy, homes: Sequence[str], hidden: Sequence[str]) -> Iterator[LayoutRow]:
    """Yield what is read of homes: never one as a whole, nor what lies in a key place."""
    for row in policy.readable:
        for real in _existing_paths([row.path]):
            is_home = any(is_or_below(one, real) for one in homes)
            if _is_below_any(real, homes) and not is_home and not _is_below_any(real, hidden):
                yield LayoutRow(real, row.access, row.reason)


def _is_real(path: str) -> bool:
    """Return whether a path is there, and no link leads to another place from it."""
    return os.path.lexists(path) and os.path.realpath(path) == path


def _rows_of(paths: Iterable[str], access: PathAccess, reason: str) -> list[LayoutRow]:
    return [LayoutRow(path, access, reason) for path in _existing_paths(paths)]


def _written_roots(policy: SandboxPolicy, opened: OpenedPlaces) -> tuple[str, ...]:
    # What lies in another opened folder is mounted with that: a mount of its own could not be removed.
    outer = (one for one in opened.written if not _is_below_any(os.path.dirname(one), opened.written))
    return (policy.places.workspace, *policy.writable, *policy.git_folders, *outer)


def _simplify_layout(layout: AccessLayout, code: Iterable[str]) -> AccessLayout:
    """Return the same layout without redundant entries."""
    covered = tuple(one for one in layout.access_by_path if _is_covered(one, layout))
    for path in [one for one in layout.access_by_path if not _is_needed_entry(one, layout)]:
        del layout.access_by_path[path]
    parts = (one for one in map(os.path.realpath, code) if one in layout.access_by_path)
    inside = tuple(one for one in parts if layout.access_of(os.path.dirname(one)) is PathAccess.WRITE)
    return AccessLayout(access_by_path=layout.access_by_path, pinned=_find_pinned(layout), code=inside, covered=covered)


def _links_of(paths: Iterable[str], layout: AccessLayout) -> Iterator[tuple[str, str]]:
    """The paths that are, or lie behind, links which hidden folders hide, with where they lead."""
    found: list[str] = []
    for path in sorted(filter(os.path.lexists, set(paths))):
        real = os.path.realpath(path)
        leads = real != path and layout.access_of(path) is PathAccess.HIDDEN is not layout.access_of(real)
        if leads and os.path.exists(real) and not _is_below_any(path, found):
            found.append(path)
            yield path, real


def add_fixed_paths(layout: AccessLayout, fixed: Iterable[str]) -> AccessLayout:
    """Return the layout with what is read-only inside what is writable."""
    inside = (one for one in fixed if layout.access_of(one) is PathAccess.WRITE and one in _existing_paths([one]))
    access_by_path = {**layout.access_by_path, **dict.fromkeys(inside, PathAccess.READ)}
    made = msgspec.structs.replace(layout, access_by_path=access_by_path)
    return msgspec.structs.replace(made, pinned=_find_pinned(made))


def find_fixed_paths(layout: AccessLayout, obeyed: Iterable[str]) -> tuple[str, ...]:
    """Return what programs run or obey without being asked, inside what is writable.

    Call it while no command runs: one could put a link in the place of what was found.
    """
    return tuple(one for one in _existing_paths(obeyed) if layout.access_of(one) is PathAccess.WRITE)


def find_hidden_paths(policy: SandboxPolicy) -> list[str]:
    """Return the existing folders and files that commands may not read, wherever else they are mounted too."""
    found = list(_existing_paths((*list_secret_paths(policy.places), *policy.unreadable)))
    return list(dict.fromkeys([*found, *_find_other_mounts(found)]))


@lru_cache(maxsize=8)
def _recall_hidden_paths(places: Places, unreadable: tuple[str, ...], _age: int) -> list[str]:
    return find_hidden_paths(SandboxPolicy(places=places, unreadable=unreadable))


def explain_grant_refusal(path: str, policy: SandboxPolicy) -> str:
    """Explain why `path` (resolved) cannot be made writable, whatever a person says; empty when it can."""
    places = policy.places
    if is_root_like(path, places):
        return "too much would be lost with it"
    if any(is_or_below(one, path) for one in (*_list_keys(policy), *policy.code)) or _is_below_any(path, policy.code):
        return "keys, or Hermes' own, are in it"
    why = _explain_place(path, policy) or explain_start_link(path, places) or write_refusal(path, places)
    starts = "start files of programs are in it" if has_start_files_below(path, places) else ""
    return why or starts or _explain_keys(path, places.home)


def explain_read_refusal(path: str, policy: SandboxPolicy) -> str:
    """Explain why `path` (resolved) cannot be shown to commands, whatever a person says; empty when it can."""
    if is_root_like(path, policy.places) or any(is_or_below(one, path) for one in policy.homes):
        return "a home is opened by its folders, never as a whole"
    return _explain_place(path, policy) or read_refusal(path, policy.places) or _explain_keys(path, policy.places.home)


def _explain_place(path: str, policy: SandboxPolicy) -> str:
    """Explain why nothing at a place is opened: there are keys, or it is the system's; empty where it is neither."""
    if _is_below_any(path, _list_keys(policy)):
        return "keys, or Hermes' own, are in it"
    return "it belongs to the system" if _is_below_any(path, (*_SOCKET_FOLDERS, *_KERNEL_FOLDERS)) else ""


def _list_keys(policy: SandboxPolicy) -> list[str]:
    return _recall_hidden_paths(policy.places, policy.unreadable, int(time.monotonic() / _CACHE_SECONDS))


def _explain_keys(path: str, home: str) -> str:
    """Explain why a path cannot be opened without its keys."""
    if is_kept_key(path):
        return "keys, or Hermes' own, are in it"
    too_many = N_("it holds too many files to look for keys in all of them; a folder in it can be opened")
    return "" if can_hide_keys(path, home) else too_many


def find_own_git_folders(places: Places) -> tuple[str, ...]:
    """Return the git folders outside of the workspace that are its own: of a worktree, or of a submodule.

    The file `.git` that names one comes with the workspace, so the folder must name the workspace in its turn.
    """
    workspace = places.workspace
    # It is read as it is after commands, and what is accepted is what is looked at there.
    folder = "" if os.path.islink(f"{workspace}/.git") else find_repository(f"{workspace}/.git")
    if not folder or is_or_below(folder, workspace) or read_refusal(folder, places):
        return ()
    common = os.path.realpath(os.path.join(folder, read_line(f"{folder}/commondir") or "."))
    is_repository = all(os.path.isdir(f"{common}/{name}") for name in ("objects", "refs"))
    is_repository = is_repository and is_git_shaped(list_names(folder))
    is_too_much = is_root_like(common, places) or is_or_below(workspace, common)
    return (common,) if is_repository and not is_too_much and _names_workspace(folder, common, workspace) else ()


def _names_workspace(folder: str, common: str, workspace: str) -> bool:
    """Return whether a git folder says that the workspace is its own: as a worktree, or as a submodule."""
    if back := read_line(f"{folder}/gitdir"):
        return os.path.realpath(os.path.join(folder, back)) == f"{workspace}/.git" and is_or_below(folder, common)
    named = [one.value or "" for one in list_settings(f"{folder}/config") if one.name == "core.worktree"]
    tree = named[-1] if named else ""
    return bool(tree) and common == folder and os.path.realpath(os.path.join(folder, tree)) == workspace


def find_code_paths() -> tuple[str, ...]:
    """Return where the code lies that runs outside of the sandbox: this interpreter's and Hermes' own."""
    package = str(Path(__file__).resolve().parents[2])
    found = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)), package}
    found -= {"/", "/usr", "/usr/local"}
    return tuple(sorted(os.path.realpath(one) for one in found))


def _existing_paths(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if not os.path.lexists(path):
            continue  # most of what is named is not there, and links are followed at a price
        real = os.path.realpath(path)
        if os.path.lexists(real) and (path not in _SOCKET_FOLDERS or real == path):
            yield real


def _find_ssh_public_files(home: str, *keys: str) -> list[str]:
    """Return the files that hold no key in the `.ssh` of a home, and in the copies of one among opened keys."""
    found: list[str] = []
    for folder in (f"{home}/.ssh", *(one for one in keys if one.endswith("/.ssh"))):
        with contextlib.suppress(OSError):
            paths = (f"{folder}/{name}" for name in os.listdir(folder))
            found += [one for one in paths if is_ssh_public(one) and stat.S_ISREG(os.lstat(one).st_mode)]
    return found


def _writable_parts(root: str, places: Places) -> list[str]:
    """Return `root`, or what may be written in it: of the home (and above it) only what is in folders without a dot.

    New entries of the home itself cannot be told apart by the kernel from start files of shells and desktops.
    """
    if not is_or_below(places.home, root):
        return [root]
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(places.home) as entries:
        for entry in entries:
            usable = not entry.name.startswith(".") and not entry.is_symlink() and not write_refusal(entry.path, places)
            if usable and not is_or_below(places.hermes, entry.path):
                found.append(entry.path)
    return sorted(found)[:_MAX_HOME_ENTRIES]


def _list_shown_entries(home: str, roots: Iterable[str]) -> list[str]:
    """Return what is shown of a home that is the workspace, or below it: entries without a dot, and its repository."""
    if not any(is_or_below(home, root) for root in roots):
        return []
    with contextlib.suppress(OSError), os.scandir(home) as entries:
        shown = [
            one.path for one in entries if one.name == ".git" or not (one.name.startswith(".") or one.is_symlink())
        ]
        return sorted(shown)[:_MAX_HOME_ENTRIES]
    return []


def _list_links(folder: str) -> list[str]:
    """Return the links in a folder: of dotfiles that are kept in a project each is one to what commands see."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return sorted(one.path for one in entries if one.is_symlink())[:_MAX_HOME_ENTRIES]
    return []


def find_sockets(known: Iterable[str] = ()) -> list[str]:
    """Return the paths of running programs' sockets: connecting to one is no writing, so read-only does not prevent it.
    The system tells the name by which a program listens, which may be relative: then it is one of those `known`.
    """
    found: list[str] = []
    names: set[str] = set()
    with contextlib.suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            path = line.rstrip("\n").split(" ", 7)[-1].lstrip("0123456789 ")
            if not path.startswith("/"):
                names.add(os.path.basename(path))
            elif os.path.realpath(path) == path and is_socket(path):
                found.append(path)
    return [*found, *(one for one in known if os.path.basename(one) in names)]


def _find_other_mounts(paths: Iterable[str]) -> list[str]:
    """Return where the same folders and files are mounted a second time (proc(5), mountinfo)."""
    mounts: list[tuple[str, str, str]] = []
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            fields = line.split(" ", 5)
            mounts.append((fields[2], _unescape_field(fields[3]), _unescape_field(fields[4])))
    found: list[str] = []
    for path in paths:
        at = max((one for one in mounts if is_or_below(path, one[2])), key=lambda one: len(one[2]), default=None)
        if at is None:
            continue
        inside = os.path.normpath(os.path.join(at[1], os.path.relpath(path, at[2])))
        for device, root, point in mounts:
            if device == at[0] and is_or_below(inside, root):
                found.append(os.path.normpath(os.path.join(point, os.path.relpath(inside, root))))
    return [one for one in found if os.path.lexists(one)]


def _unescape_field(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def _is_needed_entry(path: str, layout: AccessLayout) -> bool:
    """Return whether an entry says more than those above it."""
    above = layout.access_of(os.path.dirname(path)) if path != "/" else PathAccess.READ
    access = layout.access_by_path[path]
    is_other = access is not above or access in (PathAccess.PRIVATE, PathAccess.WRITE)
    return is_other and not _is_covered(path, layout)


def _is_covered(path: str, layout: AccessLayout) -> bool:
    """Return whether a private folder stands in front of what is hidden, so that it is not there at all."""
    above = layout.access_of(os.path.dirname(path)) if path != "/" else PathAccess.READ
    return layout.access_by_path[path] is PathAccess.HIDDEN and above is PathAccess.PRIVATE


def _find_pinned(layout: AccessLayout) -> tuple[str, ...]:
    """Return the folders on the way to a path whose access differs from the writable folder around it."""
    found: set[str] = set()
    for path in layout.access_by_path:
        while layout.access_of(path := os.path.dirname(path)) is PathAccess.WRITE and path not in layout.access_by_path:
            found.add(path)
    return tuple(sorted(found))


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_or_below(path, one) for one in folders)


_DENIED_MESSAGE = re.compile(
    r"read-only file ?system|permission denied|operation not permitted|device or resource busy|EROFS|EACCES"
    r"|is not writable|not writeable|cannot be written|unable to create temporary",
    re.IGNORECASE,
)


_READ_ONLY = re.compile(r"read-only file ?system|EROFS", re.IGNORECASE)


_QUOTED_NAME = re.compile(r"[‘'\"`]([^‘’'\"`\n]{1,1000})[’'\"`]")


_BARE_PATH = re.compile(r"(?:^|[\s:=(,])(/[^\s:'\"`,;()]{1,1000})")


_NAME_BEFORE_REASON = re.compile(
    r"(?:^|: |\b(?:create|open|file) )([^\s:'\"`‘’]{1,500}): (?:read-only file system|permission denied)", re.IGNORECASE
)


_BUSY = re.compile("Device or resource busy|EBUSY")
_NAME_BEFORE_BUSY = re.compile(r"([^\s:'\"`‘’]{1,500}): Device or resource busy")


_SHELL_PREFIX = re.compile(r"^/[^\s:]{1,500}: (?:line )?\d{1,9}: ")
"""What a shell that was started by its path puts before its complaints: `/usr/bin/bash: line 1: `."""


_MISSING = re.compile(
    r"no such file or directory|permission denied|read-only file ?system|ENOENT|EACCES|EROFS|does not exist|not found"
    r"|cannot access",
    re.IGNORECASE,
)


_MISSED = re.compile(
    r"(?:^|[: ])([^\s:'\"`‘’]{1,500}): (?:no such file or directory|permission denied|read-only file ?system)",
    re.IGNORECASE,
)


_MAX_LINES = 60
_SETTINGS_KEPT = re.compile(r"could not (?:lock|write) config file")
_BRANCH_KEPT = re.compile(r"(?m)^(warning: Update|fatal: [Bb]ranch is renamed, but update) of config-file failed$")
_NO_PROCESS = re.compile(r"\bkill: .{1,60}No such process|: no process found")
_UNSEEN_PROCESSES = (
    "a command in the sandbox sees the processes that it started itself, and no others: `process` stops one that was "
    "started with `background`, and what other commands left ends with the session"
)
_BRANCH_DONE = "that is done, but for the branch's section in git's settings, which are kept in the sandbox; go on"
_HOW_TO_MOVE = "the person can in their own terminal; the rest may be done, so look (`git status`) before you go on"
_HOW_TO_CHANGE_SETTINGS = (
    "git's settings are kept in the sandbox: `git config`, `git remote`, `git submodule add` and `update --init`, and "
    "`git branch -u`, as a command of their own and for this repository, ask the person and then work"
)


def find_unwritable_path(output: str, layout: AccessLayout, cwd: str, home: str, refused: Callable[[str], str]) -> str:
    """Return the path outside of what is writable that a refused write was for: in the home its project, else its
    nearest folder if it does not exist.

    Empty when the output names only paths that are `refused` whatever a person says, or when the file could not be
    written without the sandbox either. The last refusal counts: it is what the command ended with.
    """
    denied = (path for path, _ in _find_denied_paths(output, layout, cwd))
    found = (one for path in denied for one in (find_project_folder(path, home), path))
    outside = (path for path in found if layout.access_of(path) is not PathAccess.WRITE)
    return next((path for path in outside if os.access(path, os.W_OK) and not refused(path)), "")


def explain_closed_path(output: str, layout: AccessLayout, cwd: str, policy: SandboxPolicy, *, failed: bool) -> str:
    """Explain why the path of a refused write is opened to nobody; empty when the output names no such path. A command
    that has not `failed` may have gone on without what it could not write.
    """
    for path in _find_kept_files(output, layout, cwd):
        if why := _explain_kept_file(path, layout, policy):
            kept = f"the sandbox keeps {path} from being written, moved or deleted, also with a folder around it"
            return f"{kept}: {why}; do not try again with a command: {_HOW_TO_MOVE}"
    for path, read_only in _find_denied_paths(output, layout, cwd) if failed else ():
        if read_only and (why := explain_grant_refusal(path, policy)):
            by_settings = "no answer opens it, only terminal.sandbox.writable in the settings does"
            never = by_settings if _is_open_to_settings(path, policy) else "never opens it"
            return f"the sandbox keeps {path} from being written and {never}: {why}; do not try again"
    return ""


def _explain_kept_file(path: str, layout: AccessLayout, policy: SandboxPolicy) -> str:
    """Return why a file is kept; empty where it is not one that is kept in a folder which commands may write.

    A command that broke off in the middle may have deleted what the file was obeyed for, such as the rest of a
    repository's work tree: the layout that it ran in knows better than the disk.
    """
    why = explain_grant_refusal(path, policy) or later_refusal(path, policy.places)
    is_in_writable = layout.access_of(os.path.dirname(path)) is PathAccess.WRITE
    return why or (OBEYED_REASON if is_in_writable else "")


def _is_open_to_settings(path: str, policy: SandboxPolicy) -> bool:
    """Return whether a folder is kept only for its size: nothing of the system, of Hermes or of a home is in it, so a
    person may well name it in the settings.
    """
    precious = (*policy.homes, policy.places.home, *find_hidden_paths(policy), *policy.code, *_SOCKET_FOLDERS)
    return not any(is_or_below(one, path) or is_or_below(path, one) for one in (*precious, *_KERNEL_FOLDERS)) and not (
        write_refusal(path, policy.places)
    )


def explain_unseen_processes(output: str) -> str:
    """Explain which processes a command sees; empty when the output does not say that it missed one."""
    return _UNSEEN_PROCESSES if _NO_PROCESS.search(output) else ""


def explain_kept_settings(output: str) -> str:
    """Explain that git's settings are kept in the sandbox; empty when the output does not say that git wanted them."""
    if not _SETTINGS_KEPT.search(output):
        return ""
    return _BRANCH_DONE if _BRANCH_KEPT.search(output) else _HOW_TO_CHANGE_SETTINGS


def hidden_path(output: str, layout: AccessLayout, cwd: str, homes: Sequence[str]) -> str:
    """The path in a home of which a failed command's output says that it is not there, and which commands cannot see.

    Empty when the output tells of none but start files, which many programs miss without harm. Whether there is such a
    file is not looked at.
    """
    for line in reversed(output.splitlines()[-_MAX_LINES:]):
        if _MISSING.search(line) is None:
            continue
        for name in (*_QUOTED_NAME.findall(line), *_MISSED.findall(line), *_BARE_PATH.findall(line)):
            path = os.path.normpath(os.path.join(cwd, name.replace("\0", "")))
            inside = any(path.startswith(f"{one}/") for one in homes)
            if inside and not os.path.basename(path).startswith(".") and layout.access_of(path) is PathAccess.HIDDEN:
                return path
    return ""


def find_unseen_path(
    output: str, layout: AccessLayout, cwd: str, homes: Sequence[str], refused: Callable[[str], str]
) -> str:
    """Return the folder that commands do not see and in which a failed command missed something; of what lies in a home
    itself only the file. Empty for what programs keep in a home, and for what is `refused` whatever a person says.
    """
    path = hidden_path(output, layout, cwd, homes)
    home = next((one for one in homes if path.startswith(f"{one}/")), "")
    if not path or os.path.realpath(path) != path or "/." in path.removeprefix(home):
        return ""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    found = (find_project_folder(folder, home), folder, path)
    return next((one for one in found if os.path.exists(one) and not refused(one)), "")


def _find_kept_files(output: str, layout: AccessLayout, cwd: str) -> Iterator[str]:
    """Yield what is kept of what a command could not replace, move or delete: the kernel calls that busy, and programs
    name it, a folder around it, or a new file beside it.
    """
    kept = [one for one, access in layout.access_by_path.items() if access is PathAccess.READ]
    for line in filter(_BUSY.search, output.splitlines()[-_MAX_LINES:]):
        for name in (*_QUOTED_NAME.findall(line), *_NAME_BEFORE_BUSY.findall(line)):
            path = os.path.realpath(os.path.join(cwd, name.replace("\0", "")))
            yield from (one for one in kept if is_or_below(one, path))
            folder = path if os.path.isdir(path) else os.path.dirname(path)
            yield from (one for one in kept if os.path.dirname(one) == folder)


def _find_denied_paths(output: str, layout: AccessLayout, cwd: str) -> Iterator[tuple[str, bool]]:
    """Yield the read-only paths that refusals name, the last first, and whether they say that this is the reason."""
    for path, is_read_only in find_refused_paths(output, cwd):
        access = layout.access_of(path)
        # What is hidden cannot be written either: a new file in a folder of which commands see the name alone.
        if access is PathAccess.READ or (access is PathAccess.HIDDEN and is_read_only):
            yield path, is_read_only


def find_refused_paths(output: str, cwd: str) -> Iterator[tuple[str, bool]]:
    """Yield the paths that refusals name, or what of them exists, the last first, and whether they say that something
    is read-only. Where that is all they say, it is the folder in which the command ran.
    """
    for line in reversed(output.splitlines()[-_MAX_LINES:]):
        if _DENIED_MESSAGE.search(line) is None:
            continue
        said, is_read_only = _SHELL_PREFIX.sub("", line), _READ_ONLY.search(line) is not None
        names = [*_QUOTED_NAME.findall(said), *_NAME_BEFORE_REASON.findall(said), *_BARE_PATH.findall(said)]
        for name in names or [""] * is_read_only:
            path = os.path.realpath(os.path.join(cwd, name.replace("\0", "")))
            while not os.path.lexists(path):
                path = os.path.dirname(path)
            yield path, is_read_only
