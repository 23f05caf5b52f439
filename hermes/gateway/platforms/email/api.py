"""Connections to mail servers: an IMAP client that reads new mail, and an SMTP client that hands one over.

Source: RFC 3501, 2177 (IDLE), 4959 (SASL-IR), 5321 and 6409.
"""

import asyncio
import contextlib
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from enum import StrEnum

from msgspec import Struct

from hermes.gateway.http.client import describe_error
from hermes.gateway.platform import PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.i18n.messages import N_

CONNECT_SECONDS = 20.0
CLOSE_SECONDS = 1.0
LINE_LIMIT = 1 << 20
"""Size in bytes of the longest line."""
_TLS_PORTS = (465, 993)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
COMMAND_SECONDS = 60.0
"""The time limit of a command."""
FETCH_SECONDS = 300.0
LOGOUT_SECONDS = 1.0
_LITERAL = re.compile(rb"\{(\d{1,10})\+?\}$")
_QUOTED_BODY = re.compile(rb'BODY\[[^\]]*\](?:<\d+>)? "((?:[^"\\]|\\.)*)"')
_TEMPORARY_CODES = (b"[UNAVAILABLE]", b"[INUSE]", b"[LIMIT]", b"[SERVERBUG]", b"[CONTACTADMIN]")
WRONG_PASSWORD = N_("The mail server does not take this user and password. Set them again: `EMAIL_PASSWORD` in .env.")
SESSION_SECONDS = 60.0
ACCEPT_SECONDS = 100.0
"""How long the server may take to confirm that it has the mail."""
_ENHANCED_CODE = re.compile(r"([245])\.(\d{1,3})\.(\d{1,3})\b")
_RETRY_DELAY = re.compile(r"\b(\d{1,6}) ?(s|secs?|seconds?|m|mins?|minutes?)\b", re.IGNORECASE)
_RATE_LIMIT_WORDS = re.compile(r"rate|too (?:many|much|fast)|throttl|greylist|graylist|try again in", re.IGNORECASE)


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


class ImapFolder(Struct, frozen=True):
    """A folder. Its mail numbers hold for one `validity`; the next mail gets at least `next_uid`."""

    validity: int
    next_uid: int


class ImapResponse(Struct, frozen=True):
    """A response: its text, and the literals in it."""

    text: bytes
    literals: tuple[bytes, ...] = ()


class ImapError(PlatformError):
    """The server refused a command."""


