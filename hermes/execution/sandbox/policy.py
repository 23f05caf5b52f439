"""The policy of a sandbox, what its commands may reach, how that maps to this machine's folders, and what a command was
kept from writing, judged by what it printed.
"""

import contextlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.execution.base import NetworkMode
from hermes.safety.home_places import TOOL_CHAINS
from hermes.safety.layout import AccessLayout, PathAccess
from hermes.safety.paths import (
    Places,
    has_start_files_below,
    is_or_below,
    is_root_like,
    is_ssh_public,
    list_readable_paths,
    list_secret_paths,
    write_refusal,
)

_SOCKET_FOLDERS = ("/run", "/var/run")
"""The folders where services of the machine listen: sockets that are as good as a way out."""
_NEEDED_PATHS = (
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/resolvconf/resolv.conf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/opengl-driver",
)
"""The paths in those folders that programs read."""
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
_TOOL_VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOROOT", "NVM_DIR", "PYENV_ROOT", "RUSTUP_HOME")
"""Variables by which a person says where a tool chain lies."""
_HOMES = ("/home", "/Users")
_NO_HOMES = ("/home/linuxbrew", "/Users/Shared")
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
    readable: tuple[str, ...] = ()
    private: tuple[str, ...] = ("/tmp", "/var/tmp")  # noqa: S108 - a session has its own
    code: tuple[str, ...] = ()
    network: NetworkMode = NetworkMode.ALLOWLIST
    hosts: tuple[str, ...] = ()


def build_layout(policy: SandboxPolicy, granted: Iterable[str] = ()) -> AccessLayout:
    """Return where on this machine the policy's paths lie now.

    What is writable must be named by its real path: a command may have put a link where another command's folder was.
    """
    kinds = _fixed_access(policy)
    places = policy.places
    for root in (places.workspace, *policy.writable, *granted):
        if root in _existing_paths([root]):
            kinds.update(dict.fromkeys(_writable_parts(root, places), PathAccess.WRITE))
    layout = AccessLayout(access_by_path=kinds)
    sockets = [
        one
        for one in _find_sockets()
        if layout.access_of(one) is PathAccess.READ and not _is_below_any(one, _KERNEL_FOLDERS)
    ]
    kinds.update(dict.fromkeys(sockets, PathAccess.HIDDEN))
    layout = _simplify_layout(layout, policy.code)
    return msgspec.structs.replace(layout, links=tuple(_links_of(policy.readable, layout)))


def _simplify_layout(layout: AccessLayout, code: Iterable[str]) -> AccessLayout:
    """Return the same layout without redundant entries."""
    covered = tuple(one for one in layout.access_by_path if _is_covered(one, layout))
    for path in [one for one in layout.access_by_path if not _is_needed_entry(one, layout)]:
        del layout.access_by_path[path]
    inside = tuple(
        one for one in map(os.path.realpath, code) if one in layout.access_by_path and _is_in_writable(one, layout)
    )
    return AccessLayout(access_by_path=layout.access_by_path, pinned=_find_pinned(layout), code=inside, covered=covered)


def _fixed_access(policy: SandboxPolicy) -> dict[str, PathAccess]:
    """Return the access to everything that is not writable."""
    opened = (*_NEEDED_PATHS, *list_readable_paths(policy.places), *_find_ssh_public_files(policy.places), *policy.code)
    hidden = find_hidden_paths(policy)
    homes = list(_existing_paths(policy.homes))
    chains = [
        one for one in _existing_paths(policy.readable) if _is_below_any(one, homes) and not _is_below_any(one, hidden)
    ]
    return {
        **dict.fromkeys(_existing_paths(policy.private), PathAccess.PRIVATE),
        **dict.fromkeys((*homes, *_find_other_mounts(homes)), PathAccess.HIDDEN),
        **dict.fromkeys((one for one in chains if one not in homes), PathAccess.READ),
        **dict.fromkeys((*hidden, *_existing_paths(_SOCKET_FOLDERS)), PathAccess.HIDDEN),
        **dict.fromkeys(_existing_paths(opened), PathAccess.READ),
    }


def _links_of(paths: Iterable[str], layout: AccessLayout) -> Iterator[tuple[str, str]]:
    """The paths that are, or lie behind, links which hidden folders hide, with where they lead."""
    found: list[str] = []
    for path in sorted(set(paths)):
        real = os.path.realpath(path)
        leads = (
            real != path and layout.access_of(path) is PathAccess.HIDDEN and layout.access_of(real) is PathAccess.READ
        )
        if leads and os.path.exists(real) and not _is_below_any(path, found):
            found.append(path)
            yield path, real


