"""A connection to a mail server: lines, with TLS from the start or from the middle."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from enum import StrEnum

from msgspec import Struct

from hermes.gateway.http.errors import describe_error
from hermes.gateway.platform import PlatformError, PlatformRefusedError
from hermes.i18n.messages import phrase

CONNECT_SECONDS = 20.0
CLOSE_SECONDS = 1.0
LINE_LIMIT = 1 << 20
"""Bytes of the longest line."""
_TLS_PORTS = (465, 993)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Security(StrEnum):
    """How a connection is kept from others."""

    AUTO = "auto"
    """TLS from the start on the ports 993 and 465, STARTTLS on others; on this machine none where none is offered."""
    TLS = "tls"
    STARTTLS = "starttls"
    NONE = "none"
    """Only on this machine."""


class Server(Struct, frozen=True):
    """Where a server is."""

    host: str
    port: int
    security: Security = Security.AUTO

    @property
    def local(self) -> bool:
        """Whether it is this machine."""
        return self.host.lower() in _LOOPBACK

    @property
    def tls_first(self) -> bool:
        """Whether TLS comes before everything else."""
        return self.security is Security.TLS or (self.security is Security.AUTO and self.port in _TLS_PORTS)


class LostError(PlatformError):
    """The connection broke or could not be made."""


class Line:
    """One connection. Every method raises `LostError` when it is lost; `close` never."""

    def __init__(self, server: Server, context: Callable[[], ssl.SSLContext]) -> None:
        self.server = server
        self._context = context
        self._reader = asyncio.StreamReader()
        self._writer: asyncio.StreamWriter | None = None
        self._below: asyncio.StreamWriter | None = None
        """What TLS was started on: a writer that nobody holds closes its connection."""
        self.secret = False
        """Whether nobody on the way can read it."""

    async def open(self) -> None:
        """Connect. Raises PlatformRefusedError where a password would go over the net for all to read."""
        server = self.server
        if server.security is Security.NONE and not server.local:
            raise PlatformRefusedError(
                phrase(
                    "{host}: without TLS everybody on the way reads the password; set `security: auto`.",
                    host=server.host,
                )
            )
        tls = await asyncio.to_thread(self._fresh) if server.tls_first else None
        with self._guard():
            async with asyncio.timeout(CONNECT_SECONDS):
                self._reader, self._writer = await asyncio.open_connection(
                    server.host, server.port, ssl=tls, limit=LINE_LIMIT
                )
        self.secret = tls is not None
        raw = self._writer.get_extra_info("socket")
        if raw is not None:
            _keep_alive(raw)

    def may_stay_open(self) -> None:
        """The server offers no TLS: that will do on this machine only. Raises PlatformRefusedError."""
        if not self.server.local or self.server.security is Security.STARTTLS:
            raise PlatformRefusedError(
                phrase(
                    "{host} offers no TLS; the password would go over the net for all to read.", host=self.server.host
                )
            )

    async def start_tls(self) -> None:
        """Go on with TLS. What came before and was not read is forgotten: nobody vouches for it."""
        tls = await asyncio.to_thread(self._fresh)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        protocol = asyncio.StreamReaderProtocol(reader)
        with self._guard():
            writer = self._open_writer()
            # From here on nobody tells this writer when its connection has ended.
            self._below, self._writer = writer, None
            async with asyncio.timeout(CONNECT_SECONDS):
                transport = await loop.start_tls(writer.transport, protocol, tls, server_hostname=self.server.host)
            if transport is None:
                raise ConnectionResetError("the connection was closed")
        protocol.connection_made(transport)
        self._reader, self._writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)
        self.secret = True

    async def write(self, content: bytes) -> None:
        """Send."""
        with self._guard():
            writer = self._open_writer()
            writer.write(content)
            await writer.drain()

    async def line(self) -> bytes:
        """A line, without its end."""
        with self._guard():
            return (await self._reader.readuntil(b"\n")).rstrip(b"\r\n")

    async def exactly(self, count: int) -> bytes:
        """So many bytes."""
        with self._guard():
            return await self._reader.readexactly(count)

    async def close(self) -> None:
        """Hang up, and wait until nothing is open any more."""
        writer = self._writer
        self.abort()
        if writer is not None:
            with contextlib.suppress(OSError, TimeoutError):  # it broke before
                async with asyncio.timeout(CLOSE_SECONDS):
                    await writer.wait_closed()

    def abort(self) -> None:
        """Hang up."""
        for writer in (self._writer, self._below):
            if writer is not None:
                writer.transport.abort()
        self._writer = self._below = None

    def _open_writer(self) -> asyncio.StreamWriter:
        if self._writer is None:
            raise ConnectionResetError("the connection was closed")
        return self._writer

    def _fresh(self) -> ssl.SSLContext:
        context = self._context()
        context.set_alpn_protocols([])
        return context

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        host = self.server.host
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            said = phrase(
                "{host}: its certificate is not trusted: {error}", host=host, error=describe_error(error.verify_message)
            )
            raise LostError(said) from error
        except (asyncio.IncompleteReadError, ConnectionResetError, BrokenPipeError) as error:
            raise LostError(phrase("{host} broke the connection.", host=host)) from error
        except TimeoutError as error:
            raise LostError(phrase("{host} does not answer.", host=host)) from error
        except asyncio.LimitOverrunError as error:
            raise LostError(phrase("{host} sent a line without an end.", host=host)) from error
        except OSError as error:
            raise LostError(
                phrase("{host} cannot be reached: {error}", host=host, error=describe_error(error))
            ) from error


def _keep_alive(raw: socket.socket) -> None:
    """Have the system notice when the other side is gone without a word."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
        if (option := getattr(socket, name, None)) is not None:
            raw.setsockopt(socket.IPPROTO_TCP, option, value)
