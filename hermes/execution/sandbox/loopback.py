"""The program that makes a network of one loopback interface, hands it over, and ends.

Arguments: a port, 0 for none, and a program with its arguments. It makes a network namespace (an ordinary user's first
a user namespace, in which it is the superuser), brings the interface up, listens on that port of it, and tries whether
the program works in there. Then it sends over its standard input, a unix socket: a byte with the handles of what it
made, the user namespace if any, the network namespace, the listener if any; or text that says why not.

No process of it stays: the namespaces live as long as somebody holds those handles or has a process in them. It runs
with the standard library only. Sources: network_namespaces(7), user_namespaces(7), netdevice(7).
"""

import _signal  # type: ignore[import-not-found]
import _socket  # what `signal` and `socket` lay over these would take as long to import as all the rest
import ctypes
import fcntl
import os
import sys

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x1 | 0x40
_BACKLOG = 128
_MAX_SECONDS = 15
"""Seconds after which it ends in any case."""


def main() -> None:
    """Make the network, try the program in it, and hand the handles over."""
    _signal.alarm(_MAX_SECONDS)
    control_socket = _socket.socket(fileno=0)
    try:
        handles = _make_network(int(sys.argv[1]))
        _try_program(sys.argv[2:])
    except OSError as error:
        control_socket.send(f"-{error}".encode())
        return
    packed = b"".join(one.to_bytes(4, sys.byteorder) for one in handles)
    control_socket.sendmsg([b"+"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)])


def _make_network(port: int) -> list[int]:
    """Make the namespaces, which this process is in from then on, and return their handles."""
    user, group = os.geteuid(), os.getegid()
    kernel = ctypes.CDLL(None, use_errno=True)
    if kernel.unshare(_NEW_NET | (_NEW_USER if user else 0)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    names = ["net"]
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        names = ["user", "net"]
    with_flags = b"lo".ljust(16, b"\0") + _UP_AND_RUNNING.to_bytes(2, sys.byteorder) + bytes(22)
    with_any = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(with_any.fileno(), _SET_FLAGS, with_flags)
    handles = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in names]
    if port:
        listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        listener.bind(("0.0.0.0", port))  # noqa: S104 - there is no other interface
        listener.listen(_BACKLOG)
        handles.append(listener.detach())
    return handles


def _try_program(program: list[str]) -> None:
    """Run the program in the new network. Raises OSError when it does not work."""
    null = os.open("/dev/null", os.O_RDWR)
    streams = [(os.POSIX_SPAWN_DUP2, null, number) for number in range(3)]
    code = os.waitpid(os.posix_spawn(program[0], program, {}, file_actions=streams), 0)[1]
    if code:
        raise OSError(f"{program[0]} does not work in a network of the session's own")


if __name__ == "__main__":
    main()
