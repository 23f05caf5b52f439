"""The settings of the API server, and its keys, compared in constant time, with the scopes of each."""

import contextlib
import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from hermes.admin.people.identity import OWNER_ID, PersonIdentity, PersonRole
from hermes.core.secret import KeyHolder
from hermes.gateway.platform import PlatformOptions, PlatformRefusedError
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.i18n.messages import N_

SHORTEST_KEY = 16
"""Characters of a key at least: shorter ones can be guessed."""
_RETRY_AFTER = "1"
_DEFAULT = "default"
_VALID_KEY = re.compile(rf"[!-~]{{{SHORTEST_KEY},512}}")


class ApiScope(StrEnum):
    """The operations that a key allows."""

    CHAT = "chat"
    """Chat completions and responses."""
    RUNS = "runs"
    SESSIONS = "sessions"
    """To look at the key's own sessions, to change them and to talk in them."""
    JOBS = "jobs"
    """To see and change jobs on a clock. They work for the owner, so the role must be owner, too."""
    APPROVE = "approve"
    """To answer questions of the key's own runs; the role must be one that may approve, too."""
    MCP = "mcp"
    """To read the owner's sessions and jobs over the Model Context Protocol; the role must be owner, too."""
    ADMIN = "admin"
    """To see how the gateway is, with its metrics, its skills and tool sets; the role must be owner or admin, too."""


