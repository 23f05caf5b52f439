"""The box that a folder plug-in runs in: what its process sees of this machine, and the limits that it runs under.

The kernel holds it, by bubblewrap or else by Landlock. Nothing is there but what is named here: programs of the system,
Hermes' interpreter without its packages, the plug-in's own files, read-only, and a folder for its data. Keys, the home,
other plug-ins, other programs and the network are not hidden, they are absent.
"""

import contextlib
import os
import resource
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.layout import AccessLayout, PathAccess
from hermes.execution.line_program import FIRST_HANDLE
from hermes.execution.sandbox import seccomp
from hermes.execution.sandbox.bubblewrap import read_relay_program
from hermes.execution.sandbox.landlock import (
    CHANGE_RIGHTS,
    DEVICE_RIGHTS,
    LANDLOCK_SCOPES,
    READ_RIGHTS,
    TCP_RIGHTS,
    build_confined_call,
    handled_rights,
    replace_content,
)
from hermes.execution.sandbox.network import PROXY_PORT
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxSupport
from hermes.execution.sandbox.tmpdir import create_memory_file
from hermes.i18n.messages import N_
from hermes.plugin_host.manifest import PluginManifest, WorkspaceAccess
from hermes.safety.paths import Places, holds_home, is_or_below, is_root_like, list_secret_paths

