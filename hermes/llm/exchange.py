"""One exchange with a provider: send a request, read its answer as it comes, and tell what it used.

Every way it can end is a value. A `Meter` reserves spending under the caps before a call and settles it after. What
tokens cost is as the settings say, else as the model's record lists them; it is never guessed.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from msgspec import Struct, structs

from hermes.core.errors import TransportError
from hermes.core.events import Event
from hermes.core.messages import Message
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpStream, HttpTimeouts, HttpTransport
from hermes.core.stream import Answer, CallStarted, Failure, StreamDelta, TextDelta
from hermes.core.usage import Cost, Price, Usage
from hermes.i18n.messages import N_
from hermes.llm.classify import (
    UNKNOWN_SIZE,
    RequestSize,
    failure_from_early_end,
    failure_from_foreign_page,
    failure_from_page,
    failure_from_response,
    failure_from_stream,
    failure_from_transport,
    is_foreign_page,
)
from hermes.llm.continuation import ContinuationJoiner
from hermes.llm.lineage import Lineage
from hermes.providers.decoding import SseReader
from hermes.providers.wire import (
    AnswerDecoder,
    Endpoint,
    ServerEvent,
    WireError,
    build_request_headers,
    build_url,
    load_wire,
)
from hermes.util.clock import Clock

Emit = Callable[[Event], Awaitable[None]]

_MAX_ERROR_BODY = 256 * 1024
_MAX_WHOLE_BODY = 32 * 1024 * 1024
_MAX_STREAM = 128 * 1024 * 1024
"""Bytes of one event stream: 128,000 tokens of the wordiest gateway take 50 MB."""
_MAX_TEXT = 16 * 1024 * 1024
"""Characters of text and thoughts of one answer: four million tokens."""
_ERROR_SECONDS = 30.0
"""Seconds that the body of an error status is waited for."""
_QUIET_READS = 3
"""How many read timeouts an answer may say nothing, while pings keep its connection alive: half an hour by default."""
_DRAIN_SECONDS = 0.25


class ProviderExchange:
    """Makes requests to one endpoint with one key; any number at once."""

    def __init__(self, endpoint: Endpoint, transport: HttpTransport, clock: Clock, timeouts: HttpTimeouts) -> None:
        self.endpoint = endpoint
        self._transport = transport
        self._clock = clock
        self._timeouts = timeouts
        self._wire = load_wire(endpoint.wire)
        self._url = build_url(endpoint.base_url, self._wire.path)
        self._headers = self._wire.build_headers(endpoint)

    @property
    def beta_field(self) -> str:
        """The header field in which the requests name features that not every account has; empty: none."""
        field = self.endpoint.record.quirks.beta_header
        return field if any(name.lower() == field for name in self._headers) else ""

    def create_call(self, emit: Emit, *, known_server: bool = False, before: str = "") -> "ExchangeCall":
        """Create the reading side of the next exchange; deltas go to `emit`.

        `known_server`: the server has answered before, so a page in the place of an answer comes from somewhere else.
        `before`: the beginning of the answer that this one goes on with.
        """
        call = ExchangeCall(self._wire.create_decoder(self.endpoint), emit, self._create_watchdog())
        call.known_server = known_server
        call.joiner = ContinuationJoiner(before) if before else None
        return call

    def _create_watchdog(self) -> "AnswerWatchdog":
        return AnswerWatchdog(self.endpoint.record.title, self._clock, _QUIET_READS * self._timeouts.read)

    async def run_call(self, body: bytes, call: "ExchangeCall", size: RequestSize = UNKNOWN_SIZE) -> Answer | Failure:
        """Send a request and read its answer. Never raises for what a server or the network does.

        `size` helps to tell a request that is too long from one that is refused or cut for another reason.
        """
        return await call.join_outcome(await self._read_answer(body, call, size))

    async def _read_answer(self, body: bytes, call: "ExchangeCall", size: RequestSize) -> Answer | Failure:
        headers = self._headers
        try:
            if self.endpoint.signer is not None:
                headers = await build_request_headers(self.endpoint, self._transport, "POST", self._url, body)
            async with self._transport.open(
                "POST", self._url, headers=headers | call.headers, body=body, timeouts=self._timeouts
            ) as stream:
                if stream.status >= 300:
                    return await self._read_refusal(stream, call, size)
                call.answered = True
                kind = stream.headers.get("content-type", "").lower()
                if "text/event-stream" in kind or not kind:
                    await call.read_stream(stream)
                else:
                    problem = await self._read_whole(stream, kind, call)
                    if problem is not None:
                        return problem
        except TransportError as error:
            size = UNKNOWN_SIZE if call.events else size
            failure = failure_from_transport(error, self.endpoint, size, known_server=call.known_server)
            return self._conclude_call(call, failure)
        except WireError as error:
            return self._conclude_call(call, failure_from_stream(error, self.endpoint, self._clock.now(), size))
        return self._conclude_call(call, None, size)

    def _conclude_call(
        self, call: "ExchangeCall", failure: Failure | None, size: RequestSize = UNKNOWN_SIZE
    ) -> Answer | Failure:
        """Return the outcome of an exchange. A later error does not lose an answer that the provider called whole."""
        if call.decoder.finished:
            return call.decoder.build_answer()
        failure = failure or failure_from_early_end(self.endpoint, began=call.events > 0, size=size)
        message = call.decoder.build_answer().message if call.began else None
        return structs.replace(failure, partial=message if message is not None and message.parts else None)

    async def _read_refusal(self, stream: HttpStream, call: "ExchangeCall", size: RequestSize) -> Failure:
        """Read an error status into a failure; its body may be cut, endless or missing."""
        headers, status = stream.headers, stream.status
        body = bytearray()
        try:
            async with asyncio.timeout(min(_ERROR_SECONDS, self._timeouts.read)):
                async for chunk in stream.chunks():
                    body += chunk
                    if len(body) > _MAX_ERROR_BODY:
                        break
        except TransportError as error:
            body += f" ({error.message})".encode()
        except TimeoutError:
            body += b" (the rest did not come in time)"
        if call.known_server and is_foreign_page(status, headers, bytes(body)):
            return failure_from_foreign_page(status, self.endpoint)
        return failure_from_response(status, headers, bytes(body), self.endpoint, self._clock.now(), size)

    async def _read_whole(self, stream: HttpStream, kind: str, call: "ExchangeCall") -> Failure | None:
        """Read a success that is no event stream: the answer as one JSON object, an unlabelled stream, or neither."""
        body = bytearray()
        watch = self._create_watchdog()
        async for chunk in stream.chunks():
            body += chunk
            if len(body) > _MAX_WHOLE_BODY:
                break
            watch.record_bytes(len(chunk), 0, progress=not chunk.isspace())
        start = bytes(body[:64]).lstrip()
        if start.startswith((b"data:", b"event:", b":")):
            reader = SseReader()
            await call.decode_events([*reader.feed(bytes(body)), *reader.close()])
            return None
        if start.startswith((b"{", b"[{")):
            await call.decode_events([ServerEvent(event="", data=body.decode("utf-8", "replace"))])
            if call.decoder.finished:
                return None
        failure = failure_from_page(bytes(body), kind, self._url, self.endpoint, stream.status)
        return structs.replace(failure, retryable=failure.retryable or call.known_server)


class AnswerWatchdog:
    """Ends an answer that never ends: one that says nothing for `quiet` seconds, or too much.

    It is checked whenever bytes come; that none come at all is the transport's own timeout. Comments, pings
    and empty deltas are no progress, however many; text, thoughts and pieces of calls are.
    """

    def __init__(self, title: str, clock: Clock, quiet: float) -> None:
        self._title = title
        self._clock = clock
        self._quiet = quiet
        self._since = clock.monotonic()
        self._bytes = 0
        self._text = 0

    def record_bytes(self, size: int, text: int, *, progress: bool) -> None:
        """Note bytes of the body and characters of the answer in them. Raises `TransportError` past a limit."""
        self._bytes += size
        self._text += text
        if self._bytes > _MAX_STREAM or self._text > _MAX_TEXT:
            limit = (
                f"{_MAX_STREAM >> 20} MB"
                if self._bytes > _MAX_STREAM
                else N_("{MAX_TEXT} characters", MAX_TEXT=format(_MAX_TEXT, ","))
            )
            raise TransportError(
                FailureKind.BAD_RESPONSE,
                N_("{title} sent an answer of more than {limit}.", title=self._title, limit=limit),
                lasting=True,
            )
        now = self._clock.monotonic()
        if progress:
            self._since = now
        elif now - self._since > self._quiet:
            said = N_(
                "{title} kept the connection alive for {quiet} s and said nothing.",
                title=self._title,
                quiet=format(self._quiet, "g"),
            )
            raise TransportError(FailureKind.TIMEOUT, said)


class ExchangeCall:
    """The reading side of one exchange: the decoder, and whether anything was emitted."""

    def __init__(self, decoder: AnswerDecoder, emit: Emit, watch: AnswerWatchdog) -> None:
        self.decoder = decoder
        self.headers: dict[str, str] = {}
        """Header fields besides those of every call."""
        self.known_server = False
        self.joiner: ContinuationJoiner | None = None
        """Joins an answer that goes on to its beginning."""
        self.answered = False
        """Whether the head of an answer has come, so that the provider is at work and charges for it."""
        self.began = False
        self.emitted_text = False
        """Whether text of the answer was emitted; blanks, thoughts and calls that broke off can be requested again."""
        self.events = 0
        self._emit = emit
        self._watch = watch
        self._pieces = 0

    async def read_stream(self, stream: HttpStream) -> None:
        """Read an event stream to its end.

        Once the provider has said that nothing more comes, the end of the body is waited for only briefly:
        reading it lets the connection serve again, but some servers never send it.
        """
        reader = SseReader()
        chunks = stream.chunks()
        async for chunk in chunks:
            events = reader.feed(chunk)
            text = await self.decode_events(events) if events else 0
            if self.decoder.ended:
                break
            pieces, self._pieces = self._pieces, self.decoder.pieces
            self._watch.record_bytes(len(chunk), text, progress=text > 0 or self._pieces > pieces)
        if not self.decoder.ended:
            await self._decode_rest(reader.close())
            return
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in chunks:
                    pass
        except (TimeoutError, TransportError):
            return

    async def _decode_rest(self, events: list[ServerEvent]) -> None:
        """Decode what a stream ended in the middle of; an event that is only half there is no other error."""
        try:
            await self.decode_events(events)
        except WireError as error:
            if error.code != "not_json":
                raise

    async def decode_events(self, events: list[ServerEvent]) -> int:
        """Decode events and emit their deltas; texts that arrived together are emitted together.

        Return how many characters of text and thoughts there were.
        """
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
        await self._emit_deltas(deltas)
        if error is not None:
            raise error
        return sum(len(delta.text) for delta in deltas if not isinstance(delta, CallStarted))

    async def _emit_deltas(self, deltas: list[StreamDelta]) -> None:
        if self.joiner is not None:
            deltas = _join_to_beginning(deltas, self.joiner)
        self.emitted_text = self.emitted_text or any(
            isinstance(delta, TextDelta) and delta.text.strip() for delta in deltas
        )
        for delta in _join_deltas(deltas):
            await self._emit(delta)

    def build_partial(self) -> Message | None:
        """Return what has come of an answer that is not read on; None where nothing has."""
        if not self.began:
            return None
        message = self.decoder.build_answer().message
        return message if self.joiner is None else self.joiner.trim_message(message)

    async def join_outcome(self, outcome: Answer | Failure) -> Answer | Failure:
        """Return the outcome without what only repeats the beginning of the answer; show what was held back."""
        if self.joiner is None:
            return outcome
        if isinstance(outcome, Failure):
            partial = self.joiner.trim_message(outcome.partial) if outcome.partial is not None else None
            return structs.replace(outcome, partial=partial if partial is not None and partial.parts else None)
        rest = self.joiner.finish()
        if rest:
            await self._emit(TextDelta(text=rest))
        message = self.joiner.trim_message(outcome.message)
        repeated = bool(outcome.message.text.strip()) and not message.text.strip() and not any(message.tool_calls())
        return structs.replace(outcome, message=message, repeated=repeated)


def _join_to_beginning(deltas: list[StreamDelta], joiner: ContinuationJoiner) -> list[StreamDelta]:
    """Return the deltas with only that text which is new."""
    joined: list[StreamDelta] = []
    for delta in deltas:
        if not isinstance(delta, TextDelta):
            joined.append(delta)
        elif text := joiner.feed(delta.text):
            joined.append(TextDelta(text=text))
    return joined


def _join_deltas(deltas: list[StreamDelta]) -> list[StreamDelta]:
    """Return the same deltas with neighboring texts joined."""
    if len(deltas) < 2 or not all(isinstance(delta, TextDelta) for delta in deltas):
        return deltas
    return [TextDelta(text="".join(delta.text for delta in deltas if isinstance(delta, TextDelta)))]


_NOT_SENT_KINDS = frozenset({FailureKind.UNREACHABLE, FailureKind.TLS})
_PERHAPS_SERVED = frozenset({408, 502, 504, 524})
"""A gateway gave up waiting; the model behind it may have answered, and billed."""


class CallGrant(Struct, frozen=True):
    """Permission to make a call. `max_tokens` lowers its answer's limit; None leaves it as it is."""

    number: int = 0
    max_tokens: int | None = None


