"""Requests to platforms over HTTP, and what their failures mean."""

import asyncio
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from hermes.gateway.platform import MEDIA_LIMIT, Fault, PlatformError, SendError
from hermes.i18n.messages import phrase
from hermes.util.text import inert, one_line

if TYPE_CHECKING:
    import aiohttp

ANSWER_LIMIT = 32 * 1024 * 1024
"""Bytes of the largest answer that is read; a page of messages is a hundredth of that."""
SECONDS = 30.0
"""How long a request may take."""
UPLOAD_SECONDS = 300.0
"""How long one may take that carries a file."""


class Answer(Struct, frozen=True):
    """What came back: the names of `headers` are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Ask(Struct, frozen=True, kw_only=True):
    """A request."""

    method: str
    url: str
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: "bytes | aiohttp.FormData | None" = None
    creates: bool = False
    """Whether doing it twice would show: then a connection that breaks leaves it in doubt."""
    seconds: float = SECONDS


async def request(http: "aiohttp.ClientSession", ask: Ask, platform: str) -> Answer:
    """Make a request. Raises `SendError` when there is no whole answer; every status is an answer."""
    import aiohttp

    try:
        async with http.request(
            ask.method,
            ask.url,
            headers=ask.headers,
            params=ask.query,
            data=ask.body,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=ask.seconds),
        ) as answer:
            body = await _bounded(answer, platform)
            return Answer(answer.status, {name.lower(): value for name, value in answer.headers.items()}, body)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
        said = phrase("{platform} cannot be reached: {error}", platform=platform, error=told(error))
        raise SendError(Fault.TRANSIENT, said) from error
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        said = phrase("The connection to {platform} broke: {error}", platform=platform, error=told(error))
        raise SendError(Fault.TRANSIENT, said, uncertain=ask.creates) from error


async def _bounded(answer: "aiohttp.ClientResponse", platform: str) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(256 * 1024):
        body += chunk
        if len(body) > ANSWER_LIMIT:
            said = phrase("{platform} answered with more than {n} bytes.", platform=platform, n=ANSWER_LIMIT)
            raise SendError(Fault.UNKNOWN, said)
    return bytes(body)


async def save(
    http: "aiohttp.ClientSession",
    url: str,
    target: Path,
    headers: dict[str, str] | None = None,
    *,
    page: bool = True,
) -> None:
    """Save a file that came in; a web page only where `page` says so, as it is what asks to sign in.

    Raises `PlatformError`; then there is nothing at `target`.
    """
    import aiohttp

    limits = aiohttp.ClientTimeout(total=UPLOAD_SECONDS, sock_read=SECONDS)
    whole = False
    try:
        async with http.get(url, headers=headers, timeout=limits, allow_redirects=False) as answer:
            if not page and answer.content_type == "text/html":
                raise PlatformError(phrase("The file may not be read: a page to sign in came instead."))
            await _keep(answer, target)
            whole = True
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        raise PlatformError(phrase("The file could not be fetched: {error}", error=told(error))) from error
    finally:
        if not whole:
            await asyncio.to_thread(target.unlink, missing_ok=True)


async def _keep(answer: "aiohttp.ClientResponse", target: Path) -> None:
    if answer.status != 200:
        raise PlatformError(phrase("The file is not there: status {status}.", status=answer.status))
    with await asyncio.to_thread(target.open, "wb") as file:
        await _fill(file, answer)


async def _fill(file: IO[bytes], answer: "aiohttp.ClientResponse") -> None:
    size = 0
    async for chunk in answer.content.iter_chunked(256 * 1024):
        size += len(chunk)
        if size > MEDIA_LIMIT:
            raise PlatformError(phrase("The file is larger than {n} bytes.", n=MEDIA_LIMIT))
        file.write(chunk)


def seconds(text: str | None) -> float | None:
    """A header that holds seconds; None when it does not."""
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None


def told(error: BaseException | str) -> str:
    """What an error or a server says, on one short line that no terminal obeys."""
    said = str(error) or type(error).__name__
    return one_line(inert(said), 200)
