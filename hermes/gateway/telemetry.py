"""What the gateway is seen to do: counted for whoever measures it, and written down for whoever looks after it."""

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable

from msgspec import Struct, field

from hermes.admin.service.log import GatewayLog, line_now
from hermes.core.chats import DeliveryState
from hermes.core.events import Event, TurnEnded, TurnResumed, TurnStarted

BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Seconds up to which a histogram counts."""
_LAG_EVERY = 2.0


class Histogram(Struct):
    """How many things took how long."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """One more, that took so long."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class Watch:
    """Hears of everything. `tell` shows a line to whoever started the gateway."""

    def __init__(self, log: GatewayLog, tell: Callable[[str], None]) -> None:
        self._log = log
        self._tell = tell
        self._lanes: dict[str, str] = {}
        """By session, where it is talked with."""
        self._began: dict[str, float] = {}
        """By turn, when it began, in seconds of the machine's running."""
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
        """Seconds by which the loop was late the last time that somebody looked."""
        self.most_lag = 0.0

    def start(self) -> None:
        """Look how late the loop is, now and then."""
        self._task = asyncio.create_task(self._look(), name="lag")

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._log.close()

    def report(self, line: str, account: str = "") -> None:
        """Something that whoever looks after the gateway should know."""
        self._tell(line)
        self._log.write(line_now("said", level="warning", account=account, text=line))

    def note(self, event: str, **fields: str | int | float) -> None:
        """Something that happened as it should."""
        self._log.write(line_now(event, **fields))

    def arrived(self, account: str, lane: str, number: int) -> None:
        """Something new came in."""
        self.arrivals[account] += 1
        self.note("arrived", account=account, lane=lane, count=number)

    def delivered(self, account: str, lane: str, state: DeliveryState, seconds: float) -> None:
        """Something that was owed has come to an end, so long after it was first owed."""
        self.deliveries[account, state.value] += 1
        self.send_seconds.add(seconds)
        level = "error" if state is DeliveryState.FAILED else "info"
        self.note("sent", account=account, lane=lane, outcome=state.value, seconds=round(seconds, 3), level=level)

    def place(self, session_id: str, lane: str) -> None:
        """From now on a session is talked with there; nowhere, where `lane` is empty."""
        if lane:
            self._lanes[session_id] = lane
        else:
            self._lanes.pop(session_id, None)

    def hearing(self, session_id: str) -> Callable[[Event], None]:
        """What is told of every event of a session."""

        def hear(event: Event) -> None:
            match event:
                case TurnStarted() | TurnResumed():
                    self._began[event.turn_id] = time.monotonic()
                    self.note("turn", session=session_id, turn=event.turn_id, lane=self._lanes.get(session_id, ""))
                case TurnEnded():
                    self._ended(session_id, event)
                case _:
                    pass

        return hear

    def _ended(self, session_id: str, event: TurnEnded) -> None:
        seconds = time.monotonic() - self._began.pop(event.turn_id, time.monotonic())
        self.turns[event.reason.value] += 1
        self.turn_seconds.add(seconds)
        self.tokens["input"] += event.usage.input
        self.tokens["output"] += event.usage.output
        self.nano_dollars += event.cost.nano
        self.note(
            "turn_ended",
            session=session_id,
            turn=event.turn_id,
            lane=self._lanes.get(session_id, ""),
            outcome=event.reason.value,
            seconds=round(seconds, 3),
            level="info" if event.reason.completed else "warning",
        )

    async def _look(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            before = clock()
            await asyncio.sleep(_LAG_EVERY)
            self.lag = max(clock() - before - _LAG_EVERY, 0.0)
            self.most_lag = max(self.most_lag, self.lag)
