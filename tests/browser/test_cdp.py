"""The connection over real pipes: with a peer that says what a test wants, and with a real browser."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from hermes.browser.cdp import CallTimeoutError, CdpConnection, CdpError
from hermes.browser.transport import PipeTransport
from hermes.core.errors import BrowserError, BrowserGoneError
from hermes.util.pipes import PipeReader
from tests.browser.running_browser import run_browser


class Peer:
    """The browser's end of two pipes."""

    def __init__(self, *, max_message: int = 1 << 20) -> None:
        self.reading, to_peer = os.pipe()
        from_peer, self.writing = os.pipe()
        self.gone = 0
        self.connection = CdpConnection(
            PipeTransport(from_peer, to_peer, max_message=max_message), on_gone=self._count_gone
        )
        self.connection.start()
        self._reader = PipeReader(self.reading)
        self._received = b""

    def _count_gone(self) -> None:
        self.gone += 1

    async def read(self) -> dict[str, object]:
        while b"\0" not in self._received:
            self._received += await self._reader.read(1 << 16)
        message, _, self._received = self._received.partition(b"\0")
        return msgspec.json.decode(message, type=dict[str, object])

    async def write(self, *messages: bytes) -> None:
        await asyncio.to_thread(os.write, self.writing, b"".join(one + b"\0" for one in messages))

    def leave(self) -> None:
        for descriptor in (self.reading, self.writing):
            if descriptor >= 0:
                os.close(descriptor)
        self.reading = self.writing = -1


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    made = Peer()
    yield made
    await made.connection.close()
    made.leave()


async def test_calls_are_answered_in_any_order_and_events_come_in_theirs(peer: Peer) -> None:
    seen: list[tuple[str, str]] = []
    peer.connection.set_handler("s1", lambda method, params: seen.append((method, bytes(params).decode())))
    first = asyncio.create_task(peer.connection.call("A.one", {"x": "ä"}))
    second = asyncio.create_task(peer.connection.call_for(dict[str, int], "A.two", session_id="s1"))
    assert await peer.read() == {"id": 1, "method": "A.one", "params": {"x": "ä"}}
    assert await peer.read() == {"id": 2, "method": "A.two", "params": {}, "sessionId": "s1"}
    await peer.write(
        b'{"method":"E.a","params":{"n":1},"sessionId":"s1"}',
        b'{"method":"E.b","params":{},"sessionId":"other"}',
        b'{"id":2,"result":{"y":2},"sessionId":"s1"}',
        b'{"method":"E.c","params":{},"sessionId":"s1"}',
        b'{"id":1,"error":{"code":-32000,"message":"No node"}}',
    )
    assert await second == {"y": 2}
    with pytest.raises(CdpError, match=r"A\.one: No node") as caught:
        await first
    assert (caught.value.code, caught.value.reason) == (-32000, "No node")
    assert seen == [("E.a", '{"n":1}'), ("E.c", "{}")]


async def test_a_browser_that_goes_fails_all_that_waits_and_what_follows(peer: Peer) -> None:
    waiting = [asyncio.create_task(peer.connection.call(f"A.{number}")) for number in range(3)]
    await peer.read()
    peer.leave()
    for one in waiting:
        with pytest.raises(BrowserGoneError):
            await one
    await peer.connection.wait_until_gone()
    assert peer.gone == 1
    with pytest.raises(BrowserGoneError):
        await peer.connection.call("A.late")
    peer.connection.post("A.ignored")


async def test_a_call_that_is_given_up_leaves_nothing(peer: Peer) -> None:
    with pytest.raises(CallTimeoutError, match=r"A\.slow within 0\.01 seconds"):
        await peer.connection.call("A.slow", timeout=0.01)
    stopped = asyncio.create_task(peer.connection.call("A.stopped"))
    await peer.read()
    await peer.read()
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    after = asyncio.create_task(peer.connection.call("A.after"))
    await peer.write(b'{"id":1,"result":{}}', b'{"id":2,"result":{}}', b"not json", b'{"id":3,"result":{"ok":1}}')
    assert bytes(await after) == b'{"ok":1}'
    assert not peer.connection._waiting


async def test_an_answer_that_is_too_long_fails_its_call_alone() -> None:
    peer = Peer(max_message=1000)
    long = asyncio.create_task(peer.connection.call("A.long"))
    short = asyncio.create_task(peer.connection.call_for(dict[str, int], "A.short"))
    await peer.read()
    await peer.write(b'{"id":1,"result":{"x":"' + b"x" * 300_000 + b'"}}', b'{"id":2,"result":{"y":"z"}}')
    with pytest.raises(CdpError, match="too long"):
        await long
    with pytest.raises(BrowserError, match=r"A\.short cannot be read"):
        await short
    await peer.connection.close()
    peer.leave()
    assert peer.gone == 0


@pytest.mark.needs("chromium-headless-shell")
async def test_a_real_browser_answers_and_its_death_is_noticed(tmp_path: Path) -> None:
    async with run_browser(tmp_path / "profile") as running:
        version = await running.connection.call_for(dict[str, str], "Browser.getVersion")
        assert "Chrome" in version["product"]
        running.kill()
        await running.connection.wait_until_gone()
        with pytest.raises(BrowserGoneError):
            await running.connection.call("Browser.getVersion")
