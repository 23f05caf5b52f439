"""HTTP requests and WebSocket connections to platforms, the meaning of their failures, and lenient decoding."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TypeVar

import msgspec
from msgspec import Struct

from hermes.core.chats import InboundEvent
from hermes.gateway.platform import MEDIA_LIMIT, PlatformError, SendError, SendFault
from hermes.i18n.messages import N_
from hermes.util.text import clean_surrogates, strip_control_characters, to_one_line

if TYPE_CHECKING:
    import aiohttp

    RawSocket = aiohttp.ClientWebSocketResponse[Literal[False]]


RESPONSE_LIMIT = 32 * 1024 * 1024
"""Bytes of the largest response that is read; a page of messages is a hundredth of that."""
REQUEST_SECONDS = 30.0
"""How long a request may take."""
SOCKET_SECONDS = 15.0
"""How long it may take until a connection stands."""
UPLOAD_SECONDS = 300.0
"""How long a request with a file may take."""
Kind = TypeVar("Kind")
_DEEP = "it is nested too deeply"
MAX_QUEUED_FRAMES = 512
"""Frames that wait at most; then nothing more is read until some were taken."""
FRAMES_AT_ONCE = 64
"""Frames that are given out together."""
FRAME_LIMIT = 16 * 1024 * 1024
"""Bytes of the largest frame; a large Discord server's first frame has a few million."""
CONNECT_SECONDS = 20.0
SEND_SECONDS = 10.0
CLOSE_SECONDS = 2.0


class PlatformResponse(Struct, frozen=True):
    """A response to a request; the names in `headers` are found in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PlatformRequest(Struct, frozen=True, kw_only=True):
    """A request to a platform."""

    method: str
    url: str
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: "bytes | aiohttp.FormData | None" = None
    creates: bool = False
    """Whether repeating it would show: then a connection that breaks leaves the outcome uncertain."""
    seconds: float = REQUEST_SECONDS


async def send_request(http: "aiohttp.ClientSession", call: PlatformRequest, platform: str) -> PlatformResponse:
    """Send a request and return its response, whatever its status. Raises `SendError` when there is no whole one."""
    import aiohttp

    try:
        async with http.request(
            call.method,
            call.url,
            headers=call.headers,
            params=call.query,
            data=call.body,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=call.seconds, sock_connect=SOCKET_SECONDS),
        ) as answer:
            return PlatformResponse(answer.status, answer.headers, await _read_bounded(answer, platform))
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
        said = N_("{platform} cannot be reached: {error}", platform=platform, error=_describe_failure(error))
        raise SendError(SendFault.TRANSIENT, said) from None
    except TimeoutError:
        said = N_("{platform} did not answer within {seconds} s.", platform=platform, seconds=f"{call.seconds:g}")
        raise SendError(SendFault.TRANSIENT, said, uncertain=call.creates) from None
    except (aiohttp.ClientError, ConnectionError) as error:
        said = N_("The connection to {platform} broke: {error}", platform=platform, error=_describe_failure(error))
        raise SendError(SendFault.TRANSIENT, said, uncertain=call.creates) from None


def _describe_failure(error: Exception) -> str:
    """Return an error's text where it names the host at most; else its kind, since an address may hold a token."""
    import aiohttp

    if isinstance(error, aiohttp.ClientResponseError):
        return f"{type(error).__name__} (status {error.status})"
    names_address = isinstance(error, aiohttp.ConnectionTimeoutError) or not isinstance(
        error, OSError | aiohttp.ServerDisconnectedError
    )
    return type(error).__name__ if names_address else describe_error(error)


async def _read_bounded(answer: "aiohttp.ClientResponse", platform: str) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(256 * 1024):
        body += chunk
        if len(body) > RESPONSE_LIMIT:
            said = N_("{platform} answered with more than {n} bytes.", platform=platform, n=RESPONSE_LIMIT)
            raise SendError(SendFault.UNKNOWN, said)
    return bytes(body)


async def save_file(
    http: "aiohttp.ClientSession",
    url: str,
    target: Path,
    headers: dict[str, str] | None = None,
    *,
    allow_html: bool = True,
) -> None:
    """Save a file that came in. With `allow_html` false a web page is refused, as it is a page to sign in.

    Raises `PlatformError`; then there is nothing at `target`.
    """
    import aiohttp

    limits = aiohttp.ClientTimeout(total=UPLOAD_SECONDS, sock_read=REQUEST_SECONDS)
    whole = False
    try:
        async with http.get(url, headers=headers, timeout=limits, allow_redirects=False) as answer:
            if not allow_html and answer.content_type == "text/html":
                raise PlatformError(N_("The file may not be read: a page to sign in came instead."))
            await _write_file(answer, target)
            whole = True
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        raise PlatformError(N_("The file could not be fetched: {error}", error=_describe_failure(error))) from None
    finally:
        if not whole:
            await asyncio.to_thread(target.unlink, missing_ok=True)


async def _write_file(answer: "aiohttp.ClientResponse", target: Path) -> None:
    if answer.status != 200:
        raise PlatformError(N_("The file is not there: status {status}.", status=answer.status))
    with await asyncio.to_thread(open_private, target) as file:
        await _write_chunks(file, answer)


def open_private(target: Path) -> IO[bytes]:
    """Open a new file that only its owner can read."""
    return os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")


async def _write_chunks(file: IO[bytes], answer: "aiohttp.ClientResponse") -> None:
    size = 0
    async for chunk in answer.content.iter_chunked(256 * 1024):
        size += len(chunk)
        if size > MEDIA_LIMIT:
            raise PlatformError(N_("The file is larger than {n} bytes.", n=MEDIA_LIMIT))
        await asyncio.to_thread(file.write, chunk)