class CallUsage(Struct, frozen=True):
    """What is known of a call's usage once it is over.

    `billed`: whether anything can have been charged for it. `whole`: whether `usage` is the last word of
    the provider; else only its count of the prompt is.
    """

    usage: Usage | None
    whole: bool
    billed: bool


def read_call_usage(call: ExchangeCall, outcome: Answer | Failure | None) -> CallUsage:
    """Return the usage of a call; `outcome` is None when it was cancelled."""
    usage = outcome.usage if outcome is not None else None
    if usage is None and call.events:
        usage = call.decoder.build_answer().usage
    return CallUsage(usage=usage, whole=call.decoder.finished, billed=call.answered or not _cannot_be_served(outcome))


def _cannot_be_served(outcome: Answer | Failure | None) -> bool:
    """Return whether a call that got no answer's head cannot have been served; a cancelled one can."""
    if not isinstance(outcome, Failure):
        return False
    return outcome.kind in _NOT_SENT_KINDS or (outcome.status >= 300 and outcome.status not in _PERHAPS_SERVED)


class Meter(Protocol):
    """Reserves the worst case of each of a session's calls before it is made, and settles what it cost.

    One meter serves every model that the session calls, for whatever purpose.
    """

    def begin_turn(self, turn_id: str) -> None:
        """Begin a turn: its calls are counted for it, and `cost` from nothing."""
        ...

    @property
    def cost(self) -> Cost:
        """Return what the calls since `begin_turn` have cost."""
        ...

    async def reserve(self, lineage: Lineage, *, final: bool) -> CallGrant | Failure:
        """Reserve the lineage's next call, or return a failure of kind `SPEND_LIMIT`.

        May wait while calls under way hold what may be left over. Raises `StoreError` when the reservation, or
        what was settled before, cannot be written.
        """
        ...

    def settle(self, grant: CallGrant, heard: CallUsage) -> None:
        """Note what a call cost. Never waits and never raises, so no cancellation can lose it."""
        ...

    async def flush(self) -> None:
        """Wait until everything settled is on disk. Raises `StoreError` when it cannot be written."""
        ...


