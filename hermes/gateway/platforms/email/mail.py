"""Mails: parsed, however broken they are, with the verification of their senders; and written.

Anybody can write any `From`. A server that receives mail checks signatures (DKIM), the sending machine (SPF) and the
domain owner's policy (DMARC), and writes the results at the top of the mail (RFC 8601): only our own server's count.
"""

import codecs
import email
import email.message
import hashlib
import mimetypes
import re
import secrets
from collections.abc import Sequence
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formataddr, formatdate, parsedate_to_datetime

from msgspec import Struct

from hermes.core.chats import MediaKind
from hermes.core.errors import HermesError
from hermes.gateway.text.dialect import to_html_page, to_plain_text
from hermes.i18n.messages import N_
from hermes.util.text import clean_surrogates, strip_control_characters, strip_terminal_controls, to_one_line

_METHOD = re.compile(r"([a-z][a-z0-9-]*)(?:/\d+)?=([a-z]+)")
_PROPERTY = re.compile(r"([a-z][a-z0-9-]*(?:\.[a-z0-9_-]+)?)=([^\s=]+=*)")
"""`ptype.property=value`, and a word without a type (`reason=...`): the value is a token, so it assigns nothing."""
_ASSIGNED = re.compile(r"\s*([=/])\s*")
_TOKEN = re.compile(r'\\.|"(?:[^"\\]|\\.)*"|[^()";\\]+|.', re.DOTALL)
_QUOTED = re.compile(r'[\s;="]')
TEXT_LIMIT = 1_000_000
"""Characters of text that are read of one mail."""
HEADER_LIMIT = 16_000
MAX_DEPTH = 20
"""Levels of nested parts."""
MAX_PARTS = 200
MAX_FILES = 20
_MULTIPARTS = re.compile(rb"^content-type[ \t]*:\s*multipart/", re.IGNORECASE | re.MULTILINE)
_ADDRESS = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII | re.IGNORECASE)
_MESSAGE_ID = re.compile(r"<([\x21-\x3b\x3d\x3f-\x7e]{1,250})>")
_QUOTED_NAME = re.compile(r'"(?:[^"\\]|\\.)*"')
_COMMENT = re.compile(r"\([^()]*\)")
_REFUSED_CODECS = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"})
_AUTOMATIC_SENDERS = re.compile(
    r"(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)(?:[+-].*)?@", re.IGNORECASE
)
_REPLY_PREFIX = re.compile(r"^(?:(?:re|aw|sv|antw|fwd?|wg|回复|回覆|答复)\s*(?:\[\d+\])?\s*[::]\s*)+", re.IGNORECASE)
_OWN_ID = re.compile(r"hermes\.[0-9a-f]{32}@")
_ATTRIBUTION = re.compile(
    r"^(?:on|am|le|el|il|op|em|den|在|于)\b.{4,300}?"
    r"(?:wrote|schrieb[^:\n]{0,80}|a écrit|escribió|ha scritto|schreef[^:\n]{0,80}|escreveu|skrev)\s*[::]\s*$",
    re.IGNORECASE,
)
_ATTRIBUTION_CN = re.compile(r"^.{0,200}(?:写道|寫道)\s*[::]\s*$")
_DIVIDER = re.compile(
    r"^\s*(?:-{2,}\s*(?:original message|forwarded message|ursprüngliche nachricht|weitergeleitete nachricht|"
    r"message d'origine|原始邮件|原始郵件|转发的邮件)\s*-{2,}|_{20,}|begin forwarded message:)\s*$",
    re.IGNORECASE,
)
_FROM_LINE = re.compile(r"^\*?(?:from|von|de|发件人|寄件者)\*?\s*[::].{3,}$", re.IGNORECASE)
_DATE_LINE = re.compile(r"^\*?(?:sent|date|gesendet|datum|envoyé|enviado|发送时间|日期)\*?\s*[::]", re.IGNORECASE)
_PHONE_SIGNATURE = re.compile(
    r"^(?:sent from my|get outlook for|von meinem|envoyé de mon|发自我的).{1,80}$", re.IGNORECASE
)


