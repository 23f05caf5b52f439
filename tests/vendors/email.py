"""A mail server on loopback: a mailbox that is read by IMAP, and SMTP for what goes out. Judged by Python's own imaplib
and smtplib in the tests."""

import email
import email.policy
import mimetypes
import secrets
from collections.abc import Sequence
from email.message import EmailMessage, Message
from email.utils import formatdate
from pathlib import Path

from hermes.testing.fake_platform import FakeChat, Shown, ShownFile
from tests.vendors.imap_server import Mailbox
from tests.vendors.smtp_server import Submission, Taken

ME = "hermes@fake.test"
AUTHSERV = "mx.fake.test"


class Fake(FakeChat):
    """One mailbox. People are addresses, direct chats are people, and threads are the first mails in them."""

    person = "person@people.test"
    stranger = "stranger@people.test"
    topic = "thread77@people.test"

    def __init__(self) -> None:
        super().__init__()
        self.password = "fake-password-" + secrets.token_urlsafe(18)
        self.box = Mailbox(ME, self.password)
        self.submission = Submission(ME, self.password, self._taken, self.next_failure)
        self.subject = ""
        """What people write above their mails."""
        self.taken: list[Taken] = []
        """Everything that was handed over, the same mail as often as it came."""

    def options(self) -> dict[str, object]:
        """What stands under `platforms.NAME`."""
        return {
            "address": ME,
            "password": self.password,
            "imap_host": "127.0.0.1",
            "imap_port": self.box.port,
            "smtp_host": "127.0.0.1",
            "smtp_port": self.submission.port,
            "authserv_id": AUTHSERV,
        }

    async def start(self) -> None:
        """Listen."""
        await self.up()

    async def close(self) -> None:
        """Stop."""
        await self.down()

    async def down(self) -> None:
        """Stop listening and break every connection."""
        await self.box.down()
        await self.submission.down()

    async def up(self) -> None:
        """Listen again."""
        await self.box.start()
        await self.submission.start()

    async def drop(self) -> None:
        """Break the connections for news."""
        self.box.cut()

    def chat_id(self, chat: str) -> str:
        """A chat is a person; there are no groups."""
        return chat if "@" in chat else self.person

    async def say(
        self,
        text: str,
        *,
        chat: str = "",
        person: str = "",
        thread: str = "",
        mention: bool = False,
        reply_to: str = "",
        files: Sequence[Path] = (),
    ) -> str:
        """Somebody writes a mail."""
        del chat, mention
        person = person or self.person
        mail = EmailMessage()
        mail["From"] = f'"{person.partition("@")[0].capitalize()}" <{person}>'
        mail["To"] = ME
        if self.subject:
            mail["Subject"] = self.subject
        message_id = f"{secrets.token_hex(8)}@people.test"
        mail["Message-ID"] = f"<{message_id}>"
        mail["Date"] = formatdate()
        if thread or reply_to:
            mail["In-Reply-To"] = f"<{reply_to or thread}>"
            mail["References"] = " ".join(f"<{one}>" for one in (thread, reply_to) if one)
        shown = self.messages.get(reply_to)
        if shown is not None:
            quoted = "\n".join(f"> {line}" for line in shown.text.split("\n"))
            text = f"{text}\n\nOn Mon, 2 Nov 2026 at 10:00, Hermes <{ME}> wrote:\n{quoted}"
        mail.set_content(text)
        for path in files:
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            main, _, sub = kind.partition("/")
            mail.add_attachment(path.read_bytes(), maintype=main, subtype=sub, filename=path.name)
        self.arrive(mail.as_bytes(policy=email.policy.SMTP), passed=person)
        return message_id

    def arrive(self, raw: bytes, passed: str = "") -> None:
        """A mail comes over the net; the server has found that it is from `passed`, or else from nobody it knows."""
        domain = passed.partition("@")[2]
        result = f"dkim=pass header.d={domain}; dmarc=pass header.from={domain}" if passed else "dkim=none; dmarc=fail"
        self.box.put(f"Authentication-Results: {AUTHSERV}; {result}\r\n".encode() + raw)

    async def again(self, message_id: str) -> None:
        """A mail that comes a second time."""
        mark = f"Message-ID: <{message_id}>".encode()
        self.box.put(next(one.raw for one in self.box.mails if mark in one.raw))

    def _taken(self, taken: Taken) -> None:
        self.taken.append(taken)
        mail = email.message_from_bytes(taken.content, policy=email.policy.default)
        if any(len(line) > 998 for line in taken.content.split(b"\r\n")) or not taken.content.isascii():
            self.refused.append("a mail with lines that are too long, or not in ASCII")
        body = mail.get_body(("plain",))
        root, answers = (_ids(str(mail.get(name, "")))[:1] for name in ("References", "In-Reply-To"))
        files = tuple(
            ShownFile(str(one.get_filename()), _content(one), one.get_content_type()) for one in mail.iter_attachments()
        )
        shown = Shown(
            message_id=_ids(str(mail["Message-ID"]))[0],
            chat=taken.recipients[0],
            thread=self.topic if root == [self.topic] else "",
            text=_text(body) if body is not None else "",
            markup="html" if mail.get_body(("html",)) is not None else "",
            reply_to=answers[0] if answers and answers[0] != self.topic else "",
            files=files,
        )
        self.put(shown)


def _content(part: Message) -> bytes:
    found = part.get_payload(decode=True)
    return found if isinstance(found, bytes) else b""


def _text(part: Message) -> str:
    return _content(part).decode().replace("\r\n", "\n").rstrip("\n")


def _ids(text: str) -> list[str]:
    return [one.strip("<>") for one in text.split()]