def add_fixed_paths(layout: AccessLayout, fixed: Iterable[str]) -> AccessLayout:
    """Return the layout with what is read-only inside what is writable."""
    read_only = {
        one: PathAccess.READ
        for one in fixed
        if layout.access_of(one) is PathAccess.WRITE and one in _existing_paths([one])
    }
    made = msgspec.structs.replace(layout, access_by_path={**layout.access_by_path, **read_only})
    return msgspec.structs.replace(made, pinned=_find_pinned(made))


def find_fixed_paths(layout: AccessLayout, git_dirs: Iterable[str], settings: Iterable[str]) -> tuple[str, ...]:
    """Return what programs run or obey without being asked, inside what is writable. `git_dirs` are
    repositories there, `settings` files of other programs.

    Call it while no command runs: one could put a link in the place of what was found.
    """
    found = [*settings]
    for folder in git_dirs:
        found += [f"{folder}/{name}" for name in ("hooks", "config", "config.worktree", "info/attributes", "commondir")]
        found += _find_configured_hooks(folder)
    return tuple(one for one in _existing_paths(found) if layout.access_of(one) is PathAccess.WRITE)


def find_hidden_paths(policy: SandboxPolicy) -> list[str]:
    """Return the existing folders and files that commands may not read, wherever else they are mounted too."""
    found = list(_existing_paths((*list_secret_paths(policy.places), *policy.unreadable)))
    return list(dict.fromkeys([*found, *_find_other_mounts(found)]))


def hidden_homes(places: Places, writable: Iterable[str]) -> tuple[str, ...]:
    """The homes of this machine that hold nothing for commands: the person's and others'.

    Not one which lies in what commands may write: somebody works in it.
    """
    found = [places.home, *(one for one in ("/root",) if os.access(one, os.X_OK))]
    for folder in _HOMES:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            # What nobody may enter needs no hiding.
            found += [one.path for one in entries if one.path not in _NO_HOMES and os.access(one.path, os.X_OK)]
    roots = (places.workspace, *writable)
    real = dict.fromkeys(map(os.path.realpath, found))
    return tuple(one for one in real if not any(is_or_below(one, root) for root in roots))


def readable_tools(home: str, homes: Iterable[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """What commands may read in hidden homes: the tool chains of the person's, and what their variables lead to."""
    named = [*environ.get("PATH", "").split(os.pathsep), *(environ.get(one, "") for one in _TOOL_VARIABLES)]
    named = [os.path.normpath(one) for one in named if os.path.isabs(one)]
    elsewhere = (f"{other}/{chain}" for other in homes for chain in TOOL_CHAINS)
    used = (chain for chain in elsewhere if any(is_or_below(one, chain) for one in named))
    return tuple(dict.fromkeys([*(f"{home}/{one}" for one in TOOL_CHAINS), *used, *named]))


def explain_grant_refusal(path: str, policy: SandboxPolicy) -> str:
    """Explain why `path` (resolved) cannot be made writable, whatever a person says; empty when it can."""
    places = policy.places
    if is_root_like(path, places):
        return "too much would be lost with it"
    if any(is_or_below(path, one) or is_or_below(one, path) for one in (*find_hidden_paths(policy), *policy.code)):
        return "keys, or Hermes' own, are in it"
    if any(is_or_below(path, one) for one in (*_SOCKET_FOLDERS, *_KERNEL_FOLDERS)):
        return "it belongs to the system"
    return write_refusal(path, places) or (
        "start files of programs are in it" if has_start_files_below(path, places) else ""
    )


def find_code_paths(package: str) -> tuple[str, ...]:
    """Return where the code lies that runs outside of the sandbox: this interpreter's and Hermes' own."""
    found = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)), package}
    found -= {"/", "/usr", "/usr/local"}
    return tuple(sorted(os.path.realpath(one) for one in found))


