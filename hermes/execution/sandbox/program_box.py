"""A box for a program of one purpose: it sees what is named here, and nothing else of this machine.

A command of a session works on the person's files, so its sandbox hides what it must not see. A program in a box has
an empty root instead: programs of the system, Hermes' interpreter without its packages, what the box names, and one
folder to write. Keys, homes, other programs and the network are not hidden, they are absent. The kernel holds it, by
bubblewrap or else by Landlock.
"""

import contextlib
import os
import resource
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import ToolError
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
from hermes.safety.paths import is_or_below

SYSTEM_PATHS = tuple(
    str.split("""
    /usr/bin /usr/sbin /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/share /usr/local/bin /usr/local/sbin
    /usr/local/lib /usr/local/lib64 /usr/local/libexec /usr/local/share /bin /sbin /lib /lib32 /lib64 /nix/store
    /etc/ld.so.cache /etc/alternatives /etc/localtime /etc/ssl/certs
    /etc/ssl/openssl.cnf /etc/pki/tls/certs /etc/pki/ca-trust/extracted /etc/ca-certificates/extracted
""")
)
"""What programs of the system need, and no key lies in."""
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs are found in a box."""
PROXY_URL = f"http://127.0.0.1:{PROXY_PORT}"
"""The way out of a box that has a network."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_REFER_AND_TRUNCATE = 1 << 13 | 1 << 14
_ORDINARY_USER = "1000"
_SIGNAL_VERSION = 6
"""The version of Landlock that keeps signals inside."""


class ProgramBox(Struct, frozen=True, kw_only=True):
    """A program, and what it sees and may do in its box."""

    program: tuple[str, ...]
    """The call as it is inside, its program by an absolute path."""
    folder: str
    """The folder that it starts in; one of those that it sees."""
    variables: Mapping[str, str] = {}
    """All of its environment."""
    shown: tuple[str, ...] = ()
    """Files and folders that it may read beside those of the system."""
    data: str = ""
    """The one folder that it may write; empty for none."""
    mounts: tuple[str, ...] = ()
    """Further options of bubblewrap, after what is read and before what is written."""
    rules: tuple[tuple[str, int], ...] = ()
    """What Landlock leaves open in the place of `mounts`: paths with rights."""
    limits: tuple[tuple[int, int], ...] = ()
    """Limits on resources, as `resource.setrlimit` takes them."""
    has_network: bool = False
    """Whether connections may be made, of which nothing but a proxy of ours is reached."""
    can_start_processes: bool = False
    confines_itself: bool = False
    """Whether it confines its own parts further, as browsers do: it may make user namespaces and sockets between its
    parts, and runs under an ordinary user's number. Only bubblewrap holds such a program.
    """
    moved: tuple[tuple[int, int], ...] = ()
    """Which of the given handles (by its place, from 0) it finds under which number."""


class BoxedCall(Struct, frozen=True):
    """The call that makes the box and runs the program in it. `handles` are what it is given, in this order: the
    program's first is `line_program.FIRST_HANDLE`.
    """

    arguments: tuple[str, ...]
    handles: tuple[int, ...]


def explain_missing_box(support: SandboxSupport, *, has_network: bool = False, confines_itself: bool = False) -> str:
    """Return why no program can be confined here, as the end of a sentence; empty where one can."""
    if support.mechanism not in (SandboxMechanism.BUBBLEWRAP, SandboxMechanism.LANDLOCK) or not support.is_usable:
        return N_("there is no sandbox that holds it: {reason}", reason=support.reason)
    is_bubblewrap = support.mechanism is SandboxMechanism.BUBBLEWRAP
    gaps = (
        (not seccomp.has_filter(), N_("no system call filter is known for this machine")),
        (
            not is_bubblewrap and support.abi < _SIGNAL_VERSION,
            N_("Landlock of this kernel does not keep signals inside; bubblewrap would"),
        ),
        (
            has_network and not (is_bubblewrap and support.hosts),
            N_("it needs the network, and only bubblewrap can let single hosts through"),
        ),
        (confines_itself and not is_bubblewrap, N_("it confines its own parts, and only bubblewrap lets it do so")),
    )
    return next((reason for is_there, reason in gaps if is_there), "")


@contextlib.contextmanager
def make_boxed_call(
    box: ProgramBox, support: SandboxSupport, proxy_end: socket.socket | None = None, given: Sequence[int] = ()
) -> Iterator[BoxedCall]:
    """Yield the call; its handles are open until the end of the block. `proxy_end` leads to the proxy of a box with a
    network; `given` are handles for the program, the last ones of those that it has.

    Raises ToolError where the program cannot be confined, and OSError.
    """
    why = explain_missing_box(support, has_network=box.has_network, confines_itself=box.confines_itself)
    if why:
        raise ToolError(why)
    with contextlib.ExitStack() as undo:
        order = create_memory_file("order")
        undo.callback(os.close, order)
        if support.mechanism is SandboxMechanism.LANDLOCK:
            rules = _list_landlock_rules(box, support.abi)
            arguments = _build_order(box, (order, FIRST_HANDLE, FIRST_HANDLE + 1), rules, support.abi)
            yield BoxedCall(arguments, (order, *given))
            return
        options = create_memory_file("options")
        undo.callback(os.close, options)
        relay: tuple[str, ...] = ()
        handles = [options, order]
        if proxy_end is not None:
            handles.append(proxy_end.fileno())
        inner = _build_order(box, (order, FIRST_HANDLE + 1, FIRST_HANDLE + len(handles)), None, 0)
        if proxy_end is not None:
            program = ("-I", "-S", "-c", read_relay_program(), str(PROXY_PORT), str(FIRST_HANDLE + 2))
            relay = (find_interpreter(), *program)
        replace_content(options, os.fsencode("\0".join((*_list_mounts(box), ""))))
        yield BoxedCall((support.program, "--args", str(FIRST_HANDLE), "--", *relay, *inner), (*handles, *given))


