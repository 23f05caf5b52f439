"""Google Vertex AI: its OpenAI-compatible address, with a token or a key file of a service account.

Source: Google Cloud, "Call Vertex AI models by using the OpenAI library" and "Using OAuth 2.0 for server to server
applications"; RFC 7523. A key file says where its tokens come from; only Google's own hosts are believed.
"""

import asyncio
import base64
import os
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError, TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpTimeouts, HttpTransport
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_
from hermes.providers.clouds.variables import read_label
from hermes.providers.records import is_valid_key
from hermes.providers.wire import UnsignedRequest
from hermes.util.hosts import is_loopback

_FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_PROJECT_VARIABLES = ("VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT_ID")
_LOCATION_VARIABLES = ("VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION")
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFETIME = 3600
_EARLY = 240.0
"""Seconds before a token's end from which another is asked for."""
_MAX_FILE = 64 * 1024
_MAX_ANSWER = 64 * 1024
_TIMEOUTS = HttpTimeouts(connect=10.0, read=20.0)


class ServiceAccount(KeyHolder, frozen=True):
    """A key file of Google Cloud. `key` is the private key."""

    type: str = ""
    client_email: str = ""
    key: str = msgspec.field(default="", name="private_key")
    private_key_id: str = ""
    project_id: str = ""
    token_uri: str = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address


class _TokenAnswer(Struct, frozen=True):
    access_token: str = ""
    expires_in: float = _LIFETIME
    error: object = ""
    error_description: object = ""


class VertexCloud:
    """The locations of Vertex AI."""

    def resolve_address(self, base_url: str, model: str, wire: str, environ: Mapping[str, str]) -> str:
        """Return the address that was named, else that of the project at its location."""
        del model
        if wire != "chat_completions":
            raise ConfigError(
                N_("Vertex is called in the format chat_completions here, not {wire}.", wire=wire),
                "Remove `model.api_mode`.",
            )
        if base_url:
            return base_url
        project = read_label(environ, _PROJECT_VARIABLES)
        if not project and (account := read_account(environ)) is not None:
            project = account.project_id
        if not project:
            raise ConfigError("Vertex needs a project.", "Set GOOGLE_CLOUD_PROJECT.")
        location = read_label(environ, _LOCATION_VARIABLES, "global")
        host = "aiplatform.googleapis.com" if location == "global" else f"{location}-aiplatform.googleapis.com"
        return f"https://{host}/v1/projects/{project}/locations/{location}/endpoints/openapi"

    def create_signer(self, base_url: str, environ: Mapping[str, str]) -> "VertexSigner":
        """Return what asks for tokens with the key file, if there is one."""
        del base_url
        return VertexSigner(read_account(environ))


class VertexSigner:
    """Sends a token that was given, else one that the service account gets, kept until shortly before its end."""

    def __init__(self, account: ServiceAccount | None, clock: Callable[[], float] = time.time) -> None:
        self.has_credentials = account is not None
        self._account = account
        self._clock = clock
        self._lock = asyncio.Lock()
        self._token = ""
        self._ends_at = 0.0

    async def sign_request(self, request: UnsignedRequest, key: str, transport: HttpTransport) -> dict[str, str]:
        """Return the fields with a token. Raises `TransportError` when there is none."""
        fields = {name: value for name, value in request.headers.items() if name != "authorization"}
        token = key or await self._get_token(transport)
        return fields | ({"authorization": f"Bearer {token}"} if token else {})

    def list_secrets(self) -> tuple[str, ...]:
        """Return the token that is used now."""
        return (self._token,) if self._token else ()

    async def _get_token(self, transport: HttpTransport) -> str:
        """Return a token that holds for a while; only one call asks for it, the others wait."""
        account = self._account
        if account is None:
            return ""
        async with self._lock:
            now = self._clock()
            if now < self._ends_at - _EARLY:
                return self._token
            try:
                answer = await request_token(account, transport, now)
            except TransportError:
                if now < self._ends_at:
                    return self._token
                raise
            self._token, self._ends_at = answer.access_token, now + answer.expires_in
            return self._token


