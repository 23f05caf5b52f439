"""A `hermes serve` of its own, a proxy that cuts connections, and servers that misbehave: for tests of the client."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from msgspec import Struct

from hermes.client import HermesClient
from hermes.testing.home import TempHome
from hermes.testing.script import Reply, ReplyModel
from hermes.testing.server import ScriptedServer

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Door(Struct):
    """A door at work. `address` is the line that it printed."""

    address: Mapping[str, object]
    client: HermesClient
    model: ScriptedServer
    home: TempHome

    @property
    def url(self) -> str:
        return str(self.address["url"])

    @property
    def key(self) -> str:
        return str(self.address["key"])


@asynccontextmanager
async def serve_home(home: TempHome, *words: str) -> AsyncIterator[Mapping[str, object]]:
    """Run `hermes serve` in a home, from the moment that it says where it listens."""
    command = [sys.executable, "-m", "hermes", "serve", "--port", "0", "--json", *words]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=home.cwd, env=home.environ, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            line = await process.stdout.readline()
        assert line, "it has ended"
        yield json.loads(line)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        rest, _ = await process.communicate()
        assert rest == b""  # the line is all that programs read


@asynccontextmanager
async def open_door(
    replies: ReplyModel | Iterable[Reply], more: Mapping[str, object] | None = None
) -> AsyncIterator[Door]:
    """A door over a scripted model, and a client of it."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ScriptedServer(replies))
        home = stack.enter_context(TempHome.for_server(model.url, more_config=more))
        address = await stack.enter_async_context(serve_home(home))
        client = await stack.enter_async_context(HermesClient(str(address["url"]), str(address["key"]), seconds=20))
        yield Door(address, client, model, home)


@asynccontextmanager
async def listen(handler: Handler) -> AsyncIterator[str]:
    """A server on loopback; the address."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(ConnectionError, asyncio.CancelledError):
            await handler(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class CuttingProxy:
    """Passes connections on to a port, and cuts all of them on request."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self.heads: list[bytes] = []
        """What clients sent first on each connection."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, far_writer]
        self.heads.append(b"")
        try:
            number = len(self.heads) - 1
            await asyncio.gather(self._pump(reader, far_writer, number), self._pump(far_reader, writer, -1))
        finally:
            far_writer.transport.abort()

    def cut(self) -> None:
        for one in self._writers:
            one.transport.abort()
        self._writers.clear()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(65_536):
                if number >= 0:
                    self.heads[number] += chunk
                writer.write(chunk)
                await writer.drain()
        writer.close()
