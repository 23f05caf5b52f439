"""Python's own imaplib and smtplib judge the fake mail servers: what they can do with real ones they do with ours."""

import asyncio
import imaplib
import smtplib
from collections.abc import Callable
from email.message import EmailMessage

import pytest

from hermes.testing.fake_platform import Failing
from tests.vendors.email import ME, Fake


async def judged(judge: Callable[[Fake], None], fake: Fake) -> None:
    """The judges block: each in a thread."""
    await asyncio.to_thread(judge, fake)


def reads(fake: Fake) -> None:
    with imaplib.IMAP4("127.0.0.1", fake.box.port) as imap:
        assert "IDLE" in imap.capabilities
        with pytest.raises(imaplib.IMAP4.error, match="AUTHENTICATIONFAILED"):
            imap.login(ME, "not it")
        assert imap.login(ME, fake.password)[0] == "OK"
        assert imap.select("INBOX") == ("OK", [b"2"])
        assert imap.response("UIDVALIDITY")[1] == [str(fake.box.validity).encode()]
        assert imap.response("UIDNEXT")[1] == [b"3"]
        assert imap.search(None, "ALL")[1] == [b"1 2"]
        assert imap.uid("SEARCH", "UID 2:*")[1] == [b"2"]
        assert imap.uid("SEARCH", "UID 9:*")[1] == [b"2"], "the last one answers to a star"
        size = imap.uid("FETCH", "2", "(RFC822.SIZE FLAGS)")[1][0]
        assert isinstance(size, bytes) and f"RFC822.SIZE {len(fake.box.mails[1].raw)}".encode() in size
        whole = imap.uid("FETCH", "2", "(BODY.PEEK[])")[1][0]
        assert isinstance(whole, tuple) and whole[1] == fake.box.mails[1].raw
        piece = imap.uid("FETCH", "2", "(BODY.PEEK[]<0.10>)")[1][0]
        assert isinstance(piece, tuple) and piece[1] == fake.box.mails[1].raw[:10]
        assert not fake.box.mails[1].flags
        seen = imap.fetch("2", "(RFC822)")[1][0]
        assert isinstance(seen, tuple) and fake.box.mails[1].flags == {"\\Seen"}
        assert imap.uid("STORE", "1", "+FLAGS", "(\\Answered)")[0] == "OK"
        assert fake.box.mails[0].flags == {"\\Answered"}
        assert imap.noop()[0] == "OK"


def authenticates(fake: Fake) -> None:
    with imaplib.IMAP4("127.0.0.1", fake.box.port) as imap:
        word = f"\0{ME}\0{fake.password}".encode()
        assert imap.authenticate("PLAIN", lambda _: word)[0] == "OK"


def sends(fake: Fake) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"], mail["Message-ID"] = ME, fake.person, "Tea", "<a@b>"
    mail.set_content("one\n.two\n")
    with smtplib.SMTP("127.0.0.1", fake.submission.port) as smtp:
        with pytest.raises(smtplib.SMTPSenderRefused):
            smtp.send_message(mail)
        smtp.login(ME, fake.password)
        smtp.send_message(mail)
        assert fake.text() == "one\n.two"
        fake.failing.append(Failing(429, 7))
        with pytest.raises(smtplib.SMTPDataError, match="7 seconds"):
            smtp.send_message(mail)
        fake.failing.append(Failing(drop=True))
        with pytest.raises(smtplib.SMTPServerDisconnected):
            smtp.send_message(mail)
    with smtplib.SMTP("127.0.0.1", fake.submission.port) as smtp:
        smtp.user, smtp.password = ME, fake.password
        smtp.ehlo()
        assert smtp.auth("LOGIN", smtp.auth_login)[0] == 235
    with smtplib.SMTP("127.0.0.1", fake.submission.port) as smtp, pytest.raises(smtplib.SMTPAuthenticationError):
        smtp.login(ME, "not it")


async def test_they_are_served() -> None:
    async with Fake() as fake:
        await fake.say("first")
        await fake.say("second")
        for judge in (reads, authenticates, sends):
            await judged(judge, fake)
