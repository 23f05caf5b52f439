"""Many requests at once to one server: who waits, in which order, and over which connections; on another event loop."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from hermes.core.protocols import HttpTimeouts
from hermes.providers.http import ConnectionLimit, DirectTransport, connect_first
from tests.certificates import certificate
from tests.providers.loopback_server import Reply, loopback

PATIENT = HttpTimeouts(connect=60.0, read=60.0)


async def post(transport: DirectTransport, url: str) -> bytes:
    async with transport.open("POST", url, headers={}, body=b"{}", timeouts=PATIENT) as stream:
        return b"".join([chunk async for chunk in stream.chunks()])


async def test_who_has_begun_goes_before_who_has_not() -> None:
    room, order, inside = ConnectionLimit(2), list[str](), 0
    most = 0

    async def turn(name: str) -> None:
        nonlocal inside, most
        for step in range(3):
            await room.acquire_slot()
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            room.release_slot()
            order.append(f"{name}{step}")

    async with asyncio.TaskGroup() as group:
        for name in "abcdef":
            group.create_task(turn(name))
    ended = [one[0] for one in order if one.endswith("2")]
    assert most == 2
    assert {*ended[:2]} == {"a", "b"} and {*ended[2:4]} == {"c", "d"}


async def test_who_gives_up_leaves_no_hole() -> None:
    room = ConnectionLimit(1)
    await room.acquire_slot()
    waiting = [asyncio.create_task(room.acquire_slot()) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # while it waits
    await asyncio.sleep(0)
    room.release_slot()
    waiting[1].cancel()  # at the moment at which it is let in
    await asyncio.wait(waiting[:3])
    assert [task.cancelled() for task in waiting[:3]] == [True, True, False]
    room.release_slot()
    await waiting[3]
    room.release_slot()
    async with asyncio.timeout(60):
        await room.acquire_slot()


async def test_connections_are_kept_for_the_next_burst() -> None:
    async with loopback(Reply(parts=[b"a"])) as server:
        transport = DirectTransport({})
        for _ in range(3):
            assert await asyncio.gather(*(post(transport, server.url) for _ in range(40))) == [b"a"] * 40
        await transport.close()
        assert len(server.requests) == 120
        assert server.connections <= 40  # fewer where an answer was there before the last ones had begun


async def test_a_request_that_fails_makes_room() -> None:
    async with loopback(Reply(raw=[], end="cut")) as server:
        transport = DirectTransport({})
        found = await asyncio.gather(*(post(transport, server.url) for _ in range(325)), return_exceptions=True)
        assert all(isinstance(one, Exception) for one in found)
        server.replies = [Reply(parts=[b"b"])]
        async with asyncio.timeout(60):
            assert await post(transport, server.url) == b"b"
        await transport.close()


async def test_the_first_address_that_answers() -> None:
    async with loopback(Reply(parts=[b"a"])) as server:
        port = int(server.url.rpartition(":")[2])
        with await connect_first("localhost", port) as made:  # where ::1 comes first, nobody answers there
            assert made.getpeername() == ("127.0.0.1", port)
        await asyncio.sleep(0)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match=r"refused|failed"):
            await connect_first("localhost", closed.getsockname()[1])


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_on_uvloop(tmp_path: Path, *, secure: bool) -> None:
    uvloop = pytest.importorskip("uvloop")
    context: ssl.SSLContext | None = None
    authority = ""
    if secure:
        context, vouching = certificate(tmp_path)
        authority = str(vouching)

    async def work() -> tuple[list[bytes], int]:
        async with loopback(Reply(parts=[b"data: a\n\n", b"data: b\n\n"]), tls=context) as server:
            transport = DirectTransport({}, ca_file=authority)
            said = [await post(transport, server.url) for _ in range(3)]
            await transport.close()
            return said, server.connections

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(work()) == ([b"data: a\n\ndata: b\n\n"] * 3, 1)
