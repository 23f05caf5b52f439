"""Connects to a host with several addresses, for event loops that do not race them (RFC 8305) themselves."""

import asyncio
import contextlib
import socket
from collections.abc import Iterable
from itertools import chain, zip_longest

ATTEMPT_DELAY = 0.25
"""Seconds that an address has for itself before the next one is tried beside it."""

_AddressInfo = tuple[int, int, int, str, tuple[object, ...]]


async def connect_first(host: str, port: int) -> socket.socket:
    """Return the first socket to connect.

    IPv6 and IPv4 addresses take turns, each tried beside those before it. Raises OSError: that of the address that
    failed last.
    """
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    waiting = iter(_interleave_families(infos))
    tasks: set[asyncio.Task[socket.socket]] = set()
    failed: OSError = ConnectionError(f"{host} has no address")
    try:
        while True:
            info = next(waiting, None)
            if info is not None:
                tasks.add(asyncio.create_task(_connect_address(info)))
            elif not tasks:
                raise failed
            done, tasks = await asyncio.wait(
                tasks, timeout=ATTEMPT_DELAY if info is not None else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    return task.result()
                failed = error if isinstance(error, OSError) else failed
    finally:
        for task in tasks:
            task.add_done_callback(_close_unwanted)
            task.cancel()


async def _connect_address(info: _AddressInfo) -> socket.socket:
    family, kind, protocol, _, address = info
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made


def _interleave_families(infos: Iterable[_AddressInfo]) -> Iterable[_AddressInfo]:
    """Return the addresses, the first one's family and the others by turns."""
    first: list[_AddressInfo] = []
    others: list[_AddressInfo] = []
    for info in infos:
        (first if not first or info[0] == first[0][0] else others).append(info)
    pairs = chain.from_iterable(zip_longest(first, others))
    return [info for info in pairs if info is not None]


def _close_unwanted(task: "asyncio.Task[socket.socket]") -> None:
    """Close what was connected at the same moment as another one."""
    with contextlib.suppress(asyncio.CancelledError, OSError):
        task.result().close()
