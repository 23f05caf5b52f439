"""The program that gives up rights with Landlock and seccomp, and becomes another program.

It runs with the standard library only. From the handle that its argument names it reads one marshalled request: a dict
with `fs`, `net`, `scoped` (the rights that Landlock takes, 0 for none), `rules` ((path, rights) pairs: rights that are
given back below a path), `filter` (a seccomp program), `limits` ((resource, value) pairs), `capabilities` (whether to
give those up), `arguments`, `environment`, and where there are any `moved` (pairs: a handle, and the number under which
the program finds it).

Sources: landlock(7), linux/landlock.h, capabilities(7), prctl(2).
"""

import ctypes
import marshal
import os
import resource
import struct
import sys

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_BENEATH = 1
_SECCOMP, _FILTER, _NO_NEW_PRIVS, _BOUNDING_DROP = 22, 2, 38, 24
_FILE_RIGHTS = 1 | 2 | 4 | 1 << 14 | 1 << 15
"""Execute, write, read, truncate, device ioctl: the rights that a rule for a file may hold."""
_CAPABILITIES = 63
_CAPSET = {"x86_64": 126, "aarch64": 91}
_VERSION_3 = 0x20080522


class ConfinedExec:
    """The rights to give up, and the program to run then, read from the marshalled dict."""

    def __init__(self, handle: int) -> None:
        with os.fdopen(handle, "rb") as file:
            request = marshal.load(file)  # noqa: S302 - from the process that started this one
        self.fs: int = request["fs"]
        self.net: int = request["net"]
        self.scoped: int = request["scoped"]
        self.rules: list[tuple[bytes, int]] = request["rules"]
        self.filter: bytes = request["filter"]
        self.limits: list[tuple[int, int]] = request["limits"]
        self.capabilities: bool = request["capabilities"]
        self.arguments: list[bytes] = request["arguments"]
        self.environment: dict[bytes, bytes] = request["environment"]
        self.moved: list[tuple[int, int]] = request.get("moved", [])


def main() -> None:
    """Carry out the order that the argument names."""
    run_order(int(sys.argv[1]))


def run_order(handle: int) -> None:
    """Confine this process as requested; on failure say why and leave with 125, so that nothing runs unconfined."""
    request = ConfinedExec(handle)
    try:
        _move_handles(request.moved)
        _drop_rights(request)
        os.execve(request.arguments[0], request.arguments, request.environment)  # noqa: S606
    except OSError as error:
        os.write(2, f"The sandbox could not be made: {error}\n".encode())
        os._exit(125)


def _move_handles(moved: list[tuple[int, int]]) -> None:
    for source, target in moved:
        os.dup2(source, target)
        os.close(source)


def _drop_rights(request: ConfinedExec) -> None:
    kernel = ctypes.CDLL(None, use_errno=True)
    for kind, value in request.limits:
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))
    _check_result(kernel.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    ruleset = _create_ruleset(kernel, request)
    if request.capabilities:
        for number in range(_CAPABILITIES + 1):
            kernel.prctl(_BOUNDING_DROP, number, 0, 0, 0)
        header = struct.pack("II", _VERSION_3, 0)
        _check_result(kernel.syscall(_CAPSET[os.uname().machine], header, bytes(24)))
    if ruleset is not None:
        _check_result(kernel.syscall(_RESTRICT, ruleset, 0))
        os.close(ruleset)
    if request.filter:
        held = ctypes.create_string_buffer(request.filter, len(request.filter))
        packed = struct.pack("HxxxxxxP", len(request.filter) // 8, ctypes.addressof(held))
        _check_result(kernel.prctl(_SECCOMP, _FILTER, packed, 0, 0))


def _create_ruleset(kernel: ctypes.CDLL, request: ConfinedExec) -> int | None:
    if not (request.fs or request.net or request.scoped):
        return None
    attributes = struct.pack("QQQ", request.fs, request.net, request.scoped)
    size = 24 if request.scoped else 16 if request.net else 8
    ruleset = _check_result(kernel.syscall(_CREATE, attributes, size, 0))
    for path, rights in request.rules:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it went away
        allowed = rights if os.path.isdir(f"/proc/self/fd/{handle}") else rights & _FILE_RIGHTS
        if allowed:
            _check_result(kernel.syscall(_ADD, ruleset, _BENEATH, struct.pack("=Qi", allowed, handle), 0))
        os.close(handle)
    return ruleset


def _check_result(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
