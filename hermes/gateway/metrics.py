"""The gateway's state: as a mapping for people, as text for Prometheus.

The metrics server: answers `GET /health` and `GET /metrics`, and nothing else.
"""

import hmac
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from aiohttp import web
from msgspec import Struct

from hermes import __version__
from hermes.config.environment import fill_variables
from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.core.usage import NANO_PER_USD
from hermes.gateway.accounts import AccountHealth, PlatformAccount
from hermes.gateway.http.server import HttpServer, HttpServerLimits
from hermes.gateway.platform import GatewayFacade
from hermes.gateway.session_pool import SessionPool
from hermes.gateway.telemetry import HISTOGRAM_BOUNDS, Histogram, Telemetry
from hermes.i18n.messages import N_
from hermes.sessions.app import App
from hermes.util.hosts import is_loopback

_MAX_CONNECTIONS = 16
_MIN_TOKEN_LENGTH = 16
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BacklogCounts(Struct, frozen=True):
    """Counts from the store: deliveries by account and state, the age of the oldest pending one in seconds, and
    inbound events by account that are not routed yet.
    """

    deliveries: Mapping[tuple[str, str], int] = {}
    oldest_seconds: float = 0.0
    waiting: Mapping[str, int] = {}


async def read_backlog(app: App) -> BacklogCounts:
    """Read the backlog from the store."""
    store, now = app.services.store, app.services.clock.now()
    since = await store.outbox.get_oldest_pending_time()
    return BacklogCounts(
        await store.outbox.count_by_state(),
        max(now - since, 0.0) if since is not None else 0.0,
        await store.chats.count_waiting_events(),
    )


class ProcessUsage(Struct, frozen=True):
    """What this process uses of the machine; 0 where the system does not say."""

    memory: int
    handles: int
    cpu_seconds: float


def read_process_usage() -> ProcessUsage:
    """Return the current usage."""
    spent = os.times()
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[1])
        handles = len(os.listdir("/proc/self/fd"))
    except OSError:
        pages = handles = 0
    return ProcessUsage(pages * os.sysconf("SC_PAGE_SIZE"), handles, spent.user + spent.system)


class GatewayStatus(Struct, frozen=True, kw_only=True):
    """Everything that health and metrics are made of."""

    accounts: Mapping[str, PlatformAccount]
    pool: SessionPool
    telemetry: Telemetry
    backlog: BacklogCounts
    config_problems: Sequence[str] = ()


def build_health_report(status: GatewayStatus) -> dict[str, object]:
    """Return the gateway's state for people."""
    now = read_process_usage()
    return {
        "version": __version__,
        "pid": os.getpid(),
        "up_seconds": round(time.time() - status.telemetry.started_at, 1),
        "accounts": {
            name: {"platform": one.plan.descriptor.title, "state": one.health.value, "why": one.last_problem}
            for name, one in status.accounts.items()
        },
        "wrong": list(status.config_problems),
        "sessions": {"live": len(status.pool), "working": status.pool.working_count},
        "turns": dict(status.telemetry.turns),
        "arrivals": {"new": dict(status.telemetry.arrivals), "waiting": dict(status.backlog.waiting)},
        "deliveries": count_by_state(status.backlog.deliveries),
        "oldest_delivery_seconds": round(status.backlog.oldest_seconds, 1),
        "tokens": dict(status.telemetry.tokens),
        "usd": round(status.telemetry.nano_dollars / NANO_PER_USD, 6),
        "lag_seconds": round(status.telemetry.lag, 4),
        "memory_bytes": now.memory,
        "handles": now.handles,
    }


