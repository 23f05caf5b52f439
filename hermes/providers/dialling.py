"""A connected socket to a host with several addresses, for event loops that do not race them (RFC 8305) themselves."""

import asyncio
import contextlib
import socket
from collections.abc import Iterable
from itertools import chain, zip_longest

AHEAD = 0.25
"""Seconds that an address has for itself before the next one is tried beside it."""

_Info = tuple[int, int, int, str, tuple[object, ...]]


async def dialled(host: str, port: int) -> socket.socket:
    """The first socket to connect, IPv6 and IPv4 addresses in turn, each tried beside those before it. Raises
    OSError: that of the address that failed last."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    waiting = iter(_in_turn(infos))
    tasks: set[asyncio.Task[socket.socket]] = set()
    failed: OSError = ConnectionError(f"{host} has no address")
    try:
        while True:
            info = next(waiting, None)
            if info is not None:
                tasks.add(asyncio.create_task(_connected(info)))
            elif not tasks:
                raise failed
            done, tasks = await asyncio.wait(
                tasks, timeout=AHEAD if info is not None else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    return task.result()
                failed = error if isinstance(error, OSError) else failed
    finally:
        for task in tasks:
            task.add_done_callback(_unwanted)
            task.cancel()


async def _connected(info: _Info) -> socket.socket:
    family, kind, protocol, _, address = info
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made


def _in_turn(infos: Iterable[_Info]) -> Iterable[_Info]:
    """The addresses, the first one's family and the others by turns."""
    first: list[_Info] = []
    others: list[_Info] = []
    for info in infos:
        (first if not first or info[0] == first[0][0] else others).append(info)
    pairs = chain.from_iterable(zip_longest(first, others))
    return [info for info in pairs if info is not None]


def _unwanted(task: "asyncio.Task[socket.socket]") -> None:
    """Close what was connected at the same moment as another one."""
    with contextlib.suppress(asyncio.CancelledError, OSError):
        task.result().close()