AUTHOR_FOLDER = Path(__file__).with_name("author")
"""Holds the module `hermes_plugin`, which plug-ins written in Python can import."""
_SYSTEM_PATHS = str.split("""
    /usr/bin /usr/sbin /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/share /usr/local/bin /usr/local/sbin
    /usr/local/lib /usr/local/lib64 /usr/local/libexec /usr/local/share /bin /sbin /lib /lib32 /lib64 /nix/store
    /etc/ld.so.cache /etc/alternatives /etc/localtime /etc/ssl/certs
    /etc/ssl/openssl.cnf /etc/pki/tls/certs /etc/pki/ca-trust/extracted /etc/ca-certificates/extracted
""")
"""What programs of the system need, and no key lies in."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PATH = "/usr/local/bin:/usr/bin:/bin"
_MAX_FILE_BYTES = 64 * 1024 * 1024
_MAX_OPEN_FILES = 128
_MAX_THREADS = 64
_CPU_SECONDS = 300
"""Seconds of processor time after which a process is ended; a plug-in that has done nothing wrong is started again."""
_MAX_SECRETS = 64
_SIGNAL_VERSION = 6
"""The version of Landlock that keeps signals inside."""
_START_PYTHON = (
    "import sys, runpy; sys.path[:0] = sys.argv[1:3]; del sys.argv[:3]; runpy.run_path(sys.argv[0], None, '__main__')"
)


class BoxPlan(Struct, frozen=True, kw_only=True):
    """What a box is made for: a plug-in's manifest, its files, its data, and the workspace where it may see one.

    `variables` are those that the manifest names, as the person has them.
    """

    manifest: PluginManifest
    files: str
    data: str
    workspace: str = ""
    layout: AccessLayout | None = None
    """How the workspace appears where it may be written; None: it is only read."""
    places: Places | None = None
    variables: Mapping[str, str] = {}


class BoxedCall(Struct, frozen=True):
    """The call that makes the box and runs the plug-in in it. `handles` are what it is given, in this order."""

    arguments: tuple[str, ...]
    handles: tuple[int, ...]


def explain_missing_box(manifest: PluginManifest, support: SandboxSupport) -> str:
    """Return why a plug-in cannot be confined here, as the end of a sentence; empty where it can."""
    if support.mechanism not in (SandboxMechanism.BUBBLEWRAP, SandboxMechanism.LANDLOCK) or not support.is_usable:
        return N_("there is no sandbox that holds it: {reason}", reason=support.reason)
    wants = manifest.capabilities
    is_bubblewrap = support.mechanism is SandboxMechanism.BUBBLEWRAP
    gaps = (
        (not seccomp.has_filter(), N_("no system call filter is known for this machine")),
        (
            not is_bubblewrap and support.abi < _SIGNAL_VERSION,
            N_("Landlock of this kernel does not keep signals inside; bubblewrap would"),
        ),
        (
            wants.workspace is WorkspaceAccess.WRITE and not is_bubblewrap,
            N_("it wants to write the workspace, and only bubblewrap can keep what programs obey in it"),
        ),
        (
            bool(manifest.hosts) and not (is_bubblewrap and support.hosts),
            N_("it wants hosts, and only bubblewrap can let single hosts through"),
        ),
        (
            bool(wants.processes) and not (is_bubblewrap and os.geteuid()),
            N_("it wants processes, and only bubblewrap under an ordinary user can count them"),
        ),
    )
    return next((reason for is_there, reason in gaps if is_there), "")


@contextlib.contextmanager
def make_boxed_call(
    plan: BoxPlan, support: SandboxSupport, proxy_end: socket.socket | None = None
) -> Iterator[BoxedCall]:
    """Yield the call; its handles are open until the end of the block. `proxy_end` leads to the proxy of its hosts.

    Raises ToolError where the plug-in cannot be confined, and OSError.
    """
    why = explain_missing_box(plan.manifest, support)
    if why:
        raise ToolError(why)
    with contextlib.ExitStack() as undo:
        order = create_memory_file("order")
        undo.callback(os.close, order)
        if support.mechanism is SandboxMechanism.LANDLOCK:
            arguments = _build_order(plan, order, FIRST_HANDLE, _list_landlock_rules(plan, support.abi), support.abi)
            yield BoxedCall(arguments, (order,))
            return
        options = create_memory_file("options")
        undo.callback(os.close, options)
        inner = _build_order(plan, order, FIRST_HANDLE + 1, None, 0)
        relay: tuple[str, ...] = ()
        handles = [options, order]
        if proxy_end is not None:
            handles.append(proxy_end.fileno())
            program = ("-I", "-S", "-c", read_relay_program(), str(PROXY_PORT), str(FIRST_HANDLE + 2))
            relay = (_find_python(), *program)
        replace_content(options, os.fsencode("\0".join((*_list_mounts(plan), ""))))
        yield BoxedCall((support.program, "--args", str(FIRST_HANDLE), "--", *relay, *inner), tuple(handles))


def _build_order(
    plan: BoxPlan, order: int, found_at: int, rules: list[tuple[bytes, int]] | None, abi: int
) -> tuple[str, ...]:
    """Return the call of the program that gives up rights and becomes the plug-in; without `rules` mounts hold it."""
    chosen = plan.manifest.capabilities
    counted = [(resource.RLIMIT_NPROC, chosen.processes + _MAX_THREADS)] if chosen.processes else []
    request: dict[str, object] = {
        "fs": handled_rights(abi) if rules is not None else 0,
        "net": TCP_RIGHTS if rules is not None and abi >= 4 else 0,
        "scoped": LANDLOCK_SCOPES if rules is not None else 0,
        "rules": rules or [],
        "filter": seccomp.build_filter(
            unix=False,
            datagrams=False,
            sockets=bool(plan.manifest.hosts),
            processes=bool(chosen.processes),
            outward=rules is None,
        ),
        "limits": [
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_AS, chosen.memory << 20),
            (resource.RLIMIT_CPU, _CPU_SECONDS),
            (resource.RLIMIT_FSIZE, _MAX_FILE_BYTES),
            (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES),
            (resource.RLIMIT_MEMLOCK, 0),
            *counted,
        ],
        "capabilities": True,
    }
    call = build_confined_call(order, found_at, request, _find_program(plan), _list_variables(plan))
    return (_find_python(), *call[1:])


def _find_program(plan: BoxPlan) -> tuple[str, ...]:
    """Return the call of the plug-in as it is inside. Raises ToolError for a program that is not there."""
    first, *rest = plan.manifest.run
    if first == "python":
        if not rest:
            raise ToolError(N_("its `run` names no file for Python"))
        start = ("-I", "-S", "-u", "-c", _START_PYTHON, str(AUTHOR_FOLDER), plan.files)
        return (_find_python(), *start, *rest)
    if "/" in first:
        return (os.path.normpath(os.path.join(plan.files, first)), *rest)
    for folder in _PATH.split(":"):
        if os.access(found := os.path.join(folder, first), os.X_OK):
            return (found, *rest)
    raise ToolError(N_("there is no program {name} in {PATH}", name=first[:80], PATH=_PATH))


def _find_python() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)


def _list_variables(plan: BoxPlan) -> dict[str, str]:
    proxy = f"http://127.0.0.1:{PROXY_PORT}"
    names = (f"{kind}_proxy" for kind in ("http", "https", "all")) if plan.manifest.hosts else ()
    return {
        **plan.variables,
        **{form: proxy for name in names for form in (name, name.upper())},
        "PATH": _PATH,
        "HOME": plan.data,
        "TMPDIR": plan.data,
        "LANG": "C.UTF-8",
        "MALLOC_ARENA_MAX": "1",  # each further one of a thread's takes address space, of which there is a limit
        "PYTHONDONTWRITEBYTECODE": "1",
        "HERMES_PLUGIN": plan.manifest.name,
        "HERMES_PLUGIN_DATA": plan.data,
    }


def _list_shown(plan: BoxPlan) -> list[str]:
    """Return what is read of this machine. Raises ToolError where the interpreter cannot be shown alone."""
    code = Path(__file__).parents[1]
    shown = [one for one in _SYSTEM_PATHS if os.path.lexists(one)]
    shown += [*_list_interpreter_paths(), str(code / "execution/sandbox"), str(AUTHOR_FOLDER)]
    homes = (os.path.realpath(os.path.expanduser("~")), plan.data)
    for one in shown:
        if any(is_or_below(home, os.path.realpath(one)) for home in homes):
            raise ToolError(N_("{folder}, which programs need, holds a home", folder=one))
    return [one for one in dict.fromkeys(shown) if not any(one != top and is_or_below(one, top) for top in shown)]


def _list_interpreter_paths() -> tuple[str, ...]:
    """Return where the interpreter and its library lie: its folder as a whole, unless that is one of the system's."""
    base = os.path.realpath(sys.base_prefix)
    return () if base in ("/usr", "/usr/local") else (base,)


