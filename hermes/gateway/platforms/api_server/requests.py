"""Reading of requests within limits, and answers as JSON.

Server-sent events to programs that may read slowly, or disconnect.
"""

import asyncio
from types import TracebackType
from typing import TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.keys import ApiCaller

READ_SECONDS = 30.0
"""How long a request body may take to arrive."""
MAX_DEPTH = 64
"""How deep JSON may be nested."""
MAX_CONTAINERS = 500_000
"""Brackets of a body at most: 10 MB of empty lists hold the process up for two seconds."""
CALLER: web.RequestKey[ApiCaller] = web.RequestKey("caller", ApiCaller)
S = TypeVar("S", bound=Struct)
WRITE_SECONDS = 60.0
"""How long a program may read nothing before it counts as disconnected."""
KEEP_ALIVE_SECONDS = 15.0
"""Seconds of silence after which a comment is sent, so that proxies do not close the connection."""
KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"
_SLICE = 64 * 1024
"""Bytes that are written before a program has to read: it costs no more memory than this, however much there is."""


class RequestReader:
    """Reads request bodies of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    async def read_bytes(self, request: web.Request) -> bytes:
        """Return the body. Raises ApiRequestError when it is too large, too slow, or broken off."""
        declared = request.content_length
        if declared is not None and declared > self._limit:
            raise self._too_large()
        found = bytearray()
        try:
            async with asyncio.timeout(READ_SECONDS):
                async for chunk in request.content.iter_any():
                    found += chunk
                    if len(found) > self._limit:
                        raise self._too_large()
        except TimeoutError:
            raise ApiRequestError(
                408, "The request did not come whole in time.", headers={"Connection": "close"}
            ) from None
        except (ValueError, web.RequestPayloadError) as error:
            raise ApiRequestError(400, f"The request's body is broken: {type(error).__name__}.") from None
        return bytes(found)

    async def read_object(self, request: web.Request) -> dict[str, object]:
        """Return the JSON object of a body. Raises ApiRequestError."""
        given = await self._read_json(request)
        if not isinstance(given, dict):
            raise ApiRequestError(400, "The body must be a JSON object.")
        return given

    async def read_value(self, request: web.Request, kind: type[S]) -> S:
        """Return the JSON of a body as a value of this type. Raises ApiRequestError."""
        try:
            return msgspec.convert(await self._read_json(request), kind)
        except msgspec.ValidationError as error:
            said, _, where = str(error).partition(" - at `")
            param = where.rstrip("`").removeprefix("$.").removeprefix("$")
            raise ApiRequestError(400, f"{said}{f' (at {param})' if param else ''}", param=param) from None

    async def _read_json(self, request: web.Request) -> object:
        if request.content_type != "application/json" or request.headers.get("Content-Encoding"):
            raise ApiRequestError(415, "The body must be plain JSON, with the type application/json.")
        raw = await self.read_bytes(request)
        if raw.count(b"[") + raw.count(b"{") > MAX_CONTAINERS:
            raise ApiRequestError(400, f"The JSON has more than {MAX_CONTAINERS:,} lists and objects.")
        try:
            given: object = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise ApiRequestError(400, f"We could not parse the JSON body of your request: {error}") from None
        check_depth(given)
        return given

    def _too_large(self) -> ApiRequestError:
        said = f"The request is larger than {self._limit:,} bytes."
        return ApiRequestError(413, said, code="request_too_large", headers={"Connection": "close"})


def check_depth(value: object) -> None:
    """Raise ApiRequestError for JSON that is nested too deep."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for one in level:
            if isinstance(one, dict):
                below += one.values()
            elif isinstance(one, list):
                below += one
        if not below:
            return
        level = below
    raise ApiRequestError(400, f"The JSON is nested deeper than {MAX_DEPTH} levels.")


def caller_of(request: web.Request) -> ApiCaller:
    """Return the caller of a request."""
    return request[CALLER]


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return a response with a value as JSON."""
    return web.Response(body=to_json(value), status=status, headers=headers, content_type="application/json")


def query_number(request: web.Request, name: str, default: int, most: int) -> int:
    """Return a number of the query, from 0 to `most`. Raises ApiRequestError for a value that is not one."""
    given = request.query.get(name, "")
    if not given:
        return default
    if not given.isascii() or not given.isdigit() or len(given) > 9:
        raise ApiRequestError(400, f"{name} must be a number.", param=name)
    return min(int(given), most)


class ClientGoneError(ConnectionError):
    """The client does not read any more."""


class EventStreamResponse:
    """A response of server-sent events, as an async context that sends its head on entry."""

    def __init__(self, request: web.Request, headers: dict[str, str] | None = None) -> None:
        self._request = request
        self._response = web.StreamResponse(headers={**(headers or {}), "X-Accel-Buffering": "no"})
        self._response.content_type = "text/event-stream"
        self._response.charset = "utf-8"

    async def __aenter__(self) -> "EventStreamResponse":
        await self._response.prepare(self._request)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self._response.write_eof()

    @property
    def response(self) -> web.StreamResponse:
        """The response that the handler returns."""
        return self._response

    async def send(self, data: bytes) -> None:
        """Send events. Raises ClientGoneError when nobody reads."""
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ClientGoneError("the connection is closed")
        try:
            for start in range(0, len(data), _SLICE):
                async with asyncio.timeout(WRITE_SECONDS):
                    await self._response.write(data[start : start + _SLICE])
        except TimeoutError:
            transport.abort()
            raise ClientGoneError("nothing was read for too long") from None


def encode_event(kind: str, body: object) -> bytes:
    """Encode one event of Hermes' own."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), to_json(body))
