"""Streams of events: how they are cut, and how one that breaks off is resumed."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from hermes.mcp.event_stream import EventStreamReader
from tests.mcp.test_servers import call, one, spec


def test_events_are_cut_wherever_they_come() -> None:
    lines = "\ufeff: hello\r\nid: 1\nretry: 250\ndata: \n\nevent: other\rdata: a\rdata:b\r\r\n"
    text = f'{lines}id\ndata: {{"x":"ü"}}\n\ndata: cut'.encode()
    for size in (1, 2, 3, 7, 1000):
        reader = EventStreamReader(1000)
        events = [event for at in range(0, len(text), size) for event in reader.feed(text[at : at + size])]
        assert [(event.type, event.data) for event in events] == [("other", "a\nb"), ("message", '{"x":"ü"}')]
        assert (reader.last_id, reader.retry_seconds) == ("", 0.25)
    reader = EventStreamReader(10)
    with pytest.raises(ValueError, match=r"^$"):
        reader.feed(b"data: " + b"x" * 20)
    with pytest.raises(ValueError, match=r"^$"):
        EventStreamReader(10).feed(b"data: 12345\ndata: 12345\n")


def test_a_stream_without_messages_ends() -> None:
    for nothing in (b":\n", b"event: ping\ndata: x\n\n", b"id: 1\n\n", b"\n"):
        reader = EventStreamReader(1_000)
        assert reader.feed(nothing * (800 // len(nothing)) + b"data: 1\n\n")
        with pytest.raises(ValueError, match=r"^$"):
            for _ in range(3_000):
                reader.feed(nothing)


class Resuming:
    """A server whose answer to a call comes in pieces, over as many streams as `pieces` are."""

    def __init__(self, pieces: list[bytes], status: int = 200) -> None:
        self.pieces = pieces
        self.status = status
        self.positions: list[tuple[str, float]] = []
        """Where each GET that resumes begins, and when it came."""
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            body = await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r")[0] or 0))
            message = json.loads(body) if body else {}
            if head.startswith("get") and "last-event-id: " in head:
                self.positions.append((head.partition("last-event-id: ")[2].partition("\r")[0], time.monotonic()))
                self.write_events(writer, self.status)
            elif head.startswith("get"):
                self.write(writer, 405, "text/plain", b"")
            elif message.get("method") == "tools/call":
                self.identity = message["id"]
                self.write_events(writer, 200)
            elif message.get("id") is None:
                self.write(writer, 202, "text/plain", b"")
            else:
                result = self.answer(message["method"])
                said = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
                self.write(writer, 200 if result else 400, "application/json" if result else "text/plain", said)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @staticmethod
    def answer(method: str) -> dict[str, object]:
        tools = {"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        return {"initialize": hello, "tools/list": tools}.get(method, {})

    def write_events(self, writer: asyncio.StreamWriter, status: int) -> None:
        piece = self.pieces.pop(0) if self.pieces else b""
        self.write(writer, status, "text/event-stream", piece.replace(b"ID", str(self.identity).encode()))

    @staticmethod
    def write(writer: asyncio.StreamWriter, status: int, kind: str, body: bytes) -> None:
        head = (
            f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)


@asynccontextmanager
async def resuming(pieces: list[bytes], status: int = 200) -> AsyncIterator[Resuming]:
    made = Resuming(pieces, status)
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as server:
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        yield made


RESULT = b'data: {"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"whole"}]}}\n\n'


async def test_a_stream_that_ends_early_is_resumed_where_it_stood_and_when_the_server_says(tmp_path: Path) -> None:
    pieces = [b"id: a\nretry: 120\ndata: \n\n", b'id: b\ndata: {"jsonrpc":"2.0","method":"x"}\n\n', RESULT]
    async with resuming(pieces) as there, one(spec(command="", url=there.url), tmp_path) as server:
        began = time.monotonic()
        assert await call(server, "count") == "whole"
        assert [position for position, _ in there.positions] == ["a", "b"]
        assert there.positions[0][1] - began >= 0.12 and there.positions[1][1] - there.positions[0][1] >= 0.12


async def test_a_stream_without_an_id_is_not_resumed(tmp_path: Path) -> None:
    async with resuming([b"retry: 1\ndata: {}\n\n"]) as there, one(spec(command="", url=there.url), tmp_path) as server:
        with pytest.raises(ToolError, match="it ended its answer without a result"):
            await call(server, "count")
        assert there.positions == []


@pytest.mark.parametrize(("status", "tries"), [(200, 3), (503, 3), (404, 1)])
async def test_resuming_ends_where_nothing_more_comes(status: int, tries: int, tmp_path: Path) -> None:
    pieces = [b"id: a\nretry: 1\ndata: \n\n"]
    async with resuming(pieces, status) as there, one(spec(command="", url=there.url), tmp_path) as server:
        with pytest.raises(ToolError, match="it ended its answer without a result"):
            await call(server, "count")
        assert len(there.positions) == tries
