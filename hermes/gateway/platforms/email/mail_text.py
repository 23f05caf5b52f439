"""Write outgoing mails, and strip quotes and signatures from incoming ones."""

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
from hermes.util.text import clean_surrogates, strip_control_characters, to_one_line

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
    message["From"] = formataddr((_header_text(draft.name), draft.sender))
    message["To"] = draft.recipient
    message["Subject"] = _header_text(draft.subject)
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
    message.add_attachment(content, maintype=main, subtype=sub, filename=_header_text(name))


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


def _header_text(text: str) -> str:
    """Return text for a header: one line, without line ends."""
    return to_one_line(strip_control_characters(clean_surrogates(text).replace("\r", " ").replace("\n", " ")), 300)
