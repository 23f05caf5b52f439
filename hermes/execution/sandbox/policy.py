"""What a sandboxed command may reach, and how that lies in this machine's folders."""

import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.execution.base import Network
from hermes.safety.paths import (
    holds_starts,
    is_or_below,
    is_root_like,
    is_ssh_public,
    open_places,
    secret_places,
    write_refused,
)
from hermes.safety.places import Places

_DOORS = ("/run", "/var/run")
"""Where services of the machine listen: sockets that are as good as a way out."""
_NEEDED = (
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/resolvconf/resolv.conf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/opengl-driver",
)
"""What programs read in there."""
_EXPOSED = ("/proc", "/sys", "/dev")
PROJECT_FILES = (
    ".envrc",
    ".husky",
    *(f"{tool}/{name}.json" for tool in (".vscode", ".idea", ".zed") for name in ("tasks", "launch", "settings")),
    ".mcp.json",
    ".cursor/mcp.json",
    *(f".claude/{name}.json" for name in ("settings", "settings.local")),
)
"""What editors and other tools obey in the folder that they are opened in."""
_MOST_PARTS = 2_000
"""Entries of a home that are made writable one by one."""


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """What commands of a session may reach.

    The workspace in `places` is writable, `writable` too; what `unreadable` adds to the keys and Hermes' own folder
    cannot be read. `private` are folders for temporary files of which a session has its own. `code` is what runs
    outside of the sandbox, so that nothing in it may be changed. `hosts` are patterns: a name, `*.name`, with `:port`
    for one other than 80 and 443.
    """

    places: Places
    writable: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    private: tuple[str, ...] = ("/tmp", "/var/tmp")  # noqa: S108 - a session has its own
    code: tuple[str, ...] = ()
    network: Network = Network.ALLOWLIST
    hosts: tuple[str, ...] = ()


class Kind(IntEnum):
    """How a path is seen in the sandbox."""

    HIDDEN = 0
    READ = 1
    WRITE = 2
    PRIVATE = 3


class Layout(Struct, frozen=True, kw_only=True):
    """Paths (absolute, resolved, existing) with how they and all below them are seen; the deepest that fits counts.

    What none of them covers can be read. `pinned` are folders that cannot be moved away: something in them is fixed.
    """

    kinds: dict[str, Kind]
    pinned: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    """What runs outside of the sandbox, where that lies in what is writable."""

    def kind(self, path: str) -> Kind:
        """How a path (absolute, resolved) is seen."""
        while path not in self.kinds and len(path) > 1:
            path = os.path.dirname(path)
        return self.kinds.get(path, Kind.READ)

    def of(self, kind: Kind) -> list[str]:
        """The paths of that kind, parents first."""
        return sorted(path for path, one in self.kinds.items() if one is kind)


def lay_out(policy: SandboxPolicy, granted: Iterable[str] = ()) -> Layout:
    """Where on this machine the policy's words lie now.

    What is writable must be named by its real path: a command may have put a link where another command's folder was.
    """
    kinds = _seen(policy)
    places = policy.places
    for root in (places.workspace, *policy.writable, *granted):
        if root in _existing([root]):
            kinds.update(dict.fromkeys(_parts(root, places), Kind.WRITE))
    layout = Layout(kinds=kinds)
    sockets = [one for one in _sockets() if layout.kind(one) is Kind.READ and not _below_any(one, _EXPOSED)]
    kinds.update(dict.fromkeys(sockets, Kind.HIDDEN))
    return _reduced(layout, policy.code)


def _reduced(layout: Layout, code: Iterable[str]) -> Layout:
    """The same without what says nothing new."""
    for path in [one for one in layout.kinds if not _visible(one, layout)]:
        del layout.kinds[path]
    inside = tuple(one for one in map(os.path.realpath, code) if one in layout.kinds and _in_writable(one, layout))
    return Layout(kinds=layout.kinds, pinned=_pinned(layout), code=inside)


def _seen(policy: SandboxPolicy) -> dict[str, Kind]:
    """How everything but what is writable is seen."""
    opened = (*_NEEDED, *open_places(policy.places), *_ssh_public(policy.places), *policy.code)
    return {
        **dict.fromkeys(_existing(policy.private), Kind.PRIVATE),
        **dict.fromkeys((*hidden_places(policy), *_existing(_DOORS)), Kind.HIDDEN),
        **dict.fromkeys(_existing(opened), Kind.READ),
    }


def with_fixed(layout: Layout, fixed: Iterable[str]) -> Layout:
    """The same with what is read-only inside what is writable."""
    held = {one: Kind.READ for one in fixed if layout.kind(one) is Kind.WRITE and one in _existing([one])}
    made = Layout(kinds={**layout.kinds, **held}, code=layout.code)
    return msgspec.structs.replace(made, pinned=_pinned(made))


