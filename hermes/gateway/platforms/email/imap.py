"""The part of IMAP that a reader of new mail needs (RFC 3501, IDLE of RFC 2177, SASL-IR of RFC 4959)."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.gateway.http.errors import describe_error
from hermes.gateway.platform import PlatformError, PlatformRefusedError
from hermes.gateway.platforms.email.connection import Line, LostError, Server
from hermes.i18n.messages import phrase

if TYPE_CHECKING:
    import ssl

SECONDS = 60.0
"""How long a command may take."""
FETCH_SECONDS = 300.0
BYE_SECONDS = 1.0
_LITERAL = re.compile(rb"\{(\d{1,10})\+?\}$")
_QUOTED = re.compile(rb'BODY\[[^\]]*\](?:<\d+>)? "((?:[^"\\]|\\.)*)"')
_BUSY = (b"[UNAVAILABLE]", b"[INUSE]", b"[LIMIT]", b"[SERVERBUG]", b"[CONTACTADMIN]")
WRONG_PASSWORD = phrase(
    "The mail server does not take this user and password. Set them anew: `EMAIL_PASSWORD` in .env."
)


class Box(Struct, frozen=True):
    """A folder: its numbers hold for one `validity`; the next mail gets at least `next_uid`."""

    validity: int
    next_uid: int


class Said(Struct, frozen=True):
    """A response: its text, and the literals that stood in it."""

    text: bytes
    literals: tuple[bytes, ...] = ()


class ImapError(PlatformError):
    """The server does not do what it was asked."""


class Imap:
    """One connection. A command is given when the one before has ended."""

    def __init__(self, server: Server, context: "Callable[[], ssl.SSLContext]", limit: int) -> None:
        self._line = Line(server, context)
        self._limit = limit
        """Bytes of the largest literal."""
        self._count = 0
        self._abilities: frozenset[bytes] = frozenset()
        self.news = False
        """Whether the server has said that there is more mail, since that was looked at last."""

    @property
    def can_idle(self) -> bool:
        """Whether the server tells about new mail by itself."""
        return b"IDLE" in self._abilities

    async def open(self, user: str, password: str) -> None:
        """Connect and log in. Raises PlatformRefusedError when the password is wrong."""
        await self._line.open()
        async with self._in(SECONDS):
            greeting = await self._said()
            if not greeting.text.upper().startswith((b"* OK", b"* PREAUTH")):
                raise ImapError(phrase("The mail server does not want to talk: {error}", error=_told(greeting.text)))
        await self._learn()
        if not self._line.secret:
            if b"STARTTLS" in self._abilities:
                await self.command(b"STARTTLS")
                await self._line.start_tls()
                await self._learn()
            else:
                self._line.may_stay_open()
        await self._log_in(user, password)
        await self._learn()

    async def select(self, folder: str, *, change: bool) -> Box:
        """Open a folder; `change`: marks will be set there."""
        said = await self.command(b"SELECT " if change else b"EXAMINE ", _string(folder))
        everything = b"\n".join(one.text for one in said)
        validity = re.search(rb"\[UIDVALIDITY (\d+)", everything)
        next_uid = re.search(rb"\[UIDNEXT (\d+)", everything)
        if validity is None:
            raise ImapError(phrase("The mail server does not number its mails."))
        if next_uid is not None:
            return Box(int(validity[1]), int(next_uid[1]))
        return Box(int(validity[1]), max(await self.search("ALL"), default=0) + 1)

    async def search(self, what: str) -> list[int]:
        """The numbers of the mails for which this holds, in order."""
        self.news = False
        found: set[int] = set()
        for one in await self.command(b"UID SEARCH ", what.encode("ascii")):
            if one.text.upper().startswith(b"* SEARCH"):
                found |= {int(number) for number in one.text[8:].split() if number.isdigit()}
        return sorted(found)

    async def size(self, uid: int) -> int | None:
        """How large a mail is; None when it is gone."""
        for one in await self.command(b"UID FETCH ", f"{uid} (RFC822.SIZE)".encode()):
            size = re.search(rb"RFC822\.SIZE (\d+)", one.text)
            if size is not None and _is(one, uid):
                return int(size[1])
        return None

    async def fetch(self, uid: int, most: int) -> bytes | None:
        """The first bytes of a mail, which stays unread; None when it is gone."""
        wanted = f"{uid} (BODY.PEEK[]<0.{most}>)".encode()
        for one in await self.command(b"UID FETCH ", wanted, seconds=FETCH_SECONDS):
            if _is(one, uid) and b"BODY[" in one.text.upper():
                if one.literals:
                    return one.literals[0]
                quoted = _QUOTED.search(one.text)
                return re.sub(rb"\\(.)", rb"\1", quoted[1]) if quoted is not None else b""
        return None

    async def mark_seen(self, uid: int) -> None:
        """Mark a mail as read."""
        await self.command(b"UID STORE ", f"{uid} +FLAGS.SILENT (\\Seen)".encode())

    async def wait(self, seconds: float) -> None:
        """Wait until there is more mail, at most so long."""
        if self.news:
            return
        tag = await self._begin(b"IDLE")
        async with self._in(SECONDS):
            while not (said := await self._said()).text.startswith(b"+"):
                if said.text.startswith(tag):
                    raise ImapError(phrase("The mail server said: {error}", error=_told(said.text)))
        try:
            async with asyncio.timeout(seconds):
                while not self.news:
                    await self._said()
        except TimeoutError:
            pass  # it is asked anew: servers end what lasts half an hour
        await self._line.write(b"DONE\r\n")
        await self._end(tag, SECONDS)

    async def look(self) -> None:
        """Have the server say what is new, where it does not by itself."""
        await self.command(b"NOOP")

    async def close(self) -> None:
        """Log out where that is done at once, and hang up."""
        try:
            async with asyncio.timeout(BYE_SECONDS):
                await self._begin(b"LOGOUT")
        except (PlatformError, TimeoutError):
            pass  # it is lost already
        finally:
            await self._line.close()

    def abort(self) -> None:
        """Hang up."""
        self._line.abort()

    async def command(self, name: bytes, *parts: "bytes | Literal", seconds: float = SECONDS) -> list[Said]:
        """Give a command; what the server says to it. Raises `ImapError`."""
        return await self._end(await self._begin(name, *parts), seconds)

    async def _begin(self, name: bytes, *parts: "bytes | Literal") -> bytes:
        self._count += 1
        tag = f"h{self._count}".encode()
        written = tag + b" " + name
        for part in parts:
            if isinstance(part, bytes):
                written += part
                continue
            await self._line.write(written + f"{{{len(part.content)}}}\r\n".encode())
            async with self._in(SECONDS):
                while not (said := await self._said()).text.startswith(b"+"):
                    if said.text.startswith(tag):
                        raise ImapError(phrase("The mail server said: {error}", error=_told(said.text)))
            written = part.content
        await self._line.write(written + b"\r\n")
        return tag + b" "

    async def _end(self, tag: bytes, seconds: float) -> list[Said]:
        found: list[Said] = []
        async with self._in(seconds):
            while True:
                said = await self._said()
                if said.text.startswith(tag):
                    if not said.text[len(tag) :].upper().startswith(b"OK"):
                        raise ImapError(_told(said.text[len(tag) :]))
                    return [*found, said]
                found.append(said)

    async def _said(self) -> Said:
        """One response, with the literals in it."""
        text = await self._line.line()
        literals: list[bytes] = []
        while (literal := _LITERAL.search(text)) is not None:
            size = int(literal[1])
            if size + sum(map(len, literals)) > self._limit:
                raise LostError(phrase("The mail server sent more than {n} bytes.", n=self._limit))
            literals.append(await self._line.exactly(size))
            text = text[: literal.start()] + b"{}" + await self._line.line()
        if text.startswith(b"* "):
            words = text.split(b" ", 3)
            self.news |= len(words) > 2 and words[2].upper() == b"EXISTS"
            if words[1].upper() == b"BYE":
                raise LostError(phrase("The mail server ended the connection: {error}", error=_told(text[6:])))
        return Said(text, tuple(literals))

    async def _learn(self) -> None:
        for one in await self.command(b"CAPABILITY"):
            if one.text.upper().startswith(b"* CAPABILITY "):
                self._abilities = frozenset(one.text.upper().split()[2:])

    async def _log_in(self, user: str, password: str) -> None:
        try:
            if b"AUTH=PLAIN" in self._abilities:
                word = b64encode(f"\0{user}\0{password}".encode())
                if b"SASL-IR" in self._abilities:
                    await self.command(b"AUTHENTICATE PLAIN ", word)
                else:
                    await self._authenticate(word)
            else:
                await self.command(b"LOGIN ", _string(user), b" ", _string(password))
        except ImapError as error:
            if any(one.decode() in str(error).upper() for one in _BUSY):
                raise
            raise PlatformRefusedError(WRONG_PASSWORD) from None

    async def _authenticate(self, word: bytes) -> None:
        tag = await self._begin(b"AUTHENTICATE PLAIN")
        async with self._in(SECONDS):
            while not (said := await self._said()).text.startswith(b"+"):
                if said.text.startswith(tag):
                    raise ImapError(_told(said.text[len(tag) :]))
        await self._line.write(word + b"\r\n")
        await self._end(tag, SECONDS)

    def _in(self, seconds: float) -> "_Limit":
        return _Limit(seconds, self._line.server.host)


class Literal(Struct, frozen=True):
    """A piece of a command that holds any bytes."""

    content: bytes


class _Limit:
    """A time limit whose end is a lost connection."""

    def __init__(self, seconds: float, host: str) -> None:
        self._timeout = asyncio.timeout(seconds)
        self._host = host

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            await self._timeout.__aexit__(kind, error, None)
        except TimeoutError:
            raise LostError(phrase("{host} does not answer.", host=self._host)) from None


def _string(text: str) -> "bytes | Literal":
    raw = text.encode("utf-8", "replace")
    if raw.isascii() and text.isprintable():
        return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    return Literal(raw)


def _is(said: Said, uid: int) -> bool:
    return re.search(rb"\* \d+ FETCH .*\bUID %d\b" % uid, said.text, re.IGNORECASE) is not None


def _told(raw: bytes) -> str:
    return describe_error(raw.decode("utf-8", "replace"))
