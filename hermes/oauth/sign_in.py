"""A sign-in as it is stored: the tokens, what refreshes them, and how its vendor deviates from the standard."""

from collections.abc import Mapping

from msgspec import Struct, structs

from hermes.core.secret import KeyHolder

KEYRING = "keyring"


class TokenDialect(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a token endpoint deviates from RFC 6749; the defaults are the standard's ways."""

    refresh_header: str = ""
    """The header field that carries the refresh token; empty: it is in the form."""
    untyped: bool = False
    """Whether an answer may leave out the tokens' type."""
    milliseconds: bool = False
    """Whether times are milliseconds, and the end of a token is a moment that is named `expired_in`."""


class TokenExchange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the token of a sign-in, which lasts, is exchanged for a short-lived one that the models take."""

    endpoint: str
    """It is asked with GET and the lasting token, and answers with a JSON document."""
    headers: Mapping[str, str] = {}
    """Further header fields of the request."""
    token_path: tuple[str, ...] = ("token",)
    """Where the answer holds the short-lived token: names of members, from the outside in."""
    end_path: tuple[str, ...] = ("expires_at",)
    """Where it says when that ends, in seconds since 1970."""
    address_path: tuple[str, ...] = ()
    """Where it names the address of the models; empty, or nothing there: the provider's address counts."""
    hosts: tuple[str, ...] = ()
    """The hosts that such an address may have: names, and endings that begin with a dot. No other is used."""


class SignIn(KeyHolder, frozen=True, kw_only=True, omit_defaults=True):
    """A sign-in: the tokens, and what is needed to refresh them. Times are seconds since 1970."""

    issuer: str = ""
    """The authorization server. The client and the tokens belong to it and go nowhere else."""
    token_endpoint: str = ""
    client_id: str = ""
    client_secret: str = ""
    auth_method: str = "none"
    """How the client proves itself at the token endpoint: `none`, `client_secret_basic` or `client_secret_post`."""
    access_token: str = ""
    refresh_token: str = ""
    """What brings the next access token; with an `exchange` the lasting token."""
    expires_at: float = 0.0
    """When the access token ends; 0: nobody said."""
    scope: str = ""
    """The permissions that were asked for, separated by blanks."""
    resource: str = ""
    """What the tokens are for; empty: that is not told to the server."""
    account_claim: tuple[str, ...] = ()
    """Where an id token names the account: members of its claims, from the outside in; empty: that is not of use."""
    account: str = ""
    """The account as the vendor's id token names it."""
    dialect: TokenDialect = TokenDialect()
    exchange: TokenExchange | None = None
    """None: the token endpoint gives access tokens."""
    address: str = ""
    """Where the exchange has said that the models are; empty: at the provider's address."""
    ended_because: str = ""
    """Why the tokens are of no use any more; empty while they are."""
    place: str = ""
    """`KEYRING`: all the rest is there, and this only says so; empty: it is here."""
    here_because: str = ""
    """Why it is in the file although the person wants it in the keyring."""

    def use_tokens(self, access_token: str, refresh_token: str, expires_at: float) -> "SignIn":
        """Return the sign-in with new tokens; a server that names no new refresh token leaves the old one valid."""
        return structs.replace(
            self,
            access_token=access_token,
            refresh_token=refresh_token or self.refresh_token,
            expires_at=expires_at,
            ended_because="",
        )

    def end(self, reason: str) -> "SignIn":
        """Return the sign-in without its tokens, with the reason; the client stays known."""
        return structs.replace(self, access_token="", refresh_token="", expires_at=0.0, ended_because=reason)
