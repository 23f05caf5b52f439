"""Device codes (RFC 8628): the person types a short code on any machine's browser, and this one asks until they have.

How a vendor deviates from the standard is a field of `DeviceEndpoints`.
"""

import asyncio
import contextlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec
from msgspec import Struct

from hermes.core.errors import HermesError
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_
from hermes.oauth.client_registration import OAuthClient
from hermes.oauth.code_flow import CodeRequest, exchange_code, read_tokens
from hermes.oauth.metadata import AuthorizationServer
from hermes.oauth.pkce import compute_challenge, create_state, create_verifier
from hermes.oauth.requests import (
    HttpAnswer,
    OAuthError,
    SendRequest,
    check_endpoint,
    is_loopback_url,
    parse_document,
    post_form,
    post_json,
    quote_remote_text,
)
from hermes.oauth.sign_in import SignIn, TokenDialect

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_INTERVAL = 5.0
"""Seconds between two questions where the server names none."""
_MIN_INTERVAL = 1.0
"""The shortest pause where a vendor names milliseconds."""
_SLOWER = 5.0
"""Seconds by which each `slow_down` lengthens the pause (RFC 8628, section 3.5)."""
_MAX_INTERVAL = 60.0
_MAX_SECONDS = 1_800.0
"""The longest that a code is waited for, whatever the server says."""
_USER_CODE = re.compile(r"[A-Za-z0-9._+-]{1,64}")
_AGAIN = N_("Sign in again.")
Pause = Callable[[float], Awaitable[None]]


class DeviceEndpoints(Struct, frozen=True, kw_only=True):
    """Where device codes are asked for, and how that differs from RFC 8628; the defaults are the standard's ways."""

    authorization_endpoint: str
    poll_endpoint: str = ""
    """Where the answer is asked for; empty: at the token endpoint."""
    page: str = ""
    """The page that the person opens, where the answer names none."""
    sends_json: bool = False
    """Whether both requests are JSON objects without a grant type, the second with the person's code."""
    code_field: str = "device_code"
    """The field that holds the device's code, in the answer and in the questions."""
    pending_statuses: tuple[int, ...] = ()
    """HTTP statuses that mean: not yet."""
    redirect_uri: str = ""
    """Where it is set, the last answer brings an authorization code and its verifier, exchanged with this address."""
    pkce: bool = False
    """Whether the first request carries a challenge (PKCE) and a state, which the answer repeats, and the questions the
    verifier."""
    status_field: str = ""
    """The member of answers that says `pending` or `success` in the place of an error; empty: errors do."""
    seconds: float = 900.0
    """How long a code is good for where the answer does not say."""


class DeviceRequest(KeyHolder, frozen=True, kw_only=True):
    """What is signed in to with a device code."""

    server: AuthorizationServer
    endpoints: DeviceEndpoints
    client: OAuthClient
    scope: str = ""
    account_claim: tuple[str, ...] = ()
    dialect: TokenDialect = TokenDialect()


class DevicePerson(Protocol):
    """The person who signs in with a code."""

    async def show_code(self, url: str, code: str, seconds: float) -> None:
        """Show the page to open, on any machine, and the code to type there within so many seconds."""
        ...


class _DeviceCode(KeyHolder, frozen=True, kw_only=True):
    device_code: str
    user_code: str
    url: str
    interval: float
    seconds: float
    verifier: str = ""


class _CodeAnswer(KeyHolder, frozen=True):
    """An answer to the polling that brings an authorization code in the place of tokens."""

    authorization_code: str = ""
    code_verifier: str = ""


async def run_device_flow(
    request: DeviceRequest,
    person: DevicePerson,
    send: SendRequest,
    now: Callable[[], float],
    pause: Pause = asyncio.sleep,
) -> SignIn:
    """Sign the person in with a device code and return the tokens. Raises OAuthError, and HermesError when the server
    cannot be reached at first; later failures of the network are waited out. Cancelling ends it.
    """
    code = await _request_code(request, send, now())
    await person.show_code(code.url, code.user_code, code.seconds)
    try:
        async with asyncio.timeout(code.seconds):
            answer = await _poll(request, code, send, pause)
    except TimeoutError:
        raise _make_expiry_error() from None
    if request.endpoints.redirect_uri:
        return await _exchange_answer(request, answer, send, now())
    return read_tokens(_begin_sign_in(request), answer.body, now())


async def _request_code(request: DeviceRequest, send: SendRequest, now: float) -> _DeviceCode:
    endpoints, verifier, state = request.endpoints, "", ""
    fields = {"client_id": request.client.client_id}
    if endpoints.pkce:
        verifier, state = create_verifier(), create_state()
        fields |= {"code_challenge": compute_challenge(verifier), "code_challenge_method": "S256", "state": state}
    if endpoints.sends_json:
        answer = await post_json(send, endpoints.authorization_endpoint, fields)
    else:
        form = {**fields, **({"scope": request.scope} if request.scope else {})}
        answer = await post_form(send, endpoints.authorization_endpoint, form)
    told = _parse_members(answer.body)
    device_code, user_code = _read_text(told, endpoints.code_field), _read_text(told, "user_code")
    url = _read_text(told, "verification_uri") or _read_text(told, "verification_url") or endpoints.page
    # It is shown as what to type: words to the person are none.
    if not device_code or not _USER_CODE.fullmatch(user_code) or not url:
        raise OAuthError(N_("{issuer} has given no code to sign in with.", issuer=request.server.issuer))
    if state and not hmac.compare_digest(_read_text(told, "state").encode(), state.encode()):
        raise OAuthError(N_("The answer belongs to another sign-in: its state is a different one."), _AGAIN)
    interval, seconds = _read_times(told, request, now)
    return _DeviceCode(
        device_code=device_code,
        user_code=user_code,
        url=check_endpoint(url, allows_loopback=is_loopback_url(endpoints.authorization_endpoint)),
        interval=min(interval, _MAX_INTERVAL),
        seconds=min(seconds, _MAX_SECONDS),
        verifier=verifier,
    )