def count_by_state(deliveries: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return the deliveries of all accounts by state."""
    found: Counter[str] = Counter()
    for (_, state), count in deliveries.items():
        found[state] += count
    return dict(found)


def format_prometheus(status: GatewayStatus) -> str:
    """Return the metrics in the text format of Prometheus (exposition format 0.0.4)."""
    watch, now = status.telemetry, read_process_usage()
    lines: list[str] = []

    def add_metric(name: str, kind: str, help_text: str, values: Iterable[tuple[Mapping[str, str], float]]) -> None:
        lines.append(f"# HELP hermes_{name} {help_text}")
        lines.append(f"# TYPE hermes_{name} {kind}")
        lines.extend(f"hermes_{name}{_format_labels(labels)} {value:.10g}" for labels, value in values)

    add_metric(
        "account_state",
        "gauge",
        "1 for the state that an account is in.",
        (
            ({"account": name, "state": state.value}, float(one.health is state))
            for name, one in status.accounts.items()
            for state in AccountHealth
        ),
    )
    add_metric("sessions_live", "gauge", "Sessions in memory.", [({}, len(status.pool))])
    add_metric("sessions_working", "gauge", "Sessions that run a turn.", [({}, status.pool.working_count)])
    add_metric(
        "turns_total", "counter", "Turns by outcome.", (({"outcome": name}, n) for name, n in watch.turns.items())
    )
    add_metric(
        "arrivals_total",
        "counter",
        "What came in and was new.",
        (({"account": name}, n) for name, n in watch.arrivals.items()),
    )
    add_metric(
        "arrivals_waiting",
        "gauge",
        "What came in and nobody has looked at.",
        (({"account": name}, n) for name, n in status.backlog.waiting.items()),
    )
    add_metric(
        "deliveries",
        "gauge",
        "Deliveries by account and state, as far as they are remembered.",
        (({"account": name, "state": state}, n) for (name, state), n in status.backlog.deliveries.items()),
    )
    add_metric(
        "delivery_oldest_seconds",
        "gauge",
        "Age of the oldest delivery that is not finished.",
        [({}, status.backlog.oldest_seconds)],
    )
    add_metric("tokens_total", "counter", "Tokens.", (({"kind": name}, n) for name, n in watch.tokens.items()))
    add_metric("spend_dollars_total", "counter", "Dollars spent.", [({}, watch.nano_dollars / NANO_PER_USD)])
    add_metric("loop_lag_seconds", "gauge", "How late the event loop was.", [({}, watch.lag)])
    add_metric("loop_lag_max_seconds", "gauge", "How late it was at most.", [({}, watch.max_lag)])
    add_metric("resident_memory_bytes", "gauge", "Memory.", [({}, now.memory)])
    add_metric("open_handles", "gauge", "File handles.", [({}, now.handles)])
    add_metric("cpu_seconds_total", "counter", "Processor time.", [({}, now.cpu_seconds)])
    add_metric("start_time_seconds", "gauge", "When it was started.", [({}, watch.started_at)])
    lines += _format_histogram("turn_seconds", "How long turns took.", watch.turn_seconds)
    lines += _format_histogram("send_seconds", "How long deliveries took until they were finished.", watch.send_seconds)
    return "\n".join(lines) + "\n"


def _format_histogram(name: str, help_text: str, histogram: Histogram) -> list[str]:
    lines = [f"# HELP hermes_{name} {help_text}", f"# TYPE hermes_{name} histogram"]
    count = 0
    for bound, more in zip((*HISTOGRAM_BOUNDS, "+Inf"), histogram.counts, strict=True):
        count += more
        lines.append(f'hermes_{name}_bucket{{le="{bound}"}} {count}')
    return [*lines, f"hermes_{name}_sum {histogram.total:.10g}", f"hermes_{name}_count {count}"]


def _format_labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    inner = ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels.items())
    return "{" + inner + "}"


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class MetricsServer:
    """Listens from `open` to `close`."""

    def __init__(self, address: str, token: str, source: GatewayFacade) -> None:
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
        body = to_json(self._source.health_report())
        return web.Response(body=body, content_type="application/json", headers=_HEADERS)

    async def _serve_metrics(self, _request: web.Request) -> web.Response:
        await self._source.measure_backlog()
        headers = {**_HEADERS, "Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self._source.metrics_text().encode(), headers=headers)


async def open_metrics_server(app: App, source: GatewayFacade) -> MetricsServer | None:
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
            N_("`gateway.metrics` is not an address: {text!r}.", text=text), N_("Write it as 127.0.0.1:9464.")
        )
    return host, port
