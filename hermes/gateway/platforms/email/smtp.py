"""The part of SMTP that hands one mail to a server (RFC 5321, submission of RFC 6409)."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.gateway.http.errors import describe_error
from hermes.gateway.platform import PlatformError, SendError, SendFault
from hermes.gateway.platforms.email.connection import Line, LostError, Server
from hermes.i18n.messages import phrase

if TYPE_CHECKING:
    import ssl

SECONDS = 60.0
LAST_SECONDS = 100.0
"""How long the server may take to say that it has the mail."""
_ENHANCED = re.compile(r"([245])\.(\d{1,3})\.(\d{1,3})\b")
_LATER = re.compile(r"\b(\d{1,6}) ?(s|secs?|seconds?|m|mins?|minutes?)\b", re.IGNORECASE)
_OFTEN = re.compile(r"rate|too (?:many|much|fast)|throttl|greylist|graylist|try again in", re.IGNORECASE)


class Envelope(Struct, frozen=True):
    """Who sends what to whom."""

    sender: str
    recipient: str
    content: bytes
    """The mail, with CR LF at the end of each line."""


class Login(Struct, frozen=True):
    """With what to log in."""

    user: str
    password: str


class Reply(Struct, frozen=True):
    """What the server says."""

    code: int
    text: str


async def deliver(server: Server, login: Login, envelope: Envelope, context: "Callable[[], ssl.SSLContext]") -> None:
    """Hand a mail over. Raises `SendError`: with `uncertain` only when the server had all of it and did not answer."""
    line = Line(server, context)
    given = False
    try:
        async with asyncio.timeout(SECONDS):
            await line.open()
            await _enter(line, login)
            await _wanted(line, f"MAIL FROM:<{envelope.sender}>", 250)
            await _wanted(line, f"RCPT TO:<{envelope.recipient}>", 250, 251)
            await _wanted(line, "DATA", 354)
        async with asyncio.timeout(LAST_SECONDS):
            body = _stuffed(envelope.content)
            await line.write(body[:-1])
            given = True  # with the last byte the server may have all of it
            await line.write(body[-1:])
            _check(await _reply(line), 250)
    except SendError:
        raise
    except TimeoutError:
        said = phrase("{host} does not answer.", host=server.host)
        raise SendError(SendFault.TRANSIENT, said, uncertain=given) from None
    except LostError as error:
        raise SendError(SendFault.TRANSIENT, str(error), uncertain=given) from error
    except PlatformError as error:
        raise SendError(SendFault.UNKNOWN, str(error)) from error
    finally:
        await line.close()


async def _enter(line: Line, login: Login) -> None:
    _check(await _reply(line), 220)
    abilities = await _hello(line)
    if not line.secret:
        if "STARTTLS" in abilities:
            await _wanted(line, "STARTTLS", 220)
            await line.start_tls()
            abilities = await _hello(line)
        else:
            line.may_stay_open()
    ways = abilities.get("AUTH", "").upper().split()
    if not login.password or not ways:
        return  # a server on this machine, which knows us by that
    user, password = login.user.encode(), login.password.encode()
    if "PLAIN" in ways or "LOGIN" not in ways:
        await _wanted(line, "AUTH PLAIN " + b64encode(b"\0" + user + b"\0" + password).decode(), 235)
    else:
        await _wanted(line, "AUTH LOGIN", 334)
        await _wanted(line, b64encode(user).decode(), 334)
        await _wanted(line, b64encode(password).decode(), 235)


async def _hello(line: Line) -> dict[str, str]:
    """Greet; what the server can do."""
    await line.write(b"EHLO [127.0.0.1]\r\n")
    reply = await _reply(line)
    _check(reply, 250)
    abilities: dict[str, str] = {}
    for one in reply.text.split("\n")[1:]:
        name, _, more = one.replace("AUTH=", "AUTH ", 1).partition(" ")
        abilities[name.upper()] = more
    return abilities


async def _wanted(line: Line, command: str, *codes: int) -> None:
    await line.write(command.encode("ascii", "replace") + b"\r\n")
    _check(await _reply(line), *codes)


async def _reply(line: Line) -> Reply:
    found: list[str] = []
    for _ in range(100):
        raw = (await line.line()).decode("utf-8", "replace")
        if not raw[:3].isdecimal():
            break
        found.append(raw[4:])
        if raw[3:4] != "-":
            return Reply(int(raw[:3]), "\n".join(found))
    raise LostError(phrase("{host} does not speak SMTP.", host=line.server.host))


def _check(reply: Reply, *codes: int) -> None:
    if reply.code in codes:
        return
    said = phrase("The mail server said: {error}", error=describe_error(f"{reply.code} {reply.text}"))
    fault = _fault(reply)
    raise SendError(fault, said, retry_after=_later(reply.text) if fault is SendFault.RATE_LIMITED else None)


def _fault(reply: Reply) -> SendFault:
    """What an answer that is none means (RFC 3463)."""
    enhanced = _ENHANCED.match(reply.text)
    subject, detail = (enhanced[2], enhanced[3]) if enhanced is not None else ("", "")
    if reply.code < 500:
        return SendFault.RATE_LIMITED if _OFTEN.search(reply.text) else SendFault.TRANSIENT
    if reply.code in (530, 534, 535, 538):
        return SendFault.UNKNOWN  # our own password: it is tried for a while, somebody may mend it
    if reply.code == 552 or (subject, detail) in (("3", "4"), ("2", "3")):
        return SendFault.TOO_LONG
    by_subject = {"1": SendFault.NOT_FOUND, "6": SendFault.BAD_FORMAT, "7": SendFault.FORBIDDEN}
    if subject in by_subject:
        return by_subject[subject]
    return {550: SendFault.NOT_FOUND, 551: SendFault.NOT_FOUND, 553: SendFault.NOT_FOUND}.get(
        reply.code, SendFault.UNKNOWN
    )


def _later(text: str) -> float | None:
    """After how many seconds the server wants to be asked again, where it says so."""
    found = _LATER.search(text)
    if found is None:
        return None
    return float(found[1]) * (60.0 if found[2].lower().startswith("m") else 1.0)


def _stuffed(content: bytes) -> bytes:
    """The mail as DATA: a line that begins with a dot gets another one, and a lone dot ends it."""
    body = re.sub(rb"\r\n|\r|\n", b"\r\n", content)
    body = re.sub(rb"^\.", b"..", body, flags=re.MULTILINE)
    return body.removesuffix(b"\r\n") + b"\r\n.\r\n"
