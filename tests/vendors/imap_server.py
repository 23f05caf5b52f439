"""A fake IMAP server on loopback: one mailbox, with IDLE, UIDVALIDITY, literals and flags (RFC 3501, 2177)."""

import asyncio
import re
import shlex
from base64 import b64decode
from contextlib import suppress

from msgspec import Struct


class Mail(Struct):
    """A mail in the mailbox."""

    uid: int
    raw: bytes
    flags: set[str] = set()


class Connection:
    """Somebody who reads the mailbox."""

    def __init__(self, box: "Mailbox", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._box = box
        self._reader = reader
        self._writer = writer
        self._known = False
        self._known_mails = 0
        self.idle = False

    def abort(self) -> None:
        """Break the connection."""
        self._writer.transport.abort()

    def tell(self) -> None:
        """Say how many mails there are, to somebody who waits for that."""
        if self.idle and self._known_mails != len(self._box.mails):
            self._exists()

    async def run(self) -> None:
        """Answer until the other side hangs up."""
        self._say(f"* OK [CAPABILITY {self._box.abilities}] ready")
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while line := await self._command():
                tag, _, rest = line.partition(" ")
                if not await self._do(tag, rest):
                    break
                await self._writer.drain()
        self._writer.close()

    async def _command(self) -> str:
        """A command with its literals put in as quoted strings."""
        found = ""
        while True:
            raw = (await self._reader.readline()).decode("utf-8", "replace").rstrip("\r\n")
            literal = re.search(r"\{(\d+)(\+?)\}$", raw)
            if literal is None:
                return found + raw
            if not literal[2]:
                self._say("+ go on")
            content = (await self._reader.readexactly(int(literal[1]))).decode()
            found += raw[: literal.start()] + '"' + content.replace("\\", "\\\\").replace('"', '\\"') + '"'

    async def _do(self, tag: str, rest: str) -> bool:
        name, _, given = rest.partition(" ")
        name = name.upper()
        if name == "UID":
            name, _, given = given.partition(" ")
            return self._numbered(tag, name.upper(), given, by_uid=True)
        if name in ("FETCH", "STORE", "SEARCH"):
            return self._numbered(tag, name, given, by_uid=False)
        match name:
            case "CAPABILITY":
                self._say(f"* CAPABILITY {self._box.abilities}")
            case "LOGIN":
                return self._entered(tag, shlex.split(given))
            case "AUTHENTICATE":
                return await self._authenticate(tag, given.partition(" ")[2])
            case "SELECT" | "EXAMINE":
                self._select()
            case "IDLE":
                return await self._idle(tag)
            case "LOGOUT":
                self._say("* BYE good bye")
                self._say(f"{tag} OK done")
                return False
            case "NOOP" | "CHECK" | "CLOSE":
                if self._known_mails != len(self._box.mails):
                    self._exists()
            case _:
                self._say(f"{tag} BAD {name} is unknown")
                return True
        self._say(f"{tag} OK done")
        return True

    async def _authenticate(self, tag: str, word: str) -> bool:
        if not word:
            self._say("+ ")
            word = (await self._reader.readline()).decode().strip()
        return self._entered(tag, b64decode(word).decode().split("\0")[1:])

    def _entered(self, tag: str, given: list[str]) -> bool:
        self._known = given == [self._box.user, self._box.password]
        self._say(f"{tag} OK welcome" if self._known else f"{tag} NO [AUTHENTICATIONFAILED] wrong user or password")
        return True

    def _select(self) -> None:
        self._exists()
        self._say("* 0 RECENT")
        self._say("* FLAGS (\\Seen \\Answered \\Deleted)")
        self._say(f"* OK [UIDVALIDITY {self._box.validity}] numbered")
        self._say(f"* OK [UIDNEXT {self._box.next_uid}] the next")

    def _exists(self) -> None:
        self._known_mails = len(self._box.mails)
        self._say(f"* {self._known_mails} EXISTS")

    async def _idle(self, tag: str) -> bool:
        self._say("+ idling")
        self.idle = True
        self.tell()
        line = await self._reader.readline()
        self.idle = False
        if line.strip().upper() != b"DONE":
            return False
        self._say(f"{tag} OK done")
        return True

    def _numbered(self, tag: str, name: str, given: str, *, by_uid: bool) -> bool:
        if not self._known:
            self._say(f"{tag} NO not logged in")
            return True
        self._box.commands.append(f"{name} {given}")
        match name:
            case "SEARCH":
                found = [one.uid if by_uid else number for number, one in self._chosen(given, by_uid=by_uid)]
                self._say(" ".join(["* SEARCH", *map(str, found)]))
            case "FETCH":
                chosen, _, wanted = given.partition(" ")
                for number, mail in self._chosen(f"UID {chosen}" if by_uid else chosen, by_uid=by_uid):
                    self._fetched(number, mail, wanted, by_uid=by_uid)
            case "STORE":
                chosen, how, flags = given.split(" ", 2)
                for number, mail in self._chosen(f"UID {chosen}" if by_uid else chosen, by_uid=by_uid):
                    mail.flags |= set(flags.strip("()").split())
                    if not how.upper().endswith(".SILENT"):
                        self._say(f"* {number} FETCH (UID {mail.uid} FLAGS ({' '.join(sorted(mail.flags))}))")
        self._say(f"{tag} OK done")
        return True

    def _chosen(self, given: str, *, by_uid: bool) -> list[tuple[int, Mail]]:
        everything = list(enumerate(self._box.mails, 1))
        chosen = re.search(r"^(UID )?(\d+)(?::(\d+|\*))?$", given)
        if chosen is None:
            return [one for one in everything if "UNSEEN" not in given.upper() or "\\Seen" not in one[1].flags]
        uids = by_uid or bool(chosen[1])
        numbers = [one.uid if uids else number for number, one in everything]
        wanted = _range(chosen[2], chosen[3], max(numbers, default=0))
        return [one for one, number in zip(everything, numbers, strict=True) if number in wanted]

    def _fetched(self, number: int, mail: Mail, wanted: str, *, by_uid: bool) -> None:
        asked = wanted.upper()
        parts = [f"UID {mail.uid}"] if by_uid or "UID" in asked else []
        if "SIZE" in asked:
            parts.append(f"RFC822.SIZE {len(mail.raw)}")
        if "FLAGS" in asked:
            parts.append(f"FLAGS ({' '.join(sorted(mail.flags))})")
        if "BODY" not in asked and not re.search(r"RFC822(?!\.)", asked):
            self._say(f"* {number} FETCH ({' '.join(parts)})")
            return
        if "PEEK" not in asked:
            mail.flags.add("\\Seen")
        piece = re.search(r"<(\d+)\.(\d+)>", asked)
        raw, name = mail.raw, "BODY[]" if "BODY" in asked else "RFC822"
        if piece is not None:
            raw = raw[int(piece[1]) :][: int(piece[2])]
            name += f"<{piece[1]}>"
        head = " ".join([f"* {number} FETCH (" + " ".join(parts), name]).replace("( ", "(")
        self._writer.write(f"{head} {{{len(raw)}}}\r\n".encode() + raw + b")\r\n")

    def _say(self, line: str) -> None:
        self._writer.write(line.encode() + b"\r\n")


def _range(first: str, last: str | None, highest: int) -> range:
    """The numbers from one to another, whichever is larger; a star is the highest one."""
    start = int(first)
    end = start if last is None else highest if last == "*" else int(last)
    return range(min(start, end), max(start, end) + 1)


class Mailbox:
    """The mailbox, and its server."""

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self.password = password
        self.mails: list[Mail] = []
        self.validity = 1_700_000_001
        self.abilities = "IMAP4rev1 IDLE SASL-IR AUTH=PLAIN UIDPLUS"
        self.next_uid = 1
        self.commands: list[str] = []
        """What was searched, fetched and marked."""
        self.connections = 0
        """Connections that were made, of all time."""
        self._open: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def idling(self) -> bool:
        """Whether somebody waits for news."""
        return any(one.idle for one in self._open)

    async def start(self) -> None:
        """Listen: at the port of last time, if there was one."""
        self._server = await asyncio.start_server(self._met, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def down(self) -> None:
        """Stop listening and break every connection."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            self.cut()
            await server.wait_closed()
            while self._open:  # noqa: ASYNC110 - a turn of the loop for each to see that it is over
                await asyncio.sleep(0)

    def cut(self) -> None:
        """Break every connection."""
        for one in list(self._open):
            one.abort()

    def put(self, raw: bytes) -> Mail:
        """A mail arrives."""
        mail = Mail(self.next_uid, raw, set())
        self.next_uid += 1
        self.mails.append(mail)
        for one in self._open:
            one.tell()
        return mail

    def renumber(self) -> None:
        """Number all mails anew, as servers do that were set up anew."""
        self.validity += 1
        self.next_uid = 1
        for mail in self.mails:
            mail.uid = self.next_uid
            self.next_uid += 1

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        self._open.add(connection)
        self.connections += 1
        try:
            await connection.run()
        finally:
            self._open.discard(connection)