def _check_workspace(plan: BoxPlan) -> tuple[str, ...]:
    """Return what of the workspace must stay unseen. Raises ToolError for a workspace that is not shown at all."""
    places = plan.places
    if places is None or not plan.workspace:
        raise ToolError(N_("it wants to see the workspace, and there is none"))
    if is_root_like(plan.workspace, places) or holds_home(plan.workspace, places):
        raise ToolError(N_("it wants to see the workspace, which is a home or holds one"))
    if is_or_below(plan.workspace, places.hermes):
        raise ToolError(N_("it wants to see the workspace, which lies in Hermes' own folder"))
    found = [one for one in list_secret_paths(places) if is_or_below(one, plan.workspace) and os.path.lexists(one)]
    if len(found) > _MAX_SECRETS or any(is_or_below(plan.workspace, one) for one in list_secret_paths(places)):
        raise ToolError(N_("it wants to see the workspace, where keys are"))
    return tuple(found)


def _list_mounts(plan: BoxPlan) -> list[str]:
    """Return the options of bubblewrap: an empty root, what is shown, and nothing that can be written but the data."""
    namespaces = "--unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net --cap-drop ALL"
    options = [*namespaces.split(), "--die-with-parent", "--new-session", "--clearenv"]
    if os.geteuid():
        options.append("--unshare-user")
    options += ["--proc", "/proc", "--dev", "/dev"]
    for path in _list_shown(plan):
        if os.path.islink(path) and os.path.dirname(path) == "/":
            options += ["--symlink", os.readlink(path), path]
        else:
            options += ["--ro-bind", os.path.realpath(path), path]
    options += ["--ro-bind", plan.files, plan.files]
    if plan.manifest.capabilities.workspace is not WorkspaceAccess.NONE:
        unseen = _check_workspace(plan)
        options += _list_workspace_mounts(plan)
        for path in unseen:
            is_folder = os.path.isdir(path)
            options += ["--tmpfs", path, "--remount-ro", path] if is_folder else ["--ro-bind", "/dev/null", path]
    options += ["--bind", plan.data, plan.data, "--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"]
    options += ["--chdir", plan.files]
    if any("\0" in one for one in options):
        raise ToolError("a name holds a null character")
    return options


def _list_workspace_mounts(plan: BoxPlan) -> list[str]:
    """Return the mounts of the workspace: where it may be written, what is fixed in it stays, and cannot be moved."""
    layout = plan.layout
    if layout is None:
        return ["--ro-bind", plan.workspace, plan.workspace]
    options: list[str] = []
    for path in sorted({*layout.access_by_path, *layout.pinned}, key=lambda one: one.split("/")):
        is_read = layout.access_by_path.get(path) is PathAccess.READ
        options += ["--ro-bind" if is_read else "--bind", path, path]
    return options


def _list_landlock_rules(plan: BoxPlan, abi: int) -> list[tuple[bytes, int]]:
    """Return what Landlock leaves: the same as the mounts of bubblewrap."""
    rules = [(path, READ_RIGHTS) for path in (*_list_shown(plan), plan.files)]
    if plan.manifest.capabilities.workspace is not WorkspaceAccess.NONE:
        if _check_workspace(plan):
            raise ToolError(N_("it wants to see the workspace, where keys are, and only bubblewrap can hide them"))
        rules.append((plan.workspace, READ_RIGHTS))
    rules += [(path, READ_RIGHTS | 1 << 1) for path in _DEVICES]
    rules.append((plan.data, (READ_RIGHTS | CHANGE_RIGHTS | 1 << 13 | 1 << 14) & ~DEVICE_RIGHTS))
    handled = handled_rights(abi)
    return [(os.fsencode(os.path.realpath(path)), rights & handled) for path, rights in rules]
