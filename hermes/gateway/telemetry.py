"""Telemetry: counts what the gateway does for metrics, and logs it for the operator."""

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable

from msgspec import Struct, field

from hermes.admin.service.gateway_log import GatewayLog, create_entry
from hermes.core.chats import DeliveryState
from hermes.core.events import Event, TurnEnded, TurnResumed, TurnStarted
from hermes.util.cancellation import cancel_tasks

HISTOGRAM_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper bounds of a histogram's buckets, in seconds."""
_LAG_EVERY = 2.0


class Histogram(Struct):
    """A histogram of durations."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(HISTOGRAM_BOUNDS) + 1))
    total: float = 0.0

    def add_duration(self, seconds: float) -> None:
        """Count one duration in seconds."""
        self.counts[bisect_left(HISTOGRAM_BOUNDS, seconds)] += 1
        self.total += seconds


class Telemetry:
    """Counts and logs everything. `show_line` shows a line to whoever started the gateway."""

    def __init__(self, log: GatewayLog, show_line: Callable[[str], None]) -> None:
        self._log = log
        self._show_line = show_line
        self._lanes: dict[str, str] = {}
        """By session, the lane in which it is used."""
        self._turn_starts: dict[str, float] = {}
        """By turn, its start, by the monotonic clock."""
        self._task: asyncio.Task[None] | None = None
        self.started_at = time.time()
        self.turns: Counter[str] = Counter()
        self.arrivals: Counter[str] = Counter()
        self.deliveries: Counter[tuple[str, str]] = Counter()
        self.turn_seconds = Histogram()
        self.send_seconds = Histogram()
        self.tokens: Counter[str] = Counter()
        self.nano_dollars = 0
        self.lag = 0.0
        """Seconds by which the event loop was late at the newest measurement."""
        self.max_lag = 0.0

    def start(self) -> None:
        """Start measuring the event loop's lag."""
        self._task = asyncio.create_task(self._measure_lag(), name="lag")

    async def close(self) -> None:
        """Stop measuring, and close the log."""
        if self._task is not None:
            await cancel_tasks([self._task])
        self._log.close()

    def report_line(self, line: str, account: str = "") -> None:
        """Report a line that the operator should know."""
        self._show_line(line)
        self._log.write_entry(create_entry("said", level="warning", account=account, text=line))

    def log_event(self, event: str, **fields: str | int | float) -> None:
        """Log an expected event."""
        self._log.write_entry(create_entry(event, **fields))

    def count_inbound(self, account: str, lane: str, number: int) -> None:
        """Count a new inbound event."""
        self.arrivals[account] += 1
        self.log_event("arrived", account=account, lane=lane, count=number)

    def count_delivery(self, account: str, lane: str, state: DeliveryState, seconds: float) -> None:
        """Count a delivery that has ended, this many seconds after it was queued."""
        self.deliveries[account, state.value] += 1
        self.send_seconds.add_duration(seconds)
        level = "error" if state is DeliveryState.FAILED else "info"
        self.log_event("sent", account=account, lane=lane, outcome=state.value, seconds=round(seconds, 3), level=level)

    def set_lane(self, session_id: str, lane: str) -> None:
        """Note the lane in which a session is used from now on; none where `lane` is empty."""
        if lane:
            self._lanes[session_id] = lane
        else:
            self._lanes.pop(session_id, None)

    def session_listener(self, session_id: str) -> Callable[[Event], None]:
        """Return a listener for every event of a session."""

        def on_event(event: Event) -> None:
            match event:
                case TurnStarted() | TurnResumed():
                    self._turn_starts[event.turn_id] = time.monotonic()
                    self.log_event("turn", session=session_id, turn=event.turn_id, lane=self._lanes.get(session_id, ""))
                case TurnEnded():
                    self._count_turn(session_id, event)
                case _:
                    pass

        return on_event

    def _count_turn(self, session_id: str, event: TurnEnded) -> None:
        seconds = time.monotonic() - self._turn_starts.pop(event.turn_id, time.monotonic())
        self.turns[event.reason.value] += 1
        self.turn_seconds.add_duration(seconds)
        self.tokens["input"] += event.usage.input
        self.tokens["output"] += event.usage.output
        self.nano_dollars += event.cost.nano
        self.log_event(
            "turn_ended",
            session=session_id,
            turn=event.turn_id,
            lane=self._lanes.get(session_id, ""),
            outcome=event.reason.value,
            seconds=round(seconds, 3),
            level="info" if event.reason.is_completed else "warning",
        )

    async def _measure_lag(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            before = clock()
            await asyncio.sleep(_LAG_EVERY)
            self.lag = max(clock() - before - _LAG_EVERY, 0.0)
            self.max_lag = max(self.max_lag, self.lag)
