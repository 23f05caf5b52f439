"""Reads a mail, whatever it is: who it is from, what it says, what comes along."""

import codecs
import email
import email.message
import re
from email.errors import HeaderParseError
from email.header import decode_header
from email.utils import parsedate_to_datetime

from msgspec import Struct

from hermes.core.chats import MediaKind
from hermes.core.errors import HermesError
from hermes.gateway.platforms.email.authentication import vouched
from hermes.i18n.messages import N_
from hermes.util.text import clean_surrogates, strip_control_characters, to_one_line

TEXT_LIMIT = 1_000_000
"""Characters of text that are read of one mail."""
HEADER_LIMIT = 16_000
DEPTH = 20
"""How deep parts stand in parts."""
PARTS = 200
FILES = 20
_MULTIPARTS = re.compile(rb"^content-type[ \t]*:\s*multipart/", re.IGNORECASE | re.MULTILINE)
_ADDRESS = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII | re.IGNORECASE)
_ID = re.compile(r"<([\x21-\x3b\x3d\x3f-\x7e]{1,250})>")
_QUOTED_NAME = re.compile(r'"(?:[^"\\]|\\.)*"')
_COMMENT = re.compile(r"\([^()]*\)")
_NOT_TEXT = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"})
_MACHINES = re.compile(r"(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)(?:[+-].*)?@", re.IGNORECASE)


class MailError(HermesError):
    """A mail cannot be taken; the message says why."""


class Part(Struct, frozen=True):
    """A file that came along. `index` finds it again in the same mail."""

    index: int
    name: str
    media_type: str
    kind: MediaKind
    size: int


class Letter(Struct, frozen=True, kw_only=True):
    """What a mail says. Ids are without angle brackets."""

    sender: str
    """The address, in lower case."""
    name: str = ""
    verified: bool = False
    """Whether our own server vouches for the address."""
    machine: str = ""
    """Why no answer is due: it is from a program; empty where it is from a person."""
    message_id: str = ""
    answers: str = ""
    """The mail that it answers."""
    references: tuple[str, ...] = ()
    """The mails before it, the first one first."""
    subject: str = ""
    text: str = ""
    html: str = ""
    """Where there is no other text."""
    files: tuple[Part, ...] = ()
    more_files: int = 0
    at: float = 0.0


def read_letter(raw: bytes, authserv_id: str) -> Letter:
    """The mail in these bytes. Raises `MailError` for one that nobody can answer."""
    message = _parsed(raw)
    sender, name = _from(message)
    plain: list[str] = []
    html: list[str] = []
    files: list[Part] = []
    size = 0
    for index, part in enumerate(_parts(message)):
        if (kind := _file_kind(part)) is not None:
            files.append(_file(index, part, kind))
        elif size < TEXT_LIMIT:
            text = _text(part)[: TEXT_LIMIT - size]
            size += len(text)
            (html if part.get_content_type() == "text/html" else plain).append(text)
    references = _ids(message, "References")
    said = "\n".join(one.strip("\r\n") for one in plain).strip()
    return Letter(
        sender=sender,
        name=name,
        verified=vouched(_all(message, "Authentication-Results"), authserv_id, sender),
        machine=_machine(message, sender),
        message_id=next(iter(_ids(message, "Message-ID")), ""),
        answers=next(iter([*_ids(message, "In-Reply-To"), *references[::-1]]), ""),
        references=tuple(references or _ids(message, "In-Reply-To")[:1]),
        subject=to_one_line(strip_control_characters(_header(message, "Subject")), 300),
        text=said.replace("\r\n", "\n"),
        html="" if said else "\n".join(html),
        files=tuple(files[:FILES]),
        more_files=max(len(files) - FILES, 0),
        at=_date(message),
    )


def read_file(raw: bytes, index: int) -> bytes:
    """The content of a file in a mail. Raises `MailError`."""
    for number, part in enumerate(_parts(_parsed(raw))):
        if number == index and _file_kind(part) is not None:
            return _content(part)
    raise MailError(N_("the mail holds no such file"))


def address_of(text: str) -> str:
    """The one address in a `From`, in lower case. Raises `MailError` where there is none, or several.

    What stands beside it is a name, and names are anybody's choice.
    """
    rest = text
    for _ in range(10):
        shorter = _COMMENT.sub(" ", _QUOTED_NAME.sub(" ", rest))
        if shorter == rest:
            break
        rest = shorter
    if "<" in rest or ">" in rest:
        name, _, tail = rest.partition("<")
        address, closed, after = tail.partition(">")
        if not closed or after.strip() or set(name + address) & set(",;<>"):
            raise MailError(N_("it names several senders, or none"))
        rest = address
    if not _ADDRESS.fullmatch(rest.strip()):
        raise MailError(N_("it names several senders, or none"))
    return rest.strip().lower()


def is_address(text: str) -> bool:
    """Whether this is one address, and nothing else."""
    return _ADDRESS.fullmatch(text) is not None


# Headers.


def _parsed(raw: bytes) -> email.message.Message:
    if len(_MULTIPARTS.findall(raw)) > PARTS:
        raise MailError(N_("it has too many parts in parts"))
    try:
        return email.message_from_bytes(raw)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise MailError(N_("it is no mail that can be read ({kind})", kind=type(error).__name__)) from error


def _all(message: email.message.Message, name: str) -> list[str]:
    found = [str(one) for one in message.get_all(name, [])]
    return [re.sub(r"\r?\n(?=[ \t])", "", one)[:HEADER_LIMIT] for one in found]


