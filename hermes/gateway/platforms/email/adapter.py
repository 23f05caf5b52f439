"""E-mail: IMAP for what comes in, SMTP for what goes out.

A thread of mails is a conversation. How far the mailbox was read is kept by its own numbers, and moves on when a mail
is on disk. A `From` is anybody's choice: only the own mail server's word makes a sender known (`authserv_id`). What
programs send is never answered, and whom nobody knows gets nothing, no bounce either.
Source: RFC 3501, 2177, 5321, 5322, 8601, 3834.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from hermes.core.chats import Attachment, Batch, ChatKind, InboundEvent, MediaKind, Outgoing, Place, Reply, Sender
from hermes.gateway import platform as base
from hermes.gateway.http.errors import describe_error
from hermes.gateway.platform import (
    Capabilities,
    Descriptor,
    Platform,
    PlatformContext,
    PlatformError,
    PlatformRefusedError,
    Resend,
    SendError,
    SendFault,
)
from hermes.gateway.platforms.email.composer import (
    Draft,
    answer_subject,
    bare_subject,
    is_own,
    own_id,
    without_quote,
    written,
)
from hermes.gateway.platforms.email.connection import Security, Server
from hermes.gateway.platforms.email.imap import Box, Imap, ImapError
from hermes.gateway.platforms.email.message import Letter, MailError, is_address, read_file, read_letter
from hermes.gateway.platforms.email.smtp import Envelope, Login, deliver
from hermes.gateway.text.media import content_of
from hermes.i18n.messages import phrase, say
from hermes.sessions.untrusted_text import html_to_markdown

if TYPE_CHECKING:
    import ssl

LIMIT = 50_000
FILE_LIMIT = 18 * 1024 * 1024
"""Bytes of the largest file that is sent: most servers take 25 MB, and a mail is a third larger than its file."""
HEAD_LIMIT = 256 * 1024
"""Bytes that are read of a larger one."""
IDLE_SECONDS = 25 * 60.0
"""Servers may end a connection that was quiet for half an hour."""
POLL_SECONDS = 15.0
RENUMBERED_DAYS = 2
"""How many days are read anew when the server has numbered its mails anew."""
REMEMBERED = 1_000
"""Subjects and own texts that are known at most."""
FETCHES = 2
"""Files that are fetched at once."""


class Options(base.PlatformOptions, frozen=True, kw_only=True):
    """What a mailbox needs."""

    address: str = ""
    """The agent's own address."""
    password: str = ""
    """Its password, or an app password."""
    user: str = ""
    """The name to log in with; empty: the address."""
    imap_host: str = ""
    """The server from which mail is read."""
    imap_port: int = 993
    """Its port."""
    smtp_host: str = ""
    """The server through which mail is sent."""
    smtp_port: int = 587
    """Its port."""
    security: Security = Security.AUTO
    """`auto`, `tls`, `starttls`, or `none` (on this machine only)."""
    folder: str = "INBOX"
    """The folder that is read."""
    authserv_id: str = ""
    """The name by which the own mail server signs its `Authentication-Results`. Without it no sender is verified."""
    trust_senders: bool = False
    """Whether the sender that stands in a mail is believed, whoever wrote it. Only for a mailbox that nobody outside
    can write to."""
    name: str = "Hermes"
    """The name that stands beside the address."""
    threads: bool = True
    """Whether each thread of mails is a session of its own; else all mails of a person are one."""
    largest_mb: Annotated[int, Meta(ge=1, le=200)] = 50
    """Megabytes of the largest mail that is read whole; of a larger one the beginning is read."""
    mark_seen: bool = True
    """Whether mails that were taken in are marked as read."""