def fixed_places(layout: Layout, git_dirs: Iterable[str]) -> tuple[str, ...]:
    """What programs run or obey without being asked to, inside what is writable. `git_dirs` are repositories there.

    To be asked while no command runs: one could put a link in the place of what was found.
    """
    found = [f"{root}/{name}" for root in layout.of(Kind.WRITE) for name in PROJECT_FILES]
    for folder in git_dirs:
        found += [f"{folder}/{name}" for name in ("hooks", "config", "config.worktree", "info/attributes", "commondir")]
        found += _named_hooks(folder)
    return tuple(one for one in _existing(found) if layout.kind(one) is Kind.WRITE)


def hidden_places(policy: SandboxPolicy) -> list[str]:
    """What exists of the folders and files that commands may not read, wherever else it is mounted too."""
    found = list(_existing((*secret_places(policy.places), *policy.unreadable)))
    return list(dict.fromkeys([*found, *_elsewhere(found)]))


def grant_refused(path: str, policy: SandboxPolicy) -> str:
    """Why `path` (resolved) cannot be made writable, whatever a person says; empty when it can."""
    places = policy.places
    if is_root_like(path, places):
        return "too much would be lost with it"
    if any(is_or_below(path, one) or is_or_below(one, path) for one in (*hidden_places(policy), *policy.code)):
        return "keys, or Hermes' own, are in it"
    if any(is_or_below(path, one) for one in (*_DOORS, *_EXPOSED)):
        return "it belongs to the system"
    return write_refused(path, places) or ("start files of programs are in it" if holds_starts(path, places) else "")


def code_places(package: str) -> tuple[str, ...]:
    """Where the code lies that runs outside of the sandbox: this interpreter's and Hermes' own."""
    found = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)), package}
    found -= {"/", "/usr", "/usr/local"}
    return tuple(sorted(os.path.realpath(one) for one in found))


def _existing(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        real = os.path.realpath(path)
        if os.path.lexists(real) and (path not in _DOORS or real == path):
            yield real


def _ssh_public(places: Places) -> list[str]:
    folder = f"{places.home}/.ssh"
    with contextlib.suppress(OSError):
        return [one for name in os.listdir(folder) if is_ssh_public(one := f"{folder}/{name}") and _plain(one)]
    return []


def _plain(path: str) -> bool:
    return stat.S_ISREG(os.lstat(path).st_mode)


def _parts(root: str, places: Places) -> list[str]:
    """`root`, or what may be written in it: of the home (and above it) only what is in folders without a dot.

    New entries of the home itself cannot be told apart by the kernel from start files of shells and desktops.
    """
    if not is_or_below(places.home, root):
        return [root]
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(places.home) as entries:
        for entry in entries:
            usable = not entry.name.startswith(".") and not entry.is_symlink() and not write_refused(entry.path, places)
            if usable and not is_or_below(places.hermes, entry.path):
                found.append(entry.path)
    return sorted(found)[:_MOST_PARTS]


def _named_hooks(git_dir: str) -> list[str]:
    """The folder of hooks that a repository's configuration names, where that lies in its work tree."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = Path(git_dir, "config").read_text("utf-8")[:65_536]
        named = re.findall(r"(?im)^\s*hookspath\s*=\s*\"?([^\"\n]+)", text)
        return [os.path.normpath(os.path.join(os.path.dirname(git_dir), one.strip())) for one in named]
    return []


def _sockets() -> list[str]:
    """Sockets of running programs, by their paths: connecting to one is no writing, so read-only does not hold it."""
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


def _elsewhere(paths: Iterable[str]) -> list[str]:
    """The same folders and files where they are mounted a second time (proc(5), mountinfo)."""
    mounts: list[tuple[str, str, str]] = []
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            fields = line.split(" ", 5)
            mounts.append((fields[2], _unescaped(fields[3]), _unescaped(fields[4])))
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


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def _visible(path: str, layout: Layout) -> bool:
    """Whether an entry says more than those above it."""
    above = layout.kind(os.path.dirname(path)) if path != "/" else Kind.READ
    kind = layout.kinds[path]
    if kind is Kind.HIDDEN and above is Kind.PRIVATE:
        return False  # not there at all
    return kind is not above or kind in (Kind.PRIVATE, Kind.WRITE)


def _in_writable(path: str, layout: Layout) -> bool:
    return layout.kind(os.path.dirname(path)) is Kind.WRITE


def _pinned(layout: Layout) -> tuple[str, ...]:
    """The folders on the way to something that is seen otherwise than the writable folder around it."""
    found: set[str] = set()
    for path in layout.kinds:
        while layout.kind(path := os.path.dirname(path)) is Kind.WRITE and path not in layout.kinds:
            found.add(path)
    return tuple(sorted(found))


def _below_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_or_below(path, one) for one in folders)
