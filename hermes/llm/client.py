"""One model call, made reliable: every way it can end is a value, and what may be tried again is tried again."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from msgspec import Struct, structs

from hermes.core.events import Level, Notice, Retrying
from hermes.core.protocols import HttpTimeouts, HttpTransport
from hermes.core.stream import Answer, Failure
from hermes.llm.cache_watch import CacheWatch
from hermes.llm.classify import Size
from hermes.llm.context_length import known_context_length
from hermes.llm.exchange import Emit, Exchange
from hermes.llm.keys import Keys, Lease, OneKey
from hermes.llm.lineage import Lineage
from hermes.llm.metering import Meter, Unmetered, heard
from hermes.providers.wire import Endpoint
from hermes.util.clock import Clock
from hermes.util.text import sentence

_BASE_DELAY = 5.0
MAX_DELAY = 120.0
"""Seconds: the longest pause before a new try."""
_JITTER = 0.5


class ModelClient:
    """Calls one provider's model. Safe for several calls at once; it closes the transport it was given."""

    def __init__(
        self,
        endpoint: Endpoint,
        transport: HttpTransport,
        clock: Clock,
        *,
        keys: Keys | None = None,
        meter: Meter | None = None,
        retries: int = 3,
        timeouts: HttpTimeouts | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._transport = transport
        self._clock = clock
        self._keys = keys or OneKey(endpoint.api_key)
        self._meter: Meter = meter or Unmetered()
        self._retries = retries
        self._timeouts = timeouts or HttpTimeouts()
        self._exchanges: dict[str, Exchange] = {}
        self._watch = CacheWatch(endpoint.record.title, endpoint.cache_ttl)

    async def answer(
        self, lineage: Lineage, emit: Emit, *, final: bool = False, patience: float = MAX_DELAY
    ) -> Answer | Failure:
        """Ask for the next answer; deltas go to `emit` as they arrive, and a `Retrying` before each new try.

        Never raises for what a server or the network does: that is a `Failure`. A call is tried again only while
        no text of its answer has been emitted, and not when the provider wants a pause of more than `patience` seconds.
        Cancelling the task closes the connection at once.
        """
        state = CallState(retries=self._retries, patience=patience, clock=self._clock, emit=emit)
        while True:
            outcome = await self._once(lineage, emit, state, final=final)
            if isinstance(outcome, Answer) or not await recover(outcome, state):
                return outcome

    async def available(self) -> bool:
        """Whether a key can be used now; False while all of them wait for their limits to end."""
        return await self._keys.available(self.endpoint.model)

    async def context_length(self) -> int | None:
        """Tokens of the model's window; asks the provider where neither settings nor record say it. None: unknown."""
        key = next(reversed(self._exchanges), "")
        if not key:
            lease = await self._keys.lease(self.endpoint.model)
            key = self.endpoint.api_key if isinstance(lease, Failure) else lease.key
        return await known_context_length(structs.replace(self.endpoint, api_key=key), self._transport)

    @property
    def called(self) -> bool:
        """Whether a call was made already."""
        return bool(self._exchanges)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def _once(self, lineage: Lineage, emit: Emit, state: "CallState", *, final: bool) -> Answer | Failure:
        """One try: a key, room under the caps, the exchange, and what both are told of it."""
        state.other_key = False
        lease = await self._keys.lease(self.endpoint.model)
        if isinstance(lease, Failure):
            return lease
        grant = await self._meter.reserve(lineage, final=final)
        if isinstance(grant, Failure):
            return grant
        outcome: Answer | Failure | None = None
        exchange, began = self._exchange(lease), self._clock.now()
        call = exchange.call(emit)
        try:
            body = lineage.body(final=final, max_tokens=grant.max_tokens)
            size = Size(lineage.tokens(len(body)), self.endpoint.context_length)
            outcome = await exchange.run(body, call, size)
        finally:
            state.spoke = state.spoke or call.spoke
            self._meter.settle(grant, heard(call, outcome))
        if isinstance(outcome, Failure):
            another = await self._keys.failed(lease, outcome)
            state.other_key = another and lease.key not in state.refused
            state.refused.add(lease.key)
        else:
            lineage.counted(len(body), outcome.usage.input if outcome.usage else 0)
            await self._keys.succeeded(lease)
            usage = outcome.usage
            line = lineage.answered(self._watch, usage, at=began, key=lease.key) if usage and usage.input else ""
            if line:
                await emit(Notice(level=Level.WARNING, text=line))
        return outcome

    def _exchange(self, lease: Lease) -> Exchange:
        """The exchange for a key; made once for each."""
        found = self._exchanges.get(lease.key)
        if found is None:
            endpoint = structs.replace(self.endpoint, api_key=lease.key)
            found = self._exchanges[lease.key] = Exchange(endpoint, self._transport, self._clock, self._timeouts)
        return found


@dataclass(slots=True)
class CallState:
    """What the recoveries of one call know and count."""

    retries: int
    patience: float
    clock: Clock
    emit: Emit
    tries: int = 0
    """How often the call was tried again after a pause."""
    spoke: bool = False
    """Whether text of an answer was shown already; a new try would show it twice."""
    other_key: bool = False
    """Whether another key can take the last try's place."""
    refused: set[str] = field(default_factory=set, repr=False)
    """Keys that failed in this call: each gives way to another once, so rotation ends."""


class Row(Struct, frozen=True):
    """A recovery of a call: its name, when it applies, what it does before the next try."""

    name: str
    applies: Callable[[Failure, CallState], bool]
    act: Callable[[Failure, CallState], Awaitable[None]]


async def recover(failure: Failure, state: CallState) -> bool:
    """Let the first row that applies act; False when none does and the failure stands."""
    for row in ROWS:
        if row.applies(failure, state):
            await row.act(failure, state)
            return True
    return False


def _rotates(failure: Failure, state: CallState) -> bool:
    return failure.rotate and state.other_key and not state.spoke


def _waits(failure: Failure, state: CallState) -> bool:
    if not failure.retryable or state.spoke or state.tries >= state.retries:
        return False
    return failure.retry_after is None or failure.retry_after <= state.patience


async def _at_once(failure: Failure, state: CallState) -> None:
    await state.emit(
        Retrying(state.tries + 1, 0.0, failure.kind.value, f"{sentence(failure.message)} Trying another key.")
    )


async def _after_a_pause(failure: Failure, state: CallState) -> None:
    state.tries += 1
    delay = _delay(state.tries, failure.retry_after)
    await state.emit(Retrying(state.tries, delay, failure.kind.value, failure.message))
    await state.clock.sleep(delay)


ROWS: tuple[Row, ...] = (
    Row("rotate", _rotates, _at_once),
    Row("back_off", _waits, _after_a_pause),
)
"""Used up by themselves: a key that failed is not handed out again, and pauses are counted."""


def _delay(attempt: int, wish: float | None) -> float:
    """Seconds before the next try: the provider's wish, else doubling with jitter."""
    if wish is not None:
        return wish
    import random

    step = min(_BASE_DELAY * 2.0 ** (attempt - 1), MAX_DELAY)
    return min(step * (1.0 + _JITTER * random.random()), MAX_DELAY)
