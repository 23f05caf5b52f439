"""The gateway on a real dovecot (IMAP, LMTP) and a real opensmtpd, with Python's own clients as the person's."""

import asyncio
import contextlib
import email
import email.policy
import imaplib
import os
import shutil
import smtplib
import time
from collections.abc import AsyncIterator, Callable
from email.message import EmailMessage
from pathlib import Path
from tempfile import mkdtemp

import pytest
from msgspec import Struct

from hermes.testing.home import TempHome
from hermes.testing.script import Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.ends.servers import Program, dovecot, free_port, opensmtpd, tell
from tests.gateway.gateway_rig import running, said

HERE = bool(os.environ.get("HERMES_ENDS")) and all(Path(f"/usr/sbin/{one}").exists() for one in ("dovecot", "smtpd"))
pytestmark = pytest.mark.skipif(
    not HERE or os.geteuid() != 0, reason="run by `make ends` as root: dovecot and opensmtpd are not installed"
)
AUTHSERV = "mx.end.test"


class Ends(Struct):
    """The servers, and where they listen."""

    imap: Program
    smtp: Program
    imap_port: int
    smtp_port: int

    def put(self, text: str) -> None:
        """A mail from Ann lies in the agent's mailbox."""
        with imaplib.IMAP4("127.0.0.1", self.imap_port) as imap:
            imap.login("bot", "pw")
            imap.append("INBOX", "", "", self.mail(text, subject="").as_bytes(policy=email.policy.SMTP))

    def write(self, text: str, *, content: bytes = b"", answers: str = "") -> None:
        """Ann sends a mail."""
        with smtplib.SMTP("127.0.0.1", self.smtp_port) as smtp:
            smtp.send_message(self.mail(text, content=content, answers=answers))

    @staticmethod
    def mail(text: str, *, content: bytes = b"", answers: str = "", subject: str = "Tea") -> EmailMessage:
        """A mail from Ann, at which a server before ours has looked."""
        mail = EmailMessage()
        mail["Authentication-Results"] = f"{AUTHSERV}; dmarc=pass header.from=localhost"
        mail["From"], mail["To"], mail["Subject"] = "Ann <ann@localhost>", "bot@localhost", subject
        mail["Message-ID"] = f"<{os.urandom(6).hex()}@localhost>"
        if answers:
            mail["In-Reply-To"] = mail["References"] = answers
        mail.set_content(text)
        if content:
            mail.add_attachment(content, maintype="application", subtype="octet-stream", filename="in.bin")
        return mail

    def mails(self) -> list[EmailMessage]:
        """What is in Ann's mailbox."""
        with imaplib.IMAP4("127.0.0.1", self.imap_port) as imap:
            imap.login("ann", "pw")
            imap.select("INBOX")
            found = []
            for number in imap.search(None, "ALL")[1][0].split():
                raw = imap.fetch(number.decode(), "(RFC822)")[1][0]
                assert isinstance(raw, tuple)
                found.append(email.message_from_bytes(raw[1], policy=email.policy.default))  # type: ignore[arg-type]
        return found  # type: ignore[return-value]

    async def until(self, seen: Callable[[list[EmailMessage]], object], seconds: float = 120.0) -> list[EmailMessage]:
        """Look into Ann's mailbox until something is so."""
        async with asyncio.timeout(seconds):
            while not seen(mails := await asyncio.to_thread(self.mails)):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
        return mails


@contextlib.asynccontextmanager
async def ends() -> AsyncIterator[Ends]:
    folder = Path(mkdtemp(prefix="hermes-ends-"))
    folder.chmod(0o755)  # the mailboxes belong to another user
    imap, smtp, lmtp = free_port(), free_port(), free_port()
    try:
        async with dovecot(folder, imap, lmtp) as reading, opensmtpd(folder, smtp, lmtp) as sending:
            yield Ends(reading, sending, imap, smtp)
    finally:
        shutil.rmtree(folder)


