"""Requests of a sign-in: JSON documents and forms of an authorization server, bounded and never redirected."""

import base64
import contextlib
import re
from collections.abc import Mapping
from typing import Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import HermesError
from hermes.i18n.messages import N_
from hermes.util.text import escape_confusable_characters, to_one_line

MAX_DOCUMENT_BYTES = 256 * 1024
"""The most bytes of a document or of an answer."""
_MAX_ERROR = 200
_SECRET_FIELDS = frozenset({"refresh_token", "code", "code_verifier", "client_secret", "device_code", "device_auth_id"})
"""Fields of requests that no error message repeats, whatever a server says."""
_MAX_ENDPOINT = 2_048
_URL = re.compile(r"[!#-;=?-\[\]_a-z~]+")
"""The characters of an address (RFC 3986): others mean something to whoever opens it in a browser."""
_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
DocumentT = TypeVar("DocumentT", bound=Struct)


class OAuthError(HermesError):
    """A sign-in did not succeed. `code` is the error code of the authorization server, empty where it gave none;
    `status` is that of its answer, 0 where there was none.
    """

    def __init__(self, message: str, hint: str = "", *, code: str = "", status: int = 0) -> None:
        super().__init__(message, hint)
        self.code = code
        self.status = status


class HttpAnswer(Struct, frozen=True):
    """An answer, read to its end; the names of header fields are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class SendRequest(Protocol):
    """Sends one request and reads the answer. Redirects are not followed."""

    async def __call__(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Return the answer. Raises `HermesError` when there is none, in time and within `MAX_DOCUMENT_BYTES`:
        `TransportError` where the server was not reached, or broke off.
        """
        ...


class _ErrorObject(Struct):
    code: str | None = None
    type: str | None = None
    message: str | None = None


class _ErrorDocument(Struct):
    """An error as RFC 6749 has it; some servers put an object in the place of the code."""

    error: str | _ErrorObject | None = None
    error_description: str | None = None
    message: object = None

    def read_error(self) -> tuple[str, str]:
        """Return the code and the description; empty where there are none."""
        if isinstance(self.error, _ErrorObject):
            return self.error.code or self.error.type or "", self.error.message or ""
        said = self.error_description or (self.message if isinstance(self.message, str) else "")
        return self.error or "", said


def check_endpoint(url: str, *, allows_loopback: bool) -> str:
    """Return the address of an endpoint if a secret may be sent there, or a browser opened at it. Raises OAuthError.

    It is https; plain http only on this machine, and only where the server that is signed in to is there, too.
    """
    if not _is_endpoint(url, allows_loopback=allows_loopback):
        raise OAuthError(
            N_("The sign-in names an address that is not used: {url}.", url=quote_remote_text(url)),
            N_("Endpoints of a sign-in are https addresses without a user in them."),
        )
    return url


def _is_endpoint(url: str, *, allows_loopback: bool) -> bool:
    try:
        parts = urlsplit(url)
        host, has_user = parts.hostname, parts.username is not None or parts.password is not None
    except ValueError:
        return False
    if not host or has_user or parts.fragment or len(url) > _MAX_ENDPOINT or not _URL.fullmatch(url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and allows_loopback and is_loopback_url(url))


def is_loopback_url(url: str) -> bool:
    """Return whether an address is on this machine."""
    try:
        return (urlsplit(url).hostname or "").lower() in _LOOPBACK_HOSTS
    except ValueError:
        return False


def is_header_token(text: str) -> bool:
    """Return whether a text can stand in a header field as a token."""
    return bool(text) and _is_plain_text(text) and " " not in text


def _is_plain_text(text: str) -> bool:
    return text.isascii() and text.isprintable()


async def fetch_document(
    send: SendRequest, url: str, kind: type[DocumentT], headers: Mapping[str, str] | None = None
) -> DocumentT | None:
    """Return the JSON document at an address, or None where there is none. Raises OAuthError for a server's failure."""
    answer = await send("GET", url, headers={"accept": "application/json", **(headers or {})}, body=b"")
    if answer.status >= 500 or answer.status == 429:
        raise OAuthError(N_("{url} answered with status {status}.", url=url, status=answer.status), N_("Try again."))
    if answer.status != 200:
        return None
    return parse_document(answer.body, kind)


def parse_document(body: bytes, kind: type[DocumentT]) -> DocumentT | None:
    """Return a JSON document, or None for something else."""
    with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        return msgspec.json.decode(body, type=kind)
    return None


async def post_form(
    send: SendRequest,
    url: str,
    form: Mapping[str, str],
    headers: Mapping[str, str] | None = None,
    *,
    secret: str = "",
) -> HttpAnswer:
    """Post a form. Raises OAuthError with the server's reason when it refuses, which repeats no secret of the form, and
    not this one either.
    """
    fields = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded", **(headers or {})}
    answer = await send("POST", url, headers=fields, body=urlencode(form).encode())
    return _require_success(answer, url, {**form, "refresh_token": secret} if secret else form)


async def get_with_token(send: SendRequest, url: str, token: str, headers: Mapping[str, str]) -> HttpAnswer:
    """Get a document as the owner of a token. Raises OAuthError with the server's reason when it refuses."""
    fields = {"accept": "application/json", **headers, "authorization": f"Bearer {token}"}
    return _require_success(await send("GET", url, headers=fields, body=b""), url, {"refresh_token": token})


async def post_json(send: SendRequest, url: str, value: Mapping[str, object]) -> HttpAnswer:
    """Post a JSON document. Raises OAuthError with the server's reason when it refuses."""
    fields = {"accept": "application/json", "content-type": "application/json"}
    return _require_success(await send("POST", url, headers=fields, body=to_json(value)), url, value)


def format_basic_credentials(client_id: str, client_secret: str) -> str:
    """Return the value of the field Authorization for a client with a secret (RFC 6749, section 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def quote_remote_text(text: str) -> str:
    """Return a text of a server for a message: short, on one line, everything in it visible."""
    return to_one_line(escape_confusable_characters(text), _MAX_ERROR)


def _require_success(answer: HttpAnswer, url: str, sent: Mapping[str, object]) -> HttpAnswer:
    """Return an answer that brings what was asked for. Some servers tell errors with status 200."""
    code, description = (parse_document(answer.body, _ErrorDocument) or _ErrorDocument()).read_error()
    if answer.status in (200, 201) and not code:
        return answer
    said = ": ".join(one for one in (code, description) if one)
    for name, value in sent.items():
        if name in _SECRET_FIELDS and value:
            said = said.replace(str(value), "[key]")
    said = quote_remote_text(said)
    where = urlsplit(url).netloc
    if not said:
        message = N_("{where} answered with status {status}.", where=where, status=answer.status)
    else:
        message = N_("{where} refused: {said}.", where=where, said=said.rstrip("."))
    raise OAuthError(message, code=code[:80], status=answer.status)
