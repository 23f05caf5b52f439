"""E-mail: mail is read over IMAP and sent over SMTP.

A thread of mails is a session. The read position is the mailbox's own numbering, and moves on when a mail is on disk.
Anybody can write any `From`: only the own mail server's verdict (`authserv_id`) verifies a sender. Mails from programs
are never answered, and unknown senders get nothing, no bounce either. Source: RFC 3501, 2177, 5321, 5322, 8601, 3834.
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
from hermes.gateway.http.client import OnceReporter, describe_error, open_private
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
from hermes.gateway.platforms.email.api import (
    ImapConnection,
    ImapError,
    ImapFolder,
    MailSecurity,
    MailServer,
    SmtpEnvelope,
    SmtpLogin,
    deliver_mail,
)
from hermes.gateway.platforms.email.mail import (
    MailDraft,
    MailError,
    ParsedMail,
    encode_mail,
    is_address,
    is_own_message_id,
    own_message_id,
    parse_mail,
    read_mail_file,
    reply_subject,
    split_quote,
    strip_reply_prefix,
)
from hermes.gateway.text.media import content_of
from hermes.i18n.messages import N_, tr
from hermes.sessions.untrusted_text import html_to_markdown

if TYPE_CHECKING:
    import ssl

TEXT_LIMIT = 50_000
FILE_LIMIT = 18 * 1024 * 1024
"""Size in bytes of the largest file that is sent.