class Email(Platform):
    """One mailbox."""

    def __init__(self, options: Options, around: PlatformContext) -> None:
        self._options = options
        self._around = around
        self._address = options.address.lower()
        self._login = Login(options.user or options.address, options.password)
        self._limit = options.largest_mb << 20
        self._validity, self._uid = _numbers(around.cursors.get("mail", ""))
        self._open: set[Imap] = set()
        self._subjects: dict[str, str] = {}
        self._threads: dict[str, str] = {}
        """The threads of the last mails, by their ids."""
        self._said: dict[str, str] = {}
        """What our last mails say, by their ids."""
        self._fetching = asyncio.Semaphore(FETCHES)
        self._told: set[str] = set()

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Log in, read what was missed, and give what comes in."""
        if not (self._options.authserv_id or self._options.trust_senders):
            self._tell(
                "authserv_id",
                phrase("Without `authserv_id` no sender is verified, and no mail is answered; see docs/email.md."),
            )
        imap = await self._connect()
        try:
            missed = await self._begin(imap, await imap.select(self._options.folder, change=self._options.mark_seen))
            yield Batch((), self._cursor(self._uid))
            while True:
                for uid in missed or await imap.search(f"UID {self._uid + 1}:*"):
                    if uid <= self._uid:
                        continue  # "from the next to the last" names the last one when there is no next
                    arrivals = await self._read(imap, uid)
                    yield Batch(arrivals, self._cursor(uid))
                    self._uid = uid
                    if arrivals and self._options.mark_seen:
                        await imap.mark_seen(uid)
                missed = []
                if imap.can_idle:
                    await imap.wait(IDLE_SECONDS)
                else:
                    await self._around.clock.sleep(POLL_SECONDS)
                    await imap.look()
        finally:
            await self._hang_up(imap)

    async def send(self, message: Outgoing) -> str:
        """Send a mail, with a file where there is one."""
        if len(message.text) > LIMIT:
            raise SendError(SendFault.TOO_LONG, phrase("A mail holds {n} characters here.", n=LIMIT))
        recipient = message.place.chat.strip().lower()
        if not is_address(recipient):
            raise SendError(
                SendFault.NOT_FOUND, phrase("This is no address: {address}", address=describe_error(recipient))
            )
        content: bytes | None = None
        if message.file:
            content = await asyncio.to_thread(content_of, message.file, FILE_LIMIT)
        place = message.place
        subject = self._subjects.get(message.reply_to) or self._subjects.get(place.thread) or bare_subject(place.name)
        answering = bool(place.thread or message.reply_to)
        message_id = own_id(message.key, self._address)
        draft = Draft(
            sender=self._address,
            name=self._options.name,
            recipient=recipient,
            subject=answer_subject(subject)
            if answering
            else subject or say("A message from {name}", name=self._options.name),
            text=message.text,
            plain=message.plain,
            message_id=message_id,
            thread=_sendable(place.thread),
            answers=_sendable(message.reply_to),
            file_name=Path(message.file).name,
            content=content,
            at=self._around.clock.now(),
        )
        try:
            raw = await asyncio.to_thread(written, draft)
        except (ValueError, LookupError, TypeError) as error:
            raise SendError(
                SendFault.BAD_FORMAT, phrase("The mail cannot be written: {error}", error=describe_error(error))
            ) from error
        server = Server(
            self._options.smtp_host or self._options.imap_host, self._options.smtp_port, self._options.security
        )
        await deliver(server, self._login, Envelope(self._address, recipient, raw), self._tls)
        _remember(self._said, message_id, message.text)
        _remember(self._threads, message_id if place.thread else "", place.thread)
        return message_id

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Save a file of a mail."""
        validity, uid, index = (int(one) for one in attachment.ref.split(":"))
        async with self._fetching:
            imap = await self._connect()
            try:
                box = await imap.select(self._options.folder, change=False)
                raw = await imap.fetch(uid, self._limit) if box.validity == validity else None
            finally:
                await self._hang_up(imap)
            if raw is None:
                raise PlatformError(phrase("The mail is not there any more."))
            content = await asyncio.to_thread(read_file, raw, index)
            await asyncio.to_thread(target.write_bytes, content)

    async def close(self) -> None:
        """Hang up."""
        for imap in self._open:
            imap.abort()
        self._open.clear()

    # The mailbox.

    async def _connect(self) -> Imap:
        options = self._options
        imap = Imap(Server(options.imap_host, options.imap_port, options.security), self._tls, self._limit + HEAD_LIMIT)
        self._open.add(imap)
        try:
            await imap.open(self._login.user, self._login.password)
        except BaseException:
            imap.abort()
            self._open.discard(imap)
            raise
        return imap

    async def _hang_up(self, imap: Imap) -> None:
        self._open.discard(imap)
        await imap.close()

    def _tls(self) -> "ssl.SSLContext":
        import ssl

        return self._around.tls() if self._around.tls is not None else ssl.create_default_context()

    async def _begin(self, imap: Imap, box: Box) -> list[int]:
        """From where to read on: at the first start from what comes after it. What else is to be read once."""
        if self._validity == box.validity:
            return []
        missed: list[int] = []
        if self._validity:
            self._around.report(phrase("The mail server has numbered its mails anew; the last days are read again."))
            day = time.gmtime(self._around.clock.now() - RENUMBERED_DAYS * 86400)
            missed = await imap.search(f"SINCE {day.tm_mday}-{_MONTHS[day.tm_mon - 1]}-{day.tm_year}")
        self._validity = box.validity
        self._uid = missed[0] - 1 if missed else box.next_uid - 1
        return missed

    def _cursor(self, uid: int) -> tuple[tuple[str, str], ...]:
        return (("mail", f"{self._validity}:{uid}"),)

    async def _read(self, imap: Imap, uid: int) -> tuple[InboundEvent, ...]:
        """A mail; nothing where it is not for us. One that cannot be read is told and passed over."""
        try:
            size = await imap.size(uid)
            raw = await imap.fetch(uid, self._limit if size is not None and size <= self._limit else HEAD_LIMIT)
            if size is None or raw is None:
                return ()
            letter = await asyncio.to_thread(read_letter, raw, self._options.authserv_id)
        except (MailError, ImapError) as error:
            self._around.report(phrase("A mail (number {n}) is passed over: {error}", n=uid, error=str(error)))
            return ()
        if letter.machine or letter.sender == self._address:
            return ()
        return (await self._arrival(letter, uid, whole=size <= self._limit),)

    async def _arrival(self, letter: Letter, uid: int, *, whole: bool) -> InboundEvent:
        message_id = letter.message_id or f"{self._validity}.{uid}@{_NOWHERE}"
        thread = self._thread(letter, message_id)
        subject = bare_subject(letter.subject)
        _remember(self._subjects, message_id, subject)
        text, quoted = without_quote(await html_to_markdown(letter.html) if letter.html else letter.text)
        own = is_own(letter.answers, self._address)
        before = self._said.get(letter.answers, "") if own else quoted
        forwarded = bool(quoted) and not text and not letter.files
        if forwarded:
            text, before = quoted, ""
        text = text if letter.answers else _with_subject(text, subject)
        return InboundEvent(
            event_id=hashlib.sha256(f"{letter.sender}\0{message_id}".encode()).hexdigest()[:40],
            message_id=message_id,
            place=Place(self._around.name, letter.sender, thread, ChatKind.DM, subject),
            sender=Sender(letter.sender, letter.name),
            text=text,
            attachments=self._files(letter, uid, whole=whole),
            reply=Reply(letter.answers, before, own=own) if letter.answers or before else None,
            mentioned=True,
            forwarded=forwarded,
            verified=letter.verified or self._options.trust_senders,
            at=letter.at,
        )

    def _thread(self, letter: Letter, message_id: str) -> str:
        """The first mail of the thread; some programs name only the last one."""
        if not self._options.threads:
            return ""
        before = (letter.references[0] if letter.references else "", letter.answers)
        thread = next(
            (self._threads[one] for one in before if one in self._threads), before[0] or before[1] or message_id
        )
        _remember(self._threads, message_id, thread)
        return thread

    def _files(self, letter: Letter, uid: int, *, whole: bool) -> tuple[Attachment, ...]:
        problem = "" if whole else phrase("the mail is larger than {n} MB", n=self._options.largest_mb)
        found = [
            Attachment(
                one.kind,
                one.name,
                one.media_type,
                one.size if whole else None,
                ref="" if problem else f"{self._validity}:{uid}:{one.index}",
                problem=problem,
            )
            for one in letter.files
        ]
        if letter.more_files:
            more = phrase("{n} more files came along and are not read", n=letter.more_files)
            found.append(Attachment(MediaKind.DOCUMENT, problem=more))
        return tuple(found)

    def _tell(self, kind: str, line: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            self._around.report(line)


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ID = re.compile(r"[\x21-\x3b\x3d\x3f-\x7e]{1,250}")
_NOWHERE = "no-id.invalid"
"""The domain of ids that we gave to mails without one."""


def _numbers(cursor: str) -> tuple[int, int]:
    validity, _, uid = cursor.partition(":")
    return (int(validity), int(uid)) if validity.isdecimal() and uid.isdecimal() else (0, 0)


def _sendable(message_id: str) -> str:
    """An id that may stand in a mail's head."""
    return "" if message_id.endswith("@" + _NOWHERE) or not _ID.fullmatch(message_id) else message_id


def _remember(known: dict[str, str], name: str, value: str) -> None:
    if name:
        known.pop(name, None)
        known[name] = value
        if len(known) > REMEMBERED:
            del known[next(iter(known))]


def _identity(options: base.PlatformOptions) -> str:
    return f"{options.imap_host}\0{options.user or options.address}" if isinstance(options, Options) else ""


async def _start(options: base.PlatformOptions, around: PlatformContext) -> Platform:
    if not isinstance(options, Options) or not (options.address and options.imap_host):
        raise PlatformRefusedError(phrase("E-mail needs `address`, `imap_host` and `smtp_host` in config.yaml."))
    if not options.password:
        raise PlatformRefusedError(phrase("E-mail needs a password: `EMAIL_PASSWORD` in .env."))
    if not is_address(options.address):
        raise PlatformRefusedError(phrase("This is no address: {address}", address=describe_error(options.address)))
    return Email(options, around)


def _with_subject(text: str, subject: str) -> str:
    """The words of a mail that begins a thread: its subject is part of them, unless they are a command."""
    return text if text.startswith(("/", subject)) else f"{subject}\n\n{text}".strip()


PLATFORM = Descriptor(
    title="E-mail",
    options=Options,
    can=Capabilities(
        limit=LIMIT,
        threads=True,
        media=True,
        media_limit=FILE_LIMIT,
        history=True,
        redelivers=True,
        resend=Resend.BLIND,
        dm_only=True,
        batch_seconds=0.0,
    ),
    open=_start,
    variables={"address": "EMAIL_ADDRESS", "password": "EMAIL_PASSWORD"},
    secrets=("password",),
    identity=_identity,
    hint="Answers are mails: whole sentences, nothing that waits for a quick answer.",
    example="address: hermes@example.org\nimap_host: imap.example.org\nsmtp_host: smtp.example.org\n"
    "authserv_id: mx.example.org\nowners: [you@example.org]",
)