def is_sender_verified(results: Sequence[str], authserv_id: str, address: str) -> bool:
    """Return whether the server with this name has verified an address.

    Only its topmost header counts: a sender can put others below it.
    """
    domain = address.rpartition("@")[2].lower()
    for raw in results:
        pieces = _split_results(raw)
        if pieces is None:
            return False  # it may be our own server's, which a sender made unreadable so that another one counts
        if authserv_id and pieces[0].split()[:1] == [authserv_id.lower()]:
            return _has_passed(pieces[1:], domain)
    return False


def _has_passed(pieces: Sequence[str], domain: str) -> bool:
    passed = False
    for piece in pieces:
        words = piece.split()
        method = _METHOD.fullmatch(words[0]) if words else None
        if method is None:
            continue
        if method[1] == "dmarc" and method[2] == "fail":
            return False
        properties = _read_properties(words[1:])
        if method[2] == "pass" and properties is not None:
            passed = passed or _is_about_domain(method[1], properties, domain)
    return passed


def _read_properties(words: Sequence[str]) -> dict[str, str] | None:
    """Return the properties of one result (RFC 8601, section 2.2).

    None where a word is no property, or one is said twice: a part of it may be what the sender chose.
    """
    found: dict[str, str] = {}
    for word in words:
        match = _PROPERTY.fullmatch(word)
        if match is None or match[1] in found:
            return None
        found[match[1]] = match[2]
    return found


def _is_about_domain(method: str, properties: dict[str, str], domain: str) -> bool:
    """Return whether a passed check is about the sender's domain."""
    if method == "dmarc":
        return properties.get("header.from", "").rpartition("@")[2] == domain
    if method == "dkim":
        signer = properties.get("header.d") or properties.get("header.i", "").rpartition("@")[2]
        return _is_aligned(signer, domain)
    if method == "spf":
        return _is_aligned(properties.get("smtp.mailfrom", "").rpartition("@")[2], domain)
    return False


def _is_aligned(signer: str, domain: str) -> bool:
    """Return whether the signer is the domain or a parent of it. A subdomain may belong to somebody else."""
    return bool(signer) and (signer == domain or ("." in signer and domain.endswith("." + signer)))


def _split_results(raw: str) -> list[str] | None:
    """Split a header at semicolons, in lower case, without comments and without quoted special characters.

    None if it cannot be read.
    """
    found = [""]
    depth = 0
    for match in _TOKEN.finditer(raw):
        word = match[0]
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth < 0 or (depth == 0 and word == '"'):
            return None
        if depth or word == ")":
            found[-1] += " "
        elif word == ";":
            found.append("")
        else:
            found[-1] += _QUOTED.sub("", word) if word.startswith('"') else word
    return None if depth else [_ASSIGNED.sub(r"\1", " ".join(one.split())).lower() for one in found]


class MailError(HermesError):
    """A mail that cannot be accepted; the message says why."""


class MailFile(Struct, frozen=True):
    """A file in a mail. `index` finds it again in the same mail."""

    index: int
    name: str
    media_type: str
    kind: MediaKind
    size: int


class ParsedMail(Struct, frozen=True, kw_only=True):
    """A parsed mail. Ids are without angle brackets."""

    sender: str
    """The address, in lower case."""
    name: str = ""
    verified: bool = False
    """Whether our own server has verified the sender."""
    automatic_reason: str = ""
    """Why the mail needs no answer: a program sent it; empty if a person did."""
    message_id: str = ""
    in_reply_to: str = ""
    """The mail that this one answers."""
    references: tuple[str, ...] = ()
    """The earlier mails of the thread, the first one first."""
    subject: str = ""
    text: str = ""
    html: str = ""
    """The HTML text if there is no plain one."""
    files: tuple[MailFile, ...] = ()
    more_files: int = 0
    at: float = 0.0


