"""An HTTP/1.1 server on one address, with limits on everything that can be kept open.

Host and Origin are checked before anything else: a web page that was given another name for this machine, or
that stands somewhere else, gets nothing. `X-Forwarded-For` and its like are never looked at.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import cast
from urllib.parse import urlsplit

from aiohttp import web
from msgspec import Struct

from hermes.gateway.platform import PlatformError
from hermes.i18n.messages import N_
from hermes.util.hosts import is_loopback

IDLE_SECONDS = 30.0
"""How long a connection may be open without a complete request head; the HTTP library closes it then."""
_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, and listened on only where the settings say so
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpServerLimits(Struct, frozen=True, kw_only=True):
    """The address to listen on, and the limits on who may connect."""

    host: str
    port: int
    connections: int
    allowed_hosts: Collection[str] = ()
    origins: Collection[str] = ()
    idle_seconds: float = IDLE_SECONDS


class HttpServer:
    """A limited HTTP server, from `open` to `close`. `rejected_connections` counts connections beyond the limit."""

    def __init__(self, application: web.Application, limits: HttpServerLimits) -> None:
        self._limits = limits
        self._application = application
        application.middlewares.insert(0, self._track_request)
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._working: set[web.RequestHandler] = set()
        own = limits.host.lower().strip("[]")
        self._hosts = {one.lower() for one in limits.allowed_hosts} | ({own} if own not in _EVERYWHERE else set())
        self.port = limits.port
        self.rejected_connections = 0

    async def open(self) -> None:
        """Start listening. Raises PlatformError when the address is taken."""
        runner = self._runner = web.AppRunner(
            self._application,
            access_log=None,
            handler_cancellation=True,
            keepalive_timeout=self._limits.idle_seconds,
            lingering_time=1.0,
            shutdown_timeout=1.0,
            auto_decompress=False,  # a small body must not become a large one
        )
        await runner.setup()
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._make_protocol, self._limits.host.strip("[]"), self._limits.port, backlog=1024
            )
        except OSError as error:
            await runner.cleanup()
            where = f"{self._limits.host}:{self._limits.port}"
            said = N_("Nothing can listen at {where}: {why}.", where=where, why=error.strerror or type(error).__name__)
            raise PlatformError(said) from None
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        """The number of open connections."""
        server = self._runner.server if self._runner is not None else None
        return len(server.connections) if server is not None else 0

    async def stop_accepting(self) -> None:
        """Accept nothing new; requests under way are answered to their end."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for one in self._idle_connections():
            one.force_close()

    async def close(self) -> None:
        """Close the server and all its connections."""
        await self.stop_accepting()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._working.clear()

    def refusal_reason(self, request: web.Request) -> str:
        """Return why a request is refused by its Host and Origin headers; empty when it is not."""
        hosts = request.headers.getall("Host", [])
        name = _parse_host(hosts[0]) if len(hosts) == 1 else ""
        if not name:
            return "The Host header is missing or makes no sense."
        if name not in self._hosts and not is_loopback(name):
            return "This server is not known by that name; see `allowed_hosts`."
        origins = request.headers.getall("Origin", [])
        if origins and (len(origins) > 1 or origins[0] == "null" or origins[0] not in self._limits.origins):
            return "Pages of that origin may not use this server; see `cors`."
        return ""

    def _idle_connections(self) -> list[web.RequestHandler]:
        server = self._runner.server if self._runner is not None else None
        return [] if server is None else [one for one in server.connections if one not in self._working]

    def _make_protocol(self) -> asyncio.Protocol:
        server = self._runner.server if self._runner is not None else None
        if server is None or len(server.connections) >= self._limits.connections:
            self.rejected_connections += 1
            return _RejectingProtocol()
        return server()

    @web.middleware
    async def _track_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = request.protocol
        self._working.add(connection)
        try:
            if self._server is None:
                return web.Response(status=503, headers={"Connection": "close", "Retry-After": "5"})
            return await handler(request)
        finally:
            self._working.discard(connection)


class _RejectingProtocol(asyncio.Protocol):
    """Answers a connection beyond the limit with 503, and closes it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the answer in one packet."""
        line = cast("asyncio.WriteTransport", transport)  # uvloop's are no subclass
        with contextlib.suppress(RuntimeError):
            line.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        line.close()


def _parse_host(host: str) -> str:
    """Return the name in a Host header; empty for one that makes no sense."""
    try:
        read = urlsplit(f"//{host}")
        read.port  # noqa: B018 - raises for one that is none
    except ValueError:
        return ""
    return (read.hostname or "").lower() if read.username is None and not (read.path or read.query) else ""