class ImapConnection:
    """One connection. A command is sent when the one before has ended."""

    def __init__(self, server: MailServer, context: "Callable[[], ssl.SSLContext]", limit: int) -> None:
        self._connection = MailConnection(server, context)
        self._limit = limit
        """Size in bytes of the largest literal."""
        self._tag_count = 0
        self._capabilities: frozenset[bytes] = frozenset()
        self.has_new_mail = False
        """Whether the server has announced mail since the last search."""

    @property
    def can_idle(self) -> bool:
        """Whether the server announces new mail by itself."""
        return b"IDLE" in self._capabilities

    async def open(self, user: str, password: str) -> None:
        """Connect and log in. Raises PlatformRefusedError when the password is wrong."""
        await self._connection.open()
        async with self._time_limit(COMMAND_SECONDS):
            greeting = await self._read_response()
            if not greeting.text.upper().startswith((b"* OK", b"* PREAUTH")):
                raise ImapError(
                    N_("The mail server refused the connection: {error}", error=_describe_bytes(greeting.text))
                )
        await self._learn_capabilities()
        if not self._connection.is_encrypted:
            if b"STARTTLS" in self._capabilities:
                await self.run_command(b"STARTTLS")
                await self._connection.start_tls()
                await self._learn_capabilities()
            else:
                self._connection.check_plaintext_allowed()
        await self._log_in(user, password)
        await self._learn_capabilities()

    async def select_folder(self, folder: str, *, change: bool) -> ImapFolder:
        """Open a folder; `change` if flags will be set there."""
        said = await self.run_command(b"SELECT " if change else b"EXAMINE ", _quote_string(folder))
        everything = b"\n".join(one.text for one in said)
        validity = re.search(rb"\[UIDVALIDITY (\d+)", everything)
        next_uid = re.search(rb"\[UIDNEXT (\d+)", everything)
        if validity is None:
            raise ImapError(N_("The mail server does not number its mails."))
        if next_uid is not None:
            return ImapFolder(int(validity[1]), int(next_uid[1]))
        return ImapFolder(int(validity[1]), max(await self.search_mails("ALL"), default=0) + 1)

    async def search_mails(self, criteria: str) -> list[int]:
        """Return the numbers of the mails that match, in order."""
        self.has_new_mail = False
        found: set[int] = set()
        for one in await self.run_command(b"UID SEARCH ", criteria.encode("ascii")):
            if one.text.upper().startswith(b"* SEARCH"):
                found |= {int(number) for number in one.text[8:].split() if number.isdigit()}
        return sorted(found)

    async def fetch_size(self, uid: int) -> int | None:
        """Return the size of a mail in bytes; None if it is gone."""
        for one in await self.run_command(b"UID FETCH ", f"{uid} (RFC822.SIZE)".encode()):
            size = re.search(rb"RFC822\.SIZE (\d+)", one.text)
            if size is not None and _is_about_mail(one, uid):
                return int(size[1])
        return None

    async def fetch_mail(self, uid: int, limit: int) -> bytes | None:
        """Return the first `limit` bytes of a mail, which stays unread; None if it is gone."""
        arguments = f"{uid} (BODY.PEEK[]<0.{limit}>)".encode()
        for one in await self.run_command(b"UID FETCH ", arguments, seconds=FETCH_SECONDS):
            if _is_about_mail(one, uid) and b"BODY[" in one.text.upper():
                if one.literals:
                    return one.literals[0]
                quoted = _QUOTED_BODY.search(one.text)
                return re.sub(rb"\\(.)", rb"\1", quoted[1]) if quoted is not None else b""
        return None

    async def mark_seen(self, uid: int) -> None:
        """Mark a mail as read."""
        await self.run_command(b"UID STORE ", f"{uid} +FLAGS.SILENT (\\Seen)".encode())

    async def wait_for_mail(self, seconds: float) -> None:
        """Wait until the server announces mail, at most so many seconds."""
        if self.has_new_mail:
            return
        tag = await self._start_command(b"IDLE")
        await self._wait_for_continuation(tag)
        try:
            async with asyncio.timeout(seconds):
                while not self.has_new_mail:
                    await self._read_response()
        except TimeoutError:
            pass  # IDLE is sent again: servers end a connection that is quiet for half an hour
        await self._connection.write(b"DONE\r\n")
        await self._finish_command(tag, COMMAND_SECONDS)

    async def poll_mail(self) -> None:
        """Have the server announce new mail, if it does not by itself."""
        await self.run_command(b"NOOP")

    async def close(self) -> None:
        """Log out if that is done at once, and close the connection."""
        try:
            async with asyncio.timeout(LOGOUT_SECONDS):
                await self._start_command(b"LOGOUT")
        except (PlatformError, TimeoutError):
            pass  # it is lost already
        finally:
            await self._connection.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._connection.abort()

    async def run_command(
        self, name: bytes, *parts: "bytes | ImapLiteral", seconds: float = COMMAND_SECONDS
    ) -> list[ImapResponse]:
        """Run a command and return the responses. Raises `ImapError`."""
        return await self._finish_command(await self._start_command(name, *parts), seconds)

    async def _start_command(self, name: bytes, *parts: "bytes | ImapLiteral") -> bytes:
        self._tag_count += 1
        tag = f"h{self._tag_count}".encode()
        line = tag + b" " + name
        for part in parts:
            if isinstance(part, bytes):
                line += part
                continue
            await self._connection.write(line + f"{{{len(part.content)}}}\r\n".encode())
            await self._wait_for_continuation(tag)
            line = part.content
        await self._connection.write(line + b"\r\n")
        return tag + b" "

    async def _wait_for_continuation(self, tag: bytes) -> None:
        """Wait until the server asks for the rest of a command. Raises `ImapError`."""
        async with self._time_limit(COMMAND_SECONDS):
            while not (said := await self._read_response()).text.startswith(b"+"):
                if said.text.startswith(tag):
                    raise ImapError(N_("The mail server said: {error}", error=_describe_bytes(said.text)))

    async def _finish_command(self, tag: bytes, seconds: float) -> list[ImapResponse]:
        found: list[ImapResponse] = []
        async with self._time_limit(seconds):
            while True:
                response = await self._read_response()
                if response.text.startswith(tag):
                    if not response.text[len(tag) :].upper().startswith(b"OK"):
                        raise ImapError(_describe_bytes(response.text[len(tag) :]))
                    return [*found, response]
                found.append(response)

    async def _read_response(self) -> ImapResponse:
        """Read one response with its literals."""
        text = await self._connection.read_line()
        literals: list[bytes] = []
        while (literal := _LITERAL.search(text)) is not None:
            size = int(literal[1])
            if size + sum(map(len, literals)) > self._limit:
                raise ConnectionLostError(N_("The mail server sent more than {n} bytes.", n=self._limit))
            literals.append(await self._connection.read_exactly(size))
            text = text[: literal.start()] + b"{}" + await self._connection.read_line()
        if text.startswith(b"* "):
            words = text.split(b" ", 3)
            self.has_new_mail |= len(words) > 2 and words[2].upper() == b"EXISTS"
            if words[1].upper() == b"BYE":
                raise ConnectionLostError(
                    N_("The mail server ended the connection: {error}", error=_describe_bytes(text[6:]))
                )
        return ImapResponse(text, tuple(literals))

    async def _learn_capabilities(self) -> None:
        for one in await self.run_command(b"CAPABILITY"):
            if one.text.upper().startswith(b"* CAPABILITY "):
                self._capabilities = frozenset(one.text.upper().split()[2:])

    async def _log_in(self, user: str, password: str) -> None:
        try:
            if b"AUTH=PLAIN" in self._capabilities:
                credentials = b64encode(f"\0{user}\0{password}".encode())
                if b"SASL-IR" in self._capabilities:
                    await self.run_command(b"AUTHENTICATE PLAIN ", credentials)
                else:
                    await self._authenticate(credentials)
            else:
                await self.run_command(b"LOGIN ", _quote_string(user), b" ", _quote_string(password))
        except ImapError as error:
            if any(one.decode() in str(error).upper() for one in _TEMPORARY_CODES):
                raise
            raise PlatformRefusedError(WRONG_PASSWORD) from None

    async def _authenticate(self, credentials: bytes) -> None:
        tag = await self._start_command(b"AUTHENTICATE PLAIN")
        await self._wait_for_continuation(tag)
        await self._connection.write(credentials + b"\r\n")
        await self._finish_command(tag, COMMAND_SECONDS)

    @contextlib.asynccontextmanager
    async def _time_limit(self, seconds: float) -> AsyncIterator[None]:
        """Raise ConnectionLostError when it takes longer."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise ConnectionLostError(N_("{host} does not answer.", host=self._connection.server.host)) from None


class ImapLiteral(Struct, frozen=True):
    """A part of a command that may hold any bytes."""

    content: bytes


def _quote_string(text: str) -> "bytes | ImapLiteral":
    raw = text.encode("utf-8", "replace")
    if raw.isascii() and text.isprintable():
        return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    return ImapLiteral(raw)


def _is_about_mail(response: ImapResponse, uid: int) -> bool:
    return re.search(rb"\* \d+ FETCH .*\bUID %d\b" % uid, response.text, re.IGNORECASE) is not None


def _describe_bytes(raw: bytes) -> str:
    return describe_error(raw.decode("utf-8", "replace"))


class SmtpEnvelope(Struct, frozen=True):
    """The sender, the recipient and the content of a mail."""

    sender: str
    recipient: str
    content: bytes
    """The mail, with CR LF at the end of each line."""


class SmtpLogin(Struct, frozen=True):
    """The credentials for a server."""

    user: str
    password: str


class SmtpReply(Struct, frozen=True):
    """A server's reply."""

    code: int
    text: str


