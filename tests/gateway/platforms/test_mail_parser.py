"""Mails as they come: senders, what vouches for them, texts in all their shapes, what is quoted."""

from email.message import EmailMessage

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.core.chats import MediaKind
from hermes.gateway.platforms.email.mail import (
    MailDraft,
    MailError,
    encode_mail,
    is_own_message_id,
    is_sender_verified,
    own_message_id,
    parse_from_address,
    parse_mail,
    read_mail_file,
    reply_subject,
    split_quote,
    strip_reply_prefix,
)

AUTH = "mx.here.test"


def mail(head: str = "", body: str = "hello", **more: str) -> bytes:
    given = {"From": "Ann <ann@people.test>", "Message-ID": "<m1@people.test>", **more}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value]
    return "\r\n".join([*lines, *([head] if head else []), "", body, ""]).encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("ann@people.test", "ann@people.test"),
        ("Ann <Ann@People.test>", "ann@people.test"),
        ('"Boss, the <boss@own.test>" <ann@people.test>', "ann@people.test"),
        ("boss@own.test (really) <ann@people.test>", "ann@people.test"),
        ("ann@people.test (boss@own.test)", "ann@people.test"),
        ("=?utf-8?q?boss=40own=2Etest?= <ann@people.test>", "ann@people.test"),
        ("root@localhost", "root@localhost"),
    ],
)
def test_a_sender_is_an_address_and_not_a_name(given: str, address: str) -> None:
    assert parse_from_address(given) == address


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Ann",
        "ann@people.test, boss@own.test",
        "Ann <ann@people.test>, Boss <boss@own.test>",
        "boss@own.test, <ann@people.test>",
        "<ann@people.test> boss@own.test",
        "<ann@people.test><boss@own.test>",
        "<boss@own.test <ann@people.test>>",
        "team: ann@people.test;",
        "ann@people.test\r\nBcc: x@y.test",
        "ann@@people.test",
        "ann@people.test@own.test",
        '"ann@people.test',
        "boss@own.test)ann@people.test",
        "аnn@people.test",
        "ann@рeople.test",
    ],
)
def test_several_senders_or_none_are_refused(given: str) -> None:
    with pytest.raises(MailError):
        parse_from_address(given)


@pytest.mark.parametrize(
    ("result", "passes"),
    [
        ("mx.here.test; dmarc=pass header.from=people.test", True),
        ("MX.here.test 1; dmarc=pass (p=NONE) header.from=People.test", True),
        ("mx.here.test; dkim=pass header.d=people.test header.s=k", True),
        ("mx.here.test; dkim=pass (2048-bit key) header.i=@people.test", True),
        ("mx.here.test; spf=pass (mx: ok) smtp.mailfrom=bounce@people.test", True),
        ("mx.here.test; dkim=fail header.d=people.test; spf = pass smtp.mailfrom = ann@people.test", True),
        ("mx.here.test; none", False),
        ("mx.here.test; dkim=pass header.d=evil.test; spf=pass smtp.mailfrom=x@evil.test", False),
        ("mx.here.test; dmarc=pass header.from=evil.test", False),
        ("mx.here.test; dmarc=pass", False),
        ("mx.here.test; dkim=pass header.d=test", False),
        ("mx.here.test; dkim=pass header.d=sub.people.test", False),
        ("mx.here.test; dkim=pass header.d=lepeople.test", False),
        ("mx.here.test; dmarc=fail header.from=people.test; dkim=pass header.d=people.test", False),
        ("mx.evil.test; dmarc=pass header.from=people.test", False),
        ("mx.here.test.evil.test; dmarc=pass header.from=people.test", False),
        ("mx.here.test; spf=fail (dmarc=pass header.from=people.test)", False),
        ("mx.here.test; spf=fail (; dmarc=pass header.from=people.test)", False),
        ('mx.here.test; spf=fail smtp.mailfrom="; dmarc=pass header.from=people.test"@evil.test', False),
        ('mx.here.test; spf=pass smtp.mailfrom="a@people.test dkim=pass header.d=people.test"@evil.test', False),
        ("mx.here.test; spf=fail (open; dmarc=pass header.from=people.test", False),
        ("mx.here.test; spf=fail ); dmarc=pass header.from=people.test", False),
        ("mx.here.test; dkim=pass header.d=evil.test x.header.d=people.test", False),
        ("mx.here.test; dkim=pass header.d=evil.test header.d=people.test", False),
        ("mx.here.test; dkim=pass header.d=people.test header.d=evil.test", False),
        ("mx.here.test; dkim=pass header.d=evil.test header.i=x header.s=header.d=people.test", False),
        ("mx.here.test; dkim=pass header.s=k,header.d=people.test", False),
        ("mx.here.test; dkim=pass header.d=evil(c)people.test", False),
        ("mx.here.test; spf=pass smtp.mailfrom=x@evil.test xsmtp.mailfrom=a smtp.mailfrom=a@people.test", False),
        ("mx.here.test; dmarc=pass header.from=evil.test header.from=people.test", False),
        ("mx.here.test; junk dmarc=pass header.from=people.test", False),
        ('mx.here.test; dkim/1 = pass reason="good; header.d=evil.test" header.d=people.test header.b=Ab/+c=', True),
        ("mx.here.test; dmarc=pass action=none header.from=people.test;compauth=pass reason=100", True),
        ("(mx.here.test) mx.evil.test; dmarc=pass header.from=people.test", False),
        ("", False),
    ],
)
def test_only_our_own_server_vouches(result: str, passes: bool) -> None:
    assert is_sender_verified([result], AUTH, "ann@people.test") is passes
    assert not is_sender_verified([result], "", "ann@people.test")
    assert is_sender_verified([result, f"{AUTH}; dmarc=pass header.from=people.test"], AUTH, "ann@people.test") in (
        passes,
        True,
    )


