"""A line-based connection to a mail server, with TLS from the start or by STARTTLS."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from enum import StrEnum

from msgspec import Struct

from hermes.gateway.http.client import describe_error
from hermes.gateway.platform import PlatformError, PlatformRefusedError
from hermes.i18n.messages import N_

CONNECT_SECONDS = 20.0
CLOSE_SECONDS = 1.0
LINE_LIMIT = 1 << 20
"""Size in bytes of the longest line."""
_TLS_PORTS = (465, 993)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class MailSecurity(StrEnum):
    """How a connection is encrypted."""

    AUTO = "auto"
    """TLS from the start on ports 993 and 465, STARTTLS on others; on this machine no TLS if none is offered."""
    TLS = "tls"
    STARTTLS = "starttls"
    NONE = "none"
    """Only on this machine."""


class MailServer(Struct, frozen=True):
    """The address of a mail server."""

    host: str
    port: int
    security: MailSecurity = MailSecurity.AUTO

    @property
    def local(self) -> bool:
        """Whether the server is on this machine."""
        return self.host.lower() in _LOOPBACK

    @property
    def tls_first(self) -> bool:
        """Whether the connection begins with TLS."""
        return self.security is MailSecurity.TLS or (self.security is MailSecurity.AUTO and self.port in _TLS_PORTS)


class ConnectionLostError(PlatformError):
    """The connection broke or could not be made."""


class MailConnection:
    """One connection. Every method raises `ConnectionLostError` when it is lost; `close` never."""

    def __init__(self, server: MailServer, make_context: Callable[[], ssl.SSLContext]) -> None:
        self.server = server
        self._make_context = make_context
        self._reader = asyncio.StreamReader()
        self._writer: asyncio.StreamWriter | None = None
        self._plain_writer: asyncio.StreamWriter | None = None
        """The writer under TLS, which is kept because a writer without references closes its connection."""
        self.is_encrypted = False
        """Whether the connection is encrypted."""

    async def open(self) -> None:
        """Connect. Raises PlatformRefusedError if a password would be sent unencrypted over the network."""
        server = self.server
        if server.security is MailSecurity.NONE and not server.local:
            raise PlatformRefusedError(
                N_(
                    "{host}: without TLS everybody on the way reads the password; set `security: auto`.",
                    host=server.host,
                )
            )
        tls = await asyncio.to_thread(self._make_tls_context) if server.tls_first else None
        with self._translate_errors():
            async with asyncio.timeout(CONNECT_SECONDS):
                self._reader, self._writer = await asyncio.open_connection(
                    server.host, server.port, ssl=tls, limit=LINE_LIMIT
                )
        self.is_encrypted = tls is not None
        raw = self._writer.get_extra_info("socket")
        if raw is not None:
            _enable_keep_alive(raw)

    def check_plaintext_allowed(self) -> None:
        """Accept a server without TLS, on this machine only. Raises PlatformRefusedError for others."""
        if not self.server.local or self.server.security is MailSecurity.STARTTLS:
            raise PlatformRefusedError(
                N_("{host} offers no TLS; the password would go over the net for all to read.", host=self.server.host)
            )

    async def start_tls(self) -> None:
        """Continue with TLS. Unread data from before is dropped: it is not trusted."""
        tls = await asyncio.to_thread(self._make_tls_context)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        protocol = asyncio.StreamReaderProtocol(reader)
        with self._translate_errors():
            writer = self._require_writer()
            # From here on nobody tells this writer when its connection has ended.
            self._plain_writer, self._writer = writer, None
            async with asyncio.timeout(CONNECT_SECONDS):
                transport = await loop.start_tls(writer.transport, protocol, tls, server_hostname=self.server.host)
            if transport is None:
                raise ConnectionResetError("the connection was closed")
        protocol.connection_made(transport)
        self._reader, self._writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)
        self.is_encrypted = True

    async def write(self, content: bytes) -> None:
        """Send bytes."""
        with self._translate_errors():
            writer = self._require_writer()
            writer.write(content)
            await writer.drain()

    async def read_line(self) -> bytes:
        """Read a line, without its end."""
        with self._translate_errors():
            return (await self._reader.readuntil(b"\n")).rstrip(b"\r\n")

    async def read_exactly(self, count: int) -> bytes:
        """Read so many bytes."""
        with self._translate_errors():
            return await self._reader.readexactly(count)

    async def close(self) -> None:
        """Close the connection and wait until it is closed."""
        writer = self._writer
        self.abort()
        if writer is not None:
            with contextlib.suppress(OSError, TimeoutError):  # it broke before
                async with asyncio.timeout(CLOSE_SECONDS):
                    await writer.wait_closed()

    def abort(self) -> None:
        """Close the connection at once."""
        for writer in (self._writer, self._plain_writer):
            if writer is not None:
                writer.transport.abort()
        self._writer = self._plain_writer = None

    def _require_writer(self) -> asyncio.StreamWriter:
        if self._writer is None:
            raise ConnectionResetError("the connection was closed")
        return self._writer

    def _make_tls_context(self) -> ssl.SSLContext:
        context = self._make_context()
        context.set_alpn_protocols([])
        return context

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        host = self.server.host
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            said = N_(
                "{host}: its certificate is not trusted: {error}", host=host, error=describe_error(error.verify_message)
            )
            raise ConnectionLostError(said) from error
        except (asyncio.IncompleteReadError, ConnectionResetError, BrokenPipeError) as error:
            raise ConnectionLostError(N_("{host} broke the connection.", host=host)) from error
        except TimeoutError as error:
            raise ConnectionLostError(N_("{host} does not answer.", host=host)) from error
        except asyncio.LimitOverrunError as error:
            raise ConnectionLostError(N_("{host} sent a line without an end.", host=host)) from error
        except OSError as error:
            raise ConnectionLostError(
                N_("{host} cannot be reached: {error}", host=host, error=describe_error(error))
            ) from error


def _enable_keep_alive(raw: socket.socket) -> None:
    """Have the system notice when the other side is gone without closing the connection."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
        if (option := getattr(socket, name, None)) is not None:
            raw.setsockopt(socket.IPPROTO_TCP, option, value)
