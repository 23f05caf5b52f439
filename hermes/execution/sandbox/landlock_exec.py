"""The program that gives up rights by Landlock and seccomp, and becomes another program.

It runs with the standard library only. From the handle that its argument names it reads one marshalled order: a dict
with `fs`, `net`, `scoped` (the rights that Landlock takes, 0 for none), `rules` ((path, rights) pairs: rights that are
given back below a path), `filter` (a seccomp program), `limits`
((resource, value) pairs), `capabilities` (whether to give those up), `arguments` and `environment`.

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
"""Execute, write, read, truncate, device ioctl: those that a rule for a file may hold."""
_CAPABILITIES = 63
_CAPSET = {"x86_64": 126, "aarch64": 91}
_VERSION_3 = 0x20080522


class Order:
    """What is given up, and what is run then. Made of the marshalled dict."""

    def __init__(self, handle: int) -> None:
        with os.fdopen(handle, "rb") as file:
            order = marshal.load(file)  # noqa: S302 - from the process that started this one
        self.fs: int = order["fs"]
        self.net: int = order["net"]
        self.scoped: int = order["scoped"]
        self.rules: list[tuple[bytes, int]] = order["rules"]
        self.filter: bytes = order["filter"]
        self.limits: list[tuple[int, int]] = order["limits"]
        self.capabilities: bool = order["capabilities"]
        self.arguments: list[bytes] = order["arguments"]
        self.environment: dict[bytes, bytes] = order["environment"]


def main() -> None:
    """Do as ordered; on failure say why and leave with 125, so that nothing runs unconfined."""
    order = Order(int(sys.argv[1]))
    try:
        _confine(order)
        os.execve(order.arguments[0], order.arguments, order.environment)  # noqa: S606
    except OSError as error:
        os.write(2, f"The sandbox could not be made: {error}\n".encode())
        os._exit(125)


def _confine(order: Order) -> None:
    kernel = ctypes.CDLL(None, use_errno=True)
    for kind, value in order.limits:
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))
    _checked(kernel.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    ruleset = _ruleset(kernel, order)
    if order.capabilities:
        for number in range(_CAPABILITIES + 1):
            kernel.prctl(_BOUNDING_DROP, number, 0, 0, 0)
        header = struct.pack("II", _VERSION_3, 0)
        _checked(kernel.syscall(_CAPSET[os.uname().machine], header, bytes(24)))
    if ruleset is not None:
        _checked(kernel.syscall(_RESTRICT, ruleset, 0))
        os.close(ruleset)
    if order.filter:
        held = ctypes.create_string_buffer(order.filter, len(order.filter))
        packed = struct.pack("HxxxxxxP", len(order.filter) // 8, ctypes.addressof(held))
        _checked(kernel.prctl(_SECCOMP, _FILTER, packed, 0, 0))


def _ruleset(kernel: ctypes.CDLL, order: Order) -> int | None:
    if not (order.fs or order.net or order.scoped):
        return None
    attributes = struct.pack("QQQ", order.fs, order.net, order.scoped)
    size = 24 if order.scoped else 16 if order.net else 8
    ruleset = _checked(kernel.syscall(_CREATE, attributes, size, 0))
    for path, rights in order.rules:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it went away
        given = rights if os.path.isdir(f"/proc/self/fd/{place}") else rights & _FILE_RIGHTS
        if given:
            _checked(kernel.syscall(_ADD, ruleset, _BENEATH, struct.pack("=Qi", given, place), 0))
        os.close(place)
    return ruleset


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
