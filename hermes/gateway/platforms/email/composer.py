"""Mails as they go out, and what is cut from those that come in."""

import hashlib
import mimetypes
import re
import secrets
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formataddr, formatdate

from msgspec import Struct

from hermes.gateway.text.dialect import to_plain_text
from hermes.gateway.text.html import to_html_page
from hermes.util.text import clean_surrogates, inert, one_line

_AGAIN = re.compile(r"^(?:(?:re|aw|sv|antw|fwd?|wg|回复|回覆|答复)\s*(?:\[\d+\])?\s*[::]\s*)+", re.IGNORECASE)
_OWN = re.compile(r"hermes\.[0-9a-f]{32}@")
_WROTE = re.compile(
    r"^(?:on|am|le|el|il|op|em|den|在|于)\b.{4,300}?"
    r"(?:wrote|schrieb[^:\n]{0,80}|a écrit|escribió|ha scritto|schreef[^:\n]{0,80}|escreveu|skrev)\s*[::]\s*$",
    re.IGNORECASE,
)
_WROTE_CN = re.compile(r"^.{0,200}(?:写道|寫道)\s*[::]\s*$")
_DIVIDER = re.compile(
    r"^\s*(?:-{2,}\s*(?:original message|forwarded message|ursprüngliche nachricht|weitergeleitete nachricht|"
    r"message d'origine|原始邮件|原始郵件|转发的邮件)\s*-{2,}|_{20,}|begin forwarded message:)\s*$",
    re.IGNORECASE,
)
_FROM = re.compile(r"^\*?(?:from|von|de|发件人|寄件者)\*?\s*[::].{3,}$", re.IGNORECASE)
_SENT = re.compile(r"^\*?(?:sent|date|gesendet|datum|envoyé|enviado|发送时间|日期)\*?\s*[::]", re.IGNORECASE)
_PHONE = re.compile(r"^(?:sent from my|get outlook for|von meinem|envoyé de mon|发自我的).{1,80}$", re.IGNORECASE)


class Draft(Struct, frozen=True, kw_only=True):
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
    answers: str = ""
    file_name: str = ""
    content: bytes | None = None
    at: float = 0.0


def own_id(key: str, address: str) -> str:
    """The id of the mail with this key; the same for every attempt."""
    mark = hashlib.sha256(f"{key}\0{address}".encode()).hexdigest()[:32] if key else secrets.token_hex(16)
    return f"hermes.{mark}@{address.rpartition('@')[2]}"


def is_own(message_id: str, address: str) -> bool:
    """Whether a mail with this id was written by us."""
    return bool(_OWN.match(message_id)) and message_id.endswith("@" + address.rpartition("@")[2])


def written(draft: Draft) -> bytes:
    """The mail as it goes over the wire, in lines of ASCII."""
    message = EmailMessage(policy=SMTP.clone(max_line_length=76, cte_type="7bit"))
    message["From"] = formataddr((_flat(draft.name), draft.sender))
    message["To"] = draft.recipient
    message["Subject"] = _flat(draft.subject)
    message["Date"] = formatdate(draft.at)
    message["Message-ID"] = f"<{draft.message_id}>"
    # Whoever answers by themselves does not answer this, and it is no answer that anybody asked a list for.
    message["Auto-Submitted"] = "auto-replied" if draft.answers else "auto-generated"
    if answered := draft.answers or draft.thread:
        message["In-Reply-To"] = f"<{answered}>"
        chain = [one for one in (draft.thread, answered) if one]
        message["References"] = " ".join(f"<{one}>" for one in dict.fromkeys(chain))
    text = clean_surrogates(draft.text)
    message.set_content(text if draft.plain else to_plain_text(text), cte="quoted-printable")
    if not draft.plain and text:
        message.add_alternative(to_html_page(text), subtype="html", cte="quoted-printable")
    if draft.content is not None:
        _attach(message, draft.file_name, draft.content)
    return message.as_bytes()


def _attach(message: EmailMessage, name: str, content: bytes) -> None:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    main, _, sub = kind.partition("/")
    if main in ("text", "message", "multipart"):
        main, sub = "application", "octet-stream"
    message.add_attachment(content, maintype=main, subtype=sub, filename=_flat(name))


def answer_subject(subject: str) -> str:
    """The subject of an answer."""
    return f"Re: {_AGAIN.sub('', subject).strip() or '...'}"


def bare_subject(subject: str) -> str:
    """A subject without what answers put before it."""
    return _AGAIN.sub("", subject).strip()


def without_quote(text: str) -> tuple[str, str]:
    """What somebody wrote, and what they quoted or handed on below it. Quotes between their own lines stay: they
    answer those."""
    lines = text.split("\n")
    end = next((number for number in range(len(lines)) if _begins_quote(lines, number)), len(lines))
    own, quoted = lines[:end], lines[end:]
    while own and (not own[-1].strip() or own[-1].lstrip().startswith(">")):
        quoted.insert(0, own.pop())
    words = "\n".join(_without_signature(own)).strip()
    return words, "\n".join(line.lstrip().lstrip(">").lstrip() for line in quoted).strip()


def _begins_quote(lines: list[str], number: int) -> bool:
    """Whether what was written before begins at this line."""
    line = lines[number].strip()[:400]
    if _DIVIDER.match(line):
        return True
    if _FROM.match(line):
        return any(_SENT.match(one.strip()) for one in lines[number + 1 : number + 4])
    return _announces(lines, number)


def _announces(lines: list[str], number: int) -> bool:
    """Whether a line says who wrote what follows."""
    line = lines[number].strip()[:400]
    following = lines[number + 1].strip()[:400] if number + 1 < len(lines) else ""
    if not any(_WROTE.match(one) or _WROTE_CN.match(one) for one in (line, f"{line} {following}")):
        return False
    # Between one's own lines such a line belongs to what is answered there.
    rest = [one for one in lines[number + 1 :] if one.strip() and one.strip() != following]
    own = [one for one in rest if not one.lstrip().startswith(">")]
    return len(own) == 0 or not any(one.lstrip().startswith(">") for one in rest)


def _without_signature(lines: list[str]) -> list[str]:
    for number, line in enumerate(lines):
        if line in ("-- ", "--") and number:
            return lines[:number]
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[: end - 1] if end > 1 and _PHONE.match(lines[end - 1].strip()) else lines


def _flat(text: str) -> str:
    """Text for a header: one line, nothing that ends it."""
    return one_line(inert(clean_surrogates(text).replace("\r", " ").replace("\n", " ")), 300)
