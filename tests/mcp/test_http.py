"""MCP servers over HTTP that do not do what they should."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from tests.mcp.test_servers import call, call_in_time, one, spec, until

Answer = tuple[int, Mapping[str, str], bytes]
JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}
TOOL = {"name": "echo", "inputSchema": {"type": "object"}}


class Site:
    """Answers as a server should, but for calls, which `calls` answers, and what `before` answers instead."""

    def __init__(self, calls: Callable[[object], Answer | None]) -> None:
        self.calls = calls
        self.before: Callable[[str], Answer | None] = lambda _: None
        self.heads: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
                size = int(head.partition("content-length: ")[2].partition("\r")[0] or 0)
                body = await reader.readexactly(size)
                self.heads.append(head)
                answer = self.before(head) or self.answer(head, json.loads(body) if body else {})
                if answer is None:  # a stream that stays open
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: wait\n\n")
                    await reader.read()
                    return
                status, headers, content = answer
                lines = [f"HTTP/1.1 {status} X", f"content-length: {len(content)}"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def answer(self, head: str, message: Mapping[str, object]) -> Answer | None:
        method = message.get("method")
        if method == "initialize":
            found: Mapping[str, object] = {"protocolVersion": "2025-06-18", "capabilities": {}}
            return 200, {**JSON, "Mcp-Session-Id": f"s{len(self.heads)}"}, result(message["id"], found)
        if method == "tools/list":
            return 200, JSON, result(message["id"], {"tools": [TOOL]})
        if method == "tools/call":
            return self.calls(message["id"])
        return (405 if head.startswith("get") else 202), {}, b""


def result(number: object, found: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": found}).encode()


def well(number: object) -> Answer:
    return 200, JSON, result(number, {"content": [{"type": "text", "text": "well"}]})


@asynccontextmanager
async def site(calls: Callable[[object], Answer | None] = well) -> AsyncIterator[Site]:
    made = Site(calls)
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as server:
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        yield made


async def test_every_request_carries_what_it_must(tmp_path: Path) -> None:
    async with site() as there:
        async with one(spec(command="", url=there.url, headers={"authorization": "Bearer t"}), tmp_path) as server:
            assert await call(server, "echo") == "well"
        assert all("authorization: bearer t" in head for head in there.heads)
        assert "mcp-protocol-version: 2026-07-28" in there.heads[0] and "mcp-method: server/discover" in there.heads[0]
        assert "mcp-session" not in there.heads[1] and "mcp-protocol-version" not in there.heads[1]
        assert all("mcp-session-id: s2\r" in head for head in there.heads[2:])
        assert all("mcp-protocol-version: 2025-06-18" in head for head in there.heads[2:])
        assert there.heads[-1].startswith("delete /mcp ")


@pytest.mark.parametrize(
    ("answer", "problem", "requests"),
    [
        ((401, {}, b""), "status 401: it wants other credentials (`headers`)", 1),
        ((307, {"location": "http://127.0.0.2/mcp/"}, b""), "it is elsewhere ('http://127.0.0.2/mcp/')", 1),
        ((500, {}, b"oops"), "it answered with status 500", 1),
        ((405, {}, b""), "it answered with status 405", 3),  # the last looks for a stream of events
        ((200, {"content-type": "text/html"}, b"<h1>hi"), "it ended its answer without a result", 2),
        ((202, {}, b""), "it ended its answer without a result", 2),
        ((200, EVENTS, b"data: {}\n\n"), "it ended its answer without a result", 2),
        ((200, {**JSON, "content-encoding": "br"}, b"x"), "an encoding that was not requested", 1),
    ],
)
async def test_what_is_wrong_is_said(answer: Answer, problem: str, requests: int, tmp_path: Path) -> None:
    async with site() as there:
        there.before = lambda _: answer
        async with one(spec(command="", url=there.url), tmp_path) as server:
            assert problem in server.problem
        assert len(there.heads) == requests  # nothing is sent anywhere else, and no goodbye to whom there was no hello


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((200, JSON, b'{"jsonrpc":"2.0","id":4,"result":"' + b"x" * (17 << 20) + b'"}'), "more than 16 MB"),
        ((200, EVENTS, b"data: " + b"x" * (17 << 20)), "more than 16 MB"),
        ((200, JSON, b'{"id":4,"result":' + b"[" * 100_000), "not valid JSON, or nested too deeply"),
        (None, "did not answer within 0.5 s"),
    ],
)
async def test_a_bad_answer_ends_its_call_and_the_next_one_works(
    answer: Answer | None, why: str, tmp_path: Path
) -> None:
    timeout = 120.0 if answer else 0.5
    async with site() as there, one(spec(command="", url=there.url, timeout=timeout), tmp_path) as server:
        there.calls = lambda number: well(number) if len(there.heads) > 6 else answer
        with pytest.raises(ToolError, match=why):
            await call(server, "echo")
        assert await call_in_time(server, "echo") == "well"


async def test_a_session_that_was_forgotten_is_begun_anew(tmp_path: Path) -> None:
    async with site() as there, one(spec(command="", url=there.url), tmp_path) as server:
        there.before = lambda head: (404, {}, b"") if "mcp-session-id: s2\r" in head else None
        with pytest.raises(ToolError, match="it has forgotten the session"):
            await call(server, "echo")
        assert await call(server, "echo") == "well"


async def test_a_stream_that_ends_at_once_is_not_asked_for_all_the_time(tmp_path: Path) -> None:
    async with site() as there:
        streams: list[float] = []

        def end_streams(head: str) -> Answer | None:
            if not head.startswith("get"):
                return None
            streams.append(asyncio.get_running_loop().time())
            return 200, EVENTS, b"retry: 0\n\n"

        there.before = end_streams
        async with one(spec(command="", url=there.url), tmp_path):
            await until(lambda: len(streams) > 2)
            assert streams[2] - streams[0] >= 2.0


async def test_a_stopped_call_closes_its_connection(tmp_path: Path) -> None:
    async with site(lambda _: None) as there, one(spec(command="", url=there.url), tmp_path) as server:
        calling = asyncio.create_task(call(server, "echo"))
        await until(lambda: "post" in there.heads[-1] and len(there.heads) == 6)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert len(there.heads) == 6  # it does not wait for what is told to the server
        await until(lambda: len(there.heads) == 7)  # told that it was cancelled