class Unmetered:
    """A meter without caps that writes nothing down."""

    cost = Cost()

    def begin_turn(self, turn_id: str) -> None:
        """Do nothing: nothing is counted."""

    async def reserve(self, _lineage: Lineage, *, final: bool) -> CallGrant | Failure:
        """Grant every call."""
        del final
        return CallGrant()

    def settle(self, grant: CallGrant, heard: CallUsage) -> None:
        """Do nothing: there is nothing to settle."""

    async def flush(self) -> None:
        """Return at once: there is nothing to wait for."""


_DATE = re.compile(r"-20\d\d-?\d\d-?\d\d$")


def find_price(endpoint: Endpoint, configured: Mapping[str, Price]) -> Price | None:
    """Return the price of the endpoint's model; None when nobody has named one.

    `configured` is by model or `PROVIDER/MODEL`, the longer name first; in both tables a name that ends in `*` matches
    all that begin like it, the longest of them first. A dated snapshot of a model costs what the model does, unless it
    has a price of its own. Cache writes have the price of the time that the endpoint asks for.
    """
    record = endpoint.record
    found = find_model_price(record.name, endpoint.model, configured, record.prices)
    return found.price_for_hour_cache() if found is not None and endpoint.cache_ttl == "1h" else found


def find_model_price(
    provider: str, model: str, configured: Mapping[str, Price], listed: Mapping[str, Price]
) -> Price | None:
    """Return the price of a provider's model in the user's own table, else in the listed one."""
    return (
        _lookup_price(configured, f"{provider}/{model}")
        or _lookup_price(configured, model)
        or _lookup_price(listed, model)
    )


def _lookup_price(table: Mapping[str, Price], name: str) -> Price | None:
    if name in table:
        return table[name]
    undated = _DATE.sub("", name)
    if undated in table:
        return table[undated]
    prefixes = [known for known in table if known.endswith("*") and name.startswith(known[:-1])]
    return table[max(prefixes, key=len)] if prefixes else None
