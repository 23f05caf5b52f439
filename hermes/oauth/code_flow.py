"""The authorization code flow with PKCE: the address that the person opens, the answer, the exchange, the refresh."""

import base64
import contextlib
import hmac
from collections.abc import Mapping
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
from msgspec import structs

from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_
from hermes.oauth.client_registration import OAuthClient
from hermes.oauth.metadata import AuthorizationServer
from hermes.oauth.pkce import compute_challenge, create_state, create_verifier
from hermes.oauth.requests import (
    OAuthError,
    SendRequest,
    format_basic_credentials,
    is_header_token,
    parse_document,
    post_form,
    quote_remote_text,
)
from hermes.oauth.sign_in import SignIn, TokenDialect
from hermes.oauth.token_exchange import exchange_token, find_member

_MAX_LIFE = 10 * 365 * 86_400.0
_MAX_ACCOUNT = 200
_AGAIN = N_("Sign in again.")
_WHOLE_ADDRESS = N_("Copy the whole address from the browser, from http:// on.")


class CodeRequest(KeyHolder, frozen=True, kw_only=True):
    """One attempt to sign in. It holds the secrets of the attempt, and what its answer is held against."""

    server: AuthorizationServer
    client: OAuthClient
    redirect_uri: str
    scope: str
    resource: str
    state: str
    verifier: str
    fields: Mapping[str, str] = {}
    """Further fields of the address, by a vendor's own rules."""
    account_claim: tuple[str, ...] = ()
    """Where the vendor's id token names the account; see `SignIn`."""
    dialect: TokenDialect = TokenDialect()

    @property
    def url(self) -> str:
        """The address that the person opens."""
        fields = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": compute_challenge(self.verifier),
            "code_challenge_method": "S256",
            **({"scope": self.scope} if self.scope else {}),
            **({"resource": self.resource} if self.resource else {}),
            # OpenID Connect gives a refresh token for this scope only where the person is asked.
            **({"prompt": "consent"} if "offline_access" in self.scope.split() and not self.fields else {}),
            **self.fields,
        }
        endpoint = self.server.authorization_endpoint
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(fields)}"


class _TokenAnswer(KeyHolder, frozen=True):
    access_token: str = ""
    token_type: str = ""
    refresh_token: str = ""
    expires_in: float | str | None = None
    expired_in: float | str | None = None
    scope: str | None = None
    id_token: str | None = None


def begin_code_flow(
    server: AuthorizationServer, client: OAuthClient, *, redirect_uri: str, scope: str, resource: str
) -> CodeRequest:
    """Return a new attempt to sign in, with a state and a verifier of its own."""
    return CodeRequest(
        server=server,
        client=client,
        redirect_uri=redirect_uri,
        scope=scope,
        resource=resource,
        state=create_state(),
        verifier=create_verifier(),
    )


def read_code(request: CodeRequest, answered_url: str) -> str:
    """Return the code in the address to which the person's browser was sent back. Raises OAuthError.

    State and issuer are looked at first (RFC 9207): what another server says is neither used nor shown.
    """
    try:
        fields = parse_qs(urlsplit(answered_url.strip()).query, keep_blank_values=True)
    except ValueError:
        fields = {}
    if any(len(values) > 1 for values in fields.values()):
        raise OAuthError(N_("The answer of the sign-in names something twice."), _AGAIN)
    said = {name: values[0] for name, values in fields.items()}
    if not said.get("state"):
        raise OAuthError(N_("This is not the address that the sign-in has led to."), _WHOLE_ADDRESS)
    if not _is_same(said["state"], request.state):
        raise OAuthError(N_("The answer belongs to another sign-in: its state is a different one."), _AGAIN)
    _check_issuer(request.server, said.get("iss"))
    if said.get("error"):
        reason = quote_remote_text(": ".join(filter(None, (said["error"], said.get("error_description", "")))))
        raise OAuthError(N_("The sign-in was refused: {reason}.", reason=reason.rstrip(".")), code=said["error"][:80])
    if not said.get("code"):
        raise OAuthError(N_("The answer of the sign-in has no code."), _AGAIN)
    return said["code"]


