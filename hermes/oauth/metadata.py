"""Who signs people in for a server: challenges (RFC 6750, 9728), metadata of resources (9728) and of authorization
servers (8414, OpenID Connect Discovery).
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.i18n.messages import N_
from hermes.oauth.requests import (
    OAuthError,
    SendRequest,
    check_endpoint,
    fetch_document,
    is_loopback_url,
    quote_remote_text,
)

_MAX_CHALLENGE = 8_192
_PARAMETER = re.compile(r"""(?<![A-Za-z0-9_-])([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))""")
_SCHEME = re.compile(r"(?:^|,)\s*bearer\s+", re.IGNORECASE)
_RESOURCE_PATH = "/.well-known/oauth-protected-resource"
_SERVER_PATHS = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


class Challenge(Struct, frozen=True):
    """The demand of a server for a token (the field WWW-Authenticate)."""

    status: int
    error: str = ""
    scope: str = ""
    resource_metadata: str = ""

    @property
    def wants_more_scope(self) -> bool:
        """Whether the token is good, but not for what was asked."""
        return self.status == 403 and self.error == "insufficient_scope"


class ProtectedResource(Struct, frozen=True):
    """The metadata of a server that wants tokens."""

    resource: str = ""
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None


class AuthorizationServer(Struct, frozen=True, kw_only=True):
    """The metadata of an authorization server."""

    issuer: str = ""
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    scopes_supported: tuple[str, ...] = ()
    code_challenge_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ()
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False


def parse_challenge(status: int, field: str) -> Challenge:
    """Parse the field WWW-Authenticate of an answer; what cannot be read is left out. Never raises."""
    match = _SCHEME.search(field[:_MAX_CHALLENGE])
    text = field[match.end() : _MAX_CHALLENGE] if match else ""
    found: dict[str, str] = {}
    for name, quoted, plain in _PARAMETER.findall(text):
        found.setdefault(name.lower(), plain or re.sub(r"\\(.)", r"\1", quoted))
    return Challenge(
        status=status,
        error=found.get("error", ""),
        scope=" ".join(found.get("scope", "").split()),
        resource_metadata=found.get("resource_metadata", ""),
    )


async def discover_resource(send: SendRequest, server_url: str, challenge: Challenge) -> ProtectedResource | None:
    """Return the metadata of the server at `server_url`, or None where it publishes none. Raises OAuthError.

    The address of the challenge comes first, then the well-known ones. Metadata that is for something else is refused
    (RFC 9728, section 3.3), so that a token for another server cannot be had.
    """
    found = None
    named = challenge.resource_metadata
    if named:
        check_endpoint(named, allows_loopback=is_loopback_url(server_url))
    for url in [named] if named else _list_resource_urls(server_url):
        found = await fetch_document(send, url, ProtectedResource)
        if found is not None:
            break
    if found is None:
        return None
    if not is_resource_of(found.resource, server_url):
        raise OAuthError(
            N_("The sign-in is for another server: {resource}.", resource=quote_remote_text(found.resource)),
            N_("The operator of {url} has to fix its metadata.", url=server_url),
        )
    return found


def is_resource_of(resource: str, server_url: str) -> bool:
    """Return whether a resource identifier covers a server: the same origin, its path or one above it."""
    try:
        one, two = urlsplit(resource), urlsplit(server_url)
        same = (one.scheme.lower(), (one.hostname or ""), one.port) == (
            two.scheme.lower(),
            two.hostname or "",
            two.port,
        )
    except ValueError:
        return False
    path, below = one.path.rstrip("/"), two.path.rstrip("/")
    return same and not one.fragment and not one.query and (below == path or below.startswith(f"{path}/"))


async def discover_authorization_server(
    send: SendRequest, issuer: str, *, allows_loopback: bool, is_guessed: bool = False
) -> AuthorizationServer | None:
    """Return the metadata of an authorization server, or None where it publishes none. Raises OAuthError.

    The document names the issuer that was asked, and PKCE with S256: without those it is not used. A guessed issuer is
    a server's own origin, which may name itself with a slash at the end.
    """
    check_endpoint(issuer, allows_loopback=allows_loopback)
    found = None
    for url in _list_server_urls(issuer):
        found = await fetch_document(send, url, AuthorizationServer)
        if found is not None:
            break
    if found is None:
        return None
    if found.issuer != issuer and not (is_guessed and found.issuer == f"{issuer}/"):
        raise OAuthError(
            N_(
                "{issuer} names another authorization server: {other}.",
                issuer=issuer,
                other=quote_remote_text(found.issuer),
            )
        )
    if "S256" not in (found.code_challenge_methods_supported or ()):
        raise OAuthError(N_("{issuer} does not say that it supports PKCE with S256.", issuer=issuer))
    for url in (found.authorization_endpoint, found.token_endpoint, *filter(None, [found.registration_endpoint])):
        check_endpoint(url, allows_loopback=allows_loopback)
    return found


def default_authorization_server(server_url: str) -> AuthorizationServer:
    """Return the endpoints of a server without metadata, as the revision 2025-03-26 of MCP has them."""
    origin = origin_of(server_url)
    return AuthorizationServer(
        issuer=origin,
        authorization_endpoint=f"{origin}/authorize",
        token_endpoint=f"{origin}/token",
        registration_endpoint=f"{origin}/register",
    )


def origin_of(url: str) -> str:
    """Return the scheme and authority of an address. Raises OAuthError for something that is no address."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise OAuthError(str(error)) from None
    return f"{parts.scheme}://{parts.netloc}"


def _list_resource_urls(server_url: str) -> Sequence[str]:
    origin, path = origin_of(server_url), urlsplit(server_url).path.rstrip("/")
    return [*([f"{origin}{_RESOURCE_PATH}{path}"] if path else []), f"{origin}{_RESOURCE_PATH}"]


def _list_server_urls(issuer: str) -> Sequence[str]:
    origin, path = origin_of(issuer), urlsplit(issuer).path.rstrip("/")
    if not path:
        return [f"{origin}{one}" for one in _SERVER_PATHS]
    return [*(f"{origin}{one}{path}" for one in _SERVER_PATHS), f"{origin}{path}{_SERVER_PATHS[1]}"]
