"""The exchange of a token that lasts for a short-lived one that a vendor's models take, by the rules of a record."""

import contextlib
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from hermes.i18n.messages import N_
from hermes.oauth.requests import (
    OAuthError,
    SendRequest,
    check_endpoint,
    get_with_token,
    is_header_token,
    is_loopback_url,
    quote_remote_text,
)
from hermes.oauth.sign_in import SignIn, TokenExchange

_MAX_LIFE = 366 * 86_400.0


async def begin_exchange(sign_in: SignIn, exchange: TokenExchange, send: SendRequest, now: float) -> SignIn:
    """Return a sign-in whose token is the lasting one from now on, with its first short-lived token.

    Raises OAuthError, and HermesError when the server cannot be reached.
    """
    lasting = structs.replace(sign_in, exchange=exchange, refresh_token=sign_in.access_token, access_token="")
    return await exchange_token(lasting, send, now)


async def exchange_token(sign_in: SignIn, send: SendRequest, now: float) -> SignIn:
    """Return the sign-in with a new short-lived token; the lasting one stays valid. Raises as `begin_exchange` does.

    An address of the models that is outside of the record's hosts is an error, and the new token is dropped with it.
    """
    exchange = sign_in.exchange
    assert exchange is not None
    answer = await get_with_token(send, exchange.endpoint, sign_in.refresh_token, exchange.headers)
    told: object = None
    with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        told = msgspec.json.decode(answer.body)
    token, end = find_member(told, exchange.token_path), find_member(told, exchange.end_path)
    if not isinstance(token, str) or not is_header_token(token):
        raise OAuthError(N_("{issuer} has given no token that can be used.", issuer=sign_in.issuer))
    is_moment = isinstance(end, int | float) and now < end <= now + _MAX_LIFE
    fresh = sign_in.use_tokens(token, "", float(end) if is_moment else 0.0)  # type: ignore[arg-type]
    return structs.replace(fresh, address=_read_address(told, exchange))


def find_member(value: object, path: tuple[str, ...]) -> object:
    """Return what lies at a path of names in a JSON value; None where there is nothing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if path else None


def _read_address(told: object, exchange: TokenExchange) -> str:
    """Return the address that the answer names, empty where it names none. Raises OAuthError for another host's."""
    named = find_member(told, exchange.address_path)
    if named is None:
        return ""
    address = named.rstrip("/") if isinstance(named, str) else ""
    if not _is_allowed(address, exchange):
        raise OAuthError(
            N_(
                "The exchange of the sign-in names an address that is not one of the vendor: {url}.",
                url=quote_remote_text(str(named)),
            ),
            N_("Nothing was sent there. `exchange_hosts` of the record lists the hosts that are."),
        )
    return address


def _is_allowed(address: str, exchange: TokenExchange) -> bool:
    """Return whether the models may be at this address: https, the usual port, one of the hosts, and no query."""
    local = is_loopback_url(exchange.endpoint)
    try:
        check_endpoint(address, allows_loopback=local)
        parts = urlsplit(address)
        host, port = (parts.hostname or "").lower(), parts.port
    except (OAuthError, ValueError):
        return False
    if parts.query or not (port in (None, 443) or (local and is_loopback_url(address))):
        return False
    return any(host == one or (one.startswith(".") and host.endswith(one)) for one in map(str.lower, exchange.hosts))
