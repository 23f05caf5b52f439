"""Serves health and measures to programs that watch the gateway: `GET /health` and `GET /metrics`, and nothing else."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from hermes.core.errors import ConfigError
from hermes.gateway.accounts import filled
from hermes.gateway.http.server import Bounds, Listener, is_loopback
from hermes.i18n.messages import phrase
from hermes.sessions.app import App

_CONNECTIONS = 16
_SHORTEST_TOKEN = 16
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Watched(Protocol):
    """What is told about."""

    async def measure(self) -> None:
        """Look anew; before anything is told."""
        ...

    def health(self) -> Mapping[str, object]:
        """How things stand."""
        ...

    def metrics(self) -> str:
        """The same for Prometheus."""
        ...


class Meters:
    """Listens from `open` to `close`."""

    def __init__(self, address: str, token: str, watched: Watched) -> None:
        """Raises ConfigError for an address that is none, or that strangers reach without a token."""
        host, port = _address(address)
        if not is_loopback(host) and len(token) < _SHORTEST_TOKEN:
            raise ConfigError(
                phrase("`gateway.metrics` may be reached from other machines, and nothing protects it."),
                phrase(
                    "Set `gateway.metrics_token` ({n} characters at least), or listen on 127.0.0.1.", n=_SHORTEST_TOKEN
                ),
            )
        self._token = token.encode()
        self._watched = watched
        application = web.Application(middlewares=[self._guard], client_max_size=1024)
        application.add_routes([web.get("/health", self._tell_health), web.get("/metrics", self._tell_metrics)])
        self._listener = Listener(application, Bounds(host=host, port=port, connections=_CONNECTIONS))

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._listener.port

    async def open(self) -> None:
        """Listen. Raises PlatformError when the address is taken."""
        await self._listener.open()

    async def close(self) -> None:
        """Listen no more."""
        await self._listener.close()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Look at where it comes from and at its token first."""
        why = self._listener.refusal(request)
        if why:
            return web.Response(status=403, text=why, headers=_HEADERS)
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        known = kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
        if self._token and not known:
            headers = {**_HEADERS, "WWW-Authenticate": 'Bearer realm="hermes"'}
            return web.Response(status=401, text="A token is needed: `Authorization: Bearer TOKEN`.", headers=headers)
        return await handler(request)

    async def _tell_health(self, _request: web.Request) -> web.Response:
        await self._watched.measure()
        body = msgspec.json.encode(self._watched.health())
        return web.Response(body=body, content_type="application/json", headers=_HEADERS)

    async def _tell_metrics(self, _request: web.Request) -> web.Response:
        await self._watched.measure()
        headers = {**_HEADERS, "Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self._watched.metrics().encode(), headers=headers)


async def opened_meters(app: App, watched: Watched) -> Meters | None:
    """Meters that listen, where the settings say so. Raises ConfigError, and PlatformError for an address in use."""
    chosen = app.premises.settings.gateway
    if not chosen.metrics:
        return None
    token = str(filled(chosen.metrics_token, app.premises.environ, "gateway.metrics_token"))
    app.premises.redactor.learn("metrics_token", token)
    meters = Meters(chosen.metrics, token, watched)
    await meters.open()
    return meters


def _address(text: str) -> tuple[str, int]:
    try:
        read = urlsplit(f"//{text}")
        host, port = read.hostname or "", read.port
    except ValueError:
        host, port = "", None
    if not host or port is None:
        raise ConfigError(
            phrase("`gateway.metrics` is no address: {text!r}.", text=text), phrase("Write it as 127.0.0.1:9464.")
        )
    return host, port
