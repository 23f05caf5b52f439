"""The exchanges with one server over HTTP: the person's header fields, the token that it wants, no redirects."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

from hermes.core.errors import ToolError, TransportError
from hermes.core.protocols import HttpStream, HttpTimeouts, HttpTransport
from hermes.execution.line_program import MAX_MESSAGE_BYTES
from hermes.i18n.messages import N_
from hermes.mcp.rpc import NoAnswerError, UnknownAddressError
from hermes.providers.http_common import parse_target

EVENT_STREAM = "text/event-stream"
JSON_TYPE = "application/json"
LISTEN_TIMEOUTS = HttpTimeouts(read=3_600.0)
"""The time-outs of a stream that is silent for as long as a server has nothing to say."""
MESSAGE_TOO_LONG = N_(
    "it sent a message of more than {MAX_MESSAGE_BYTES} MB", MAX_MESSAGE_BYTES=MAX_MESSAGE_BYTES >> 20
)
_NOT_HERE = (400, 404, 405)
"""The statuses with which a server of the first revision refuses what is posted to its address; so says the later ones'
chapter on backwards compatibility.
"""
_MAX_SENDS = 4
"""How often a request is sent: once, and again with a refreshed token, after a sign-in, with more permissions."""


class McpTokens(Protocol):
    """The tokens that a server wants, if it does."""

    async def find_token(self) -> str:
        """Return the token to send; empty for none. Raises `ToolError`."""
        ...

    async def answer_challenge(self, status: int, field: str, token: str, *, is_repeated: bool) -> None:
        """Take a refusal (401 or 403) of a request with `token`, with its field WWW-Authenticate; `is_repeated` if the
        request was refused with 401 before.

        Returns when it makes sense to send the request again. Raises `ToolError` with what the person has to do.
        """
        ...

    async def close(self) -> None:
        """End what is under way."""
        ...


class TokenDemand(NamedTuple):
    """A server's demand for another token: its status, and its field WWW-Authenticate."""

    status: int
    field: str


class McpHttpExchanges:
    """Exchanges with one server. `headers` go to it and to nobody else: redirects are not followed."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        transport: HttpTransport,
        timeouts: HttpTimeouts,
        tokens: McpTokens | None = None,
    ) -> None:
        self.url = url
        self._headers = dict(headers)
        self._transport = transport
        self._timeouts = timeouts
        self._tokens = tokens

    def check_address(self) -> None:
        """Raise `ToolError` for an address that cannot be requested."""
        try:
            parse_target(self.url)
        except TransportError:
            raise ToolError("its url is not an http or https address") from None

    async def find_token(self) -> str:
        """Return the token to send now; empty for none. Raises `ToolError`."""
        return await self._tokens.find_token() if self._tokens is not None else ""

    def open(
        self,
        method: str,
        fields: Mapping[str, str],
        body: bytes = b"",
        *,
        token: str,
        timeouts: HttpTimeouts | None = None,
        url: str = "",
    ) -> contextlib.AbstractAsyncContextManager[HttpStream]:
        """Open an exchange, with the server's own address where no other one of it is given."""
        sent = {**self._headers, "accept": EVENT_STREAM if method == "GET" else f"{JSON_TYPE}, {EVENT_STREAM}"}
        if method != "GET":
            sent["content-type"] = JSON_TYPE
        sent |= fields
        if token:
            sent["authorization"] = f"Bearer {token}"
        return self._transport.open(
            method, url or self.url, headers=sent, body=body, timeouts=timeouts or self._timeouts
        )

    def find_challenge(self, stream: HttpStream) -> TokenDemand | None:
        """Return the demand for another token in an answer, if there is one and there can be another."""
        if stream.status not in (401, 403) or self._tokens is None:
            return None
        return TokenDemand(stream.status, stream.headers.get("www-authenticate", ""))

    async def repeat_for_tokens(self, attempt: Callable[[str], Awaitable[TokenDemand | None]]) -> None:
        """Make an attempt with a token, and again with another one as long as the server demands that.

        Raises `ToolError`, also for errors of transport.
        """
        was_refused = False
        try:
            for _ in range(_MAX_SENDS):
                token = await self.find_token()
                challenge = await attempt(token)
                if challenge is None or self._tokens is None:
                    return
                await self._tokens.answer_challenge(*challenge, token, is_repeated=was_refused)
                was_refused = was_refused or challenge.status == 401
        except TransportError as error:
            raise ToolError(error.message.rstrip(".")) from None
        raise ToolError("it wants other permissions again and again")

    async def close(self) -> None:
        """End them all."""
        await self._transport.close()
        if self._tokens is not None:
            await self._tokens.close()


def get_content_type(stream: HttpStream) -> str:
    """Return the type of an answer without its parameters, in small letters."""
    return stream.headers.get("content-type", "").partition(";")[0].strip().lower()


def make_refusal(stream: HttpStream) -> ToolError:
    """Return the error for another status than success. A server may refuse a message that it does not know; one that
    is elsewhere, wants credentials or does not work says nothing of that.
    """
    said = _describe_refusal(stream)
    if stream.status in _NOT_HERE:
        return UnknownAddressError(said)
    is_final = stream.status in (401, 403, 407, 429) or not 400 <= stream.status < 500
    return ToolError(said) if is_final else NoAnswerError(said)


def _describe_refusal(stream: HttpStream) -> str:
    status_text = N_("it answered with status {status}", status=stream.status)
    if stream.status in (401, 403):
        return N_("{status_text}: it wants other credentials (`headers`)", status_text=status_text)
    if 300 <= stream.status < 400:
        return N_(
            "{status_text}: it is elsewhere ({get}); put that address into `url`",
            status_text=status_text,
            get=repr(stream.headers.get("location", "")[:200]),
        )
    return status_text


async def iter_chunks(stream: HttpStream) -> AsyncIterator[bytes]:
    """Yield the bytes of an answer as they come."""
    async with contextlib.aclosing(stream.chunks()) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            yield chunk
