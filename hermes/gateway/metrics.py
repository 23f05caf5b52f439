"""The gateway's state: as a mapping for people, as text for Prometheus."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hermes import __version__
from hermes.core.money import NANO
from hermes.gateway.accounts import AccountHealth, PlatformAccount
from hermes.gateway.session_pool import SessionPool
from hermes.gateway.telemetry import HISTOGRAM_BOUNDS, Histogram, Telemetry
from hermes.sessions.app import App


class BacklogCounts(Struct, frozen=True):
    """Counts from the store: deliveries by account and state, the age of the oldest pending one in seconds, and
    inbound events by account that are not routed yet.
    """

    deliveries: Mapping[tuple[str, str], int] = {}
    oldest_seconds: float = 0.0
    waiting: Mapping[str, int] = {}


async def read_backlog(app: App) -> BacklogCounts:
    """Read the backlog from the store."""
    store, now = app.services.store.chats, app.services.clock.now()
    since = await store.owing_since()
    return BacklogCounts(
        await store.delivery_counts(),
        max(now - since, 0.0) if since is not None else 0.0,
        await store.arrivals_waiting(),
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
        "usd": round(status.telemetry.nano_dollars / NANO, 6),
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
        "What is owed or was delivered, as far as it is remembered.",
        (({"account": name, "state": state}, n) for (name, state), n in status.backlog.deliveries.items()),
    )
    add_metric(
        "delivery_oldest_seconds", "gauge", "Age of the oldest thing owed.", [({}, status.backlog.oldest_seconds)]
    )
    add_metric("tokens_total", "counter", "Tokens.", (({"kind": name}, n) for name, n in watch.tokens.items()))
    add_metric("spend_dollars_total", "counter", "Dollars spent.", [({}, watch.nano_dollars / NANO)])
    add_metric("loop_lag_seconds", "gauge", "How late the event loop was.", [({}, watch.lag)])
    add_metric("loop_lag_max_seconds", "gauge", "How late it was at most.", [({}, watch.max_lag)])
    add_metric("resident_memory_bytes", "gauge", "Memory.", [({}, now.memory)])
    add_metric("open_handles", "gauge", "File handles.", [({}, now.handles)])
    add_metric("cpu_seconds_total", "counter", "Processor time.", [({}, now.cpu_seconds)])
    add_metric("start_time_seconds", "gauge", "When it was started.", [({}, watch.started_at)])
    lines += _format_histogram("turn_seconds", "How long turns took.", watch.turn_seconds)
    lines += _format_histogram("send_seconds", "How long it took until something owed had an end.", watch.send_seconds)
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
