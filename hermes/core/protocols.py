"""The few interfaces that cross layers: a lower layer needs them, a higher one provides them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from hermes.core.parts import ToolResultPart


class HttpTimeouts(Struct, frozen=True):
    """Seconds: to connect, and to wait for the next bytes once the request is sent."""

    connect: float = 10.0
    read: float = 600.0


class HttpStream(Protocol):
    """An answer whose head has arrived and whose body is still to be read."""

    @property
    def status(self) -> int:
        """The HTTP status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Header fields, names in lower case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The decoded body as it arrives."""
        ...


class HttpTransport(Protocol):
    """The whole of HTTP that Hermes needs. Leaving the context closes the exchange, read to the end or not."""

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
    """Where the executor writes down what it is about to do and what came of it. Durable when a call returns."""

    async def intend(self, intents: Sequence[Intent]) -> None:
        """Record the intents of a batch, all or none."""
        ...

    async def done(self, result: ToolResultPart) -> None:
        """Record what a call gave back."""
        ...
