"""HTTP/1.1 without a library, for the way a model is nearly always reached: no proxy in between.

A model call is one POST and one streamed answer. What that needs of RFC 9112 stands here in full: pooled connections,
interim answers, a line for requests beyond the limit, several addresses of a host raced as in RFC 8305. It saves the
130 ms of CPU that importing an HTTP library costs, and most of what each call and each chunk cost there. It knows no
proxies: `DefaultHttpTransport` sends what needs one through httpx2.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from heapq import heappop, heappush
from itertools import chain, count, zip_longest
from ssl import SSLContext
from types import TracebackType
from typing import cast
from weakref import WeakKeyDictionary

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpStream, HttpTimeouts, HttpTransport
from hermes.i18n.messages import N_
from hermes.providers.http_common import (
    BodyDecoder,
    BodyFraming,
    CloseFraming,
    HttpTarget,
    ResponseHead,
    connect_failure,
    create_tls_context,
    cut_failure,
    find_proxy,
    late_failure,
    parse_head,
    parse_target,
    slow_failure,
)

ATTEMPT_DELAY = 0.25
"""Seconds that an address has for itself before the next one is tried beside it."""


_AddressInfo = tuple[int, int, int, str, tuple[object, ...]]


async def connect_first(host: str, port: int) -> socket.socket:
    """Return the first socket to connect.

    IPv6 and IPv4 addresses take turns, each tried beside those before it. Raises OSError: that of the address that
    failed last.
    """
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    waiting = iter(_interleave_families(infos))
    tasks: set[asyncio.Task[socket.socket]] = set()
    failed: OSError = ConnectionError(f"{host} has no address")
    try:
        while True:
            info = next(waiting, None)
            if info is not None:
                tasks.add(asyncio.create_task(_connect_address(info)))
            elif not tasks:
                raise failed
            done, tasks = await asyncio.wait(
                tasks, timeout=ATTEMPT_DELAY if info is not None else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    return task.result()
                failed = error if isinstance(error, OSError) else failed
    finally:
        for task in tasks:
            task.add_done_callback(_close_unwanted)
            task.cancel()


async def _connect_address(info: _AddressInfo) -> socket.socket:
    family, kind, protocol, _, address = info
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made


def _interleave_families(infos: Iterable[_AddressInfo]) -> Iterable[_AddressInfo]:
    """Return the addresses, the first one's family and the others by turns."""
    first: list[_AddressInfo] = []
    others: list[_AddressInfo] = []
    for info in infos:
        (first if not first or info[0] == first[0][0] else others).append(info)
    pairs = chain.from_iterable(zip_longest(first, others))
    return [info for info in pairs if info is not None]


def _close_unwanted(task: "asyncio.Task[socket.socket]") -> None:
    """Close what was connected at the same moment as another one."""
    with contextlib.suppress(asyncio.CancelledError, OSError):
        task.result().close()


class ConnectionLimit:
    """Lets at most `limit` requests run at a time.

    Those that wait are let in by the order in which their tasks first asked: a turn that has begun goes on
    before one that has not, however many requests each makes, so turns end in the order in which they came.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._numbers = count()
        self._places: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    async def acquire_slot(self) -> None:
        """Return once there is a slot, which is the caller's until it calls `release_slot`."""
        number = next(self._numbers)
        task = asyncio.current_task()
        place = number if task is None else self._places.setdefault(task, number)
        if self._free:
            self._free -= 1
            return
        let_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (place, number, let_in))
        try:
            await let_in
        except asyncio.CancelledError:
            if not let_in.cancelled():  # it was let in at the same moment
                self.release_slot()
            raise

    def release_slot(self) -> None:
        """Give the slot to the first in line."""
        while self._waiting:
            let_in = heappop(self._waiting)[2]
            if not let_in.done():
                let_in.set_result(None)
                return
        self._free += 1