def read_account(environ: Mapping[str, str]) -> ServiceAccount | None:
    """Return the key file that the environment names, or None. Raises ConfigError for one that cannot be used."""
    file = os.path.expanduser(environ.get(_FILE_VARIABLE, "").strip())
    if not file:
        return None
    try:
        with open(file, "rb") as source:
            account = msgspec.json.decode(source.read(_MAX_FILE), type=ServiceAccount)
    except OSError as error:
        raise ConfigError(
            N_("{file} cannot be read: {strerror}.", file=file, strerror=error.strerror),
            "Check GOOGLE_APPLICATION_CREDENTIALS.",
        ) from None
    except (msgspec.MsgspecError, RecursionError):
        account = ServiceAccount()
    if account.type != "service_account" or not account.client_email or not account.key:
        raise ConfigError(
            N_("{file} is not a key file of a service account.", file=file),
            "Check GOOGLE_APPLICATION_CREDENTIALS, or set VERTEX_ACCESS_TOKEN.",
        )
    _check_token_host(account, file)
    return account


def _check_token_host(account: ServiceAccount, file: str) -> None:
    """Refuse a key file whose tokens would come from somebody else, who could then use what is signed for them."""
    try:
        parts = urlsplit(account.token_uri)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    google = parts.scheme == "https" and host.endswith(".googleapis.com") and port in (None, 443) and not parts.username
    if not google and not (parts.scheme in ("http", "https") and is_loopback(host)):
        raise ConfigError(
            N_("{file} wants its tokens from {host}, which is not Google's.", file=file, host=repr(host[:100])),
            "Make a new key file at Google, and trust this one no further.",
        )


def sign_assertion(account: ServiceAccount, now: float) -> str:
    """Return the signed statement for which Google gives a token (RFC 7523, RS256).

    Raises `TransportError` without the package `cryptography`, and for a private key that is none.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding, rsa
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise TransportError(
            FailureKind.AUTH,
            "A service account needs the package `cryptography`.",
            "Install it: pip install 'hermes-anew[crypto]'. Or set VERTEX_ACCESS_TOKEN.",
        ) from None
    head = {"alg": "RS256", "typ": "JWT", "kid": account.private_key_id}
    claims = {
        "iss": account.client_email,
        "scope": _SCOPE,
        "aud": account.token_uri,
        "iat": int(now),
        "exp": int(now) + _LIFETIME,
    }
    signed = f"{_encode_part(to_json(head))}.{_encode_part(to_json(claims))}"
    try:
        key = load_pem_private_key(account.key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise TransportError(
            FailureKind.AUTH, "The key file holds no RSA key.", "Check GOOGLE_APPLICATION_CREDENTIALS.", lasting=True
        )
    return f"{signed}.{_encode_part(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _encode_part(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


async def request_token(account: ServiceAccount, transport: HttpTransport, now: float) -> _TokenAnswer:
    """Ask Google for a token. Raises `TransportError` that says why there is none, without what was sent."""
    form = urlencode({"grant_type": _GRANT, "assertion": sign_assertion(account, now)}).encode()
    fields = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    body = bytearray()
    async with transport.open("POST", account.token_uri, headers=fields, body=form, timeouts=_TIMEOUTS) as stream:
        async for chunk in stream.chunks():
            body += chunk
            if len(body) > _MAX_ANSWER:
                break
        status = stream.status
    return _read_answer(status, bytes(body), account.client_email)


def _read_answer(status: int, body: bytes, email: str) -> _TokenAnswer:
    """Return an answer that holds a token. Raises `TransportError` for any other."""
    try:
        answer = msgspec.json.decode(body, type=_TokenAnswer)
    except (msgspec.MsgspecError, RecursionError):
        answer = _TokenAnswer()
    if status == 200 and is_valid_key(answer.access_token) and answer.expires_in > 0:
        return answer
    refused = 400 <= status < 500 and status != 429
    why = f" {answer.error}" if isinstance(answer.error, str) and answer.error.isidentifier() else ""
    raise TransportError(
        FailureKind.AUTH if refused else FailureKind.SERVER_ERROR,
        N_("Google gave no token for {email} ({status}{why}).", email=email, status=status, why=why),
        "Check the service account, its key, and this machine's clock.",
    )


CLOUD = VertexCloud()