class KeySettings(KeyHolder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key (`platforms.api_server.keys`)."""

    key: str
    """What a program sends as `Authorization: Bearer KEY`; 16 characters at least."""
    name: str
    """What the key is called: the sessions of its programs are found by it, so a key can be replaced under its name."""
    scopes: tuple[ApiScope, ...] = (ApiScope.CHAT, ApiScope.RUNS, ApiScope.SESSIONS)
    """What it is for: `chat`, `runs`, `sessions`, `jobs`, `approve`, `mcp`, `admin`."""
    role: PersonRole = PersonRole.OWNER
    """What who holds it may do: `owner`, `admin`, `user`, `guest`."""


class ApiOptions(PlatformOptions, KeyHolder, frozen=True, kw_only=True):
    """The API server."""

    key: str = ""
    """A key for everything, of the role `owner`; 16 characters at least."""
    keys: tuple[KeySettings, ...] = ()
    """More keys, each for what it is needed for."""
    host: str = "127.0.0.1"
    """The address to listen on; `0.0.0.0` or `::` is every address of this machine."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8642
    """The port to listen on."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which this machine is reached from elsewhere, for the Host header; loopback's names are known."""
    cors: tuple[str, ...] = ()
    """Origins of web pages that may use it, each exact, such as `https://chat.example.org`."""
    models: tuple[str, ...] = ()
    """Models that programs may ask for by name, beside the usual one."""
    body_limit: Annotated[int, Meta(ge=1024)] = 10 * 1024 * 1024
    """Bytes of the largest request."""
    connections: Annotated[int, Meta(ge=1)] = 2_048
    """Connections at once at most."""
    turns: Annotated[int, Meta(ge=1)] = 1_024
    """Turns of one key at once at most; more are told to come again later."""
    mcp_ask: bool = False
    """Whether keys with the scopes `mcp` and `chat` may ask the agent something over MCP."""
    mcp_max_cost: Annotated[float, Meta(gt=0)] = 0.5
    """Dollars that one such question may cost."""
    mcp_max_steps: Annotated[int, Meta(ge=1, le=1_000)] = 30
    """The most model calls of one such question."""
    trust_tool_results: bool = False
    """Whether what programs send as results of their own tools counts as their users' own text, and not as untrusted
    content.
    """
    open_metrics: bool = False
    """Whether `/metrics` is given without a key to programs on this machine; only where `host` is loopback."""


class ApiCaller(Struct, frozen=True):
    """The holder of a key."""

    name: str
    owner: str
    """The account and the key's name, under which the caller's data is stored."""
    scopes: frozenset[ApiScope]
    person: PersonIdentity

    def require_scope(self, scope: ApiScope) -> None:
        """Raise ApiRequestError when the key lacks the scope."""
        if scope not in self.scopes:
            raise ApiRequestError(
                403, f"This key is not for that: it lacks the scope {scope.value!r}.", code="missing_scope"
            )

    def require_admin(self, scope: ApiScope) -> None:
        """Raise ApiRequestError when the key lacks the scope, or the caller is neither owner nor admin."""
        self.require_scope(scope)
        if not self.person.can_administer:
            raise ApiRequestError(403, "This is for keys of the role owner or admin.", code="missing_role")

    def require_owner(self, scope: ApiScope) -> None:
        """Raise ApiRequestError when the key lacks the scope, or the caller is not the owner."""
        self.require_scope(scope)
        if not self.person.is_owner:
            raise ApiRequestError(403, "This is for keys of the role owner.", code="missing_role")


class ApiKeyring:
    """The keys of the API. Only their hashes are kept."""

    def __init__(self, options: ApiOptions, account: str) -> None:
        """Raises PlatformRefusedError for keys that cannot be used."""
        self._known = [(_digest_key(one.key), _make_caller(one, account)) for one in _check_keys(options)]

    def find_caller(self, authorization: str | None) -> ApiCaller | None:
        """Return who sends this header; every key is compared, so that the time taken reveals nothing."""
        scheme, _, given = (authorization or "").partition(" ")
        digest = _digest_key(given.strip())
        found: ApiCaller | None = None
        for known, caller in self._known:
            if hmac.compare_digest(known, digest):
                found = caller
        return found if scheme.lower() == "bearer" else None

    def caller_by_owner(self, owner: str) -> ApiCaller | None:
        """Return the holder of the key whose data is stored under this name, or None."""
        return next((caller for _, caller in self._known if caller.owner == owner), None)


class TurnSlots:
    """The number of turns that each key has under way, and its limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """The number of turns under way."""
        return self._taken.total()

    def check_limit(self, caller: ApiCaller) -> None:
        """Raise ApiRequestError when the key has as many turns as it may have."""
        if self._taken[caller.name] >= self._limit:
            said = f"This key has {self._limit} turns under way already."
            raise ApiRequestError(429, said, code="too_many_turns", headers={"Retry-After": _RETRY_AFTER})

    @contextlib.contextmanager
    def take_slot(self, caller: ApiCaller, *, promised: bool = False) -> Iterator[None]:
        """Take a slot while the context lasts. Raises ApiRequestError as `check_limit` does, unless it was promised
        before.
        """
        if not promised:
            self.check_limit(caller)
        self._taken[caller.name] += 1
        try:
            yield
        finally:
            self._taken[caller.name] -= 1


def _check_keys(options: ApiOptions) -> Sequence[KeySettings]:
    whole = KeySettings(key=options.key, name=_DEFAULT, scopes=tuple(ApiScope))
    listed = [*([whole] if options.key else []), *options.keys]
    if not listed:
        raise PlatformRefusedError(
            N_("The API server needs a key, on loopback too: every program and page of this machine reaches it."),
            N_("Put API_SERVER_KEY=... into the home's .env file, {n} characters at least.", n=SHORTEST_KEY),
        )
    for one in listed:
        if not _VALID_KEY.fullmatch(one.key):
            raise PlatformRefusedError(
                N_("The API key {name!r} can be guessed, or cannot be sent.", name=one.name),
                N_("Make one of {n} characters of ASCII at least: openssl rand -hex 32", n=SHORTEST_KEY),
            )
    names = [one.name for one in listed]
    if len(set(names)) < len(names) or not all(names) or len({one.key for one in listed}) < len(names):
        raise PlatformRefusedError(N_("Each API key needs a name of its own, and no two may be the same key."))
    return listed


def _make_caller(key: KeySettings, account: str) -> ApiCaller:
    person = (
        PersonIdentity(OWNER_ID, key.role)
        if key.role is PersonRole.OWNER
        else PersonIdentity(f"api:{key.name}", key.role, key.name)
    )
    return ApiCaller(key.name, f"{account}:{key.name}", frozenset(key.scopes), person)


def _digest_key(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