def find_interpreter() -> str:
    """Return the path of Hermes' own interpreter, without an environment around it."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)


def proxy_variables() -> dict[str, str]:
    """Return the variables by which programs find the proxy of a box that has a network."""
    names = (f"{kind}_proxy" for kind in ("http", "https", "all"))
    return {form: PROXY_URL for name in names for form in (name, name.upper())}


def _build_order(
    box: ProgramBox, places: tuple[int, int, int], rules: list[tuple[bytes, int]] | None, abi: int
) -> tuple[str, ...]:
    """Return the call of the program that gives up rights and becomes the other; without `rules` mounts hold it.

    `places` are the handle of the order, where it is found inside, and where the first of the given handles is.
    """
    order, found_at, given_at = places
    request: dict[str, object] = {
        "fs": handled_rights(abi) if rules is not None else 0,
        "net": TCP_RIGHTS if rules is not None and abi >= 4 else 0,
        "scoped": LANDLOCK_SCOPES if rules is not None else 0,
        "rules": rules or [],
        "filter": seccomp.build_filter(
            unix=box.confines_itself,
            datagrams=box.confines_itself,
            sockets=box.has_network,
            processes=box.can_start_processes,
            outward=rules is None,
            namespaces=box.confines_itself,
        ),
        "limits": [(resource.RLIMIT_CORE, 0), *box.limits],
        "capabilities": True,
        "moved": [(given_at + place, number) for place, number in box.moved],
    }
    call = build_confined_call(order, found_at, request, box.program, box.variables)
    return (find_interpreter(), *call[1:])


def _list_shown(box: ProgramBox) -> list[str]:
    """Return what is read of this machine. Raises ToolError where the interpreter cannot be shown alone."""
    shown = [one for one in SYSTEM_PATHS if os.path.lexists(one)]
    shown += [*_list_interpreter_paths(), str(Path(__file__).parent)]
    homes = (os.path.realpath(os.path.expanduser("~")), *((box.data,) if box.data else ()))
    for one in (*shown, *box.shown):
        if any(is_or_below(home, os.path.realpath(one)) for home in homes):
            raise ToolError(N_("{folder}, which programs need, holds a home", folder=one))
    shown += box.shown
    return [one for one in dict.fromkeys(shown) if not any(one != top and is_or_below(one, top) for top in shown)]


def _list_interpreter_paths() -> tuple[str, ...]:
    """Return where the interpreter and its library lie: its folder as a whole, unless that is one of the system's."""
    base = os.path.realpath(sys.base_prefix)
    return () if base in ("/usr", "/usr/local") else (base,)


def _list_mounts(box: ProgramBox) -> list[str]:
    """Return the options of bubblewrap: an empty root, what is shown, and nothing that can be written but the data."""
    namespaces = "--unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net --cap-drop ALL"
    options = [*namespaces.split(), "--die-with-parent", "--new-session", "--clearenv"]
    if os.geteuid() or box.confines_itself:
        options.append("--unshare-user")
    if box.confines_itself:
        options += ["--uid", _ORDINARY_USER, "--gid", _ORDINARY_USER]
    options += ["--proc", "/proc", "--dev", "/dev"]
    options += [word for path in _list_shown(box) for word in _show_path(path)]
    options += box.mounts
    if box.data:
        options += ["--bind", box.data, box.data]
    options += _list_kernel_options(box)
    options += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", box.folder]
    if any("\0" in one for one in options):
        raise ToolError("a name holds a null character")
    return options


def _show_path(path: str) -> tuple[str, str, str]:
    """Return the option that shows a path; a link in the root leads where it does outside."""
    if os.path.islink(path) and os.path.dirname(path) == "/":
        return "--symlink", os.readlink(path), path
    return "--ro-bind", os.path.realpath(path), path


def _list_kernel_options(box: ProgramBox) -> list[str]:
    """Return the options by which nothing of the kernel's in /proc can be written: where Hermes runs as root, its owner
    needs no right for that but to be its owner.
    """
    if not box.confines_itself:
        return ["--remount-ro", "/proc"]
    # It makes namespaces, and writes their maps below its own processes.
    with os.scandir("/proc") as found:
        kernels = [one for one in found if not one.name.isdigit() and not one.is_symlink()]
        paths = sorted(one.path for one in kernels if one.is_dir() or one.stat().st_mode & 0o222)
    return [word for path in paths for word in ("--ro-bind", path, path)]


def _list_landlock_rules(box: ProgramBox, abi: int) -> list[tuple[bytes, int]]:
    """Return what Landlock leaves: the same as the mounts of bubblewrap."""
    rules = [(path, READ_RIGHTS) for path in _list_shown(box)]
    rules += box.rules
    rules += [(path, READ_RIGHTS | 1 << 1) for path in _DEVICES]
    if box.data:
        rules.append((box.data, (READ_RIGHTS | CHANGE_RIGHTS | _REFER_AND_TRUNCATE) & ~DEVICE_RIGHTS))
    handled = handled_rights(abi)
    return [(os.fsencode(os.path.realpath(path)), rights & handled) for path, rights in rules]
