"""The program inside a sandbox without a network that carries connections to the door in its wall.

Arguments: a port, the handle of the door (a unix socket), and a program with its arguments. It listens on that port of
the loopback interface, becomes the program, and leaves behind a process that carries, until nothing else is left in
the sandbox. For each connection it makes a pair of sockets and hands one of them through the door. Its text is handed
to an interpreter whole (`-c`): it needs no file of ours.
"""

# What `signal` and `socket` lay over these would take as long to import as all the rest.
import _signal  # type: ignore[import-not-found]
import _socket
import _thread
import os
import select
import sys

_MOST = 128
_NAP = 20
"""Milliseconds between looks at what is left, once the program has ended."""


def main() -> None:
    """Listen, fork, become the program."""
    port, handle, *program = sys.argv[1:]
    door = _socket.socket(fileno=int(handle))
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(port)))
    listener.listen(_MOST)
    shell = os.getpid()
    if os.fork():
        listener.close()
        door.close()
        os.execv(program[0], program)  # noqa: S606
    os.setsid()
    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_DFL)
    null = os.open("/dev/null", os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in (listener.fileno(), door.fileno()):
            _close(int(name))
    _serve(listener, door, os.pidfd_open(shell))


def _serve(listener: _socket.socket, door: _socket.socket, shell: int) -> None:
    poll = select.poll()
    poll.register(listener.fileno(), select.POLLIN)
    poll.register(shell, select.POLLIN)
    ended = False
    while not (ended and _alone()):
        for handle, _ in poll.poll(_NAP if ended else None):
            if handle == shell:
                ended = True
                poll.unregister(shell)
                continue
            number, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - what `socket` lays over it
            near = _socket.socket(fileno=number)
            far, handed = _socket.socketpair()
            try:
                door.sendmsg(
                    [b"c"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, handed.fileno().to_bytes(4, sys.byteorder))]
                )
            except OSError:
                return  # nobody is behind it any more
            handed.close()
            left = [2]
            _thread.start_new_thread(_carry, (near, far, left))
            _thread.start_new_thread(_carry, (far, near, left))


def _carry(source: _socket.socket, target: _socket.socket, left: list[int]) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(_socket.SHUT_WR)
    except OSError:
        for one in (source, target):
            _end(one)
    left[0] -= 1
    if not left[0]:
        source.close()
        target.close()


def _end(one: _socket.socket) -> None:
    try:  # `contextlib` would take as long to import as the rest
        one.shutdown(_socket.SHUT_RDWR)
    except OSError:
        return


def _close(handle: int) -> None:
    try:
        os.close(handle)
    except OSError:
        return


def _alone() -> bool:
    """Whether nothing is left but the first process of the sandbox and this one."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()) and _lives(name):
            return False
    return True


def _lives(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] not in (b"Z", b"X")
    except OSError:
        return False


if __name__ == "__main__":
    main()
