"""Web servers on loopback for tests: each path answers as a test says, byte for byte if it likes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """A server: `pages` by path (without the query); what it was asked."""

    pages: dict[str, Answer] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            method, path, _ = first.split(" ")
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.asked.append(Asked(method, path, headers, body))
            answer = self.pages.get(path.partition("?")[0], page("no such page", status=404))
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.gone.set()
            writer.close()


def page(text: str | bytes, *, status: int = 200, kind: str = "text/html; charset=utf-8", **fields: str) -> bytes:
    """A whole answer."""
    body = text.encode() if isinstance(text, str) else text
    lines = [f"HTTP/1.1 {status} Words", f"content-length: {len(body)}", f"content-type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def moved(to: str, status: int = 302) -> bytes:
    return page("", status=status, location=to)


@asynccontextmanager
async def site(tls: ssl.SSLContext | None = None, **pages: Answer) -> AsyncIterator[Site]:
    served = Site({f"/{name}".replace("/index", "/"): answer for name, answer in pages.items()})
    server = await asyncio.start_server(served.handle, "127.0.0.1", 0, ssl=tls)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        await server.wait_closed()
