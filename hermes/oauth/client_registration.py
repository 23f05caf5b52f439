"""The client that a sign-in is made with: configured, described by a document, registered, or asked for."""

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_
from hermes.oauth.metadata import AuthorizationServer
from hermes.oauth.requests import OAuthError, SendRequest, parse_document, post_json

CLIENT_NAME = "Hermes"
_METHODS = ("none", "client_secret_basic", "client_secret_post")
"""How a client can prove itself here."""
AskClientId = Callable[[str], Awaitable[str]]
"""Asks the person for the client id that they have with an authorization server; empty where they have none."""


class ClientSettings(KeyHolder, frozen=True, kw_only=True):
    """What the person has configured of the client: its id (with its secret), or the address of its document."""

    client_id: str = ""
    client_secret: str = ""
    metadata_url: str = ""
    issuer: str = ""
    """The authorization server that has given the id; empty: whichever is named first."""
    scope: str = ""
    """Permissions to ask for in the place of those that the server names."""


class OAuthClient(KeyHolder, frozen=True, kw_only=True):
    """A client as an authorization server knows it."""

    client_id: str
    client_secret: str = ""
    auth_method: str = "none"


class _Registration(KeyHolder, frozen=True):
    client_id: str = ""
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None


async def choose_client(
    settings: ClientSettings,
    server: AuthorizationServer,
    redirect_uri: str,
    *,
    send: SendRequest,
    ask_client_id: AskClientId,
) -> OAuthClient:
    """Return the client for a sign-in: the configured one, else by its document, else newly registered, else asked for.

    A client belongs to the authorization server that issued it, so a registration is made for each sign-in. Raises
    OAuthError.
    """
    if settings.client_id:
        _check_issuer(settings, server)
        return _describe_known_client(settings.client_id, settings.client_secret, server)
    if settings.metadata_url and server.client_id_metadata_document_supported:
        return OAuthClient(client_id=check_metadata_url(settings.metadata_url))
    if server.registration_endpoint:
        return await _register_client(server, redirect_uri, send)
    asked = (await ask_client_id(server.issuer)).strip()
    if not asked:
        raise OAuthError(
            N_("{issuer} registers no clients by itself.", issuer=server.issuer),
            N_("Register a client there, and put its id into `oauth.client_id` of the server's settings."),
        )
    return _describe_known_client(asked, "", server)


def check_metadata_url(url: str) -> str:
    """Return the address of a client's document if it can be a client id: https, with a path. Raises OAuthError."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme == "https" and bool(parts.hostname) and parts.path not in ("", "/")
    except ValueError:
        is_usable = False
    if not is_usable:
        raise OAuthError(N_("`oauth.client_metadata_url` has to be an https address with a path."))
    return url


def _check_issuer(settings: ClientSettings, server: AuthorizationServer) -> None:
    if settings.issuer and settings.issuer != server.issuer:
        raise OAuthError(
            N_(
                "The configured client belongs to {issuer}, and the server wants a sign-in at {other}.",
                issuer=settings.issuer,
                other=server.issuer,
            ),
            N_("If you trust that one, register a client there and change `oauth` in the server's settings."),
        )


def _describe_known_client(client_id: str, client_secret: str, server: AuthorizationServer) -> OAuthClient:
    """Return a client that the person has registered; how it proves itself is what the server prefers."""
    if not client_secret:
        return OAuthClient(client_id=client_id)
    # Without a word of the server RFC 8414 has `client_secret_basic` as the default.
    offered: Sequence[str] = server.token_endpoint_auth_methods_supported or ("client_secret_basic",)
    method = next((one for one in ("client_secret_basic", "client_secret_post") if one in offered), "")
    if not method:
        raise OAuthError(N_("{issuer} takes no client secret in a way that is known here.", issuer=server.issuer))
    return OAuthClient(client_id=client_id, client_secret=client_secret, auth_method=method)


async def _register_client(server: AuthorizationServer, redirect_uri: str, send: SendRequest) -> OAuthClient:
    """Register a client (RFC 7591): a native program without a secret, unless the server gives it one."""
    offered = server.token_endpoint_auth_methods_supported
    wanted = next((one for one in _METHODS if one in offered), "none") if offered else "none"
    answer = await post_json(
        send,
        server.registration_endpoint,
        {
            "client_name": CLIENT_NAME,
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": wanted,
            "application_type": "native",
        },
    )
    found = parse_document(answer.body, _Registration)
    if found is None or not found.client_id:
        raise OAuthError(N_("{issuer} has registered a client and has not named it.", issuer=server.issuer))
    return _use_registration(found, wanted, server)


def _use_registration(found: _Registration, wanted: str, server: AuthorizationServer) -> OAuthClient:
    """Return the registered client. The server may have chosen another way to prove itself than was wanted."""
    secret = found.client_secret or ""
    method = found.token_endpoint_auth_method or (wanted if secret else "none")
    if method not in _METHODS or (method != "none" and not secret):
        raise OAuthError(N_("{issuer} has registered a client that cannot be used here.", issuer=server.issuer))
    return OAuthClient(client_id=found.client_id, client_secret=secret if method != "none" else "", auth_method=method)
