"""Refuses system calls that a sandboxed command has no use for, with a filter of the kernel (seccomp(2), BPF).

What a filter can see is a call's number and its plain arguments, no paths and no addresses.
"""

import functools
import platform
import struct

from msgspec import Struct

_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _JUMP_AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""The offsets in `struct seccomp_data`; the lower halves of arguments on a little-endian machine."""
_EPERM, _EAFNOSUPPORT, _ENOSYS = 1, 97, 38
_NEW_USER = 0x10000000
_THREAD = 0x00010000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM = 1
_TYPE_MASK = 0xF
"""The part of a socket's type that is no flag."""


class _CallNumbers(Struct, frozen=True):
    """The numbers of calls on one architecture; `highest` is the first that belongs to another way of calling."""

    token: int
    socket: int
    clone: int
    clone3: int
    unshare: int
    ioctl: int
    absent: tuple[int, ...]
    """Calls answered as if the kernel had none of them: keyrings, io_uring (which calls on without being
    filtered), bpf, perf_event_open, userfaultfd, kexec, setns.
    """
    highest: int = 0
    forks: tuple[int, ...] = ()
    """Calls that make a process and have no flags."""
    outward: tuple[int, ...] = ()
    """Calls that change what Landlock leaves open: attributes of files (chmod, chown, utime, setxattr and their kin),
    priorities and processors of other programs, shared memory, semaphores and queues of System V and POSIX.
    """
    limits: int = 0
    """prlimit64, which may concern another program."""


_ABSENT_X86_64 = (248, 249, 250, 425, 426, 427, 321, 298, 323, 246, 320, 308)
_ABSENT_AARCH64 = (217, 218, 219, 425, 426, 427, 280, 241, 282, 104, 294, 268)
_OUTWARD_BOTH = (452, 463, 466, 442, 440, 448)
_OUTWARD_X86_64 = (
    *(90, 268, 92, 94, 260, 132, 235, 261, 280, 188, 189, 197, 198, 141, 142, 144, 203, 251, 314),
    *(29, 30, 64, 65, 66, 68, 69, 70, 71, 240, 241),
)
_OUTWARD_AARCH64 = (53, 54, 88, 5, 6, 14, 15, 140, 118, 119, 122, 30, 274, *range(180, 198))
_CALL_NUMBERS = {
    "x86_64": _CallNumbers(
        *(0xC000003E, 41, 56, 435, 272, 16, _ABSENT_X86_64),
        highest=0x40000000,
        forks=(57, 58),
        outward=_OUTWARD_X86_64 + _OUTWARD_BOTH,
        limits=302,
    ),
    "aarch64": _CallNumbers(
        *(0xC00000B7, 198, 220, 435, 97, 29, _ABSENT_AARCH64),
        outward=_OUTWARD_AARCH64 + _OUTWARD_BOTH,
        limits=261,
    ),
}
"""By the machine's name, in the order of the fields."""


def has_filter() -> bool:
    """Return whether a filter for this machine is known."""
    return platform.machine() in _CALL_NUMBERS


@functools.cache
def build_filter(
    *,
    unix: bool = True,
    datagrams: bool = True,
    sockets: bool = True,
    processes: bool = True,
    outward: bool = True,
    namespaces: bool = False,
) -> bytes:
    """Build a filter; without `unix` no socket to another program can be made, without `datagrams` only TCP is left,
    without `sockets` none at all. Without `processes` only threads can be made; without `outward` nothing is left by
    which what Landlock confines changes attributes of files, or limits and priorities of programs, elsewhere. With
    `namespaces` user namespaces can be made, by which a program confines its own parts.

    Namespaces and the TCP rules of Landlock apply beside it. Empty where no filter is known for this machine.
    """
    numbers = _CALL_NUMBERS.get(platform.machine())
    if numbers is None:
        return b""
    rules = [
        _encode_instruction(_LOAD, _ARCHITECTURE),
        _encode_instruction(_JUMP_EQUAL, numbers.token, 1, 0),
        _refuse_with(_EPERM),
    ]
    rules.append(_encode_instruction(_LOAD, _NUMBER))
    if numbers.highest:
        rules += [_encode_instruction(_JUMP_AT_LEAST, numbers.highest, 0, 1), _refuse_with(_EPERM)]
    for number in (*numbers.absent, numbers.clone3):
        rules += [_encode_instruction(_JUMP_EQUAL, number, 0, 1), _refuse_with(_ENOSYS)]
    rules += [] if namespaces and processes else _process_rules(numbers, processes=processes)
    if not outward:
        rules += _outward_rules(numbers)
    typing = [_encode_instruction(_LOAD, _SECOND)]
    for request in (_TIOCSTI, _TIOCLINUX):
        typing += [_encode_instruction(_JUMP_EQUAL, request, 0, 1), _refuse_with(_EPERM)]
    rules += _rules_for_call(numbers.ioctl, typing)
    network = _socket_rules(unix=unix, datagrams=datagrams) if sockets else [_refuse_with(_EAFNOSUPPORT)]
    rules += _rules_for_call(numbers.socket, network)
    return b"".join([*rules, _encode_instruction(_RETURN, _ALLOW)])


