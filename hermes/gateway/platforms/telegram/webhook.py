"""Telegram's webhook server: it confirms an update only when it is on disk."""

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
from hermes.i18n.messages import N_

MAX_UPDATE_BYTES = 1 << 20
"""Bytes of the largest update."""
MAX_WAITING = 64
"""Updates that wait at most; Telegram sends refused ones again."""
STORE_SECONDS = 50.0
"""Seconds that an update may wait until it is on disk."""
MAX_BATCH = 100
MAX_CONNECTIONS = 256
"""Connections that are open at the same time at most; Telegram itself uses 100."""
_SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - the name of a header
_WaitingUpdate = tuple[msgspec.Raw, "asyncio.Future[bool]"]


class TelegramWebhookServer:
    """The webhook server, as an async context."""

    def __init__(self, url: str, listen: str, secret: str) -> None:
        self.secret = secret or secrets.token_urlsafe(32)
        self._path = urlsplit(url).path or "/"
        self._host, _, port = listen.rpartition(":")
        if not self._host or not port.isdigit():
            raise PlatformRefusedError(N_("`webhook_listen` must be HOST:PORT, such as 127.0.0.1:8443."))
        self._port = int(port)
        self._queue: asyncio.Queue[_WaitingUpdate] = asyncio.Queue(MAX_WAITING)
        application = web.Application(client_max_size=MAX_UPDATE_BYTES)
        application.add_routes([web.post(self._path, self._receive_update)])
        self._http_server = HttpServer(
            application, HttpServerLimits(host=self._host, port=self._port, connections=MAX_CONNECTIONS)
        )

    @property
    def address(self) -> str:
        """The URL that it listens on."""
        return f"http://{self._host}:{self._port}{self._path}"

    async def __aenter__(self) -> "TelegramWebhookServer":
        await self._http_server.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()[1].set_result(False)
        await self._http_server.close()

    async def _receive_update(self, request: web.Request) -> web.Response:
        secret = request.headers.get(_SECRET_HEADER, "")
        if not hmac.compare_digest(secret.encode("utf-8", "surrogateescape"), self.secret.encode()):
            return web.Response(status=401)
        try:
            async with asyncio.timeout(STORE_SECONDS):
                body = await request.read()
                json.loads(body)
                stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
                await self._queue.put((msgspec.Raw(body), stored))
                return web.Response(status=200 if await stored else 503)
        except (ValueError, RecursionError):
            return web.Response(status=400)
        except TimeoutError:
            return web.Response(status=503)

    @contextlib.asynccontextmanager
    async def next_updates(self) -> AsyncGenerator[list[msgspec.Raw], None]:
        """Yield the updates that have come, at least one; they count as stored if the context ends without an error."""
        found = [await self._queue.get()]
        while not self._queue.empty() and len(found) < MAX_BATCH:
            found.append(self._queue.get_nowait())
        succeeded = False
        try:
            yield [raw for raw, _ in found]
            succeeded = True
        finally:
            for _, taken in found:
                if not taken.done():
                    taken.set_result(succeeded)
