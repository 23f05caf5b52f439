"""A transport to a server over HTTP with events, as in the revision 2024-11-05: one GET brings all that it says, and
names the address to which messages are posted.
"""

import asyncio
from collections.abc import Callable
from urllib.parse import urljoin

from hermes.core.errors import ToolError, TransportError
from hermes.execution.line_program import MAX_MESSAGE_BYTES
from hermes.i18n.messages import N_
from hermes.mcp.event_stream import EventStreamReader
from hermes.mcp.http_exchanges import (
    EVENT_STREAM,
    LISTEN_TIMEOUTS,
    MESSAGE_TOO_LONG,
    McpHttpExchanges,
    TokenDemand,
    get_content_type,
    iter_chunks,
    make_refusal,
)
from hermes.mcp.rpc import NoAnswerError, OutgoingMessage
from hermes.providers.http_common import HttpTarget, parse_target
from hermes.util.cancellation import wait_for_task

_MAX_ADDRESS = 4_096
_ENDED = N_("it has ended its stream of events")


class McpSseTransport:
    """One session with a server; it lasts as long as the stream of events does."""

    answers_in_place = False

    def __init__(self, exchanges: McpHttpExchanges) -> None:
        self._exchanges = exchanges
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Where messages are posted."""
        self._reading: asyncio.Task[None] | None = None
        self._on_message: Callable[[bytes], None] = lambda _: None
        self._on_lost: Callable[[str], None] = lambda _: None

    async def open(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Open the stream and wait until the server has named the address for messages. Raises `ToolError`."""
        self._on_message, self._on_lost = on_message, on_lost
        self._exchanges.check_address()
        self._reading = asyncio.create_task(self._read_events())
        await self._address

    async def set_version(self, version: str) -> None:
        """Do nothing: messages of this transport do not name their version."""

    async def send(self, message: OutgoingMessage) -> None:
        """Post a message; its answer comes as an event. Raises `ToolError`."""
        await self._exchanges.repeat_for_tokens(lambda token: self._post_once(message, token))

    async def close(self) -> None:
        """End the stream, and with it the session."""
        if self._reading is not None:
            self._reading.cancel()
            await wait_for_task(self._reading)
        self._address.cancel()
        await self._exchanges.close()

    async def _post_once(self, message: OutgoingMessage, token: str) -> TokenDemand | None:
        address = await self._address
        async with self._exchanges.open("POST", {}, message.body, token=token, url=address) as stream:
            if (challenge := self._exchanges.find_challenge(stream)) is not None:
                return challenge
            if not 200 <= stream.status < 300:
                raise make_refusal(stream)
            return None

    async def _read_events(self) -> None:
        """Take what the server says until it ends that, and say why it did."""
        try:
            await self._exchanges.repeat_for_tokens(self._read_stream)
            reason: ToolError = NoAnswerError(_ENDED)
        except ToolError as error:
            reason = error
        if self._address.done():
            self._on_lost(str(reason))
        else:
            self._address.set_exception(reason)

    async def _read_stream(self, token: str) -> TokenDemand | None:
        async with self._exchanges.open("GET", {}, token=token, timeouts=LISTEN_TIMEOUTS) as stream:
            if (challenge := self._exchanges.find_challenge(stream)) is not None:
                return challenge
            if stream.status != 200:
                raise make_refusal(stream)
            if get_content_type(stream) != EVENT_STREAM:
                raise NoAnswerError(N_("it has no stream of events"))
            reader = EventStreamReader(MAX_MESSAGE_BYTES)
            async for chunk in iter_chunks(stream):
                self._take_chunk(reader, chunk)
            return None

    def _take_chunk(self, reader: EventStreamReader, chunk: bytes) -> None:
        try:
            events = reader.feed(chunk)
        except ValueError:
            raise ToolError(MESSAGE_TOO_LONG) from None
        for event in events:
            if event.type == "message":
                self._on_message(event.data.encode())
            elif event.type == "endpoint" and not self._address.done():
                self._address.set_result(self._resolve_address(event.data.strip()))

    def _resolve_address(self, text: str) -> str:
        """Return the address for messages. Raises `ToolError` unless it is at the server's own place: messages carry
        the person's header fields and tokens.
        """
        try:
            address = urljoin(self._exchanges.url, text) if text.isascii() and text.isprintable() else ""
            is_own = _find_place(parse_target(address)) == _find_place(parse_target(self._exchanges.url))
        except (ValueError, TransportError):
            is_own = False
        if not is_own or len(address) > _MAX_ADDRESS:
            raise ToolError(N_("it wants messages to be sent elsewhere ({get})", get=repr(text[:200])))
        return address


def _find_place(target: HttpTarget) -> tuple[str, str, int]:
    return target.scheme, target.host, target.port
