"""One exchange with a provider: a request sent, its answer read as it comes, every way it can end a value."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import structs

from hermes.core.errors import TransportError
from hermes.core.events import Event
from hermes.core.protocols import HttpStream, HttpTimeouts, HttpTransport
from hermes.core.stream import Answer, Failure, StreamDelta, TextDelta
from hermes.llm.classify import UNSIZED, Size, from_answer, from_end, from_page, from_stream, from_transport
from hermes.providers.sse import SseReader
from hermes.providers.wire import Decoder, Endpoint, ServerEvent, WireError
from hermes.providers.wires import wire
from hermes.util.clock import Clock

Emit = Callable[[Event], Awaitable[None]]

_MAX_ERROR_BODY = 256 * 1024
_MAX_WHOLE_BODY = 32 * 1024 * 1024
_DRAIN_SECONDS = 0.25


class Exchange:
    """Makes requests to one endpoint with one key; any number at once."""

    def __init__(self, endpoint: Endpoint, transport: HttpTransport, clock: Clock, timeouts: HttpTimeouts) -> None:
        self.endpoint = endpoint
        self._transport = transport
        self._clock = clock
        self._timeouts = timeouts
        self._wire = wire(endpoint.wire)
        self._url = endpoint.base_url.rstrip("/") + self._wire.path
        self._headers = self._wire.headers(endpoint)

    def call(self, emit: Emit) -> "Call":
        """The reading side of the next exchange; deltas go to `emit`."""
        return Call(self._wire.decoder(self.endpoint), emit)

    async def run(self, body: bytes, call: "Call", size: Size = UNSIZED) -> Answer | Failure:
        """Send a request and read its answer. Never raises for what a server or the network does.

        `size` helps to tell a request that is too long from one that is refused or cut for another reason.
        """
        try:
            async with self._transport.open(
                "POST", self._url, headers=self._headers, body=body, timeouts=self._timeouts
            ) as stream:
                if stream.status >= 300:
                    return await self._refused(stream, size)
                call.answered = True
                kind = stream.headers.get("content-type", "").lower()
                if "text/event-stream" in kind or not kind:
                    await call.read(stream)
                else:
                    problem = await self._whole(stream, kind, call)
                    if problem is not None:
                        return problem
        except TransportError as error:
            return self._settled(call, from_transport(error, self.endpoint, UNSIZED if call.events else size))
        except WireError as error:
            return self._settled(call, from_stream(error, self.endpoint, self._clock.now(), size))
        return self._settled(call, None, size)

    def _settled(self, call: "Call", failure: Failure | None, size: Size = UNSIZED) -> Answer | Failure:
        """What an exchange gave. An answer that the provider had called whole is not lost to what came after."""
        if call.decoder.finished:
            return call.decoder.answer()
        failure = failure or from_end(self.endpoint, began=call.events > 0, size=size)
        message = call.decoder.answer().message if call.began else None
        return structs.replace(failure, partial=message if message is not None and message.parts else None)

    async def _refused(self, stream: HttpStream, size: Size) -> Failure:
        """The failure that an error status is; its body may be cut, endless or not there."""
        headers, status = stream.headers, stream.status
        body = bytearray()
        try:
            async for chunk in stream.chunks():
                body += chunk
                if len(body) > _MAX_ERROR_BODY:
                    break
        except TransportError as error:
            body += f" ({error.message})".encode()
        return from_answer(status, headers, bytes(body), self.endpoint, self._clock.now(), size)

    async def _whole(self, stream: HttpStream, kind: str, call: "Call") -> Failure | None:
        """A success that is no event stream: the answer as one JSON object, an unlabelled stream, or neither."""
        body = bytearray()
        async for chunk in stream.chunks():
            body += chunk
            if len(body) > _MAX_WHOLE_BODY:
                break
        start = bytes(body[:64]).lstrip()
        if start.startswith((b"data:", b"event:", b":")):
            reader = SseReader()
            await call.take([*reader.feed(bytes(body)), *reader.close()])
            return None
        if start.startswith((b"{", b"[{")):
            await call.take([ServerEvent(event="", data=body.decode("utf-8", "replace"))])
            if call.decoder.finished:
                return None
        return from_page(bytes(body), kind, self._url, self.endpoint, stream.status)


class Call:
    """The reading side of one exchange: the decoder, and whether anything was emitted."""

    def __init__(self, decoder: Decoder, emit: Emit) -> None:
        self.decoder = decoder
        self.answered = False
        """Whether the head of an answer has come, so that the provider is at work and counts."""
        self.began = False
        self.spoke = False
        """Whether text of the answer was emitted; blanks, thoughts and calls that broke off can be had anew."""
        self.events = 0
        self._emit = emit

    async def read(self, stream: HttpStream) -> None:
        """Read an event stream to its end.

        Once the provider has said that nothing more comes, the end of the body is waited for only briefly: reading it
        lets the connection serve again, but some servers never send it.
        """
        reader = SseReader()
        chunks = stream.chunks()
        async for chunk in chunks:
            events = reader.feed(chunk)
            if events:
                await self.take(events)
                if self.decoder.ended:
                    break
        if not self.decoder.ended:
            await self.take(reader.close())
            return
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in chunks:
                    pass
        except (TimeoutError, TransportError):
            return

    async def take(self, events: list[ServerEvent]) -> None:
        """Decode events and emit what they bring; texts that arrived together go out together."""
        self.events += len(events)
        deltas: list[StreamDelta] = []
        error: WireError | None = None
        try:
            for event in events:
                if event.data:
                    deltas += self.decoder.feed(event)
        except WireError as caught:
            error = caught
        self.began = self.began or bool(deltas)
        self.spoke = self.spoke or any(isinstance(delta, TextDelta) and delta.text.strip() for delta in deltas)
        for delta in _joined(deltas):
            await self._emit(delta)
        if error is not None:
            raise error


def _joined(deltas: list[StreamDelta]) -> list[StreamDelta]:
    """The same deltas with neighbouring texts joined."""
    if len(deltas) < 2 or not all(isinstance(delta, TextDelta) for delta in deltas):
        return deltas
    return [TextDelta(text="".join(delta.text for delta in deltas if isinstance(delta, TextDelta)))]
