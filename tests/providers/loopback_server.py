"""A small HTTP server on loopback whose answers a test writes down beforehand, byte for byte if it likes."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Reply:
    """One answer. `raw` replaces all; `end` says what happens after the body: `keep`, `close`, `cut` or `hang`."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)
    raw: Iterable[bytes] | None = None
    end: str = "keep"


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        return json.loads(self.body)


class Loopback:
    """Answers requests with `replies` in order, the last one again and again; records what it was asked."""

    def __init__(self, replies: list[Reply]) -> None:
        self.replies = replies
        self.requests: list[Request] = []
        self.connections = 0
        self.gone = asyncio.Event()
        self.asked = asyncio.Event()
        self.url = ""
        self.tasks: list[asyncio.Task[None]] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            self.gone.set()
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        method, path, _ = first.split(" ")
        if method == "CONNECT":
            self.requests.append(Request(method, path, headers, b""))
            writer.write(b"HTTP/1.1 502 No\r\ncontent-length: 0\r\n\r\n")
            return True
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.requests.append(Request(method, path, headers, body))
        self.asked.set()
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        for piece in reply.raw if reply.raw is not None else _encoded(reply):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if reply.end == "hang":
            await reader.read(1)
            self.gone.set()
            return False
        if reply.end == "cut":
            writer.transport.abort()
        return reply.end == "keep"


def _encoded(reply: Reply) -> list[bytes]:
    fields = {"transfer-encoding": "chunked", **reply.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    pieces = [f"HTTP/1.1 {reply.status} Some Words\r\n{lines}\r\n".encode()]
    pieces += [b"%x\r\n%s\r\n" % (len(part), part) for part in reply.parts]
    return [*pieces, *([b"0\r\n\r\n"] if reply.end in ("keep", "close") else [])]


@asynccontextmanager
async def loopback(*replies: Reply, tls: ssl.SSLContext | None = None, uds: str = "") -> AsyncIterator[Loopback]:
    served = Loopback(list(replies))
    if uds:
        server = await asyncio.start_unix_server(served.handle, uds, limit=1 << 26)
        served.url = "http://model.example"
    else:
        server = await asyncio.start_server(served.handle, "127.0.0.1", 0, ssl=tls, limit=1 << 26)
        port = server.sockets[0].getsockname()[1]
        served.url = f"http{'s' if tls else ''}://127.0.0.1:{port}"
    try:
        yield served
    finally:
        server.close()
        for task in served.tasks:
            task.cancel()
        await asyncio.gather(*served.tasks, return_exceptions=True)


def sse(*events: object, done: bool = True, **more: object) -> Reply:
    """An event stream: one event an argument; an argument that is a pair is (event name, data)."""
    parts = []
    for event in events:
        name, data = event if isinstance(event, tuple) else ("", event)
        text = data if isinstance(data, str) else json.dumps(data)
        parts.append((f"event: {name}\n" if name else "").encode() + b"data: " + text.encode() + b"\n\n")
    if done:
        parts.append(b"data: [DONE]\n\n")
    return Reply(headers={"content-type": "text/event-stream"}, parts=parts, **more)


def chat_chunk(delta: dict[str, object], finish: str | None = None, **more: object) -> dict[str, object]:
    return {"id": "c", "model": "served", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
