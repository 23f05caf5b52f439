"""Servers of the first revision: one stream of events, and an address for messages that it names."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from tests.mcp.test_servers import HERE, call, one, spec, use_the_oracle

pytestmark = pytest.mark.slow
HELLO = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}}
TOOLS = {"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}
RESULTS = {"initialize": HELLO, "tools/list": TOOLS, "tools/call": {"content": [{"type": "text", "text": "one"}]}}


@pytest.fixture
def address() -> Iterator[str]:
    arguments = [sys.executable, str(HERE / "oracle_server.py"), "first-revision"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/sse"
        process.kill()


@pytest.mark.parametrize(
    ("protocol", "agreed"), [("", "2025-11-25"), ("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05")]
)
async def test_the_official_server(protocol: str, agreed: str, address: str, tmp_path: Path) -> None:
    async with one(spec(command="", url=address, protocol=protocol), tmp_path) as server:
        await use_the_oracle(server)
        assert server.offer.version == agreed


class _FirstRevision:
    """A server that names `endpoint` as the address for messages, and can end its streams."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.heads: list[str] = []
        self._streams: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            size = head.lower().partition("content-length: ")[2].partition("\r")[0]
            body = await reader.readexactly(int(size or 0))
            if head.startswith("GET /sse "):
                self._streams.append(writer)
                writer.write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n: hello\n\n")
                writer.write(f"event: endpoint\ndata: {self.endpoint}\n\n".encode())
                return
            is_taken = head.startswith("POST /messages")
            writer.write(f"HTTP/1.1 {202 if is_taken else 405} X\r\ncontent-length: 0\r\n\r\n".encode())
            message = json.loads(body) if is_taken else {}
            if (result := RESULTS.get(message.get("method"))) is not None:
                said = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
                self._streams[-1].write(f"data: {said}\n\n".encode())
        writer.close()

    def end_streams(self) -> None:
        while self._streams:
            self._streams.pop().close()


@contextlib.asynccontextmanager
async def listening(made: _FirstRevision) -> AsyncIterator[str]:
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"
        made.end_streams()
        server.close()


async def test_header_fields_go_with_every_request(tmp_path: Path) -> None:
    made = _FirstRevision("/messages?session=a")
    async with (
        listening(made) as url,
        one(spec(command="", url=url, headers={"authorization": "Bearer t"}), tmp_path) as server,
    ):
        assert await call(server, "count") == "one"
    assert {head.splitlines()[0] for head in made.heads} == {
        "POST /sse HTTP/1.1",
        "GET /sse HTTP/1.1",
        "POST /messages?session=a HTTP/1.1",
    }
    assert all("authorization: bearer t\r\n" in head.lower() for head in made.heads)


async def test_a_stream_that_ends_is_opened_again_for_the_next_call(tmp_path: Path) -> None:
    made = _FirstRevision("/messages")
    async with listening(made) as url, one(spec(command="", url=url), tmp_path) as server:
        assert await call(server, "count") == "one"
        posted = sum(head.startswith("POST /sse") for head in made.heads)
        made.end_streams()
        with contextlib.suppress(ToolError):  # where that has not arrived yet, this call is the one that is lost
            await call(server, "count")
        assert await call(server, "count") == "one"
        assert sum(head.startswith("POST /sse") for head in made.heads) == posted  # it is known what it speaks


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.1:1/messages",
        "https://127.0.0.1/messages",
        "http://localhost:1/x",
        "//[::1]/x",
        "file:///etc/passwd",
        "javascript:1",
        "/messages\x00",
        "http://[",
        "/" + "x" * 5_000,
    ],
)
async def test_messages_go_to_the_same_place_only(endpoint: str, tmp_path: Path) -> None:
    made = _FirstRevision(endpoint)
    async with listening(made) as url, one(spec(command="", url=url), tmp_path) as server:
        assert "it wants messages to be sent elsewhere" in server.problem
    assert not any(head.startswith("POST /messages") for head in made.heads)


async def test_a_server_that_takes_neither_says_what_it_said_first(tmp_path: Path) -> None:
    made = _FirstRevision("/messages")
    async with (
        listening(made) as url,
        one(spec(command="", url=url.removesuffix("/sse") + "/other"), tmp_path) as server,
    ):
        assert server.problem == "it answered with status 405"
