"""The program inside a sandbox without a network that carries connections to the proxy outside.

Arguments: a port, the handle of a unix socket to the proxy, and a program with its arguments. It listens on that port
of the loopback interface, becomes the program, and leaves behind a process that carries, until nothing else is left in
the sandbox. For each connection it makes a pair of sockets and sends one of them to the proxy. Its text is handed to an
interpreter whole (`-c`): it needs no file of ours.
"""

# What `signal` and `socket` lay over these would take as long to import as all the rest.
import _signal  # type: ignore[import-not-found]
import _socket
import _thread
import os
import select
import sys

_BACKLOG = 128
_POLL_MILLISECONDS = 20
"""Milliseconds between looks at what is left, after the program has ended."""


def main() -> None:
    """Listen, fork, and become the program."""
    port, handle, *program = sys.argv[1:]
    proxy_socket = _socket.socket(fileno=int(handle))
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(port)))
    listener.listen(_BACKLOG)
    shell = os.getpid()
    if os.fork():
        listener.close()
        proxy_socket.close()
        os.execv(program[0], program)  # noqa: S606
    os.setsid()
    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_DFL)
    null = os.open("/dev/null", os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in (listener.fileno(), proxy_socket.fileno()):
            _close_handle(int(name))
    _serve_connections(listener, proxy_socket, os.pidfd_open(shell))


def _serve_connections(listener: _socket.socket, proxy_socket: _socket.socket, shell: int) -> None:
    poll = select.poll()
    poll.register(listener.fileno(), select.POLLIN)
    poll.register(shell, select.POLLIN)
    ended = False
    while not (ended and _is_alone()):
        for handle, _ in poll.poll(_POLL_MILLISECONDS if ended else None):
            if handle == shell:
                ended = True
                poll.unregister(shell)
                continue
            number, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - what `socket` lays over it
            near = _socket.socket(fileno=number)
            relay_end, proxy_end = _socket.socketpair()
            try:
                proxy_socket.sendmsg(
                    [b"c"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, proxy_end.fileno().to_bytes(4, sys.byteorder))]
                )
            except OSError:
                return  # nobody is behind it any more
            proxy_end.close()
            left = [2]
            _thread.start_new_thread(_copy_stream, (near, relay_end, left))
            _thread.start_new_thread(_copy_stream, (relay_end, near, left))


def _copy_stream(source: _socket.socket, target: _socket.socket, left: list[int]) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(_socket.SHUT_WR)
    except OSError:
        for one in (source, target):
            _shut_down(one)
    left[0] -= 1
    if not left[0]:
        source.close()
        target.close()


def _shut_down(one: _socket.socket) -> None:
    try:  # `contextlib` would take as long to import as the rest
        one.shutdown(_socket.SHUT_RDWR)
    except OSError:
        return


def _close_handle(handle: int) -> None:
    try:
        os.close(handle)
    except OSError:
        return


def _is_alone() -> bool:
    """Return whether nothing is left but the first process of the sandbox and this one."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()) and _is_live(name):
            return False
    return True


def _is_live(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] not in (b"Z", b"X")
    except OSError:
        return False


if __name__ == "__main__":
    main()