def test_a_header_below_our_servers_does_not_count() -> None:
    own, forged = f"{AUTH}; dmarc=none", f"{AUTH}; dmarc=pass header.from=people.test"
    assert not is_sender_verified([own, forged], AUTH, "ann@people.test")
    assert is_sender_verified(["mx.other.test; none", forged], AUTH, "ann@people.test")
    assert is_sender_verified([f"{AUTH};\r\n\tdkim=pass\r\n\theader.d=people.test"], AUTH, "ann@people.test")


@pytest.mark.parametrize(
    "head",
    [
        "Auto-Submitted: auto-replied",
        "Auto-Submitted: auto-generated (vacation)",
        "Precedence: bulk",
        "List-Id: <a.b>",
        "List-Unsubscribe: <mailto:x@y>",
        "Return-Path: <>",
        "X-Autoreply: yes",
        "Content-Type: multipart/report; report-type=delivery-status; boundary=b",
    ],
)
def test_programs_are_not_answered(head: str) -> None:
    assert parse_mail(mail(head), AUTH).automatic_reason
    assert not parse_mail(mail("Auto-Submitted: no"), AUTH).automatic_reason


@pytest.mark.parametrize("sender", ["MAILER-DAEMON@x.test", "no-reply@x.test", "noreply+a@x.test", "postmaster@x.test"])
def test_addresses_of_programs_are_not_answered(sender: str) -> None:
    assert parse_mail(mail(From=sender), AUTH).automatic_reason


@pytest.mark.parametrize(
    ("head", "body", "text"),
    [
        (
            "Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable",
            "caf=E9",
            "café",
        ),
        ("Content-Type: text/plain; charset=gb18030\r\nContent-Transfer-Encoding: base64", "xOO6ww==", "你好"),
        ("Content-Type: text/plain; charset=nobody-knows", "plain", "plain"),
        ("Content-Type: text/plain; charset=punycode", "plain-", "plain-"),
        ("Content-Type: text/plain; charset=unicode_escape", "\\u0041", "\\u0041"),
        ('Content-Type: text/plain; charset="utf-8', "plain", "plain"),
        ("Content-Type: nonsense", "plain", "plain"),
        ("Content-Transfer-Encoding: base64", "!!!", ""),
        ("Content-Type: text/plain; charset=utf-8", "\udcff\udcfe", "\ufffd\ufffd"),
        ("", "a\0b", "ab"),
    ],
)
def test_texts_in_every_character_set(head: str, body: str, text: str) -> None:
    assert parse_mail(mail(head, body), AUTH).text == text


def test_parts() -> None:
    made = EmailMessage()
    made["From"], made["Subject"] = "Ann <ann@people.test>", "Grüße\u202e"
    made.set_content("the text")
    made.add_alternative("<p>the text</p>", subtype="html")
    made.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="../../etc/pass wd.png")
    made.add_attachment(
        b"x" * 10, maintype="application", subtype="pdf", filename="Prüfung\r\n.pdf".replace("\r\n", " ")
    )
    raw = made.as_bytes()
    letter = parse_mail(raw, AUTH)
    assert (letter.text, letter.html, letter.subject) == ("the text", "", "Grüße")
    assert [(one.name, one.kind, one.size) for one in letter.files] == [
        ("pass wd.png", MediaKind.IMAGE, 4),
        ("Prüfung .pdf", MediaKind.DOCUMENT, 10),
    ]
    assert [read_mail_file(raw, one.index) for one in letter.files] == [b"\x89PNG", b"x" * 10]
    for wrong in (0, 99):
        with pytest.raises(MailError):
            read_mail_file(raw, wrong)
    only = EmailMessage()
    only["From"] = "ann@people.test"
    only.set_content("<p>Hi <b>there</b></p>", subtype="html")
    assert "there" in parse_mail(only.as_bytes(), AUTH).html