async def _poll(request: DeviceRequest, code: _DeviceCode, send: SendRequest, pause: Pause) -> HttpAnswer:
    """Ask until the person has decided; return the answer that says yes."""
    interval = code.interval
    while True:
        await pause(interval)
        try:
            return await _ask(request, code, send)
        except OAuthError as error:
            if error.code == "access_denied":
                raise OAuthError(N_("The sign-in was refused: {reason}.", reason=error.code), code=error.code) from None
            if error.code in ("expired_token", "token_expired"):
                raise _make_expiry_error() from None
            if error.code == "slow_down":
                interval = min(interval + _SLOWER, _MAX_INTERVAL)
            elif error.status >= 500 or error.status == 429:
                interval = min(interval * 2, _MAX_INTERVAL)
            elif error.code != "authorization_pending" and error.status not in request.endpoints.pending_statuses:
                raise
        except HermesError:
            interval = min(interval * 2, _MAX_INTERVAL)  # the network is away: the code stays good


async def _ask(request: DeviceRequest, code: _DeviceCode, send: SendRequest) -> HttpAnswer:
    endpoints, client = request.endpoints, request.client
    url = endpoints.poll_endpoint or request.server.token_endpoint
    if endpoints.sends_json:
        return await post_json(send, url, {endpoints.code_field: code.device_code, "user_code": code.user_code})
    form = {"grant_type": _GRANT, endpoints.code_field: code.device_code, "client_id": client.client_id}
    answer = await post_form(send, url, form | ({"code_verifier": code.verifier} if code.verifier else {}))
    _require_status(answer, endpoints.status_field)
    return answer


def _require_status(answer: HttpAnswer, field: str) -> None:
    """Raise OAuthError for an answer that says by its status field that there are no tokens, or none yet."""
    said = _read_text(_parse_members(answer.body), field) if field else ""
    if said in ("", "success"):
        return
    reason = quote_remote_text(said)
    code = "authorization_pending" if said == "pending" else reason
    raise OAuthError(N_("The sign-in was refused: {reason}.", reason=reason), code=code, status=answer.status)


async def _exchange_answer(request: DeviceRequest, answer: HttpAnswer, send: SendRequest, now: float) -> SignIn:
    found = parse_document(answer.body, _CodeAnswer)
    if found is None or not found.authorization_code or not found.code_verifier:
        raise OAuthError(N_("The answer of the sign-in has no code."), _AGAIN)
    attempt = CodeRequest(
        server=request.server,
        client=request.client,
        redirect_uri=request.endpoints.redirect_uri,
        scope=request.scope,
        resource="",
        state="",
        verifier=found.code_verifier,
        account_claim=request.account_claim,
        dialect=request.dialect,
    )
    return await exchange_code(attempt, found.authorization_code, send, now)


def _begin_sign_in(request: DeviceRequest) -> SignIn:
    return SignIn(
        issuer=request.server.issuer,
        token_endpoint=request.server.token_endpoint,
        client_id=request.client.client_id,
        scope=request.scope,
        account_claim=request.account_claim,
        dialect=request.dialect,
    )


def _parse_members(body: bytes) -> Mapping[str, object]:
    with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        return msgspec.json.decode(body, type=dict[str, object])
    return {}


def _make_expiry_error() -> OAuthError:
    return OAuthError(N_("The code has expired before it was used."), _AGAIN, code="expired_token")


def _read_times(told: Mapping[str, object], request: DeviceRequest, now: float) -> tuple[float, float]:
    """Return the seconds between two questions, and those for which the code is good."""
    longest = request.endpoints.seconds
    if not request.dialect.milliseconds:
        return _read_number(told, "interval", _INTERVAL), _read_number(told, "expires_in", longest)
    left = _read_number(told, "expired_in", 0.0) / 1_000 - now
    # A vendor that goes over to seconds must not be asked hundreds of times a second.
    interval = max(_read_number(told, "interval", _INTERVAL * 1_000) / 1_000, _MIN_INTERVAL)
    return interval, left if left > 0 else longest


def _read_text(told: Mapping[str, object], name: str) -> str:
    found = told.get(name)
    return found if isinstance(found, str) else ""


def _read_number(told: Mapping[str, object], name: str, default: float) -> float:
    """Return a number of seconds above 0; some servers send it as a text."""
    found = told.get(name)
    try:
        number = float(found) if isinstance(found, int | float | str) else 0.0
    except (ValueError, OverflowError):
        number = 0.0
    return number if 0 < number < float("inf") else default
