"""The scripted model without a socket: the same replies, bytes, faults and records behind `HttpTransport`."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpStream, HttpTimeouts
from hermes.testing.legal import problems
from hermes.testing.plan import Plan, plan
from hermes.testing.recorded import RecordedRequest, Recorder
from hermes.testing.script import Ending, Fail, Model, Reply, ScriptedModel
from hermes.util.clock import Clock, SystemClock


class ScriptedTransport(Recorder):
    """Implements `core.protocols.HttpTransport` over a script.

    Delays pass on `clock`, so a `ManualClock` makes them instant; one that is longer than the request's read time-out
    ends as that time-out does. A request that is not for the model gets a 404.
    """

    def __init__(self, model: Model | Iterable[Reply], *, clock: Clock | None = None, strict: bool = True) -> None:
        super().__init__()
        self.model: Model = ScriptedModel(model) if isinstance(model, Iterable) else model
        self.closed = False
        self._clock: Clock = clock or SystemClock()
        self._strict = strict

    @asynccontextmanager
    async def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes, timeouts: HttpTimeouts
    ) -> AsyncIterator[HttpStream]:
        """The planned answer; leaving before its end is recorded as an early close."""
        request = RecordedRequest(
            method, urlsplit(url).path, {name.lower(): value for name, value in headers.items()}, body, 0
        )
        self.record(request)
        try:
            planned = await self._decide(request)
            stream = _Stream(planned, request, self, _Waiter(self._clock, timeouts))
            await stream.head()
            yield stream
        finally:
            if request.answered_at is None:
                request.closed_early_at = self._clock.monotonic()
                self.changed()

    async def close(self) -> None:
        """Nothing to close; remembered."""
        self.closed = True

    async def _decide(self, request: RecordedRequest) -> Plan:
        if request.number < 0:
            return plan(Fail(404, message=f"Invalid URL ({request.method} {request.path})"), request)
        try:
            if self._strict and (found := problems(request)):
                return plan(Fail(400, message="; ".join(found)), request)
            reply = self.model.reply(request)
            return plan(reply if isinstance(reply, msgspec.Struct) else await reply, request)
        except msgspec.DecodeError as error:
            return plan(Fail(400, message=f"We could not parse the JSON body of your request: {error}"), request)


class _Waiter:
    """Waiting with a read time-out, on the transport's clock."""

    def __init__(self, clock: Clock, timeouts: HttpTimeouts) -> None:
        self.clock = clock
        self.limit = timeouts.read

    async def pause(self, seconds: float) -> None:
        if seconds > 0:
            await self.clock.sleep(min(seconds, self.limit))
        if seconds > self.limit:
            raise TransportError(FailureKind.TIMEOUT, f"no bytes for {self.limit:g} s")


class _Stream:
    """Implements `core.protocols.HttpStream`."""

    def __init__(self, planned: Plan, request: RecordedRequest, recorder: Recorder, waiter: _Waiter) -> None:
        self._plan = planned
        self._request = request
        self._recorder = recorder
        self._waiter = waiter

    @property
    def status(self) -> int:
        return self._plan.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._plan.headers

    async def head(self) -> None:
        """Wait as long as the head takes."""
        how = self._plan.delivery
        await self._waiter.pause(how.delay)
        await self._waiter.pause(how.head_pace)
        if not how.head:
            await self._end()
            raise TransportError(FailureKind.CUT, "the server closed the connection without an answer")

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body's pieces; a reply that is not paced comes as one."""
        how = self._plan.delivery
        await self._waiter.pause(how.body_delay)
        pieces = [b"".join(self._plan.pieces)] if self._plan.at_once else self._plan.pieces
        for index, piece in enumerate(pieces):
            if index == self._plan.hold:
                await self._recorder.hold(self._request)
            if piece is pieces[-1] and self._plan.ending is Ending.WHOLE:
                self._request.answered_at = self._waiter.clock.monotonic()
            yield piece
            await self._waiter.pause(how.pace)
        if self._plan.hold == len(pieces):
            await self._recorder.hold(self._request)
        await self._end()

    async def _end(self) -> None:
        ending = self._plan.ending
        if ending is Ending.HANG:
            await self._waiter.pause(float("inf"))
        self._request.answered_at = self._waiter.clock.monotonic()
        self._recorder.changed()
        if ending in {Ending.CUT, Ending.RESET} or (ending is Ending.STOP and not self._plan.streamed):
            raise TransportError(FailureKind.CUT, "the connection was closed in the middle of the answer")
