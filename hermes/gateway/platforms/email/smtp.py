"""An SMTP client that hands one mail to a server (RFC 5321, submission of RFC 6409)."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.gateway.http.client import describe_error
from hermes.gateway.platform import PlatformError, SendError, SendFault
from hermes.gateway.platforms.email.connection import ConnectionLostError, MailConnection, MailServer
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    import ssl

SESSION_SECONDS = 60.0
ACCEPT_SECONDS = 100.0
"""How long the server may take to confirm that it has the mail."""
_ENHANCED_CODE = re.compile(r"([245])\.(\d{1,3})\.(\d{1,3})\b")
_RETRY_DELAY = re.compile(r"\b(\d{1,6}) ?(s|secs?|seconds?|m|mins?|minutes?)\b", re.IGNORECASE)
_RATE_LIMIT_WORDS = re.compile(r"rate|too (?:many|much|fast)|throttl|greylist|graylist|try again in", re.IGNORECASE)


class SmtpEnvelope(Struct, frozen=True):
    """The sender, the recipient and the content of a mail."""

    sender: str
    recipient: str
    content: bytes
    """The mail, with CR LF at the end of each line."""


class SmtpLogin(Struct, frozen=True):
    """The credentials for a server."""

    user: str
    password: str


class SmtpReply(Struct, frozen=True):
    """A server's reply."""

    code: int
    text: str


async def deliver_mail(
    server: MailServer, login: SmtpLogin, envelope: SmtpEnvelope, context: "Callable[[], ssl.SSLContext]"
) -> None:
    """Deliver a mail. Raises `SendError`: with `uncertain` only if the server had all of it and did not reply."""
    connection = MailConnection(server, context)
    fully_sent = False
    try:
        async with asyncio.timeout(SESSION_SECONDS):
            await connection.open()
            await _open_session(connection, login)
            await _run_command(connection, f"MAIL FROM:<{envelope.sender}>", 250)
            await _run_command(connection, f"RCPT TO:<{envelope.recipient}>", 250, 251)
            await _run_command(connection, "DATA", 354)
        async with asyncio.timeout(ACCEPT_SECONDS):
            body = _stuff_dots(envelope.content)
            await connection.write(body[:-1])
            fully_sent = True  # with the last byte the server may have all of it
            await connection.write(body[-1:])
            _check_reply(await _read_reply(connection), 250)
    except SendError:
        raise
    except TimeoutError:
        said = N_("{host} does not answer.", host=server.host)
        raise SendError(SendFault.TRANSIENT, said, uncertain=fully_sent) from None
    except ConnectionLostError as error:
        raise SendError(SendFault.TRANSIENT, str(error), uncertain=fully_sent) from error
    except PlatformError as error:
        raise SendError(SendFault.UNKNOWN, str(error)) from error
    finally:
        await connection.close()


async def _open_session(connection: MailConnection, login: SmtpLogin) -> None:
    _check_reply(await _read_reply(connection), 220)
    abilities = await _send_ehlo(connection)
    if not connection.is_encrypted:
        if "STARTTLS" in abilities:
            await _run_command(connection, "STARTTLS", 220)
            await connection.start_tls()
            abilities = await _send_ehlo(connection)
        else:
            connection.check_plaintext_allowed()
    methods = abilities.get("AUTH", "").upper().split()
    if not login.password or not methods:
        return  # a server on this machine, which knows us by that
    user, password = login.user.encode(), login.password.encode()
    if "PLAIN" in methods or "LOGIN" not in methods:
        await _run_command(connection, "AUTH PLAIN " + b64encode(b"\0" + user + b"\0" + password).decode(), 235)
    else:
        await _run_command(connection, "AUTH LOGIN", 334)
        await _run_command(connection, b64encode(user).decode(), 334)
        await _run_command(connection, b64encode(password).decode(), 235)


async def _send_ehlo(connection: MailConnection) -> dict[str, str]:
    """Send EHLO and return the server's extensions."""
    await connection.write(b"EHLO [127.0.0.1]\r\n")
    reply = await _read_reply(connection)
    _check_reply(reply, 250)
    abilities: dict[str, str] = {}
    for one in reply.text.split("\n")[1:]:
        name, _, more = one.replace("AUTH=", "AUTH ", 1).partition(" ")
        abilities[name.upper()] = more
    return abilities


async def _run_command(connection: MailConnection, command: str, *codes: int) -> None:
    await connection.write(command.encode("ascii", "replace") + b"\r\n")
    _check_reply(await _read_reply(connection), *codes)


async def _read_reply(connection: MailConnection) -> SmtpReply:
    found: list[str] = []
    for _ in range(100):
        raw = (await connection.read_line()).decode("utf-8", "replace")
        if not raw[:3].isdecimal():
            break
        found.append(raw[4:])
        if raw[3:4] != "-":
            return SmtpReply(int(raw[:3]), "\n".join(found))
    raise ConnectionLostError(N_("{host} does not speak SMTP.", host=connection.server.host))


def _check_reply(reply: SmtpReply, *codes: int) -> None:
    if reply.code in codes:
        return
    said = N_("The mail server said: {error}", error=describe_error(f"{reply.code} {reply.text}"))
    fault = _classify_reply(reply)
    raise SendError(
        fault, said, retry_after=_parse_retry_delay(reply.text) if fault is SendFault.RATE_LIMITED else None
    )


def _classify_reply(reply: SmtpReply) -> SendFault:
    """Return the fault that an error reply stands for (RFC 3463)."""
    enhanced = _ENHANCED_CODE.match(reply.text)
    subject, detail = (enhanced[2], enhanced[3]) if enhanced is not None else ("", "")
    if reply.code < 500:
        return SendFault.RATE_LIMITED if _RATE_LIMIT_WORDS.search(reply.text) else SendFault.TRANSIENT
    if reply.code in (530, 534, 535, 538):
        return SendFault.UNKNOWN  # our own password: it is tried for a while, somebody may correct it
    if reply.code == 552 or (subject, detail) in (("3", "4"), ("2", "3")):
        return SendFault.TOO_LONG
    by_subject = {"1": SendFault.NOT_FOUND, "6": SendFault.BAD_FORMAT, "7": SendFault.FORBIDDEN}
    if subject in by_subject:
        return by_subject[subject]
    return {550: SendFault.NOT_FOUND, 551: SendFault.NOT_FOUND, 553: SendFault.NOT_FOUND}.get(
        reply.code, SendFault.UNKNOWN
    )


def _parse_retry_delay(text: str) -> float | None:
    """Return the seconds after which the server wants another attempt, if it says so."""
    found = _RETRY_DELAY.search(text)
    if found is None:
        return None
    return float(found[1]) * (60.0 if found[2].lower().startswith("m") else 1.0)


def _stuff_dots(content: bytes) -> bytes:
    """Return the mail as DATA: a line that begins with a dot gets another one, and a lone dot ends it."""
    body = re.sub(rb"\r\n|\r|\n", b"\r\n", content)
    body = re.sub(rb"^\.", b"..", body, flags=re.MULTILINE)
    return body.removesuffix(b"\r\n") + b"\r\n.\r\n"