def parse_mail(raw: bytes, authserv_id: str) -> ParsedMail:
    """Parse a mail. Raises `MailError` for one that cannot be answered."""
    message = _parse_message(raw)
    sender, name = _parse_sender(message)
    plain: list[str] = []
    html: list[str] = []
    files: list[MailFile] = []
    size = 0
    for index, part in enumerate(_list_parts(message)):
        if (kind := _file_kind(part)) is not None:
            files.append(_make_file(index, part, kind))
        elif size < TEXT_LIMIT:
            text = _part_text(part)[: TEXT_LIMIT - size]
            size += len(text)
            (html if part.get_content_type() == "text/html" else plain).append(text)
    references = _find_ids(message, "References")
    said = "\n".join(one.strip("\r\n") for one in plain).strip()
    return ParsedMail(
        sender=sender,
        name=name,
        verified=is_sender_verified(_header_values(message, "Authentication-Results"), authserv_id, sender),
        automatic_reason=_automatic_reason(message, sender),
        message_id=next(iter(_find_ids(message, "Message-ID")), ""),
        in_reply_to=next(iter([*_find_ids(message, "In-Reply-To"), *references[::-1]]), ""),
        references=tuple(references or _find_ids(message, "In-Reply-To")[:1]),
        subject=to_one_line(strip_terminal_controls(_header_text(message, "Subject")), 300),
        text=said.replace("\r\n", "\n"),
        html="" if said else "\n".join(html),
        files=tuple(files[:MAX_FILES]),
        more_files=max(len(files) - MAX_FILES, 0),
        at=_parse_date(message),
    )


def read_mail_file(raw: bytes, index: int) -> bytes:
    """Return the content of a file in a mail. Raises `MailError`."""
    for number, part in enumerate(_list_parts(_parse_message(raw))):
        if number == index and _file_kind(part) is not None:
            return _part_content(part)
    raise MailError(N_("the mail holds no such file"))


def parse_from_address(text: str) -> str:
    """Return the one address in a `From` header, in lower case. Raises `MailError` if there is none, or several.

    The name beside the address is not trusted: a sender can choose any.
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
    """Return whether the text is exactly one address."""
    return _ADDRESS.fullmatch(text) is not None


# Headers.


def _parse_message(raw: bytes) -> email.message.Message:
    if len(_MULTIPARTS.findall(raw)) > MAX_PARTS:
        raise MailError(N_("it has too many parts in parts"))
    try:
        return email.message_from_bytes(raw)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise MailError(N_("it is not a mail that can be read ({kind})", kind=type(error).__name__)) from error


def _header_values(message: email.message.Message, name: str) -> list[str]:
    found = [str(one) for one in message.get_all(name, [])]
    return [re.sub(r"\r?\n(?=[ \t])", "", one)[:HEADER_LIMIT] for one in found]


def _header_text(message: email.message.Message, name: str) -> str:
    """Return a header's decoded text."""
    return _decode_words(next(iter(_header_values(message, name)), ""))


def _decode_words(raw: str) -> str:
    try:
        pieces = decode_header(raw)
    except (HeaderParseError, ValueError, LookupError):
        return clean_surrogates(raw)
    found = [one if isinstance(one, str) else _decode_text(one, charset or "utf-8") for one, charset in pieces]
    return clean_surrogates("".join(found))


def _decode_text(raw: bytes, charset: str) -> str:
    """Decode text in any character set; bytes that are not in it become U+FFFD."""
    try:
        known = codecs.lookup(charset)
        if known.name.replace("-", "_") not in _REFUSED_CODECS:
            return raw.decode(known.name, "replace")
    except (LookupError, ValueError, TypeError):
        pass  # the character set is unknown, or none for text
    return raw.decode("utf-8", "replace")


def _parse_sender(message: email.message.Message) -> tuple[str, str]:
    given = _header_values(message, "From")
    if len(given) != 1:
        raise MailError(N_("it names several senders, or none"))
    address = parse_from_address(given[0])
    name = given[0].partition("<")[0] if "<" in given[0] else ""
    return address, to_one_line(strip_control_characters(_decode_words(name.strip().strip('"'))), 80)


def _find_ids(message: email.message.Message, name: str) -> list[str]:
    return [one for raw in _header_values(message, name) for one in _MESSAGE_ID.findall(raw)]


def _automatic_reason(message: email.message.Message, sender: str) -> str:
    """Return why a mail wants no answer (RFC 3834): two programs could answer each other for ever."""
    automatic = _header_text(message, "Auto-Submitted").strip().lower()
    if automatic and not automatic.startswith("no"):
        return "an automatic mail"
    if _header_text(message, "Precedence").strip().lower() in ("bulk", "list", "junk", "auto_reply"):
        return "a mail to many"
    if any(name in message for name in ("List-Id", "List-Unsubscribe", "List-Post", "X-Autoreply", "X-Autorespond")):
        return "a mail to many"
    if message.get_content_type() == "multipart/report" or str(message.get("Return-Path", "")).strip() == "<>":
        return "a report about a mail"
    return "a mail that wants no answer" if _AUTOMATIC_SENDERS.match(sender) else ""