def _existing_paths(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        real = os.path.realpath(path)
        if os.path.lexists(real) and (path not in _SOCKET_FOLDERS or real == path):
            yield real


def _find_ssh_public_files(places: Places) -> list[str]:
    folder = f"{places.home}/.ssh"
    with contextlib.suppress(OSError):
        return [one for name in os.listdir(folder) if is_ssh_public(one := f"{folder}/{name}") and _is_plain_file(one)]
    return []


def _is_plain_file(path: str) -> bool:
    return stat.S_ISREG(os.lstat(path).st_mode)


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


def _find_configured_hooks(git_dir: str) -> list[str]:
    """Return the folder of hooks that a repository's configuration names, where that lies in its work tree."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = Path(git_dir, "config").read_text("utf-8")[:65_536]
        named = re.findall(r"(?im)^\s*hookspath\s*=\s*\"?([^\"\n]+)", text)
        return [os.path.normpath(os.path.join(os.path.dirname(git_dir), one.strip())) for one in named]
    return []


def _find_sockets() -> list[str]:
    """Return the paths of running programs' sockets: connecting to one is no writing, so
    read-only does not prevent it.
    """
    found: list[str] = []
    with contextlib.suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            path = line.rstrip("\n").split(" ", 7)[-1].lstrip("0123456789 ")
            if path.startswith("/") and os.path.realpath(path) == path and _is_socket(path):
                found.append(path)
    return found


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


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
    if _is_covered(path, layout):
        return False
    above = layout.access_of(os.path.dirname(path)) if path != "/" else PathAccess.READ
    access = layout.access_by_path[path]
    return access is not above or access in (PathAccess.PRIVATE, PathAccess.WRITE)


def _is_covered(path: str, layout: AccessLayout) -> bool:
    """Return whether a private folder stands in front of what is hidden, so that it is not there at all."""
    above = layout.access_of(os.path.dirname(path)) if path != "/" else PathAccess.READ
    return layout.access_by_path[path] is PathAccess.HIDDEN and above is PathAccess.PRIVATE


def _is_in_writable(path: str, layout: AccessLayout) -> bool:
    return layout.access_of(os.path.dirname(path)) is PathAccess.WRITE


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
    r"(?:^|: )([^\s:'\"`‘’]{1,500}): (?:read-only file system|permission denied)", re.IGNORECASE
)


_MISSING = re.compile(
    r"no such file or directory|permission denied|read-only file ?system|ENOENT|EACCES|EROFS|does not exist|not found"
    r"|cannot access",
    re.IGNORECASE,
)


_MISSED = re.compile(
    r"(?:^|[: ])([^\s:'\"`‘’]{1,500}): (?:no such file or directory|permission denied|read-only file ?system)",
    re.IGNORECASE,
)


_GIT_UNWRITABLE = re.compile(r"unable to create temporary (?:object directory|file)")


_GIT_PUSH_FAILED = re.compile(r"failed to push some refs to '(?:file://)?([^'\n]{1,1000})'")


_MAX_LINES = 60


def find_denied_path(output: str, layout: AccessLayout, cwd: str, refused: Callable[[str], str]) -> str:
    """Return the path outside of what is writable that a refused write was for; its nearest folder if it does not
    exist.

    Empty when the output names only paths that are `refused` whatever a person says, or when the file could not be
    written without the sandbox either. The last refusal counts: it is what the command ended with.
    """
    found = (
        path for path, _ in _find_denied_paths(output, layout, cwd) if os.access(path, os.W_OK) and not refused(path)
    )
    return next(found, "")


def explain_closed_path(output: str, layout: AccessLayout, cwd: str, refused: Callable[[str], str]) -> str:
    """Explain why the path of a refused write is opened to nobody; empty when the output names no such path."""
    for path, read_only in _find_denied_paths(output, layout, cwd):
        if read_only and (why := refused(path)):
            return f"the sandbox keeps {path} from being written and never opens it: {why}; do not try again"
    return ""


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


def _find_denied_paths(output: str, layout: AccessLayout, cwd: str) -> Iterator[tuple[str, bool]]:
    """Yield the read-only paths that refusals name, the last first, and whether they say that this is the reason."""
    if _GIT_UNWRITABLE.search(output) and (pushed := _GIT_PUSH_FAILED.findall(output)):
        output += f"\n{pushed[-1]!r}: permission denied"  # git names the other repository in another line
    for line in reversed(output.splitlines()[-_MAX_LINES:]):
        if _DENIED_MESSAGE.search(line) is None:
            continue
        for name in (*_QUOTED_NAME.findall(line), *_NAME_BEFORE_REASON.findall(line), *_BARE_PATH.findall(line)):
            path = os.path.realpath(os.path.join(cwd, name.replace("\0", "")))
            while not os.path.lexists(path):
                path = os.path.dirname(path)
            if layout.access_of(path) is PathAccess.READ:
                yield path, _READ_ONLY.search(line) is not None