Most servers take 25 MB, and a mail is a third larger than its file.
"""
TRUNCATED_LIMIT = 256 * 1024
"""Bytes that are read of a mail larger than `largest_mb`."""
IDLE_SECONDS = 25 * 60.0
"""Servers may end a connection that was quiet for half an hour."""
POLL_SECONDS = 15.0
REREAD_DAYS = 2
"""Days that are read again when the server has renumbered its mails."""
MAX_REMEMBERED = 1_000
"""Subjects and own texts that are remembered at most."""
FETCHES_AT_ONCE = 2
"""Files that are downloaded at the same time."""


class EmailOptions(base.PlatformOptions, frozen=True, kw_only=True):
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
    security: MailSecurity = MailSecurity.AUTO
    """`auto`, `tls`, `starttls`, or `none` (on this machine only)."""
    folder: str = "INBOX"
    """The folder that is read."""
    authserv_id: str = ""
    """The name by which the own mail server signs its `Authentication-Results`. Without it no sender is verified."""
    trust_senders: bool = False
    """Whether the sender that stands in a mail is believed, whoever wrote it. Only for a mailbox that nobody outside
    can write to.
    """
    name: str = "Hermes"
    """The name that stands beside the address."""
    threads: bool = True
    """Whether each thread of mails is a session of its own; else all mails of a person are one."""
    largest_mb: Annotated[int, Meta(ge=1, le=200)] = 50
    """Megabytes of the largest mail that is read whole; of a larger one the beginning is read."""
    mark_seen: bool = True
    """Whether mails that were taken in are marked as read."""


class EmailPlatform(Platform):
    """One mailbox."""

    def __init__(self, options: EmailOptions, context: PlatformContext) -> None:
        self._options = options
        self._context = context
        self._address = self.own_name = options.address.lower()
        self._login = SmtpLogin(options.user or options.address, options.password)
        self._limit = options.largest_mb << 20
        self._validity, self._uid = _parse_cursor(context.cursors.get("mail", ""))
        self._open_connections: set[ImapConnection] = set()
        self._subjects: dict[str, str] = {}
        self._threads: dict[str, str] = {}
        """The threads of recent mails, by message id."""
        self._sent_texts: dict[str, str] = {}
        """The texts of our recent mails, by message id."""
        self._report_once = OnceReporter(context.report)
        self._fetch_slots = asyncio.Semaphore(FETCHES_AT_ONCE)

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Log in, read missed mails, and yield what comes in."""
        if not (self._options.authserv_id or self._options.trust_senders):
            self._report_once(
                "authserv_id",
                N_("Without `authserv_id` no sender is verified, and no mail is answered; see docs/email.md."),
            )
        imap = await self._connect_imap()
        try:
            missed = await self._choose_start(
                imap, await imap.select_folder(self._options.folder, change=self._options.mark_seen)
            )
            yield Batch((), self._format_cursor(self._uid))
            while True:
                for uid in missed or await imap.search_mails(f"UID {self._uid + 1}:*"):
                    if uid <= self._uid:
                        continue  # "from the next to the last" names the last one when there is no next
                    inbound_events = await self._read_mail(imap, uid)
                    yield Batch(inbound_events, self._format_cursor(uid))
                    self._uid = uid
                    if inbound_events and self._options.mark_seen:
                        await imap.mark_seen(uid)
                missed = []
                if imap.can_idle:
                    await imap.wait_for_mail(IDLE_SECONDS)
                else:
                    await self._context.clock.sleep(POLL_SECONDS)
                    await imap.poll_mail()
        finally:
            await self._close_imap(imap)

    async def send(self, message: Outgoing) -> str:
        """Send a mail, with a file where there is one."""
        if len(message.text) > TEXT_LIMIT:
            raise SendError(SendFault.TOO_LONG, N_("A mail holds {n} characters here.", n=TEXT_LIMIT))
        recipient = message.place.chat.strip().lower()
        if not is_address(recipient):
            raise SendError(
                SendFault.NOT_FOUND, N_("This is not an address: {address}", address=describe_error(recipient))
            )
        content: bytes | None = None
        if message.file:
            content = await asyncio.to_thread(content_of, message.file, FILE_LIMIT)
        place = message.place
        subject = (
            self._subjects.get(message.reply_to) or self._subjects.get(place.thread) or strip_reply_prefix(place.name)
        )
        answering = bool(place.thread or message.reply_to)
        message_id = own_message_id(message.key, self._address)
        draft = MailDraft(
            sender=self._address,
            name=self._options.name,
            recipient=recipient,
            subject=reply_subject(subject)
            if answering
            else subject or tr("A message from {name}", name=self._options.name),
            text=message.text,
            plain=message.plain,
            message_id=message_id,
            thread=_header_id(place.thread),
            in_reply_to=_header_id(message.reply_to),
            file_name=Path(message.file).name,
            content=content,
            at=self._context.clock.now(),
        )
        try:
            raw = await asyncio.to_thread(encode_mail, draft)
        except (ValueError, LookupError, TypeError) as error:
            raise SendError(
                SendFault.BAD_FORMAT, N_("The mail cannot be written: {error}", error=describe_error(error))
            ) from error
        server = MailServer(
            self._options.smtp_host or self._options.imap_host, self._options.smtp_port, self._options.security
        )
        await deliver_mail(server, self._login, SmtpEnvelope(self._address, recipient, raw), self._make_tls_context)
        _remember_entry(self._sent_texts, message_id, message.text)
        _remember_entry(self._threads, message_id if place.thread else "", place.thread)
        return message_id

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Download a file of a mail."""
        validity, uid, index = (int(one) for one in attachment.ref.split(":"))
        async with self._fetch_slots:
            imap = await self._connect_imap()
            try:
                folder = await imap.select_folder(self._options.folder, change=False)
                raw = await imap.fetch_mail(uid, self._limit) if folder.validity == validity else None
            finally:
                await self._close_imap(imap)
            if raw is None:
                raise PlatformError(N_("The mail is gone."))
            content = await asyncio.to_thread(read_mail_file, raw, index)
            with await asyncio.to_thread(open_private, target) as file:
                await asyncio.to_thread(file.write, content)

    async def close(self) -> None:
        """Close every connection."""
        for imap in self._open_connections:
            imap.abort()
        self._open_connections.clear()

    # The mailbox.

    async def _connect_imap(self) -> ImapConnection:
        options = self._options
        imap = ImapConnection(
            MailServer(options.imap_host, options.imap_port, options.security),
            self._make_tls_context,
            self._limit + TRUNCATED_LIMIT,
        )
        self._open_connections.add(imap)
        try:
            await imap.open(self._login.user, self._login.password)
        except BaseException:
            imap.abort()
            self._open_connections.discard(imap)
            raise
        return imap

    async def _close_imap(self, imap: ImapConnection) -> None:
        self._open_connections.discard(imap)
        await imap.close()

    def _make_tls_context(self) -> "ssl.SSLContext":
        import ssl

        return self._context.tls() if self._context.tls is not None else ssl.create_default_context()

    async def _choose_start(self, imap: ImapConnection, folder: ImapFolder) -> list[int]:
        """Set the position to read from, and return the mails to read once more.

        At the first start, reading begins after the newest mail.
        """
        if self._validity == folder.validity:
            return []
        missed: list[int] = []
        if self._validity:
            self._context.report(N_("The mail server has renumbered its mails; those of the last days are read again."))
            day = time.gmtime(self._context.clock.now() - REREAD_DAYS * 86400)
            missed = await imap.search_mails(f"SINCE {day.tm_mday}-{_MONTHS[day.tm_mon - 1]}-{day.tm_year}")
        self._validity = folder.validity
        self._uid = missed[0] - 1 if missed else folder.next_uid - 1
        return missed

    def _format_cursor(self, uid: int) -> tuple[tuple[str, str], ...]:
        return (("mail", f"{self._validity}:{uid}"),)

    async def _read_mail(self, imap: ImapConnection, uid: int) -> tuple[InboundEvent, ...]:
        """Read a mail; return nothing if it needs no answer. An unreadable one is reported and skipped."""
        try:
            size = await imap.fetch_size(uid)
            raw = await imap.fetch_mail(
                uid, self._limit if size is not None and size <= self._limit else TRUNCATED_LIMIT
            )
            if size is None or raw is None:
                return ()
            mail = await asyncio.to_thread(parse_mail, raw, self._options.authserv_id)
        except (MailError, ImapError) as error:
            self._context.report(N_("A mail (number {n}) is passed over: {error}", n=uid, error=str(error)))
            return ()
        if mail.automatic_reason or mail.sender == self._address:
            return ()
        return (await self._make_inbound_event(mail, uid, whole=size <= self._limit),)

    async def _make_inbound_event(self, mail: ParsedMail, uid: int, *, whole: bool) -> InboundEvent:
        message_id = mail.message_id or f"{self._validity}.{uid}@{_MISSING_ID_DOMAIN}"
        thread = self._find_thread(mail, message_id)
        subject = strip_reply_prefix(mail.subject)
        _remember_entry(self._subjects, message_id, subject)
        text, quoted = split_quote(await html_to_markdown(mail.html) if mail.html else mail.text)
        own = is_own_message_id(mail.in_reply_to, self._address)
        quoted_text = self._sent_texts.get(mail.in_reply_to, "") if own else quoted
        forwarded = bool(quoted) and not text and not mail.files
        if forwarded:
            text, quoted_text = quoted, ""
        text = text if mail.in_reply_to else _prepend_subject(text, subject)
        return InboundEvent(
            event_id=hashlib.sha256(f"{mail.sender}\0{message_id}".encode()).hexdigest()[:40],
            message_id=message_id,
            place=Place(self._context.name, mail.sender, thread, ChatKind.DM, subject),
            sender=Sender(mail.sender, mail.name),
            text=text,
            attachments=self._make_attachments(mail, uid, whole=whole),
            reply=Reply(mail.in_reply_to, quoted_text, own=own) if mail.in_reply_to or quoted_text else None,
            mentioned=True,
            forwarded=forwarded,
            verified=mail.verified or self._options.trust_senders,
            at=mail.at,
        )

    def _find_thread(self, mail: ParsedMail, message_id: str) -> str:
        """Return the first mail of the thread; some programs name only the last one."""
        if not self._options.threads:
            return ""
        before = (mail.references[0] if mail.references else "", mail.in_reply_to)
        thread = next(
            (self._threads[one] for one in before if one in self._threads), before[0] or before[1] or message_id
        )
        _remember_entry(self._threads, message_id, thread)
        return thread

    def _make_attachments(self, mail: ParsedMail, uid: int, *, whole: bool) -> tuple[Attachment, ...]:
        problem = "" if whole else N_("the mail is larger than {n} MB", n=self._options.largest_mb)
        found = [
            Attachment(
                one.kind,
                one.name,
                one.media_type,
                one.size if whole else None,
                ref="" if problem else f"{self._validity}:{uid}:{one.index}",
                problem=problem,
            )
            for one in mail.files
        ]
        if mail.more_files:
            more = N_("{n} more files came along and are not read", n=mail.more_files)
            found.append(Attachment(MediaKind.DOCUMENT, problem=more))
        return tuple(found)


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_VALID_ID = re.compile(r"[\x21-\x3b\x3d\x3f-\x7e]{1,250}")
_MISSING_ID_DOMAIN = "no-id.invalid"
"""The domain of the ids that we give to mails without one."""


def _parse_cursor(cursor: str) -> tuple[int, int]:
    validity, _, uid = cursor.partition(":")
    return (int(validity), int(uid)) if validity.isdecimal() and uid.isdecimal() else (0, 0)


def _header_id(message_id: str) -> str:
    """Return an id if it may stand in a mail's header, else an empty string."""
    return "" if message_id.endswith("@" + _MISSING_ID_DOMAIN) or not _VALID_ID.fullmatch(message_id) else message_id