_HIGH_WATER = 1024 * 1024
_MAX_SINGLE_WRITE = 64 * 1024
_SLICE = 256 * 1024
_MAX_HEAD = 128 * 1024
_MAX_INTERIM = 100
_IDLE_SECONDS = 55.0
_MAX_CONNECTIONS = 320
"""Requests to one server that are under way at once; more wait in line. With a turn's 7 ms of CPU and its 2 s on the
line this many keep one core busy."""
_FLOWING = 20
"""Small pieces in a row, each at the heels of the one before, after which an answer is taken to flow."""
_FLOWING_GAP = 0.02
_SMALL = 32_768
_GATHER_SECONDS = 0.02
"""Seconds that a flowing answer is left to gather in the socket: waking for every token costs more than the token."""


class DirectTransport:
    """An `HttpTransport` for one event loop. `environ` is read for certificates."""

    def __init__(self, environ: Mapping[str, str], *, ca_file: str = "", uds: str = "") -> None:
        self._environ = environ
        self._ca_file = ca_file
        self._uds = uds
        self._tls: SSLContext | None = None
        self._idle: dict[tuple[str, str, int], list[_Connection]] = {}
        self._limits: dict[tuple[str, str, int], ConnectionLimit] = {}
        self._closed = False

    def open(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeouts: HttpTimeouts,
        addresses: Sequence[str] = (),
    ) -> "_RequestContext":
        """Send a request and wait for the answer's head; see `HttpTransport.open`.

        With `addresses` (of the URL's host, judged by the caller) a connection of its own is made to the first of them
        that answers, and the name is not looked up; Host and the TLS server name stay the URL's.
        """
        where = parse_target(url)
        lines = [f"{method} {where.path} HTTP/1.1", f"Host: {where.authority}", "Accept-Encoding: identity"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method not in ("GET", "HEAD"):
            lines.append(f"Content-Length: {len(body)}")
        if any("\n" in line or "\r" in line or "\0" in line for line in lines):  # it would be another request
            raise TransportError(
                FailureKind.FORMAT_ERROR,
                N_("A header field for {authority} holds a line break.", authority=where.authority),
            )
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
        return _RequestContext(self, where, head, body, timeouts, tuple(addresses))

    async def close(self) -> None:
        """Close every idle connection; one in use is closed by leaving its context."""
        self._closed = True
        idle = [connection for connections in self._idle.values() for connection in connections]
        self._idle.clear()
        for connection in idle:
            connection.abort()
        if idle:
            await asyncio.sleep(0)  # lets the loop close the sockets before it may be stopped itself

    def take_idle(self, where: HttpTarget) -> "_Connection | None":
        """Return a pooled connection that is still open, or None."""
        connections = self._idle.get((where.scheme, where.host, where.port))
        now = asyncio.get_running_loop().time()
        while connections:
            connection = connections.pop()
            if connection.usable and now - connection.idle_since < _IDLE_SECONDS:
                connection.prepare_request(reused=True)
                return connection
            connection.abort()
        return None

    def get_limit(self, where: HttpTarget) -> ConnectionLimit:
        """Return the connection limit at which requests to this server wait for their turn."""
        return self._limits.setdefault((where.scheme, where.host, where.port), ConnectionLimit(_MAX_CONNECTIONS))

    def release_connection(self, where: HttpTarget, connection: "_Connection") -> None:
        """Keep a connection for the next request to the same place."""
        connections = self._idle.setdefault((where.scheme, where.host, where.port), [])
        if self._closed or len(connections) >= _MAX_CONNECTIONS or not connection.usable:
            connection.abort()
            return
        now = connection.idle_since = asyncio.get_running_loop().time()
        while connections and now - connections[0].idle_since >= _IDLE_SECONDS:  # left over from a busier time
            connections.pop(0).abort()
        connections.append(connection)

    async def open_connection(self, where: HttpTarget, seconds: float, addresses: Sequence[str] = ()) -> "_Connection":
        """Open a connection, to the first of `addresses` that answers if there are any. Raises `TransportError`."""
        for address in addresses[:-1]:
            with contextlib.suppress(TransportError):
                return await self._connect_address(where, seconds / len(addresses), address)
        return await self._connect_address(
            where, seconds / max(len(addresses), 1), addresses[-1] if addresses else where.host
        )

    async def _connect_address(self, where: HttpTarget, seconds: float, address: str) -> "_Connection":
        loop = asyncio.get_running_loop()
        if where.is_secure and self._tls is None:
            self._tls = create_tls_context(self._environ, self._ca_file)
        context = self._tls if where.is_secure else None
        name = where.host if where.is_secure else None
        connection = _Connection(loop)
        dial = loop.create_connection
        try:
            async with asyncio.timeout(seconds):
                if self._uds:
                    await loop.create_unix_connection(lambda: connection, self._uds, ssl=context, server_hostname=name)
                elif context is None:
                    await dial(lambda: connection, address, where.port)
                elif isinstance(loop, asyncio.BaseEventLoop):
                    await dial(
                        lambda: connection,
                        address,
                        where.port,
                        ssl=context,
                        server_hostname=name,
                        happy_eyeballs_delay=ATTEMPT_DELAY,
                    )
                else:  # uvloop does not race addresses
                    reached = await connect_first(address, where.port)
                    await dial(lambda: connection, sock=reached, ssl=context, server_hostname=name)
        except OSError as error:
            raise connect_failure(error, where, seconds, uds=self._uds) from error
        return connection


class _Connection(asyncio.Protocol):
    """One socket. What arrives waits here, at most `_HIGH_WATER` bytes of it, until it is read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._arrived: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._over = False
        self._paused = False
        self._full = False
        self._unsent = False
        self.reused = False
        self.received = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one without saying so

    def data_received(self, data: bytes) -> None:
        self.received = True
        self._arrived.append(data)
        self._size += len(data)
        if self._size > _HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake_waiter()

    def eof_received(self) -> None:
        self._over = True
        self._wake_waiter()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._wake_waiter()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._wake_waiter()

    @property
    def usable(self) -> bool:
        """Return whether another request can be sent: open, and the server has said nothing unasked."""
        if self._over or self._unsent or self._arrived or self._transport is None:
            return False
        return not self._transport.is_closing()

    def prepare_request(self, *, reused: bool) -> None:
        """Make ready for the next request."""
        self.reused = reused
        self.received = False

    async def send_request(self, head: bytes, body: bytes, seconds: float) -> None:
        """Send a request; a large body in slices as the socket takes them, without copying it once more.

        Returns early when the server answers (or is gone) before it has read all. Raises TimeoutError.
        """
        transport = self._transport
        if transport is None:
            return
        if len(body) <= _MAX_SINGLE_WRITE:
            transport.write(head + body)
            return
        transport.write(head)
        view = memoryview(body)
        for start in range(0, len(body), _SLICE):
            transport.write(view[start : start + _SLICE])
            if self._full and not self._arrived and not self._over:
                await self._wait_for_event(seconds)
            if self._arrived or self._over:
                self._unsent = True
                return

    def abort(self) -> None:
        """Close the socket now; nothing more is sent or read."""
        if self._transport is not None:
            self._transport.abort()

    async def read_data(self, seconds: float) -> bytes:
        """Return what has arrived, waiting for it; empty at the end. Raises TimeoutError."""
        while not self._arrived and not self._over:
            await self._wait_for_event(seconds)
        arrived = self._arrived
        if not arrived:
            return b""
        data = arrived[0] if len(arrived) == 1 else b"".join(arrived)
        arrived.clear()
        self._size = 0
        if self._paused and self._transport is not None:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
        return data

    async def gather_input(self) -> None:
        """Leave what arrives in the socket for a moment."""
        transport = self._transport
        if transport is None or self._paused or self._over or transport.is_closing():
            return
        transport.pause_reading()
        try:
            await asyncio.sleep(_GATHER_SECONDS)
        finally:
            if not transport.is_closing() and not self._paused:
                transport.resume_reading()

    async def _wait_for_event(self, seconds: float) -> None:
        """Return when something has arrived, room has come for more to send, or the connection is over."""
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, _time_out, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake_waiter(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _time_out(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())


class _RequestContext:
    """One request and its answer, as an async context."""

    def __init__(
        self,
        transport: DirectTransport,
        where: HttpTarget,
        head: bytes,
        body: bytes,
        timeouts: HttpTimeouts,
        addresses: tuple[str, ...],
    ) -> None:
        self._owner = transport
        self._where = where
        self._head = head
        self._body = body
        self._timeouts = timeouts
        self._addresses = addresses
        self._connection: _Connection | None = None
        self._limit: ConnectionLimit | None = None
        self._stream: _ResponseStream | None = None

    async def __aenter__(self) -> "_ResponseStream":
        room = None if self._addresses else self._owner.get_limit(self._where)
        if room is None:
            return await self._begin_request()
        await room.acquire_slot()
        try:
            stream = await self._begin_request()
        except BaseException:
            room.release_slot()
            raise
        self._limit = room
        return stream

    async def _begin_request(self) -> "_ResponseStream":
        connection = None if self._addresses else self._owner.take_idle(self._where)
        if connection is not None:
            try:
                return await self._send_request(connection)
            except TransportError as error:
                # The server closed the pooled connection before it saw the request: that is no failure of the request.
                if connection.received or error.kind is not FailureKind.CUT:
                    raise
        return await self._send_request(
            await self._owner.open_connection(self._where, self._timeouts.connect, self._addresses)
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        room, self._limit = self._limit, None
        if room is not None:
            room.release_slot()
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._stream is not None and self._stream.reusable and not self._addresses:
            self._owner.release_connection(self._where, connection)
        else:
            connection.abort()

    async def _send_request(self, connection: _Connection) -> "_ResponseStream":
        self._connection = connection
        try:
            await _send_or_fail(connection, self._head, self._body, self._where, self._timeouts.read)
            self._stream = await _read_response_head(connection, self._where, self._timeouts.read)
        except BaseException:
            self._connection = None
            connection.abort()
            raise
        return self._stream


async def _send_or_fail(connection: _Connection, head: bytes, body: bytes, where: HttpTarget, seconds: float) -> None:
    try:
        await connection.send_request(head, body, seconds)
    except TimeoutError:
        raise slow_failure(where, seconds) from None


async def _read_response_head(connection: _Connection, where: HttpTarget, seconds: float) -> "_ResponseStream":
    """Read up to the end of the final answer's head; interim answers (1xx) are passed over.

    Its last byte comes within `seconds` of the request's, and at most `_MAX_INTERIM` interim answers before it.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    arrived = b""
    interim = 0
    while True:
        end = arrived.find(b"\r\n\r\n")
        if end >= 0:
            head = parse_head(arrived[:end], where)
            arrived = arrived[end + 4 :]
            if head.status >= 200:
                return _ResponseStream(connection, where, head, arrived, seconds)
            interim += 1
            if interim > _MAX_INTERIM:
                raise TransportError(
                    FailureKind.BAD_RESPONSE, N_("{authority} sent endless interim answers.", authority=where.authority)
                )
            continue
        if len(arrived) > _MAX_HEAD:
            raise TransportError(
                FailureKind.BAD_RESPONSE, N_("{authority} sent endless header fields.", authority=where.authority)
            )
        left = deadline - loop.time()
        try:
            data = await connection.read_data(left) if left > 0 else None
        except TimeoutError:
            data = None
        if data is None:
            raise (late_failure if arrived or interim else slow_failure)(where, seconds)
        if not data:
            raise cut_failure(where, answered=bool(arrived))
        arrived += data


async def _read_or_fail(connection: _Connection, where: HttpTarget, seconds: float, *, answered: bool) -> bytes:
    try:
        data = await connection.read_data(seconds)
    except TimeoutError:
        raise slow_failure(where, seconds) from None
    if not data:
        raise cut_failure(where, answered=answered)
    return data


class _ResponseStream:
    """A response whose head has arrived."""

    def __init__(
        self, connection: _Connection, where: HttpTarget, head: ResponseHead, arrived: bytes, seconds: float
    ) -> None:
        self.status = head.status
        self.headers = head.fields
        self._connection = connection
        self._where = where
        self._arrived = arrived
        self._seconds = seconds
        self._coding = BodyDecoder(head.fields.get("content-encoding", ""), where)
        self._framing: BodyFraming = head.select_framing()
        self._persistent = head.is_persistent and not isinstance(self._framing, CloseFraming)

    @property
    def reusable(self) -> bool:
        """Return whether the body was read to its end and the connection may serve again."""
        return self._persistent and self._framing.done and not self._framing.surplus

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises `TransportError` when it ends too early or
        nothing comes for too long.
        """
        framing, clock = self._framing, asyncio.get_running_loop().time
        data, self._arrived = self._arrived, b""
        flowing, before = 0, clock()
        while True:
            flowing = flowing + 1 if 0 < len(data) < _SMALL and clock() - before < _FLOWING_GAP else 0
            for start in range(0, len(data), _SMALL):
                if start:
                    await asyncio.sleep(0)  # a flood must not keep everything else waiting
                for plain in self._decode_body(data[start : start + _SMALL]):
                    yield plain
            if framing.done:
                return
            if flowing >= _FLOWING:
                await self._connection.gather_input()
            before = clock()
            if (more := await self._read_more()) is None:
                return
            data = more

    def _decode_body(self, data: bytes) -> Iterator[bytes]:
        """Return what of the body these bytes hold, decoded."""
        return filter(None, self._coding.feed(self._framing.feed(data, self._where)))

    async def _read_more(self) -> bytes | None:
        """Return what comes next; None at the end of a body that ends with its connection."""
        if not isinstance(self._framing, CloseFraming):
            return await _read_or_fail(self._connection, self._where, self._seconds, answered=True)
        try:
            return await self._connection.read_data(self._seconds) or None
        except TimeoutError:
            raise slow_failure(self._where, self._seconds) from None


def create_http_transport(environ: Mapping[str, str], *, ca_file: str = "", uds: str = "") -> HttpTransport:
    """Create the transport to use; see `DefaultHttpTransport`."""
    return DefaultHttpTransport(environ, ca_file=ca_file, uds=uds)


class DefaultHttpTransport:
    """An `HttpTransport` for one event loop.

    `environ` is read for proxies (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY) and certificates (SSL_CERT_FILE,
    SSL_CERT_DIR); `ca_file` is trusted besides; with `uds` every request goes to that Unix socket.
    """

    def __init__(self, environ: Mapping[str, str], *, ca_file: str = "", uds: str = "") -> None:
        self._environ = environ
        self._ca_file = ca_file
        self._uds = uds
        self._direct = DirectTransport(environ, ca_file=ca_file, uds=uds)
        self._proxied: HttpTransport | None = None

    def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes, timeouts: HttpTimeouts
    ) -> AbstractAsyncContextManager[HttpStream]:
        """Send a request and wait for the answer's head; see `HttpTransport.open`."""
        way: HttpTransport = self._direct
        where = parse_target(url)
        if not self._uds and find_proxy(where.scheme, where.host, where.port, self._environ):
            way = self._proxied = self._proxied or self._create_proxied()
        return way.open(method, url, headers=headers, body=body, timeouts=timeouts)

    async def close(self) -> None:
        """Close every connection."""
        await self._direct.close()
        if self._proxied is not None:
            await self._proxied.close()

    def _create_proxied(self) -> HttpTransport:
        from hermes.providers.proxied import Httpx2Transport

        return Httpx2Transport(self._environ, ca_file=self._ca_file)