def _header(message: email.message.Message, name: str) -> str:
    """A header's words, decoded."""
    return _decoded(next(iter(_all(message, name)), ""))


def _decoded(raw: str) -> str:
    try:
        pieces = decode_header(raw)
    except (HeaderParseError, ValueError, LookupError):
        return clean_surrogates(raw)
    found = [one if isinstance(one, str) else _words(one, charset or "utf-8") for one, charset in pieces]
    return clean_surrogates("".join(found))


def _words(raw: bytes, charset: str) -> str:
    """Text in any character set; what it does not hold becomes U+FFFD."""
    try:
        known = codecs.lookup(charset)
        if known.name.replace("-", "_") not in _NOT_TEXT:
            return raw.decode(known.name, "replace")
    except (LookupError, ValueError, TypeError):
        pass  # nobody knows this character set, or it is none
    return raw.decode("utf-8", "replace")


def _from(message: email.message.Message) -> tuple[str, str]:
    given = _all(message, "From")
    if len(given) != 1:
        raise MailError(N_("it names several senders, or none"))
    address = address_of(given[0])
    name = given[0].partition("<")[0] if "<" in given[0] else ""
    return address, to_one_line(strip_control_characters(_decoded(name.strip().strip('"'))), 80)


def _ids(message: email.message.Message, name: str) -> list[str]:
    return [one for raw in _all(message, name) for one in _ID.findall(raw)]


def _machine(message: email.message.Message, sender: str) -> str:
    """Why nobody waits for an answer to this mail (RFC 3834): two programs could go on for ever."""
    automatic = _header(message, "Auto-Submitted").strip().lower()
    if automatic and not automatic.startswith("no"):
        return "an automatic mail"
    if _header(message, "Precedence").strip().lower() in ("bulk", "list", "junk", "auto_reply"):
        return "a mail to many"
    if any(name in message for name in ("List-Id", "List-Unsubscribe", "List-Post", "X-Autoreply", "X-Autorespond")):
        return "a mail to many"
    if message.get_content_type() == "multipart/report" or str(message.get("Return-Path", "")).strip() == "<>":
        return "a report about a mail"
    return "a mail that wants no answer" if _MACHINES.match(sender) else ""


def _date(message: email.message.Message) -> float:
    try:
        return parsedate_to_datetime(_header(message, "Date")).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError, AttributeError, OSError):
        return 0.0


# Parts.


def _parts(message: email.message.Message) -> list[email.message.Message]:
    """The parts that hold something, in order. Of versions of the same text, the plain one where it says something."""
    found: list[email.message.Message] = []
    waiting = [(message, 0)]
    while waiting and len(found) < PARTS:
        part, depth = waiting.pop()
        inner = part.get_payload()
        if part.get_content_maintype() != "multipart" or not isinstance(inner, list):
            found.append(part)
            continue
        if depth == DEPTH:
            raise MailError(N_("it has too many parts in parts"))
        parts = [one for one in inner if isinstance(one, email.message.Message)]
        if part.get_content_subtype() == "alternative":
            parts = _best(parts)
        waiting += [(one, depth + 1) for one in reversed(parts)]
    return found


def _best(parts: list[email.message.Message]) -> list[email.message.Message]:
    plain = [one for one in parts if one.get_content_type() == "text/plain" and _text(one).strip()]
    if not plain:
        return parts
    # Calendars and the like stand beside the versions of the text.
    return [plain[0], *(one for one in parts if one.get_content_maintype() not in ("text", "multipart"))]


def _file_kind(part: email.message.Message) -> MediaKind | None:
    """What kind of file a part is; None for text that is part of the mail."""
    main = part.get_content_maintype()
    attached = str(part.get("Content-Disposition", "")).strip().lower().startswith("attachment")
    if part.get_content_type() in ("text/plain", "text/html") and not attached and not _name(part):
        return None
    return {"image": MediaKind.IMAGE, "audio": MediaKind.AUDIO, "video": MediaKind.VIDEO}.get(main, MediaKind.DOCUMENT)


def _file(index: int, part: email.message.Message, kind: MediaKind) -> Part:
    name = _name(part) or f"part{index}"
    return Part(index, name, part.get_content_type(), kind, len(_content(part)))


def _name(part: email.message.Message) -> str:
    """A file's own name, without any folder."""
    try:
        raw = part.get_filename() or ""
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    name = strip_control_characters(_decoded(raw[:HEADER_LIMIT])).replace("\\", "/").rpartition("/")[2]
    return to_one_line(name, 150).strip(". ")


def _content(part: email.message.Message) -> bytes:
    inner = part.get_payload()
    if isinstance(inner, list):  # a mail in a mail
        return b"\n".join(_flat(one) for one in inner if isinstance(one, email.message.Message))
    try:
        content = part.get_payload(decode=True)
    except (ValueError, LookupError, TypeError, AssertionError):
        content = None
    return content if isinstance(content, bytes) else str(inner).encode("utf-8", "surrogateescape")


def _flat(part: email.message.Message) -> bytes:
    try:
        return part.as_bytes()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return b""


def _text(part: email.message.Message) -> str:
    try:
        charset = part.get_content_charset("utf-8")
    except (ValueError, LookupError, TypeError, AttributeError):
        charset = "utf-8"
    return clean_surrogates(_words(_content(part), charset)).replace("\0", "")