def _process_rules(numbers: _CallNumbers, *, processes: bool) -> list[bytes]:
    """Return rules that refuse new user namespaces and, without `processes`, whatever makes more than a thread."""
    new_user = [
        _encode_instruction(_LOAD, _FIRST),
        _encode_instruction(_JUMP_ANY_BIT, _NEW_USER, 0, 1),
        _refuse_with(_EPERM),
    ]
    if processes:
        return [*_rules_for_call(numbers.clone, new_user), *_rules_for_call(numbers.unshare, new_user)]
    thread = [*new_user, _encode_instruction(_JUMP_ANY_BIT, _THREAD, 1, 0), _refuse_with(_EPERM)]
    rules = [*_rules_for_call(numbers.clone, thread), *_rules_for_call(numbers.unshare, new_user)]
    for number in numbers.forks:
        rules += [_encode_instruction(_JUMP_EQUAL, number, 0, 1), _refuse_with(_EPERM)]
    return rules


def _outward_rules(numbers: _CallNumbers) -> list[bytes]:
    """Return rules that refuse what Landlock leaves open; limits are read and set for the calling program alone."""
    rules: list[bytes] = []
    for number in numbers.outward:
        rules += [_encode_instruction(_JUMP_EQUAL, number, 0, 1), _refuse_with(_EPERM)]
    own = [_encode_instruction(_LOAD, _FIRST), _encode_instruction(_JUMP_EQUAL, 0, 1, 0), _refuse_with(_EPERM)]
    return [*rules, *_rules_for_call(numbers.limits, own)]


def _socket_rules(*, unix: bool, datagrams: bool) -> list[bytes]:
    """Return rules that allow socket families by name: virtual machines, crypto, Bluetooth, packets and others are
    refused.
    """
    rules = [_encode_instruction(_LOAD, _FIRST)]
    for family in (_UNIX, _NETLINK) if unix else (_NETLINK,):
        rules += [_encode_instruction(_JUMP_EQUAL, family, 0, 1), _encode_instruction(_RETURN, _ALLOW)]
    rules += [
        _encode_instruction(_JUMP_EQUAL, _INET, 2, 0),
        _encode_instruction(_JUMP_EQUAL, _INET6, 1, 0),
        _refuse_with(_EAFNOSUPPORT),
    ]
    if not datagrams:
        rules += [_encode_instruction(_LOAD, _SECOND), _encode_instruction(_AND, _TYPE_MASK)]
        rules += [_encode_instruction(_JUMP_EQUAL, _STREAM, 1, 0), _refuse_with(_EPERM)]
    return rules


def _rules_for_call(number: int, checks: list[bytes]) -> list[bytes]:
    """Return `checks` for one call; what they let pass is allowed."""
    body = [*checks, _encode_instruction(_RETURN, _ALLOW)]
    return [_encode_instruction(_JUMP_EQUAL, number, 0, len(body)), *body]


def _refuse_with(error: int) -> bytes:
    return _encode_instruction(_RETURN, _ERRNO | error)


def _encode_instruction(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("<HBBI", code, then, otherwise, value)