async def deliver_mail(
    server: MailServer, login: SmtpLogin, envelope: SmtpEnvelope, context: "Callable[[], ssl.SSLContext]"
) -> None:
    """Deliver a mail. Raises `SendError`: with `uncertain` only if the server had all of it and did not reply."""
    connection = MailConnection(server, context)
    fully_sent = False
    try:
        async with asyncio.timeout(SESSION_SECONDS):
            await connection.open()
            await _open_session(connection, login)
            await _run_command(connection, f"MAIL FROM:<{envelope.sender}>", 250)
            await _run_command(connection, f"RCPT TO:<{envelope.recipient}>", 250, 251)
            await _run_command(connection, "DATA", 354)
        async with asyncio.timeout(ACCEPT_SECONDS):
            body = _stuff_dots(envelope.content)
            await connection.write(body[:-1])
            fully_sent = True  # with the last byte the server may have all of it
            await connection.write(body[-1:])
            _check_reply(await _read_reply(connection), 250)
    except SendError:
        raise
    except TimeoutError:
        said = N_("{host} does not answer.", host=server.host)
        raise SendError(SendFault.TRANSIENT, said, uncertain=fully_sent) from None
    except ConnectionLostError as error:
        raise SendError(SendFault.TRANSIENT, str(error), uncertain=fully_sent) from error
    except PlatformError as error:
        raise SendError(SendFault.UNKNOWN, str(error)) from error
    finally:
        await connection.close()


