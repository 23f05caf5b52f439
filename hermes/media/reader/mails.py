"""Mails (.eml): the headers, the text, and a list of what is attached."""

import email.policy
from collections.abc import Iterator
from email import message_from_binary_file
from email.message import EmailMessage, Message
from typing import IO

from hermes.media.reader.document import Document
from hermes.media.reader.failures import DAMAGED, TOO_LARGE, UnreadableError
from hermes.media.reader.web_text import convert_page, decode_text

_SHOWN = ("From", "To", "Cc", "Reply-To", "Date", "Subject")
_MAX_PARTS = 500
_MAX_MARKS = 10_000
"""Lines that may begin a part; some begin with a signature."""
_MAX_DEPTH = 30
_MAX_HEADER = 2_000


def open_mail(file: IO[bytes]) -> Document:
    """Return a mail's text. Raises UnreadableError."""
    _count_parts(file)
    try:
        mail = message_from_binary_file(file, policy=email.policy.default)
    except (RecursionError, ValueError, LookupError, TypeError, AttributeError, IndexError) as error:
        raise UnreadableError(DAMAGED, str(error) or type(error).__name__) from None
    if not mail.keys():
        raise UnreadableError(DAMAGED, "it has no headers")
    return Document(kind="mail", read_unit=lambda _: _read_mail(mail), title=_get_header(mail, "Subject"))


def _count_parts(file: IO[bytes]) -> None:
    """Raise UnreadableError for a mail with so many parts that taking it apart would last."""
    count = 0
    while chunk := file.read(1 << 20):
        count += chunk.count(b"\n--")
        if count > _MAX_MARKS:
            raise UnreadableError(TOO_LARGE, f"{_MAX_MARKS:,} parts")
    file.seek(0)


def _get_header(mail: Message, name: str) -> str:
    """Return a header on one line; what is broken in it is left as it was sent."""
    try:
        value = str(mail[name] or "")
    except (ValueError, LookupError, TypeError, AttributeError, IndexError, RecursionError):
        value = next((str(found) for key, found in mail.raw_items() if key.lower() == name.lower()), "")
    return " ".join(value.split())[:_MAX_HEADER]


def _read_mail(mail: Message) -> Iterator[str]:
    for name in _SHOWN:
        value = _get_header(mail, name)
        if value:
            yield f"{name}: {value}"
    yield ""
    parts = list(_walk(mail, 0))
    if len(parts) > _MAX_PARTS:
        yield f"[only the first {_MAX_PARTS} of its parts are read]"
    bodies, attached = _sort_parts(parts[:_MAX_PARTS])
    for part in bodies:
        yield from _read_body(part)
        yield ""
    if attached:
        yield "Attachments:"
        yield from map(_describe_part, attached)


def _walk(part: Message, depth: int) -> Iterator[Message]:
    if depth > _MAX_DEPTH:
        raise UnreadableError(DAMAGED, f"its parts are nested more than {_MAX_DEPTH} deep")
    payload = part.get_payload()
    if part.get_content_maintype() == "multipart" and isinstance(payload, list):
        alternatives = part.get_content_subtype() == "alternative"
        below = [one for one in payload if isinstance(one, Message)]
        for one in _choose_alternative(below) if alternatives else below:
            yield from _walk(one, depth + 1)
    else:
        yield part


def _choose_alternative(parts: list[Message]) -> list[Message]:
    """Return the form of a text that is read: plain text, else the last one."""
    plain = [one for one in parts if one.get_content_type() == "text/plain"]
    return plain[:1] or parts[-1:]


def _sort_parts(parts: list[Message]) -> tuple[list[Message], list[Message]]:
    """Return the parts that are the mail's text, and those that are attached."""
    bodies = [
        one
        for one in parts
        if one.get_content_type() in ("text/plain", "text/html") and _read_disposition(one) != "attachment"
    ]
    return bodies, [one for one in parts if all(one is not body for body in bodies)]


def _read_disposition(part: Message) -> str:
    try:
        return part.get_content_disposition() or ""
    except (ValueError, LookupError, TypeError, AttributeError, IndexError):
        return ""


def _read_payload(part: Message) -> bytes:
    try:
        data = part.get_payload(decode=True)
    except (ValueError, LookupError, TypeError, AttributeError):
        return b""
    return data if isinstance(data, bytes) else b""


def _read_body(part: Message) -> Iterator[str]:
    charset = part.get_content_charset() or ""
    data = _read_payload(part)
    try:
        text = data.decode(charset) if charset else decode_text(data)
    except (LookupError, ValueError):
        text = decode_text(data, charset)
    if part.get_content_type() == "text/html":
        text = convert_page(text)[0]
    yield from text.rstrip().split("\n")


def _describe_part(part: Message) -> str:
    try:
        name = " ".join((part.get_filename() or "").split())[:200]
    except (ValueError, LookupError, TypeError, AttributeError, IndexError):
        name = ""
    if part.get_content_type() == "message/rfc822":
        inner = part.get_payload()
        mail = inner[0] if isinstance(inner, list) and inner and isinstance(inner[0], EmailMessage) else None
        name = name or (_get_header(mail, "Subject") if mail is not None else "")
        return f"- {name or 'a mail without a subject'} (a mail)"
    return f"- {name or 'without a name'} ({part.get_content_type()}, {len(_read_payload(part)):,} bytes)"
