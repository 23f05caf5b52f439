"""Telegram's webhook: a listener that says "taken" only when what it took is on disk."""

import asyncio
import contextlib
import hmac
import json
import secrets
from collections.abc import AsyncGenerator
from types import TracebackType
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from hermes.gateway.http.server import HttpServer, HttpServerLimits
from hermes.gateway.platform import PlatformRefusedError
from hermes.i18n.messages import phrase

LARGEST = 1 << 20
"""Bytes of the largest update."""
WAITING = 64
"""Updates that wait at most; Telegram tries again with what is not taken."""
TAKEN_SECONDS = 50.0
"""Seconds that an update may wait until it is on disk."""
BATCH = 100
CONNECTIONS = 256
"""Open at once at most; Telegram itself uses 100."""
_HEADER = "X-Telegram-Bot-Api-Secret-Token"
_Taken = tuple[msgspec.Raw, "asyncio.Future[bool]"]


class Webhook:
    """The listener, as an async context."""

    def __init__(self, url: str, listen: str, secret: str) -> None:
        self.secret = secret or secrets.token_urlsafe(32)
        self._path = urlsplit(url).path or "/"
        self._host, _, port = listen.rpartition(":")
        if not self._host or not port.isdigit():
            raise PlatformRefusedError(phrase("`webhook_listen` must be HOST:PORT, such as 127.0.0.1:8443."))
        self._port = int(port)
        self._queue: asyncio.Queue[_Taken] = asyncio.Queue(WAITING)
        application = web.Application(client_max_size=LARGEST)
        application.add_routes([web.post(self._path, self._take)])
        self._listener = HttpServer(
            application, HttpServerLimits(host=self._host, port=self._port, connections=CONNECTIONS)
        )

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://{self._host}:{self._port}{self._path}"

    async def __aenter__(self) -> "Webhook":
        await self._listener.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()[1].set_result(False)
        await self._listener.close()

    async def _take(self, request: web.Request) -> web.Response:
        given = request.headers.get(_HEADER, "")
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.secret.encode()):
            return web.Response(status=401)
        try:
            async with asyncio.timeout(TAKEN_SECONDS):
                body = await request.read()
                json.loads(body)
                taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
                await self._queue.put((msgspec.Raw(body), taken))
                return web.Response(status=200 if await taken else 503)
        except (ValueError, RecursionError):
            return web.Response(status=400)
        except TimeoutError:
            return web.Response(status=503)

    @contextlib.asynccontextmanager
    async def waiting(self) -> AsyncGenerator[list[msgspec.Raw], None]:
        """What has come, at least one update; when the context ends well, it counts as taken."""
        found = [await self._queue.get()]
        while not self._queue.empty() and len(found) < BATCH:
            found.append(self._queue.get_nowait())
        good = False
        try:
            yield [raw for raw, _ in found]
            good = True
        finally:
            for _, taken in found:
                if not taken.done():
                    taken.set_result(good)