def _check_issuer(server: AuthorizationServer, issuer: str | None) -> None:
    """Compare the issuer of an answer with that of the server that was asked, letter for letter."""
    if issuer is None and server.authorization_response_iss_parameter_supported:
        raise OAuthError(N_("The answer does not name the authorization server, which it has to."), _AGAIN)
    if issuer is not None and issuer != server.issuer:
        raise OAuthError(N_("The answer comes from another authorization server than was asked."), _AGAIN)


async def exchange_code(request: CodeRequest, code: str, send: SendRequest, now: float) -> SignIn:
    """Return the sign-in that a code stands for. Raises OAuthError."""
    sign_in = SignIn(
        issuer=request.server.issuer,
        token_endpoint=request.server.token_endpoint,
        client_id=request.client.client_id,
        client_secret=request.client.client_secret,
        auth_method=request.client.auth_method,
        scope=request.scope,
        resource=request.resource,
        account_claim=request.account_claim,
        dialect=request.dialect,
    )
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": request.redirect_uri,
        "code_verifier": request.verifier,
    }
    return await _request_tokens(sign_in, form, send, now)


async def refresh_tokens(sign_in: SignIn, send: SendRequest, now: float) -> SignIn:
    """Return the sign-in with new tokens; its refresh token is used up then, unless it is a lasting token that is
    exchanged. Raises OAuthError.

    Only for who holds the lock of the sign-in.
    """
    if sign_in.exchange is not None:
        return await exchange_token(sign_in, send, now)
    form, field = {"grant_type": "refresh_token"}, sign_in.dialect.refresh_header
    if not field:
        return await _request_tokens(sign_in, {**form, "refresh_token": sign_in.refresh_token}, send, now)
    return await _request_tokens(sign_in, form, send, now, {field: sign_in.refresh_token})


async def _request_tokens(
    sign_in: SignIn, form: Mapping[str, str], send: SendRequest, now: float, headers: Mapping[str, str] | None = None
) -> SignIn:
    fields = {**form, **({"resource": sign_in.resource} if sign_in.resource else {})}
    headers = dict(headers or {})
    if sign_in.auth_method == "client_secret_basic":
        headers["authorization"] = format_basic_credentials(sign_in.client_id, sign_in.client_secret)
    else:
        fields["client_id"] = sign_in.client_id
        if sign_in.auth_method == "client_secret_post":
            fields["client_secret"] = sign_in.client_secret
    answer = await post_form(send, sign_in.token_endpoint, fields, headers, secret=sign_in.refresh_token)
    return read_tokens(sign_in, answer.body, now)


def read_tokens(sign_in: SignIn, body: bytes, now: float) -> SignIn:
    """Return the sign-in with the tokens of a server's answer. Raises OAuthError for an answer without any."""
    found = parse_document(body, _TokenAnswer)
    types = ("bearer", "") if sign_in.dialect.untyped else ("bearer",)
    if found is None or not is_header_token(found.access_token) or found.token_type.lower() not in types:
        raise OAuthError(N_("{issuer} has given no token that can be used.", issuer=sign_in.issuer))
    account = read_claim(found.id_token or "", sign_in.account_claim)
    fresh = sign_in.use_tokens(found.access_token, found.refresh_token, _find_end(found, sign_in.dialect, now))
    return structs.replace(fresh, account=account) if account else fresh


def read_claim(id_token: str, path: tuple[str, ...]) -> str:
    """Return a text of an id token's claims; empty where there is none that can stand in a header field.

    The token comes over TLS from the server that made it, so its signature says nothing more (OpenID Connect Core,
    3.1.3.7).
    """
    if not path:
        return ""
    part = id_token.partition(".")[2].partition(".")[0]
    claims: object = None
    with contextlib.suppress(ValueError, msgspec.MsgspecError, RecursionError):
        claims = msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    found = find_member(claims, path)
    return found if isinstance(found, str) and len(found) <= _MAX_ACCOUNT and is_header_token(found) else ""


def _find_end(answer: _TokenAnswer, dialect: TokenDialect, now: float) -> float:
    """Return when a token ends; 0 where nobody says so in a way that makes sense."""
    said = answer.expired_in if dialect.milliseconds and answer.expired_in is not None else answer.expires_in
    try:
        number = float(said) if said is not None else 0.0
    except ValueError:
        return 0.0
    life = number / 1_000 - now if dialect.milliseconds and number > _MAX_LIFE else number
    return now + life if 0 < life <= _MAX_LIFE else 0.0


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