def parse_seconds(text: str | None) -> float | None:
    """Return the seconds in a header; None when it holds none."""
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None


def describe_error(error: BaseException | str) -> str:
    """Return an error's text, or a server's, on one short line without control characters."""
    said = str(error) or type(error).__name__
    return to_one_line(strip_control_characters(said), 200)


def decode_json(raw: bytes | msgspec.Raw, kind: type[Kind]) -> Kind:
    """Decode JSON into a value of this type; broken characters become U+FFFD. Raises only `msgspec.DecodeError`."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(_repair_surrogates(bytes(raw)), type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError(_DEEP) from error


def decode_response(raw: bytes | msgspec.Raw, kind: type[Kind], platform: str) -> Kind:
    """Decode a value that a platform answered.

    Raises `SendError`, an uncertain one: the platform has answered, so what was sent may have arrived.
    """
    try:
        return decode_json(raw, kind)
    except msgspec.DecodeError as error:
        why = describe_error(error)
        message = N_("{platform}'s answer cannot be read: {error}", platform=platform, error=why)
        raise SendError(SendFault.UNKNOWN, message, uncertain=True) from error


class OnceReporter:
    """Reports lines about what keeps happening, such as unreadable events: one line of each kind."""

    def __init__(self, report: Callable[[str], None], limit: int = 500) -> None:
        self._report = report
        self._limit = limit
        self._kinds: set[str] = set()

    def __call__(self, kind: str, line: str) -> None:
        """Report a line of this kind, unless one was reported or too many kinds are known."""
        if kind not in self._kinds and len(self._kinds) < self._limit:
            self._kinds.add(kind)
            self._report(line)

    def has_kind(self, kind: str) -> bool:
        """Return whether a line of this kind was reported."""
        return kind in self._kinds


class SeenEvents:
    """The ids of the newest stored events: one that comes twice, live and from a history, is given once."""

    def __init__(self, limit: int = 2_000) -> None:
        self._limit = limit
        self._ids: dict[str, None] = {}

    def has_event(self, event_id: str, pending: Sequence[InboundEvent]) -> bool:
        """Return whether an event is on disk, or among those that are stored together with it."""
        return event_id in self._ids or any(one.event_id == event_id for one in pending)

    def add_events(self, events: Sequence[InboundEvent]) -> None:
        """Note that these events are on disk now."""
        for one in events:
            self._ids[one.event_id] = None
        while len(self._ids) > self._limit:
            del self._ids[next(iter(self._ids))]


def _repair_surrogates(raw: bytes) -> bytes:
    """Replace half surrogate pairs, which msgspec rejects as JSON."""
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error
    except RecursionError as error:
        raise msgspec.DecodeError(_DEEP) from error
    return clean_surrogates(json.dumps(value, ensure_ascii=False)).encode()


class WebSocketConnection:
    """A connection, read by a task of its own that `close` ends."""

    def __init__(self, raw: "RawSocket") -> None:
        self._raw = raw
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_QUEUED_FRAMES)
        self._reader = asyncio.create_task(self._read_frames())
        self._ended = False
        self.last_frame_at = time.monotonic()
        """When the newest frame came, by the monotonic clock."""
        self.problem = ""
        """Why it ended, where the other side did not close it."""

    @property
    def is_crowded(self) -> bool:
        """Whether reading is paused because too many frames wait."""
        return self._queue.full()

    @property
    def close_code(self) -> int:
        """The code with which the connection was closed; 1006 when it broke."""
        return self._raw.close_code or 1006

    async def next_frames(self) -> list[bytes]:
        """Return the frames that came, in order; wait for the first. Empty: the connection has ended."""
        if self._ended:
            return []
        found: list[bytes] = []
        frame = await self._queue.get()
        while frame is not None:
            found.append(frame)
            if self._queue.empty() or len(found) == FRAMES_AT_ONCE:
                return found
            frame = self._queue.get_nowait()
        self._ended = True
        return found

    async def send(self, text: str) -> None:
        """Send a frame. Raises `PlatformError` when the connection is lost."""
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._raw.send_str(text)
        except (ConnectionError, TimeoutError) as error:
            raise PlatformError(N_("The connection broke: {error}", error=describe_error(error))) from error

    def stop_reading(self) -> None:
        """Stop reading: `next_frames` ends."""
        self._reader.cancel()

    async def close(self, code: int = 1000) -> None:
        """Close the connection; wait briefly for the closing handshake."""
        self.stop_reading()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._raw.close(code=code)

    async def _read_frames(self) -> None:
        import aiohttp

        try:
            while True:
                frame = await self._raw.receive()
                self.last_frame_at = time.monotonic()
                if frame.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                    break
                await self._queue.put(frame.data)
            if frame.type is aiohttp.WSMsgType.ERROR:
                self.problem = describe_error(frame.data)
            await self._queue.put(None)
        except asyncio.CancelledError:
            if self._queue.full():
                self._queue.get_nowait()
            self._queue.put_nowait(None)
            raise


async def connect_websocket(
    http: "aiohttp.ClientSession", url: str, *, heartbeat: float | None = None
) -> WebSocketConnection:
    """Open a connection; with `heartbeat` it is pinged every so many seconds and ends when no answer comes. Raises
    `PlatformError`.
    """
    import aiohttp

    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            raw = await http.ws_connect(
                url,
                max_msg_size=FRAME_LIMIT,
                heartbeat=heartbeat,
                decode_text=False,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
            )
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise PlatformError(N_("No connection for events: {error}", error=_describe_failure(error))) from None
    return WebSocketConnection(raw)