def _remember_entry(known: dict[str, str], name: str, value: str) -> None:
    if name:
        known.pop(name, None)
        known[name] = value
        if len(known) > MAX_REMEMBERED:
            del known[next(iter(known))]


def _account_identity(options: base.PlatformOptions) -> str:
    return f"{options.imap_host}\0{options.user or options.address}" if isinstance(options, EmailOptions) else ""


async def _open_platform(options: base.PlatformOptions, context: PlatformContext) -> Platform:
    if not isinstance(options, EmailOptions) or not (options.address and options.imap_host):
        raise PlatformRefusedError(N_("E-mail needs `address`, `imap_host` and `smtp_host` in config.yaml."))
    if not options.password:
        raise PlatformRefusedError(N_("E-mail needs a password: `EMAIL_PASSWORD` in .env."))
    if not is_address(options.address):
        raise PlatformRefusedError(N_("This is not an address: {address}", address=describe_error(options.address)))
    return EmailPlatform(options, context)


def _prepend_subject(text: str, subject: str) -> str:
    """Return the text of a mail that begins a thread with its subject before it, unless the text is a command."""
    return text if text.startswith(("/", subject)) else f"{subject}\n\n{text}".strip()


PLATFORM = Descriptor(
    title="E-mail",
    options=EmailOptions,
    can=Capabilities(
        limit=TEXT_LIMIT,
        threads=True,
        media=True,
        media_limit=FILE_LIMIT,
        captions=True,
        history=True,
        redelivers=True,
        resend=Resend.BLIND,
        dm_only=True,
        batch_seconds=0.0,
    ),
    open=_open_platform,
    variables={"address": "EMAIL_ADDRESS", "password": "EMAIL_PASSWORD"},
    secrets=("password",),
    needs_option="password",
    identity=_account_identity,
    hint="Answers are mails: whole sentences, nothing that waits for a quick answer.",
    example="address: hermes@example.org\nimap_host: imap.example.org\nsmtp_host: smtp.example.org\n"
    "authserv_id: mx.example.org\nowners: [you@example.org]",
    asked=("address", "imap_host", "smtp_host", "authserv_id", "password"),
    preparation=N_("The agent needs a mailbox of its own, with IMAP and SMTP; docs/email.md says what authserv_id is."),
)