def body(mail: EmailMessage) -> str:
    part = mail.get_body(("plain",))
    return part.get_content() if part is not None else ""


async def test_real_mail_servers() -> None:
    async with ScriptedServer([]) as server, ends() as end:
        account = {
            "address": "bot@localhost",
            "user": "bot",
            "password": "pw",
            "imap_host": "127.0.0.1",
            "imap_port": end.imap_port,
            "smtp_host": "127.0.0.1",
            "smtp_port": end.smtp_port,
            "authserv_id": AUTHSERV,
            "owners": ["ann@localhost"],
        }
        with TempHome.for_server(server.url, more_config={"platforms": {"email": account}}) as home:
            content = bytes(range(256)) * 200
            back = f"I have it. MEDIA:{home.hermes}/workspace/back.bin.zip"
            server.model = ScriptedModel([Say("**Yes**, tea."), Say(back), Say("Here again."), Say("Late.")])
            async with running(home) as it:
                began = time.monotonic()
                await asyncio.to_thread(end.write, "Is there tea?")
                mails = await end.until(lambda mails: len(mails) == 1)
                tell(f"pushed by IDLE, answered and delivered {time.monotonic() - began:.2f} s after it was sent")
                assert (mails[0]["Subject"], body(mails[0]).strip()) == ("Re: Tea", "Yes, tea.")
                assert "<strong>Yes</strong>" in mails[0].get_body(("html",)).get_content()  # type: ignore[union-attr]
                assert said(server, 0) == "Tea\n\nIs there tea?"

                (home.hermes / "workspace" / "back.bin.zip").write_bytes(content)
                first = str(mails[0]["Message-ID"])
                await asyncio.to_thread(
                    end.write, "Look at this.\n\nOn Monday, Hermes wrote:\n> Yes, tea.", content=content, answers=first
                )
                mails = await end.until(lambda mails: any(list(one.iter_attachments()) for one in mails))
                sent = [part for one in mails for part in one.iter_attachments()]
                assert [(one.get_filename(), one.get_content()) for one in sent] == [("back.bin.zip", content)]
                kept = list((home.hermes / "media").rglob("*in.bin"))
                assert [one.read_bytes() for one in kept] == [content]
                assert "> Yes" not in said(server, 1) and len(server.requests[1].body) > len(server.requests[0].body)
                tell(f"files of {len(content)} bytes went both ways whole, in one thread")

                await end.imap.kill()
                async with asyncio.timeout(120):
                    while not any("tried again" in line for line in it.lines):  # noqa: ASYNC110 - nothing tells
                        await asyncio.sleep(0.05)
                await end.imap.start()
                began = time.monotonic()
                await asyncio.to_thread(end.put, "Are you there?")
                async with asyncio.timeout(300):
                    while len(server.requests) < 3:  # noqa: ASYNC110 - the request is another task's
                        await asyncio.sleep(0.02)
                tell(f"dovecot was killed; a mail was read {time.monotonic() - began:.1f} s after its new start")

                # It does not come through: opensmtpd has lost its connection to the mailboxes, and waits a minute.
                await end.smtp.kill()
                await asyncio.to_thread(end.put, "Once more.")
                async with asyncio.timeout(120):
                    while len(server.requests) < 4:  # noqa: ASYNC110 - the request is another task's
                        await asyncio.sleep(0.02)
                began = time.monotonic()
                await end.smtp.start()
                await end.until(lambda mails: any("Late." in body(one) for one in mails), 90)
                tell(f"opensmtpd was killed; the answer came {time.monotonic() - began:.1f} s after its new start")
                mails = await end.until(lambda mails: any("Here again." in body(one) for one in mails), 90)
                # What was on its way when opensmtpd was killed comes with a mark, and with the id that it had.
                texts = {str(one["Message-ID"]): body(one).strip().removeprefix("↻ ") for one in mails}
                assert sorted(texts.values()) == ["", "Here again.", "I have it.", "Late.", "Yes, tea."]
                assert len(server.requests) == 4
