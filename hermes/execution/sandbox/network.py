"""The loopback interface that the sandboxed commands of one session share, and the listener for their proxies."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from hermes.core.errors import ToolError
from hermes.execution.sandbox.egress_proxy import EgressProxy

PROXY_PORT = 17_171
_LOOPBACK_PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); import loopback; loopback.main()"
_START_SECONDS = 10.0
_FIRST_ADDRESS, _ADDRESS_COUNT = 0x7F11_0001, 65_534
"""127.17.0.1 and following: each command finds its proxy at an address of its own."""
_ACCEPT_RETRY_SECONDS = 0.1
"""Seconds until the next try when no connection can be accepted: this process has too many open files."""


class LoopbackNetwork:
    """A network namespace, by its handles: it needs no process, and none can be attacked.

    It ends when these are closed, at the latest with this process, and the last command in it has ended. A listener was
    bound before any command came: connections to it are given to the `EgressProxy` of the command whose address they
    were made to. An address is no proof: a command may use another's, which only changes who is asked. A connection to
    an address that was given back, or to the usual 127.0.0.1, gets the newest proxy.
    """

    def __init__(self, namespaces: Sequence[int], listener: socket.socket | None) -> None:
        self.namespaces = tuple(namespaces)
        """Handles, to be entered in this order."""
        self._listener = listener
        self._proxies: dict[str, EgressProxy] = {}
        self._address_number = 0
        if listener is not None:
            listener.setblocking(False)
            asyncio.get_running_loop().add_reader(listener, self._accept_connection)

    def add_proxy(self, proxy: EgressProxy) -> str:
        """Return the address, with the port, at which commands find this proxy."""
        number = _FIRST_ADDRESS + self._address_number % _ADDRESS_COUNT
        self._address_number += 1
        address = socket.inet_ntoa(number.to_bytes(4, "big"))
        self._proxies.pop(address, None)
        self._proxies[address] = proxy
        return f"{address}:{PROXY_PORT}"

    def remove_proxy(self, proxy: EgressProxy) -> None:
        """Give no more connections to this proxy."""
        self._proxies = {address: one for address, one in self._proxies.items() if one is not proxy}

    def close(self) -> None:
        """Close the listener and the handles."""
        if (listener := self._listener) is not None:
            self._listener = None
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        for handle in self.namespaces:
            os.close(handle)
        self.namespaces = ()

    def _accept_connection(self) -> None:
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._listener)
            loop.call_later(_ACCEPT_RETRY_SECONDS, self._listen_again)
            return
        proxy = self._proxies.get(connection.getsockname()[0]) or next(reversed(self._proxies.values()), None)
        if proxy is None:
            connection.close()
        else:
            proxy.take_connection(connection)

    def _listen_again(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept_connection)


async def make_loopback(program: Sequence[str], *, listen: bool) -> LoopbackNetwork:
    """Make a network in which `program` was tried. Raises `ToolError` with the reason when that is impossible."""
    with contextlib.ExitStack() as undo:
        try:
            answer, handles = await _run_loopback_program(program, PROXY_PORT if listen else 0)
        except (OSError, TimeoutError) as error:
            raise ToolError(str(error) or "it takes too long") from None
        for handle in handles:
            undo.callback(os.close, handle)
        if not answer.startswith(b"+"):
            raise ToolError(answer[1:].decode("utf-8", "replace") or "the program that makes it failed")
        undo.pop_all()
    return (
        LoopbackNetwork(handles[:-1], socket.socket(fileno=handles[-1])) if listen else LoopbackNetwork(handles, None)
    )


async def _run_loopback_program(program: Sequence[str], port: int) -> tuple[bytes, list[int]]:
    """Return what the program that makes the network answers, and its handles. Raises OSError and TimeoutError."""
    own_end, program_end = socket.socketpair()
    with own_end:
        own_end.setblocking(False)
        with program_end:
            maker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _LOOPBACK_PROGRAM, str(Path(__file__).parent), str(port), *program),
                env={},
                cwd="/",
                stdin=program_end.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        try:
            async with asyncio.timeout(_START_SECONDS):
                await maker.wait()
        finally:
            if maker.returncode is None:
                maker.kill()
        with contextlib.suppress(BlockingIOError):
            data, handles, _, _ = socket.recv_fds(own_end, 1_000, 4, socket.MSG_CMSG_CLOEXEC)
            return data, list(handles)
    return b"", []