async def _open_session(connection: MailConnection, login: SmtpLogin) -> None:
    _check_reply(await _read_reply(connection), 220)
    abilities = await _send_ehlo(connection)
    if not connection.is_encrypted:
        if "STARTTLS" in abilities:
            await _run_command(connection, "STARTTLS", 220)
            await connection.start_tls()
            abilities = await _send_ehlo(connection)
        else:
            connection.check_plaintext_allowed()
    methods = abilities.get("AUTH", "").upper().split()
    if not login.password or not methods:
        return  # a server on this machine, which knows us by that
    user, password = login.user.encode(), login.password.encode()
    if "PLAIN" in methods or "LOGIN" not in methods:
        await _run_command(connection, "AUTH PLAIN " + b64encode(b"\0" + user + b"\0" + password).decode(), 235)
    else:
        await _run_command(connection, "AUTH LOGIN", 334)
        await _run_command(connection, b64encode(user).decode(), 334)
        await _run_command(connection, b64encode(password).decode(), 235)


async def _send_ehlo(connection: MailConnection) -> dict[str, str]:
    """Send EHLO and return the server's extensions."""
    await connection.write(b"EHLO [127.0.0.1]\r\n")
    reply = await _read_reply(connection)
    _check_reply(reply, 250)
    abilities: dict[str, str] = {}
    for one in reply.text.split("\n")[1:]:
        name, _, more = one.replace("AUTH=", "AUTH ", 1).partition(" ")
        abilities[name.upper()] = more
    return abilities


async def _run_command(connection: MailConnection, command: str, *codes: int) -> None:
    await connection.write(command.encode("ascii", "replace") + b"\r\n")
    _check_reply(await _read_reply(connection), *codes)


async def _read_reply(connection: MailConnection) -> SmtpReply:
    found: list[str] = []
    for _ in range(100):
        raw = (await connection.read_line()).decode("utf-8", "replace")
        if not raw[:3].isdecimal():
            break
        found.append(raw[4:])
        if raw[3:4] != "-":
            return SmtpReply(int(raw[:3]), "\n".join(found))
    raise ConnectionLostError(N_("{host} does not speak SMTP.", host=connection.server.host))


def _check_reply(reply: SmtpReply, *codes: int) -> None:
    if reply.code in codes:
        return
    said = N_("The mail server said: {error}", error=describe_error(f"{reply.code} {reply.text}"))
    fault = _classify_reply(reply)
    raise SendError(
        fault, said, retry_after=_parse_retry_delay(reply.text) if fault is SendFault.RATE_LIMITED else None
    )


def _classify_reply(reply: SmtpReply) -> SendFault:
    """Return the fault that an error reply stands for (RFC 3463)."""
    enhanced = _ENHANCED_CODE.match(reply.text)
    subject, detail = (enhanced[2], enhanced[3]) if enhanced is not None else ("", "")
    if reply.code < 500:
        return SendFault.RATE_LIMITED if _RATE_LIMIT_WORDS.search(reply.text) else SendFault.TRANSIENT
    if reply.code in (530, 534, 535, 538):
        return SendFault.UNKNOWN  # our own password: it is tried for a while, somebody may correct it
    if reply.code == 552 or (subject, detail) in (("3", "4"), ("2", "3")):
        return SendFault.TOO_LONG
    by_subject = {"1": SendFault.NOT_FOUND, "6": SendFault.BAD_FORMAT, "7": SendFault.FORBIDDEN}
    if subject in by_subject:
        return by_subject[subject]
    return {550: SendFault.NOT_FOUND, 551: SendFault.NOT_FOUND, 553: SendFault.NOT_FOUND}.get(
        reply.code, SendFault.UNKNOWN
    )


def _parse_retry_delay(text: str) -> float | None:
    """Return the seconds after which the server wants another attempt, if it says so."""
    found = _RETRY_DELAY.search(text)
    if found is None:
        return None
    return float(found[1]) * (60.0 if found[2].lower().startswith("m") else 1.0)


def _stuff_dots(content: bytes) -> bytes:
    """Return the mail as DATA: a line that begins with a dot gets another one, and a lone dot ends it."""
    body = re.sub(rb"\r\n|\r|\n", b"\r\n", content)
    body = re.sub(rb"^\.", b"..", body, flags=re.MULTILINE)
    return body.removesuffix(b"\r\n") + b"\r\n.\r\n"
