"""The socket of a process in its home: nobody but the person whose home it is gets a word in."""

import asyncio
import contextlib
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from hermes.core.errors import StoreError
from hermes.i18n.messages import phrase
from hermes.ipc.connection import Wire
from hermes.ipc.frames import LARGEST, Ask, decoder_of_asks

MOST_CLIENTS = 64
GATEWAY = "gateway.sock"
_MOST_ANCESTORS = 256
_LONGEST_PATH = 100
"""Bytes of a socket's path that every system takes."""
Handler = Callable[[Wire[Ask]], Awaitable[None]]


def process_socket(folder: Path, pid: int) -> Path:
    """Where a process listens that is not the gateway."""
    return folder / f"{pid}.sock"


class Listener:
    """Listens at `path` from `start` to `close`; each peer is served by a task of `handle`."""

    def __init__(self, path: Path, handle: Handler) -> None:
        self._path = path
        self._handle = handle
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._peers: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Listen. Raises StoreError where that cannot be."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(self._path.parent, 0o700)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
            one = self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            one.setblocking(False)
            with short_path(self._path) as name:
                one.bind(name)
            os.chmod(self._path, 0o600)
            one.listen(MOST_CLIENTS)
        except OSError as error:
            self._drop()
            raise StoreError(
                phrase("The socket {path} cannot be made: {reason}.", path=self._path, reason=error.strerror or "")
            ) from None
        self._accepting = asyncio.create_task(self._accept(one), name=f"socket {self._path.name}")

    async def close(self) -> None:
        """Listen no more, and let every peer go."""
        tasks = [one for one in (self._accepting, *self._peers) if one is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._socket is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, _ = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(0.1)  # no handles left; somebody will close one
                continue
            if len(self._peers) >= MOST_CLIENTS or not _may_speak(peer):
                peer.close()
                continue
            task = asyncio.create_task(self._serve(peer), name="peer")
            self._peers.add(task)
            task.add_done_callback(self._peers.discard)

    async def _serve(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=peer, limit=LARGEST)
        wire = Wire(reader, writer, decoder_of_asks())
        try:
            await self._handle(wire)
        finally:
            await wire.close()


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A name of a socket that the system takes, however deep its folder lies. Raises OSError where there is none."""
    name = str(path)
    if len(os.fsencode(name)) <= _LONGEST_PATH or not os.path.isdir("/proc/self/fd"):
        yield name
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def peer_uid(peer: socket.socket) -> int:
    """Whose process is at the other end; -1 where that cannot be known."""
    return _credentials(peer)[1]


def _may_speak(peer: socket.socket) -> bool:
    """Whether a process may ask us anything: this person's, and none that a session's command has started. What a model
    has run must not answer its own questions."""
    pid, uid = _credentials(peer)
    return uid == os.getuid() and (not os.path.isdir("/proc/self") or not _below_a_warden(pid))


def _below_a_warden(pid: int) -> bool:
    """Whether a process descends from one that stands over commands; also one of which nothing is known any more."""
    from hermes.execution import supervisor_main

    for _ in range(_MOST_ANCESTORS):
        if pid <= 1:
            return pid < 1
        if supervisor_main.named(pid):
            return True
        pid = supervisor_main.parent(pid)
    return True


def _credentials(peer: socket.socket) -> tuple[int, int]:
    """Process and person at the other end; 0 and -1 where they cannot be known."""
    with contextlib.suppress(OSError):
        if sys.platform == "darwin":
            return 0, int(struct.unpack_from("=II", peer.getsockopt(0, 1, 76))[1])
        pid, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(pid), int(uid)
    return 0, -1
