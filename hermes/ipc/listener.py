"""Listen on a process's socket in its home, which only the home's user can reach."""

import asyncio
import contextlib
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from hermes.core.errors import StoreError
from hermes.i18n.messages import N_
from hermes.ipc.frames import MAX_FRAME_BYTES, IpcConnection, RequestFrame, request_decoder

MAX_CLIENTS = 64
GATEWAY_SOCKET = "gateway.sock"
_MAX_ANCESTORS = 256
_MAX_PATH_BYTES = 100
"""Bytes of a socket's path that every system accepts."""
ConnectionHandler = Callable[[IpcConnection[RequestFrame]], Awaitable[None]]


def process_socket_path(folder: Path, pid: int) -> Path:
    """Return the socket's path of a process that is not the gateway."""
    return folder / f"{pid}.sock"


class IpcListener:
    """Listens at `path` from `start` to `close`; each peer is served by a task of `handle`."""

    def __init__(self, path: Path, handle: ConnectionHandler) -> None:
        self._path = path
        self._handle = handle
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._peers: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Listen. Raises StoreError when the socket cannot be created."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(self._path.parent, 0o700)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
            one = self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            one.setblocking(False)
            with short_socket_path(self._path) as name:
                one.bind(name)
            os.chmod(self._path, 0o600)
            one.listen(MAX_CLIENTS)
        except OSError as error:
            self._close_socket()
            raise StoreError(
                N_("The socket {path} cannot be made: {reason}.", path=self._path, reason=error.strerror or "")
            ) from None
        self._accepting = asyncio.create_task(self._accept_peers(one), name=f"socket {self._path.name}")

    async def close(self) -> None:
        """Stop listening, and disconnect every peer."""
        tasks = [one for one in (self._accepting, *self._peers) if one is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._socket is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self._close_socket()

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _accept_peers(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, _ = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(0.1)  # no handles left; somebody will close one
                continue
            if len(self._peers) >= MAX_CLIENTS or not _is_allowed_peer(peer):
                peer.close()
                continue
            task = asyncio.create_task(self._serve_peer(peer), name="peer")
            self._peers.add(task)
            task.add_done_callback(self._peers.discard)

    async def _serve_peer(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=peer, limit=MAX_FRAME_BYTES)
        wire = IpcConnection(reader, writer, request_decoder())
        try:
            await self._handle(wire)
        finally:
            await wire.close()


@contextlib.contextmanager
def short_socket_path(path: Path) -> Iterator[str]:
    """Yield a name of a socket that the system accepts, however deep its folder lies.

    Raises OSError where there is none.
    """
    name = str(path)
    if len(os.fsencode(name)) <= _MAX_PATH_BYTES or not os.path.isdir("/proc/self/fd"):
        yield name
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def peer_uid(peer: socket.socket) -> int:
    """Return the user id of the process at the other end; -1 where it is unknown."""
    return _peer_credentials(peer)[1]


def _is_allowed_peer(peer: socket.socket) -> bool:
    """Return whether a process may send requests.

    It must be this user's, and not descend from a session's command: what a model has run must not answer
    its own approval prompts.
    """
    pid, uid = _peer_credentials(peer)
    return uid == os.getuid() and (not os.path.isdir("/proc/self") or not _is_supervised(pid))


def _is_supervised(pid: int) -> bool:
    """Return whether a process descends from a command supervisor; also for a process that is unknown, or has ended.

    The parent of a process that came from outside of this container (`docker exec`) is 0, as that of its first process.
    """
    from hermes.execution import supervisor_main

    for _ in range(_MAX_ANCESTORS):
        if supervisor_main.is_supervisor(pid):
            return True
        parent = supervisor_main.parent_pid(pid)
        if not parent:
            return parent is None
        pid = parent
    return True


def _peer_credentials(peer: socket.socket) -> tuple[int, int]:
    """Return the process id and user id at the other end; 0 and -1 where they are unknown."""
    with contextlib.suppress(OSError):
        if sys.platform == "darwin":
            return 0, int(struct.unpack_from("=II", peer.getsockopt(0, 1, 76))[1])
        pid, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(pid), int(uid)
    return 0, -1