def _parse_date(message: email.message.Message) -> float:
    try:
        return parsedate_to_datetime(_header_text(message, "Date")).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError, AttributeError, OSError):
        return 0.0


# Parts.


def _list_parts(message: email.message.Message) -> list[email.message.Message]:
    """Return the parts with content, in order. Of alternatives, the plain text is taken if it is not empty."""
    found: list[email.message.Message] = []
    waiting = [(message, 0)]
    while waiting and len(found) < MAX_PARTS:
        part, depth = waiting.pop()
        inner = part.get_payload()
        if part.get_content_maintype() != "multipart" or not isinstance(inner, list):
            found.append(part)
            continue
        if depth == MAX_DEPTH:
            raise MailError(N_("it has too many parts in parts"))
        parts = [one for one in inner if isinstance(one, email.message.Message)]
        if part.get_content_subtype() == "alternative":
            parts = _choose_alternative(parts)
        waiting += [(one, depth + 1) for one in reversed(parts)]
    return found


def _choose_alternative(parts: list[email.message.Message]) -> list[email.message.Message]:
    plain = [one for one in parts if one.get_content_type() == "text/plain" and _part_text(one).strip()]
    if not plain:
        return parts
    # Calendars and the like stand beside the versions of the text.
    return [plain[0], *(one for one in parts if one.get_content_maintype() not in ("text", "multipart"))]


def _file_kind(part: email.message.Message) -> MediaKind | None:
    """Return the kind of file that a part is; None for text that belongs to the mail."""
    main = part.get_content_maintype()
    attached = str(part.get("Content-Disposition", "")).strip().lower().startswith("attachment")
    if part.get_content_type() in ("text/plain", "text/html") and not attached and not _file_name(part):
        return None
    return {"image": MediaKind.IMAGE, "audio": MediaKind.AUDIO, "video": MediaKind.VIDEO}.get(main, MediaKind.DOCUMENT)


def _make_file(index: int, part: email.message.Message, kind: MediaKind) -> MailFile:
    name = _file_name(part) or f"part{index}"
    return MailFile(index, name, part.get_content_type(), kind, len(_part_content(part)))


def _file_name(part: email.message.Message) -> str:
    """Return a file's own name, without any folder."""
    try:
        raw = part.get_filename() or ""
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    name = strip_terminal_controls(_decode_words(raw[:HEADER_LIMIT])).replace("\\", "/").rpartition("/")[2]
    return to_one_line(name, 150).strip(". ")


def _part_content(part: email.message.Message) -> bytes:
    inner = part.get_payload()
    if isinstance(inner, list):  # a mail in a mail
        return b"\n".join(_message_bytes(one) for one in inner if isinstance(one, email.message.Message))
    try:
        content = part.get_payload(decode=True)
    except (ValueError, LookupError, TypeError, AssertionError):
        content = None
    return content if isinstance(content, bytes) else str(inner).encode("utf-8", "surrogateescape")


def _message_bytes(part: email.message.Message) -> bytes:
    try:
        return part.as_bytes()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return b""


def _part_text(part: email.message.Message) -> str:
    try:
        charset = part.get_content_charset("utf-8")
    except (ValueError, LookupError, TypeError, AttributeError):
        charset = "utf-8"
    return clean_surrogates(_decode_text(_part_content(part), charset)).replace("\0", "")


class MailDraft(Struct, frozen=True, kw_only=True):
    """A mail to be written. Ids are without angle brackets."""

    sender: str
    name: str = ""
    recipient: str
    subject: str
    text: str
    """In markdown."""
    plain: bool = False
    message_id: str
    thread: str = ""
    in_reply_to: str = ""
    file_name: str = ""
    content: bytes | None = None
    at: float = 0.0


def own_message_id(key: str, address: str) -> str:
    """Return the id of the mail with this key; it is the same for every attempt."""
    mark = hashlib.sha256(f"{key}\0{address}".encode()).hexdigest()[:32] if key else secrets.token_hex(16)
    return f"hermes.{mark}@{address.rpartition('@')[2]}"


