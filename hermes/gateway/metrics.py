"""How the gateway stands: for people as a mapping, for Prometheus as text."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hermes import __version__
from hermes.core.money import NANO
from hermes.gateway.accounts import Account, Health
from hermes.gateway.session_pool import Sessions
from hermes.gateway.telemetry import BOUNDS, Histogram, Watch
from hermes.sessions.app import App


class Owing(Struct, frozen=True):
    """What the store says: deliveries by account and state, the age of the oldest one owed, arrivals not looked at."""

    deliveries: Mapping[tuple[str, str], int] = {}
    oldest_seconds: float = 0.0
    waiting: Mapping[str, int] = {}


async def owing_of(app: App) -> Owing:
    """Ask the store."""
    store, now = app.premises.store.chats, app.premises.clock.now()
    since = await store.owing_since()
    return Owing(
        await store.delivery_counts(),
        max(now - since, 0.0) if since is not None else 0.0,
        await store.arrivals_waiting(),
    )


class Process(Struct, frozen=True):
    """What this process uses of the machine; 0 where it does not say."""

    memory: int
    handles: int
    cpu_seconds: float


def process() -> Process:
    """As it is now."""
    spent = os.times()
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[1])
        handles = len(os.listdir("/proc/self/fd"))
    except OSError:
        pages = handles = 0
    return Process(pages * os.sysconf("SC_PAGE_SIZE"), handles, spent.user + spent.system)


class Standing(Struct, frozen=True, kw_only=True):
    """All that is looked at."""

    accounts: Mapping[str, Account]
    sessions: Sessions
    watch: Watch
    owing: Owing
    wrong: Sequence[str] = ()


def health(on: Standing) -> dict[str, object]:
    """How things stand, for people."""
    now = process()
    return {
        "version": __version__,
        "pid": os.getpid(),
        "up_seconds": round(time.time() - on.watch.started_at, 1),
        "accounts": {
            name: {"platform": one.plan.descriptor.title, "state": one.health.value, "why": one.why}
            for name, one in on.accounts.items()
        },
        "wrong": list(on.wrong),
        "sessions": {"live": len(on.sessions), "working": on.sessions.working},
        "turns": dict(on.watch.turns),
        "arrivals": {"new": dict(on.watch.arrivals), "waiting": dict(on.owing.waiting)},
        "deliveries": by_state(on.owing.deliveries),
        "oldest_delivery_seconds": round(on.owing.oldest_seconds, 1),
        "tokens": dict(on.watch.tokens),
        "usd": round(on.watch.nano_dollars / NANO, 6),
        "lag_seconds": round(on.watch.lag, 4),
        "memory_bytes": now.memory,
        "handles": now.handles,
    }


def by_state(deliveries: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Of all accounts together."""
    found: Counter[str] = Counter()
    for (_, state), count in deliveries.items():
        found[state] += count
    return dict(found)


def prometheus(on: Standing) -> str:
    """The same and more in the text format of Prometheus (exposition format 0.0.4)."""
    watch, now = on.watch, process()
    lines: list[str] = []

    def put(name: str, kind: str, told: str, values: Iterable[tuple[Mapping[str, str], float]]) -> None:
        lines.append(f"# HELP hermes_{name} {told}")
        lines.append(f"# TYPE hermes_{name} {kind}")
        lines.extend(f"hermes_{name}{_labels(labels)} {value:.10g}" for labels, value in values)

    put(
        "account_state",
        "gauge",
        "1 for the state that an account is in.",
        (
            ({"account": name, "state": state.value}, float(one.health is state))
            for name, one in on.accounts.items()
            for state in Health
        ),
    )
    put("sessions_live", "gauge", "Sessions in memory.", [({}, len(on.sessions))])
    put("sessions_working", "gauge", "Sessions that run a turn.", [({}, on.sessions.working)])
    put("turns_total", "counter", "Turns by outcome.", (({"outcome": name}, n) for name, n in watch.turns.items()))
    put(
        "arrivals_total",
        "counter",
        "What came in and was new.",
        (({"account": name}, n) for name, n in watch.arrivals.items()),
    )
    put(
        "arrivals_waiting",
        "gauge",
        "What came in and nobody has looked at.",
        (({"account": name}, n) for name, n in on.owing.waiting.items()),
    )
    put(
        "deliveries",
        "gauge",
        "What is owed or was delivered, as far as it is remembered.",
        (({"account": name, "state": state}, n) for (name, state), n in on.owing.deliveries.items()),
    )
    put("delivery_oldest_seconds", "gauge", "Age of the oldest thing owed.", [({}, on.owing.oldest_seconds)])
    put("tokens_total", "counter", "Tokens.", (({"kind": name}, n) for name, n in watch.tokens.items()))
    put("spend_dollars_total", "counter", "Dollars spent.", [({}, watch.nano_dollars / NANO)])
    put("loop_lag_seconds", "gauge", "How late the event loop was.", [({}, watch.lag)])
    put("loop_lag_max_seconds", "gauge", "How late it was at most.", [({}, watch.most_lag)])
    put("resident_memory_bytes", "gauge", "Memory.", [({}, now.memory)])
    put("open_handles", "gauge", "File handles.", [({}, now.handles)])
    put("cpu_seconds_total", "counter", "Processor time.", [({}, now.cpu_seconds)])
    put("start_time_seconds", "gauge", "When it was started.", [({}, watch.started_at)])
    lines += _histogram("turn_seconds", "How long turns took.", watch.turn_seconds)
    lines += _histogram("send_seconds", "How long it took until something owed had an end.", watch.send_seconds)
    return "\n".join(lines) + "\n"


def _histogram(name: str, told: str, histogram: Histogram) -> list[str]:
    lines = [f"# HELP hermes_{name} {told}", f"# TYPE hermes_{name} histogram"]
    count = 0
    for bound, more in zip((*BOUNDS, "+Inf"), histogram.counts, strict=True):
        count += more
        lines.append(f'hermes_{name}_bucket{{le="{bound}"}} {count}')
    return [*lines, f"hermes_{name}_sum {histogram.total:.10g}", f"hermes_{name}_count {count}"]


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + inner + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
