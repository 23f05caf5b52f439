"""The interfaces that cross layers: a lower layer needs them, a higher one provides them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from hermes.core.messages import ToolResultPart
from hermes.core.outcomes import FailureKind


class HttpTimeouts(Struct, frozen=True):
    """Seconds: to connect, and to wait for the next bytes once the request is sent.

    The whole head of the answer comes within `read`, too, whatever comes before it.
    """

    connect: float = 10.0
    read: float = 600.0


class HttpStream(Protocol):
    """An answer whose head has arrived and whose body is still to be read."""

    @property
    def status(self) -> int:
        """Return the HTTP status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the header fields, names in lower case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the decoded body as it arrives."""
        ...


class HttpTransport(Protocol):
    """The HTTP client that Hermes needs. Leaving the context closes the exchange, read to the end or not."""

    def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes, timeouts: HttpTimeouts
    ) -> AbstractAsyncContextManager[HttpStream]:
        """Send a request and wait for the answer's head.

        Raises `TransportError` (and nothing else but cancellation) when the exchange fails, then or while reading.
        """
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


class Intent(Struct, frozen=True):
    """A call that is about to have an effect."""

    call_id: str
    tool: str
    arguments: str
    repeatable: bool


class EffectJournal(Protocol):
    """The journal in which the executor records what it is about to do and what came of it."""

    async def record_intents(self, intents: Sequence[Intent]) -> None:
        """Record the intents of a batch, all or none; durable when this returns, unless all may be repeated."""
        ...

    async def record_result(self, result: ToolResultPart) -> None:
        """Record the result of a call; it is durable when `flush` returns."""
        ...

    async def flush(self) -> None:
        """Wait until everything recorded so far is durable."""
        ...


class KeyCooldown(Struct, frozen=True, kw_only=True):
    """A key that is not to be used for a while: `seconds` from `began_at` on, or for good when they are None.

    `slot` names where the key comes from, `mark` tells this value of it from a later one (empty: any), `model` limits
    it to one model (empty: all). `said` is set when the provider itself named the time.
    """

    slot: str
    mark: str
    model: str
    kind: FailureKind
    began_at: float
    seconds: float | None
    said: bool


class KeyNotes(Struct, frozen=True):
    """The stored notes on a provider's keys: cooldowns, uses by slot, and the salt that marks are made with."""

    salt: str = ""
    cooldowns: tuple[KeyCooldown, ...] = ()
    uses: Mapping[str, int] = {}


class KeyLedger(Protocol):
    """The ledger by which processes share cooldowns and uses of keys. It holds no key. Methods raise `StoreError`."""

    @property
    def has_notes(self) -> bool:
        """Return whether anything was noted when the ledger was opened; saves the usual home a look."""
        ...

    async def read_notes(self, provider: str) -> KeyNotes:
        """Return all that is noted about the provider's keys."""
        ...

    async def cool(self, provider: str, cooldowns: Sequence[KeyCooldown], now: float) -> None:
        """Store cooldowns, replacing those of the same key and model; delete what ended before `now`."""
        ...

    async def clear(self, provider: str | None, slot: str | None = None, *, model: str | None = None) -> int:
        """Delete cooldowns of a provider and of a slot (None: of all), for a model and for all models (None: for
        any). Return how many there were.
        """
        ...

    def count_use(self, provider: str, slot: str) -> None:
        """Count one use. It reaches the disk soon; the caller does not wait for it."""
        ...
