"""The loopback interface that the sandboxed commands of one session share, and what listens on it for us."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from hermes.core.errors import ToolError
from hermes.execution.sandbox import loopback
from hermes.execution.sandbox.egress_proxy import Proxy

PORT = 17_171
_PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); import loopback; loopback.main()"
_PATIENCE = 10.0
_FIRST, _COUNT = 0x7F11_0001, 65_534
"""127.17.0.1 and following: each command finds its proxy at an address of its own."""
_NAP = 0.1
"""Seconds until the next try when no connection can be accepted: this process has too many open files."""


class Loopback:
    """A network namespace, by its handles: it needs no process, and none can be attacked.

    It ends when these are closed, at the latest with this process, and the last command in it has ended. A listener
    was bound before any command came: connections to it are given to the `Proxy` of the command whose address they
    were made to. An address is no proof: a command may use another's, which means only who is asked. What uses one that
    was given back, or the usual 127.0.0.1, gets the newest.
    """

    def __init__(self, spaces: Sequence[int], listener: socket.socket | None) -> None:
        self.spaces = tuple(spaces)
        """Handles, to be entered in this order."""
        self._listener = listener
        self._proxies: dict[str, Proxy] = {}
        self._given = 0
        if listener is not None:
            listener.setblocking(False)
            asyncio.get_running_loop().add_reader(listener, self._accept)

    def open(self, proxy: Proxy) -> str:
        """The address, with the port, at which commands find this proxy."""
        number = _FIRST + self._given % _COUNT
        self._given += 1
        address = socket.inet_ntoa(number.to_bytes(4, "big"))
        self._proxies.pop(address, None)
        self._proxies[address] = proxy
        return f"{address}:{PORT}"

    def shut(self, proxy: Proxy) -> None:
        """Give no more connections to this proxy."""
        self._proxies = {address: one for address, one in self._proxies.items() if one is not proxy}

    def close(self) -> None:
        """Let go of it."""
        if (listener := self._listener) is not None:
            self._listener = None
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        for handle in self.spaces:
            os.close(handle)
        self.spaces = ()

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            given, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._listener)
            loop.call_later(_NAP, self._listen_again)
            return
        proxy = self._proxies.get(given.getsockname()[0]) or next(reversed(self._proxies.values()), None)
        if proxy is None:
            given.close()
        else:
            proxy.take(given)

    def _listen_again(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)


async def make_loopback(program: Sequence[str], *, listen: bool) -> Loopback:
    """A new one in which `program` was tried. Raises `ToolError` with the reason when there can be none."""
    with contextlib.ExitStack() as undo:
        try:
            said, handles = await _made(program, PORT if listen else 0)
        except (OSError, TimeoutError) as error:
            raise ToolError(str(error) or "it takes too long") from None
        for handle in handles:
            undo.callback(os.close, handle)
        if not said.startswith(b"+"):
            raise ToolError(said[1:].decode("utf-8", "replace") or "the program that makes it failed")
        undo.pop_all()
    return Loopback(handles[:-1], socket.socket(fileno=handles[-1])) if listen else Loopback(handles, None)


async def _made(program: Sequence[str], port: int) -> tuple[bytes, list[int]]:
    """What the maker tells, and its handles. Raises OSError and TimeoutError."""
    near, far = socket.socketpair()
    with near:
        near.setblocking(False)
        with far:
            maker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(loopback.__file__).parent), str(port), *program),
                env={},
                cwd="/",
                stdin=far.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        try:
            async with asyncio.timeout(_PATIENCE):
                await maker.wait()
        finally:
            if maker.returncode is None:
                maker.kill()
        with contextlib.suppress(BlockingIOError):
            data, handles, _, _ = socket.recv_fds(near, 1_000, 4, socket.MSG_CMSG_CLOEXEC)
            return data, list(handles)
    return b"", []
