"""The scripted model without a socket: the same replies, bytes, faults and records behind `HttpTransport`."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpStream, HttpTimeouts
from hermes.testing.answer_plan import AnswerPlan, plan_answer
from hermes.testing.recorded import RecordedRequest, RequestRecorder
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Ending, Fail, Reply, ReplyModel, ScriptedModel
from hermes.util.clock import Clock, SystemClock


class ScriptedTransport(RequestRecorder):
    """Implements `core.protocols.HttpTransport` over a script.

    Delays pass on `clock`, so a `ManualClock` makes them instant; one that is longer than the request's read timeout
    raises as that timeout does. A request that is not for the model gets a 404.
    """

    def __init__(self, model: ReplyModel | Iterable[Reply], *, clock: Clock | None = None, strict: bool = True) -> None:
        super().__init__()
        self.model: ReplyModel = ScriptedModel(model) if isinstance(model, Iterable) else model
        self.closed = False
        self._clock: Clock = clock or SystemClock()
        self._strict = strict

    @asynccontextmanager
    async def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes, timeouts: HttpTimeouts
    ) -> AsyncIterator[HttpStream]:
        """Open the planned answer; leaving before its end is recorded as an early close."""
        request = RecordedRequest(
            method, urlsplit(url).path, {name.lower(): value for name, value in headers.items()}, body, 0
        )
        self.record_request(request)
        try:
            planned = await self._plan_answer(request)
            stream = _ScriptedStream(planned, request, self, _ReadTimer(self._clock, timeouts))
            await stream.wait_for_head()
            yield stream
        finally:
            if request.answered_at is None:
                request.closed_early_at = self._clock.monotonic()
                self.notify_waiters()

    async def close(self) -> None:
        """Record that the transport was closed."""
        self.closed = True

    async def _plan_answer(self, request: RecordedRequest) -> AnswerPlan:
        if request.number < 0:
            return plan_answer(Fail(404, message=f"Invalid URL ({request.method} {request.path})"), request)
        try:
            if self._strict and (found := find_problems(request)):
                return plan_answer(Fail(400, message="; ".join(found)), request)
            reply = self.model.reply(request)
            return plan_answer(reply if isinstance(reply, msgspec.Struct) else await reply, request)
        except msgspec.DecodeError as error:
            return plan_answer(Fail(400, message=f"We could not parse the JSON body of your request: {error}"), request)


class _ReadTimer:
    """Waits with a read timeout, on the transport's clock."""

    def __init__(self, clock: Clock, timeouts: HttpTimeouts) -> None:
        self.clock = clock
        self.limit = timeouts.read

    async def wait_seconds(self, seconds: float) -> None:
        if seconds > 0:
            await self.clock.sleep(min(seconds, self.limit))
        if seconds > self.limit:
            raise TransportError(FailureKind.TIMEOUT, f"no bytes for {self.limit:g} s")


class _ScriptedStream:
    """Implements `core.protocols.HttpStream`."""

    def __init__(
        self, planned: AnswerPlan, request: RecordedRequest, recorder: RequestRecorder, waiter: _ReadTimer
    ) -> None:
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

    async def wait_for_head(self) -> None:
        """Wait as long as the head takes."""
        how = self._plan.delivery
        await self._waiter.wait_seconds(how.delay)
        await self._waiter.wait_seconds(how.head_pace)
        if not how.head:
            await self._end_stream()
            raise TransportError(FailureKind.CUT, "the server closed the connection without an answer")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body's pieces; a reply without a pace comes as one."""
        how = self._plan.delivery
        await self._waiter.wait_seconds(how.body_delay)
        pieces = [b"".join(self._plan.pieces)] if self._plan.at_once else self._plan.pieces
        for index, piece in enumerate(pieces):
            if index == self._plan.hold_index:
                await self._recorder.hold_reply(self._request)
            if piece is pieces[-1] and self._plan.ending is Ending.WHOLE:
                self._request.answered_at = self._waiter.clock.monotonic()
            yield piece
            await self._waiter.wait_seconds(how.pace)
        if self._plan.hold_index == len(pieces):
            await self._recorder.hold_reply(self._request)
        await self._end_stream()

    async def _end_stream(self) -> None:
        ending = self._plan.ending
        if ending is Ending.HANG:
            await self._waiter.wait_seconds(float("inf"))
        self._request.answered_at = self._waiter.clock.monotonic()
        self._recorder.notify_waiters()
        if ending in {Ending.CUT, Ending.RESET} or (ending is Ending.STOP and not self._plan.streamed):
            raise TransportError(FailureKind.CUT, "the connection was closed in the middle of the answer")
