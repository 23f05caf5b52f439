"""The metrics server: answers `GET /health` and `GET /metrics`, and nothing else."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from hermes.core.errors import ConfigError
from hermes.gateway.accounts import fill_variables
from hermes.gateway.http.server import HttpServer, HttpServerLimits, is_loopback
from hermes.i18n.messages import N_
from hermes.sessions.app import App

_MAX_CONNECTIONS = 16
_MIN_TOKEN_LENGTH = 16
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class MetricsSource(Protocol):
    """The gateway as the metrics server uses it."""

    async def measure_backlog(self) -> None:
        """Refresh the store's part, before anything is reported."""
        ...

    def health_report(self) -> Mapping[str, object]:
        """Return the gateway's state."""
        ...

    def metrics_text(self) -> str:
        """Return the same for Prometheus."""
        ...


class MetricsServer:
    """Listens from `open` to `close`."""

    def __init__(self, address: str, token: str, source: MetricsSource) -> None:
        """Raises ConfigError for an invalid address, or one that other machines reach without a token."""
        host, port = _parse_address(address)
        if not is_loopback(host) and len(token) < _MIN_TOKEN_LENGTH:
            raise ConfigError(
                N_("`gateway.metrics` may be reached from other machines, and nothing protects it."),
                N_(
                    "Set `gateway.metrics_token` ({n} characters at least), or listen on 127.0.0.1.",
                    n=_MIN_TOKEN_LENGTH,
                ),
            )
        self._token = token.encode()
        self._source = source
        application = web.Application(middlewares=[self._check_access], client_max_size=1024)
        application.add_routes([web.get("/health", self._serve_health), web.get("/metrics", self._serve_metrics)])
        self._server = HttpServer(application, HttpServerLimits(host=host, port=port, connections=_MAX_CONNECTIONS))

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    async def open(self) -> None:
        """Start listening. Raises PlatformError when the address is taken."""
        await self._server.open()

    async def close(self) -> None:
        """Stop listening."""
        await self._server.close()

    @web.middleware
    async def _check_access(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the request's origin and token before it is handled."""
        why = self._server.refusal_reason(request)
        if why:
            return web.Response(status=403, text=why, headers=_HEADERS)
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        known = kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
        if self._token and not known:
            headers = {**_HEADERS, "WWW-Authenticate": 'Bearer realm="hermes"'}
            return web.Response(status=401, text="A token is needed: `Authorization: Bearer TOKEN`.", headers=headers)
        return await handler(request)

    async def _serve_health(self, _request: web.Request) -> web.Response:
        await self._source.measure_backlog()
        body = msgspec.json.encode(self._source.health_report())
        return web.Response(body=body, content_type="application/json", headers=_HEADERS)

    async def _serve_metrics(self, _request: web.Request) -> web.Response:
        await self._source.measure_backlog()
        headers = {**_HEADERS, "Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self._source.metrics_text().encode(), headers=headers)


async def open_metrics_server(app: App, source: MetricsSource) -> MetricsServer | None:
    """Start the metrics server where the settings ask for it. Raises ConfigError, and PlatformError for an address in
    use.
    """
    chosen = app.services.settings.gateway
    if not chosen.metrics:
        return None
    token = str(fill_variables(chosen.metrics_token, app.services.environ, "gateway.metrics_token"))
    app.services.redactor.add_secret("metrics_token", token)
    meters = MetricsServer(chosen.metrics, token, source)
    await meters.open()
    return meters


def _parse_address(text: str) -> tuple[str, int]:
    try:
        read = urlsplit(f"//{text}")
        host, port = read.hostname or "", read.port
    except ValueError:
        host, port = "", None
    if not host or port is None:
        raise ConfigError(
            N_("`gateway.metrics` is no address: {text!r}.", text=text), N_("Write it as 127.0.0.1:9464.")
        )
    return host, port
