"""A fake SMTP server on loopback: it takes mails from who logs in, and keeps them (RFC 5321, 4954)."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from hermes.testing.fake_platform import Failing

_REPLIES = {
    400: "554 5.6.0 Message content not acceptable",
    403: "550 5.7.1 Delivery not authorized, message refused",
    404: "550 5.1.1 The email account that you tried to reach does not exist",
    429: "450 4.7.1 Rate limited, try again in {after} seconds",
    500: "451 4.3.0 Temporary server error",
}


class Taken(Struct, frozen=True):
    """A mail that was handed over."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes


class Submission:
    """The server. `take` gets what was handed over; `failure` says how the next one fails."""

    def __init__(
        self, user: str, password: str, take: Callable[[Taken], None], failure: Callable[[], Failing | None]
    ) -> None:
        self._user = user
        self._password = password
        self._take = take
        self._failure = failure
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen: at the port of last time, if there was one."""
        self._server = await asyncio.start_server(self._met, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def down(self) -> None:
        """Stop listening and break every connection."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for one in list(self._open):
                one.transport.abort()
            await server.wait_closed()
            while self._open:  # noqa: ASYNC110 - a turn of the loop for each to see that it is over
                await asyncio.sleep(0)

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._talk(reader, writer)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        known, sender = False, ""
        recipients: list[str] = []
        writer.write(b"220 fake.test ESMTP\r\n")
        while line := (await reader.readline()).decode("utf-8", "replace").rstrip("\r\n"):
            name, _, given = line.partition(" ")
            match name.upper():
                case "EHLO":
                    writer.write(b"250-fake.test\r\n250-AUTH PLAIN LOGIN\r\n250-SIZE 30000000\r\n250 8BITMIME\r\n")
                case "AUTH":
                    known = await self._enter(given, reader, writer)
                case "MAIL" | "RCPT" if not known:
                    writer.write(b"530 5.7.0 Authentication required\r\n")
                case "MAIL":
                    sender, recipients = _address(given), []
                    writer.write(b"250 2.1.0 OK\r\n")
                case "RCPT":
                    recipients.append(_address(given))
                    writer.write(b"250 2.1.5 OK\r\n")
                case "DATA":
                    if not await self._data(reader, writer, sender, tuple(recipients)):
                        return
                case "RSET" | "NOOP":
                    writer.write(b"250 2.0.0 OK\r\n")
                case "QUIT":
                    writer.write(b"221 2.0.0 good bye\r\n")
                    return
                case _:
                    writer.write(b"500 5.5.1 unknown\r\n")
            await writer.drain()

    async def _enter(self, given: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        way, _, word = given.partition(" ")
        if way.upper() == "PLAIN":
            if not word:
                writer.write(b"334 \r\n")
                word = (await reader.readline()).decode().strip()
            return self._entered(b64decode(word).decode().split("\0")[1:], writer)
        found: list[str] = []
        if word:
            found.append(b64decode(word).decode())
        for question in ("Username:", "Password:")[len(found) :]:
            writer.write(b"334 " + b64encode(question.encode()) + b"\r\n")
            found.append(b64decode((await reader.readline()).strip()).decode())
        return self._entered(found, writer)

    def _entered(self, given: list[str], writer: asyncio.StreamWriter) -> bool:
        known = given == [self._user, self._password]
        writer.write(b"235 2.7.0 welcome\r\n" if known else b"535 5.7.8 wrong user or password\r\n")
        return known

    async def _data(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sender: str, recipients: tuple[str, ...]
    ) -> bool:
        """Take a mail; False when the connection breaks."""
        failing = self._failure()
        if failing is not None and not failing.after:
            if failing.drop:
                writer.transport.abort()
                return False
            reply = _REPLIES.get(failing.status, _REPLIES[500]).format(after=f"{failing.retry_after or 0:g}")
            writer.write(reply.encode() + b"\r\n")
            return True
        writer.write(b"354 go on\r\n")
        lines: list[bytes] = []
        while (line := await reader.readline()) != b".\r\n":
            if not line:
                return False
            lines.append(line[1:] if line.startswith(b".") else line)
        self._take(Taken(sender, recipients, b"".join(lines)))
        if failing is not None:
            writer.transport.abort()
            return False
        writer.write(b"250 2.0.0 taken\r\n")
        return True


def _address(given: str) -> str:
    return given.partition("<")[2].partition(">")[0]
