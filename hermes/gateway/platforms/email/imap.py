"""An IMAP client that reads new mail (RFC 3501, IDLE of RFC 2177, SASL-IR of RFC 4959)."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.gateway.http.client import describe_error
from hermes.gateway.platform import PlatformError, PlatformRefusedError
from hermes.gateway.platforms.email.connection import ConnectionLostError, MailConnection, MailServer
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    import ssl

COMMAND_SECONDS = 60.0
"""The time limit of a command."""
FETCH_SECONDS = 300.0
LOGOUT_SECONDS = 1.0
_LITERAL = re.compile(rb"\{(\d{1,10})\+?\}$")
_QUOTED_BODY = re.compile(rb'BODY\[[^\]]*\](?:<\d+>)? "((?:[^"\\]|\\.)*)"')
_TEMPORARY_CODES = (b"[UNAVAILABLE]", b"[INUSE]", b"[LIMIT]", b"[SERVERBUG]", b"[CONTACTADMIN]")
WRONG_PASSWORD = N_("The mail server does not take this user and password. Set them again: `EMAIL_PASSWORD` in .env.")


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
                    N_("The mail server does not want to talk: {error}", error=_describe_bytes(greeting.text))
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
        async with self._time_limit(COMMAND_SECONDS):
            while not (said := await self._read_response()).text.startswith(b"+"):
                if said.text.startswith(tag):
                    raise ImapError(N_("The mail server said: {error}", error=_describe_bytes(said.text)))
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
            async with self._time_limit(COMMAND_SECONDS):
                while not (said := await self._read_response()).text.startswith(b"+"):
                    if said.text.startswith(tag):
                        raise ImapError(N_("The mail server said: {error}", error=_describe_bytes(said.text)))
            line = part.content
        await self._connection.write(line + b"\r\n")
        return tag + b" "

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
        async with self._time_limit(COMMAND_SECONDS):
            while not (said := await self._read_response()).text.startswith(b"+"):
                if said.text.startswith(tag):
                    raise ImapError(_describe_bytes(said.text[len(tag) :]))
        await self._connection.write(credentials + b"\r\n")
        await self._finish_command(tag, COMMAND_SECONDS)

    def _time_limit(self, seconds: float) -> "_TimeLimit":
        return _TimeLimit(seconds, self._connection.server.host)


class ImapLiteral(Struct, frozen=True):
    """A part of a command that may hold any bytes."""

    content: bytes


class _TimeLimit:
    """A time limit that raises ConnectionLostError."""

    def __init__(self, seconds: float, host: str) -> None:
        self._timeout = asyncio.timeout(seconds)
        self._host = host

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            await self._timeout.__aexit__(kind, error, None)
        except TimeoutError:
            raise ConnectionLostError(N_("{host} does not answer.", host=self._host)) from None


def _quote_string(text: str) -> "bytes | ImapLiteral":
    raw = text.encode("utf-8", "replace")
    if raw.isascii() and text.isprintable():
        return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    return ImapLiteral(raw)


def _is_about_mail(response: ImapResponse, uid: int) -> bool:
    return re.search(rb"\* \d+ FETCH .*\bUID %d\b" % uid, response.text, re.IGNORECASE) is not None


def _describe_bytes(raw: bytes) -> str:
    return describe_error(raw.decode("utf-8", "replace"))