def is_own_message_id(message_id: str, address: str) -> bool:
    """Return whether we wrote the mail with this id."""
    return bool(_OWN_ID.match(message_id)) and message_id.endswith("@" + address.rpartition("@")[2])


def encode_mail(draft: MailDraft) -> bytes:
    """Encode a mail as ASCII lines."""
    message = EmailMessage(policy=SMTP.clone(max_line_length=76, cte_type="7bit"))
    message["From"] = formataddr((_clean_header_text(draft.name), draft.sender))
    message["To"] = draft.recipient
    message["Subject"] = _clean_header_text(draft.subject)
    message["Date"] = formatdate(draft.at)
    message["Message-ID"] = f"<{draft.message_id}>"
    # Whoever answers by themselves does not answer this, and it is no answer that anybody asked a list for.
    message["Auto-Submitted"] = "auto-replied" if draft.in_reply_to else "auto-generated"
    if answered := draft.in_reply_to or draft.thread:
        message["In-Reply-To"] = f"<{answered}>"
        chain = [one for one in (draft.thread, answered) if one]
        message["References"] = " ".join(f"<{one}>" for one in dict.fromkeys(chain))
    text = clean_surrogates(draft.text)
    message.set_content(text if draft.plain else to_plain_text(text), cte="quoted-printable")
    if not draft.plain and text:
        message.add_alternative(to_html_page(text), subtype="html", cte="quoted-printable")
    if draft.content is not None:
        _attach_file(message, draft.file_name, draft.content)
    return message.as_bytes()


def _attach_file(message: EmailMessage, name: str, content: bytes) -> None:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    main, _, sub = kind.partition("/")
    if main in ("text", "message", "multipart"):
        main, sub = "application", "octet-stream"
    message.add_attachment(content, maintype=main, subtype=sub, filename=_clean_header_text(name))


def reply_subject(subject: str) -> str:
    """Return the subject of an answer."""
    return f"Re: {_REPLY_PREFIX.sub('', subject).strip() or '...'}"


def strip_reply_prefix(subject: str) -> str:
    """Return a subject without the prefixes of answers."""
    return _REPLY_PREFIX.sub("", subject).strip()


def split_quote(text: str) -> tuple[str, str]:
    """Split a mail's text into the sender's own text and what is quoted or forwarded below it.

    Quotes between the sender's own lines stay: those lines answer them.
    """
    lines = text.split("\n")
    end = next((number for number in range(len(lines)) if _is_quote_start(lines, number)), len(lines))
    own, quoted = lines[:end], lines[end:]
    while own and (not own[-1].strip() or own[-1].lstrip().startswith(">")):
        quoted.insert(0, own.pop())
    words = "\n".join(_strip_signature(own)).strip()
    return words, "\n".join(line.lstrip().lstrip(">").lstrip() for line in quoted).strip()


def _is_quote_start(lines: list[str], number: int) -> bool:
    """Return whether the quoted text begins at this line."""
    line = lines[number].strip()[:400]
    if _DIVIDER.match(line):
        return True
    if _FROM_LINE.match(line):
        return any(_DATE_LINE.match(one.strip()) for one in lines[number + 1 : number + 4])
    return _is_attribution(lines, number)


def _is_attribution(lines: list[str], number: int) -> bool:
    """Return whether a line names the author of the quote that follows."""
    line = lines[number].strip()[:400]
    following = lines[number + 1].strip()[:400] if number + 1 < len(lines) else ""
    if not any(_ATTRIBUTION.match(one) or _ATTRIBUTION_CN.match(one) for one in (line, f"{line} {following}")):
        return False
    # Between one's own lines such a line belongs to what is answered there.
    rest = [one for one in lines[number + 1 :] if one.strip() and one.strip() != following]
    own = [one for one in rest if not one.lstrip().startswith(">")]
    return len(own) == 0 or not any(one.lstrip().startswith(">") for one in rest)


def _strip_signature(lines: list[str]) -> list[str]:
    for number, line in enumerate(lines):
        if line in ("-- ", "--") and number:
            return lines[:number]
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[: end - 1] if end > 1 and _PHONE_SIGNATURE.match(lines[end - 1].strip()) else lines


def _clean_header_text(text: str) -> str:
    """Return text for a header: one line, without line ends."""
    return to_one_line(strip_terminal_controls(clean_surrogates(text).replace("\r", " ").replace("\n", " ")), 300)
