"""Requests read within limits, and answers as JSON."""

import asyncio
from typing import TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from hermes.gateway.platforms.api_server.errors import ApiError
from hermes.gateway.platforms.api_server.keys import Caller

READ_SECONDS = 30.0
"""How long a body may take to come."""
DEPTH = 64
"""How deep JSON may be nested."""
CALLER: web.RequestKey[Caller] = web.RequestKey("caller", Caller)
S = TypeVar("S", bound=Struct)


class Reader:
    """Reads bodies of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    async def raw(self, request: web.Request) -> bytes:
        """The body. Raises ApiError when it is too large, too slow, or broken off."""
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
            raise ApiError(408, "The request did not come whole in time.", headers={"Connection": "close"}) from None
        except (ValueError, web.RequestPayloadError) as error:
            raise ApiError(400, f"The request's body is broken: {type(error).__name__}.") from None
        return bytes(found)

    async def fields(self, request: web.Request) -> dict[str, object]:
        """The JSON object of a body. Raises ApiError."""
        given = await self._json(request)
        if not isinstance(given, dict):
            raise ApiError(400, "The body must be a JSON object.")
        return given

    async def body(self, request: web.Request, kind: type[S]) -> S:
        """The JSON of a body, as a value of this kind. Raises ApiError."""
        try:
            return msgspec.convert(await self._json(request), kind)
        except msgspec.ValidationError as error:
            said, _, where = str(error).partition(" - at `")
            param = where.rstrip("`").removeprefix("$.").removeprefix("$")
            raise ApiError(400, f"{said}{f' (at {param})' if param else ''}", param=param) from None

    async def _json(self, request: web.Request) -> object:
        if request.content_type != "application/json" or request.headers.get("Content-Encoding"):
            raise ApiError(415, "The body must be plain JSON, with the type application/json.")
        raw = await self.raw(request)
        try:
            given: object = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise ApiError(400, f"We could not parse the JSON body of your request: {error}") from None
        check_depth(given)
        return given

    def _too_large(self) -> ApiError:
        said = f"The request is larger than {self._limit:,} bytes."
        return ApiError(413, said, code="request_too_large", headers={"Connection": "close"})


def check_depth(value: object) -> None:
    """Raise ApiError for what is nested too deep."""
    level: list[object] = [value]
    for _ in range(DEPTH):
        below: list[object] = []
        for one in level:
            if isinstance(one, dict):
                below += one.values()
            elif isinstance(one, list):
                below += one
        if not below:
            return
        level = below
    raise ApiError(400, f"The JSON is nested deeper than {DEPTH} levels.")


def caller_of(request: web.Request) -> Caller:
    """Whose request it is."""
    return request[CALLER]


def answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A value as JSON."""
    return web.Response(
        body=msgspec.json.encode(value), status=status, headers=headers, content_type="application/json"
    )


def number(request: web.Request, name: str, default: int, most: int) -> int:
    """A number of the query, from 0 to `most`. Raises ApiError for one that is none."""
    given = request.query.get(name, "")
    if not given:
        return default
    if not given.isascii() or not given.isdigit() or len(given) > 9:
        raise ApiError(400, f"{name} must be a number.", param=name)
    return min(int(given), most)