@pytest.mark.parametrize(
    ("text", "own", "quoted"),
    [
        ("Yes.\n\nOn Mon, 2 Nov 2026 at 10:00, Hermes <h@x> wrote:\n> Tea?\n> Or not?", "Yes.", "Tea?\nOr not?"),
        ("Yes.\n\nOn Mon, 2 Nov 2026 at 10:00, Hermes\n<h@x> wrote:\n\n> Tea?", "Yes.", "Tea?"),
        ("Ja.\n\nAm 02.11.26 um 10:00 schrieb Hermes:\n> Tee?", "Ja.", "Tee?"),
        ("好的。\n\n在 2026年11月2日,Hermes 写道:\n> 茶?", "好的。", "茶?"),
        ("Yes.\n\n-----Original Message-----\nFrom: Hermes\nTea?", "Yes.", "Tea?"),
        ("Yes.\n________________________________\nFrom: Hermes <h@x>\nSent: Monday\n\nTea?", "Yes.", "Tea?"),
        ("Yes.\n\nFrom: Hermes <h@x>\nDate: Monday\nTo: Ann\n\nTea?", "Yes.", "Tea?"),
        ("Look.\n\n---------- Forwarded message ---------\nFrom: Eve\nDo evil.", "Look.", "Do evil."),
        ("---------- Forwarded message ---------\nFrom: Eve\nDo evil.", "", "Do evil."),
        ("> Tea?\nYes.\n> Milk?\nNo.", "> Tea?\nYes.\n> Milk?\nNo.", ""),
        ("Yes.\n\n-- \nAnn\nHead of tea", "Yes.", ""),
        ("Yes.\n\nSent from my iPhone", "Yes.", ""),
        ("On time we wrote:\nnothing", "", "nothing"),
        ("From: here to there", "From: here to there", ""),
        ("", "", ""),
    ],
)
def test_what_was_written_before_is_cut(text: str, own: str, quoted: str) -> None:
    words, before = split_quote(text)
    assert words == own
    assert before.endswith(quoted) if quoted else not before


def test_subjects_and_ids() -> None:
    assert reply_subject("Tea") == reply_subject("Re: RE: Aw: Fwd: 回复:Tea") == "Re: Tea"
    assert strip_reply_prefix("Regarding tea") == "Regarding tea"
    assert own_message_id("k", "h@x.test") == own_message_id("k", "h@x.test") != own_message_id("l", "h@x.test")
    assert own_message_id("", "h@x.test") != own_message_id("", "h@x.test")
    assert is_own_message_id(own_message_id("k", "h@x.test"), "h@x.test") and not is_own_message_id(
        "a@x.test", "h@x.test"
    )


@settings(max_examples=25)
@given(st.text(max_size=200), st.text(max_size=60), st.text(max_size=300))
def test_nothing_that_is_written_ends_a_header(subject: str, name: str, text: str) -> None:
    draft = MailDraft(
        sender="h@x.test", name=name, recipient="ann@people.test", subject=subject, text=text, message_id="a@x.test",
        thread="r@people.test", in_reply_to="b@people.test", file_name=name, content=b"x", at=1.0,
    )  # fmt: skip
    raw = encode_mail(draft)
    head = raw.partition(b"\r\n\r\n")[0]
    names = [line.partition(b":")[0] for line in head.split(b"\r\n") if line[:1] not in (b" ", b"\t")]
    expected = [b"From", b"To", b"Subject", b"Date", b"Message-ID", b"Auto-Submitted", b"In-Reply-To", b"References"]
    assert names == [*expected, b"MIME-Version", b"Content-Type"]
    assert raw.isascii() and all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert b"\n" not in raw.replace(b"\r\n", b"") and b"\r" not in raw.replace(b"\r\n", b"")


@given(st.binary(max_size=400))
def test_whatever_comes_is_read_or_refused(noise: bytes) -> None:
    for raw in (
        noise,
        b"From: ann@people.test\r\n" + noise,
        b"From: a@b\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n" + noise,
    ):
        try:
            letter = parse_mail(raw, AUTH)
        except MailError:
            continue
        letter.text.encode()
        letter.subject.encode()
        for one in letter.files:
            assert "/" not in one.name and isinstance(read_mail_file(raw, one.index), bytes)
